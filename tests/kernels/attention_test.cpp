#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "reference.h"

namespace outrider::test {
namespace {

class AttentionOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, AttentionOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

struct Case {
  int32_t n_heads, n_kv_heads, head_dim;
  int64_t n_q, n_keys;
  bool masked;
};

struct Filled {
  explicit Filled(const Case& c, Ops& ops)
      : q(random_values(static_cast<size_t>(c.n_q * c.n_heads * c.head_dim), 1, -2, 2)),
        k(random_values(static_cast<size_t>(c.n_keys * c.n_kv_heads * c.head_dim), 2, -2, 2)),
        v(random_values(static_cast<size_t>(c.n_keys * c.n_kv_heads * c.head_dim), 3, -2, 2)),
        capacity(c.n_keys + 5),
        storage(ops.kv_bytes(capacity, c.n_kv_heads, c.head_dim)) {
    // What nobody stored must not matter.
    std::memset(storage.data(), 0xff, storage.span().size());
    cache = {storage.data(), capacity, c.n_kv_heads, c.head_dim};
    const int64_t width = c.n_kv_heads * c.head_dim, first = c.n_keys / 3;
    ops.kv_store(cache, 0, {k.data(), first, width}, {v.data(), first, width});
    ops.kv_store(cache, first, {k.data() + first * width, c.n_keys - first, width},
                 {v.data() + first * width, c.n_keys - first, width});
    for (int64_t i = 0; i < c.n_q; ++i)
      visible.push_back(static_cast<int32_t>(std::max<int64_t>(1, c.n_keys * (i + 1) / c.n_q)));
    args.q = {q.data(), c.n_q, c.n_heads * c.head_dim};
    args.n_heads = c.n_heads;
    args.scale = static_cast<float>(1 / std::sqrt(double(c.head_dim)));
    args.n_keys = c.n_keys;
    args.visible = c.masked ? visible.data() : nullptr;
  }
  std::vector<float> run(Ops& ops) {
    std::vector<float> out(q.size());
    args.out = {out.data(), args.q.rows, args.q.cols};
    ops.attention(args, cache);
    return out;
  }
  std::vector<float> q, k, v;
  int64_t capacity;
  Aligned storage;
  KvCache cache;
  std::vector<int32_t> visible;
  AttentionArgs args;
};

void expect_attention(Ops& ops, const Case& c) {
  Filled f(c, ops);
  const auto out = f.run(ops);
  const int64_t dim = c.head_dim, width = c.n_heads * dim, kv_width = c.n_kv_heads * dim;
  for (int64_t i = 0; i < c.n_q; ++i) {
    for (int64_t h = 0; h < c.n_heads; ++h) {
      const int64_t kv = h / (c.n_heads / c.n_kv_heads);
      const int64_t n = c.masked ? f.visible[i] : c.n_keys;
      std::vector<double> p(static_cast<size_t>(n));
      double largest = -1e300, sum = 0, magnitude = 0;
      for (int64_t j = 0; j < n; ++j) {
        double s = 0, m = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double product =
              double(f.q[i * width + h * dim + d]) * f.k[j * kv_width + kv * dim + d];
          s += product, m += std::abs(product);
        }
        p[j] = s * f.args.scale;
        largest = std::max(largest, p[j]);
        magnitude = std::max(magnitude, m * f.args.scale);
      }
      for (double& e : p) sum += e = std::exp(e - largest);
      // A score errs by dim roundings of its magnitude, and exp turns that into a share of the
      // weight; the sums over keys err by n roundings. Values are at most 2.
      const double bound = 2 * kEps32 * (2 * double(dim + 4) * magnitude + 2 * double(n) + 16);
      for (int64_t d = 0; d < dim; ++d) {
        double value = 0;
        for (int64_t j = 0; j < n; ++j) value += p[j] / sum * f.v[j * kv_width + kv * dim + d];
        ASSERT_NEAR(out[i * width + h * dim + d], value, bound)
            << "dim " << dim << " keys " << c.n_keys << " row " << i << " head " << h;
      }
    }
  }
}

TEST_P(AttentionOnEveryTable, is_the_double_softmax_for_every_head_shape) {
  const auto ops = make_ops(GetParam(), 2);
  for (int32_t dim : {8, 16, 32, 72, 256})
    for (auto [heads, kv_heads] : {std::pair{1, 1}, {8, 1}, {4, 2}, {3, 3}})
      for (bool masked : {false, true})
        expect_attention(*ops, {heads, kv_heads, dim, 9, 37, masked});
}

TEST_P(AttentionOnEveryTable, is_right_around_every_edge_of_keys_and_rows) {
  const auto ops = make_ops(GetParam(), 2);
  for (int64_t n_keys : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 129})
    for (int64_t n_q : {1, 2, 13, 14, 15, 63, 64, 65})
      expect_attention(*ops, {2, 1, 8, n_q, n_keys, n_q % 2 == 1});
}

TEST_P(AttentionOnEveryTable, gives_the_same_bits_for_any_threads_and_any_rows_together) {
  const auto one = make_ops(GetParam(), 1), two = make_ops(GetParam(), 2),
             three = make_ops(GetParam(), 3);
  for (bool masked : {false, true}) {
    const Case c{8, 1, 32, 51, 150, masked};
    Filled f(c, *one);
    const auto expected = f.run(*one);
    EXPECT_EQ(f.run(*two), expected);
    EXPECT_EQ(f.run(*three), expected);
    const int64_t width = c.n_heads * c.head_dim;
    for (int64_t i = 0; i < c.n_q; ++i) {
      std::vector<float> out(static_cast<size_t>(width));
      AttentionArgs alone = f.args;
      alone.q = {f.q.data() + i * width, 1, width};
      alone.visible = masked ? &f.visible[i] : nullptr;
      alone.out = {out.data(), 1, width};
      two->attention(alone, f.cache);
      ASSERT_EQ(std::memcmp(out.data(), &expected[i * width], out.size() * 4), 0) << i;
    }
  }
}

TEST_P(AttentionOnEveryTable, reads_no_key_that_a_row_may_not_see) {
  const auto ops = make_ops(GetParam(), 2);
  const Case c{2, 1, 16, 6, 40, true};
  Filled f(c, *ops);
  std::fill(f.visible.begin(), f.visible.end(), 21);
  const auto before = f.run(*ops);
  const std::vector<float> other(static_cast<size_t>(19 * 16), 1e30f);
  ops->kv_store(f.cache, 21, {other.data(), 19, 16}, {other.data(), 19, 16});
  EXPECT_EQ(f.run(*ops), before);
}

TEST_P(AttentionOnEveryTable, a_row_that_sees_nothing_is_zero) {
  const auto ops = make_ops(GetParam(), 1);
  Filled f({2, 1, 16, 4, 20, true}, *ops);
  f.visible = {0, 5, 0, 20};
  const auto out = f.run(*ops);
  for (int i = 0; i < 4; ++i)
    for (int d = 0; d < 32; ++d) ASSERT_EQ(out[i * 32 + d] == 0, i % 2 == 0);
}

TEST_P(AttentionOnEveryTable, shows_a_nan_of_the_query_in_its_row_and_of_a_key_in_every_row) {
  const auto ops = make_ops(GetParam(), 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Case c{2, 1, 16, 6, 40, false};
  for (int64_t key : {0, 7, 15, 16, 39}) {
    Filled f(c, *ops);
    f.q[3 * 32 + 5] = nan;  // row 3, head 0
    auto out = f.run(*ops);
    for (int64_t i = 0; i < 6 * 32; ++i) ASSERT_EQ(std::isnan(out[i]), i / 16 == 6) << i;
    Filled g(c, *ops);
    g.k[key * 16] = nan;
    ops->kv_store(g.cache, 0, {g.k.data(), 40, 16}, {g.v.data(), 40, 16});
    out = g.run(*ops);
    for (float value : out) ASSERT_TRUE(std::isnan(value)) << key;
  }
}

TEST_P(AttentionOnEveryTable, large_scores_do_not_overflow) {
  const auto ops = make_ops(GetParam(), 1);
  Filled f({1, 1, 8, 3, 33, false}, *ops);
  f.args.scale = 1e4f;
  for (float value : f.run(*ops)) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(AttentionOnEveryTable, the_cache_gives_back_what_was_stored) {
  const auto ops = make_ops(GetParam(), 1);
  const Case c{4, 2, 72, 1, 39, false};
  Filled f(c, *ops);
  std::vector<float> k(20 * 144), v(k.size());
  ops->kv_load(f.cache, 11, 20, k.data(), v.data());
  EXPECT_TRUE(std::equal(k.begin(), k.end(), f.k.begin() + 11 * 144));
  EXPECT_TRUE(std::equal(v.begin(), v.end(), f.v.begin() + 11 * 144));
  ops->kv_load(f.cache, 0, 39, nullptr, nullptr);  // either may be null
}

}  // namespace
}  // namespace outrider::test
