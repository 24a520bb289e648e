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
  DType type = DType::kF32;
  int64_t window = 0;  // above 0: a row sees its last `window` keys
  float soft_cap = 0;
};

constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kQ8_0};

// What a cache of `type` keeps: the test's values are such already.
std::vector<float> kept(std::vector<float> values, DType type) {
  if (type == DType::kBf16)
    for (float& v : values) v = round_to_bf16(v);
  return values;
}

struct Filled {
  explicit Filled(const Case& c, Ops& ops)
      : q(values(c.n_q * c.n_heads, c, 1)),
        k(values(c.n_keys * c.n_kv_heads, c, 2)),
        v(values(c.n_keys * c.n_kv_heads, c, 3)),
        capacity(c.n_keys + 5),
        storage(ops.kv_bytes(capacity, c.n_kv_heads, c.head_dim, c.type)) {
    // What nobody stored must not matter.
    std::memset(storage.data(), 0xff, storage.span().size());
    cache = {storage.data(), capacity, c.n_kv_heads, c.head_dim, c.type};
    const int64_t width = c.n_kv_heads * c.head_dim, first = c.n_keys / 3;
    ops.kv_store(cache, 0, {k.data(), first, width}, {v.data(), first, width});
    ops.kv_store(cache, first, {k.data() + first * width, c.n_keys - first, width},
                 {v.data() + first * width, c.n_keys - first, width});
    take_what_is_kept(ops);
    for (int64_t i = 0; i < c.n_q; ++i)
      visible.push_back(static_cast<int32_t>(std::max<int64_t>(1, c.n_keys * (i + 1) / c.n_q)));
    args.q = {q.data(), c.n_q, c.n_heads * c.head_dim};
    args.n_heads = c.n_heads;
    args.scale = static_cast<float>(1 / std::sqrt(double(c.head_dim)));
    args.n_keys = c.n_keys;
    args.visible = c.masked ? visible.data() : nullptr;
    for (int64_t i = 0; c.window > 0 && i < c.n_q; ++i) {
      const int64_t n = c.masked ? visible[size_t(i)] : c.n_keys;
      first_seen.push_back(static_cast<int32_t>(std::max<int64_t>(0, n - c.window)));
    }
    args.first = c.window > 0 ? first_seen.data() : nullptr;
    args.soft_cap = c.soft_cap;
  }
  static std::vector<float> values(int64_t rows, const Case& c, uint32_t seed) {
    return kept(random_values(static_cast<size_t>(rows * c.head_dim), seed, -2, 2), c.type);
  }
  // From here on k and v are what an 8-bit cache made of them: how far that is from what was stored
  // has a test of its own, and attention is exact on it.
  void take_what_is_kept(Ops& ops) {
    if (cache.type == DType::kQ8_0) ops.kv_load(cache, 0, capacity - 5, k.data(), v.data());
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
  std::vector<int32_t> visible, first_seen;
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
      const int64_t unseen = c.window > 0 ? f.first_seen[size_t(i)] : 0;
      for (int64_t j = unseen; j < n; ++j) {
        double s = 0, m = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double product =
              double(f.q[i * width + h * dim + d]) * f.k[j * kv_width + kv * dim + d];
          s += product, m += std::abs(product);
        }
        p[j] = s * f.args.scale;
        if (c.soft_cap > 0) p[j] = c.soft_cap * std::tanh(p[j] / c.soft_cap);
        largest = std::max(largest, p[j]);
        magnitude = std::max(magnitude, m * f.args.scale);
      }
      for (int64_t j = unseen; j < n; ++j) sum += p[size_t(j)] = std::exp(p[size_t(j)] - largest);
      // A score errs by dim roundings of its magnitude, and exp turns that into a share of the
      // weight; the sums over keys err by n roundings. Values are at most 2.
      // A bf16 cache rounds every weight by half a unit in bf16's last place.
      const double bound = 2 * kEps32 * (2 * double(dim + 4) * magnitude + 2 * double(n) + 16) +
                           (c.type == DType::kBf16 ? 2 * 0x1p-9 : 0);
      for (int64_t d = 0; d < dim; ++d) {
        double value = 0;
        for (int64_t j = unseen; j < n; ++j) value += p[j] / sum * f.v[j * kv_width + kv * dim + d];
        ASSERT_NEAR(out[i * width + h * dim + d], value, bound)
            << dtype_info(c.type).name << " dim " << dim << " keys " << c.n_keys << " row " << i
            << " head " << h;
      }
    }
  }
}

TEST_P(AttentionOnEveryTable, is_the_double_softmax_for_every_head_shape) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes)
    for (int32_t dim : {7, 8, 16, 32, 72, 256})
      for (auto [heads, kv_heads] : {std::pair{1, 1}, {8, 1}, {4, 2}, {3, 3}})
        for (bool masked : {false, true})
          expect_attention(*ops, {heads, kv_heads, dim, 9, 37, masked, type});
}

TEST_P(AttentionOnEveryTable, is_right_around_every_edge_of_keys_and_rows) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes)
    for (int64_t n_keys : {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 129})
      for (int64_t n_q : {1, 2, 13, 14, 15, 63, 64, 65})
        expect_attention(*ops, {2, 1, 8, n_q, n_keys, n_q % 2 == 1, type});
}

// 256 keys are a block; 112 rows one pass.
TEST_P(AttentionOnEveryTable, is_right_around_every_edge_of_a_block) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes)
    for (int64_t n_keys : {255, 256, 257, 271, 511, 512, 513, 769})
      for (bool masked : {false, true}) expect_attention(*ops, {2, 1, 8, 5, n_keys, masked, type});
  for (DType type : kTypes)
    for (int64_t n_q : {111, 112, 113, 225})
      expect_attention(*ops, {1, 1, 8, n_q, 259, true, type});
}

TEST_P(AttentionOnEveryTable, a_window_hides_all_keys_before_it) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes)
    for (int64_t n_keys : {1, 16, 37, 255, 256, 257, 513, 769})
      for (int64_t window : {1, 2, 15, 16, 17, 255, 256, 257, 800})
        for (int64_t n_q : {1, 15, 29})
          expect_attention(*ops, {4, 2, 8, n_q, n_keys, n_q > 1, type, window});
}

TEST_P(AttentionOnEveryTable, a_soft_cap_bends_scores_before_the_softmax) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes)
    for (float cap : {0.5f, 3.0f, 50.0f})
      for (int64_t window : {0, 40})
        expect_attention(*ops, {2, 1, 16, 5, 300, true, type, window, cap});
}

// A row alone and among rows that see earlier blocks: the same bits.
TEST_P(AttentionOnEveryTable, a_windowed_row_has_the_same_bits_beside_any_other) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType type : kTypes) {
    Filled f({2, 1, 8, 30, 700, true, type, 100}, *ops);
    const auto all = f.run(*ops);
    const AttentionArgs args = f.args;
    for (int64_t i : {0, 7, 12, 13, 14, 29}) {
      std::vector<float> out(16);
      f.args = args;
      f.args.q = args.q.rows_from(i, 1);
      f.args.visible = args.visible + i;
      f.args.first = args.first + i;
      f.args.out = {out.data(), 1, 16};
      ops->attention(f.args, f.cache);
      for (size_t d = 0; d < 16; ++d) ASSERT_EQ(out[d], all[size_t(i) * 16 + d]) << i << ' ' << d;
    }
  }
}

// What was summed before must be scaled when a later block holds the largest score, by whatever
// little of it is left, and not at all when it does not.
TEST_P(AttentionOnEveryTable, the_largest_score_may_lie_in_any_block) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes) {
    for (int64_t largest : {3, 255, 256, 511, 512, 600}) {
      Filled f({1, 1, 8, 3, 601, false, type}, *ops);
      for (int64_t d = 0; d < 8; ++d) {
        for (int64_t i = 0; i < 3; ++i) f.q[i * 8 + d] = 1;
        for (int64_t j = 0; j < 601; ++j) f.k[j * 8 + d] = j == largest ? 2 : -2;
      }
      ops->kv_store(f.cache, 0, {f.k.data(), 601, 8}, {f.v.data(), 601, 8});
      f.take_what_is_kept(*ops);
      const double apart = 8 * (double(f.k[size_t(largest) * 8]) - f.k[size_t(largest - 1) * 8]);
      for (const float scale : {0.25f, 50.0f}) {  // scores 8 and 1600 apart
        f.args.scale = scale;
        const auto out = f.run(*ops);
        const double rest = std::exp(-apart * double(scale)), sum = 1 + 600 * rest;
        for (int64_t d = 0; d < 8; ++d) {
          double value = f.v[largest * 8 + d];
          for (int64_t j = 0; j < 601; ++j)
            if (j != largest) value += rest * f.v[j * 8 + d];
          const double bound = type == DType::kBf16 ? 2 * 0x1p-9 : 2000 * kEps32;
          ASSERT_NEAR(out[d], value / sum, bound) << largest << " scale " << scale;
        }
      }
    }
  }
}

TEST_P(AttentionOnEveryTable, gives_the_same_bits_for_any_threads_and_any_rows_together) {
  const auto one = make_ops(GetParam(), 1), two = make_ops(GetParam(), 2),
             three = make_ops(GetParam(), 3);
  for (auto [masked, type, n_keys] : {std::tuple{false, DType::kF32, 150},
                                      {true, DType::kF32, 533},
                                      {false, DType::kQ8_0, 150},
                                      {true, DType::kQ8_0, 533},
                                      {false, DType::kBf16, 150},
                                      {true, DType::kBf16, 533}}) {
    const Case c{8, 1, 32, 51, n_keys, masked, type};
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
  for (DType type : kTypes) {
    const Case c{2, 1, 16, 6, 40, true, type};
    Filled f(c, *ops);
    std::fill(f.visible.begin(), f.visible.end(), 21);
    const auto before = f.run(*ops);
    const std::vector<float> other(static_cast<size_t>(19 * 16), 1e30f);
    ops->kv_store(f.cache, 21, {other.data(), 19, 16}, {other.data(), 19, 16});
    EXPECT_EQ(f.run(*ops), before);
  }
}

// A pair of a bf16 cache holds two tokens: the second is not touched by a store of the first, and
// what lies in a place that no key of the call has is not read.
TEST_P(AttentionOnEveryTable, a_token_behind_the_last_key_may_hold_anything) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType type : kTypes) {
    for (int64_t n_keys : {1, 21, 255, 257}) {
      Filled f({1, 1, 16, 5, n_keys + 1, false, type}, *ops);
      f.args.n_keys = n_keys;
      const auto before = f.run(*ops);
      const std::vector<float> nan(16, std::numeric_limits<float>::quiet_NaN());
      ops->kv_store(f.cache, n_keys, {nan.data(), 1, 16}, {nan.data(), 1, 16});
      EXPECT_EQ(f.run(*ops), before);
      std::vector<float> k(16), v(16);
      ops->kv_store(f.cache, n_keys - 1, {f.k.data(), 1, 16}, {f.v.data(), 1, 16});
      ops->kv_load(f.cache, n_keys, 1, k.data(), v.data());
      for (int d = 0; d < 16; ++d) ASSERT_TRUE(std::isnan(k[d]) && std::isnan(v[d])) << n_keys;
    }
  }
}

TEST_P(AttentionOnEveryTable, a_row_that_sees_nothing_is_zero) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType type : kTypes) {
    Filled f({2, 1, 16, 4, 20, true, type}, *ops);
    f.visible = {0, 5, 0, 20};
    const auto out = f.run(*ops);
    for (int i = 0; i < 4; ++i)
      for (int d = 0; d < 32; ++d) ASSERT_EQ(out[i * 32 + d] == 0, i % 2 == 0);
  }
}

TEST_P(AttentionOnEveryTable, shows_a_nan_of_the_query_in_its_row_and_of_a_key_in_every_row) {
  const auto ops = make_ops(GetParam(), 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (DType type : kTypes) {
    const int64_t n_keys = 300;
    const Case c{2, 1, 16, 6, n_keys, false, type};
    for (int64_t key : {0, 7, 15, 16, 39, 255, 256, 299}) {
      Filled f(c, *ops);
      f.q[3 * 32 + 5] = nan;  // row 3, head 0
      auto out = f.run(*ops);
      for (int64_t i = 0; i < 6 * 32; ++i) ASSERT_EQ(std::isnan(out[i]), i / 16 == 6) << i;
      Filled g(c, *ops);
      g.k[key * 16] = nan;
      ops->kv_store(g.cache, 0, {g.k.data(), n_keys, 16}, {g.v.data(), n_keys, 16});
      out = g.run(*ops);
      for (float value : out) ASSERT_TRUE(std::isnan(value)) << key;
    }
  }
}

TEST_P(AttentionOnEveryTable, large_scores_do_not_overflow) {
  const auto ops = make_ops(GetParam(), 1);
  Filled f({1, 1, 8, 3, 33, false}, *ops);
  f.args.scale = 1e4f;
  for (float value : f.run(*ops)) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(AttentionOnEveryTable, the_cache_gives_back_what_was_stored) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType type : kTypes) {
    for (int32_t dim : {7, 72}) {
      const Case c{4, 2, dim, 1, 139, false, type};
      Filled f(c, *ops);
      const int64_t width = 2 * dim;
      for (int64_t first : {0, 1, 11}) {
        std::vector<float> k(static_cast<size_t>(100 * width)), v(k.size());
        ops->kv_load(f.cache, first, 100, k.data(), v.data());
        EXPECT_TRUE(std::equal(k.begin(), k.end(), f.k.begin() + first * width));
        EXPECT_TRUE(std::equal(v.begin(), v.end(), f.v.begin() + first * width));
      }
      ops->kv_load(f.cache, 0, 139, nullptr, nullptr);  // either may be null
    }
  }
}

TEST_P(AttentionOnEveryTable, a_bf16_cache_rounds_to_the_nearest) {
  const auto ops = make_ops(GetParam(), 1);
  const int64_t n = 35, dim = 34;  // whole panels and pairs, and what is left of each
  auto values = random_values(static_cast<size_t>(n * dim), 5, -9, 9);
  values[40] = std::numeric_limits<float>::quiet_NaN();
  values[41] = std::numeric_limits<float>::infinity();
  values[42] = 1.00390625f;  // halfway, to even
  values[43] = 1.01171875f;
  values[44] = 3.4e38f;  // to infinity
  Aligned storage(ops->kv_bytes(n, 1, dim, DType::kBf16));
  const KvCache cache{storage.data(), n, 1, static_cast<int32_t>(dim), DType::kBf16};
  ops->kv_store(cache, 0, {values.data(), n, dim}, {values.data(), n, dim});
  std::vector<float> k(values.size()), v(values.size());
  ops->kv_load(cache, 0, n, k.data(), v.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = round_to_bf16(values[i]);
    ASSERT_EQ(f32_to_bf16(k[i]), f32_to_bf16(expected)) << i;
    ASSERT_EQ(f32_to_bf16(v[i]), f32_to_bf16(expected)) << i;
  }
}

// ---- caches in 8 bits ---------------------------------------------------------------------------

// The largest magnitude of the block of 32 dimensions that a value is in.
double largest_of_block(const std::vector<float>& rows, int64_t row, int64_t dim, int64_t d) {
  double largest = 0;
  for (int64_t i = d / 32 * 32; i < std::min(dim, d / 32 * 32 + 32); ++i)
    largest = std::max(largest, std::abs(double(rows[size_t(row * dim + i)])));
  return largest;
}

TEST_P(AttentionOnEveryTable, an_8_bit_cache_errs_by_less_than_a_252nd_of_its_blocks_largest) {
  const auto ops = make_ops(GetParam(), 2);
  for (const int64_t dim : {1, 7, 31, 32, 33, 64, 72, 256}) {
    const int64_t n = 37;
    auto values = random_values(static_cast<size_t>(n * dim), 11, -1, 1);
    // Rows of all sizes, and one value far above the rest of its block.
    for (int64_t i = 0; i < n * dim; ++i)
      values[size_t(i)] *= std::ldexp(1.0f, static_cast<int>(i / dim * 6 - 110));
    for (int64_t i = 0; i < n; i += 3) values[size_t(i * dim + dim / 2)] *= 1000;
    Aligned storage(ops->kv_bytes(n, 1, static_cast<int32_t>(dim), DType::kQ8_0));
    const KvCache cache{storage.data(), n, 1, static_cast<int32_t>(dim), DType::kQ8_0};
    ops->kv_store(cache, 0, {values.data(), n, dim}, {values.data(), n, dim});
    std::vector<float> k(values.size()), v(values.size());
    ops->kv_load(cache, 0, n, k.data(), v.data());
    double worst = 0;
    for (int64_t i = 0; i < n * dim; ++i) {
      const double largest = largest_of_block(values, i / dim, dim, i % dim);
      ASSERT_LE(std::abs(double(k[size_t(i)]) - values[size_t(i)]), largest / 252)
          << dim << ' ' << i;
      ASSERT_EQ(k[size_t(i)], v[size_t(i)]) << "keys and values are kept alike";
      if (largest > 0)
        worst = std::max(worst, std::abs(double(k[size_t(i)]) - values[size_t(i)]) / largest);
    }
    if (dim > 30) {
      EXPECT_GT(worst, 1.0 / 300) << "the bound is no looser than it must be";
    }
  }
}

TEST_P(AttentionOnEveryTable, an_8_bit_cache_keeps_zeros_and_shows_what_is_not_finite) {
  const auto ops = make_ops(GetParam(), 1);
  const int64_t dim = 64, n = 6;
  std::vector<float> values(static_cast<size_t>(n * dim), 0.0f);
  values[size_t(1 * dim)] = 1e-40f;  // far below what a scale can hold
  values[size_t(2 * dim + 3)] = std::numeric_limits<float>::infinity();
  values[size_t(3 * dim + 40)] = std::numeric_limits<float>::quiet_NaN();
  values[size_t(4 * dim + 9)] = std::numeric_limits<float>::max();
  Aligned storage(ops->kv_bytes(n, 1, dim, DType::kQ8_0));
  const KvCache cache{storage.data(), n, 1, dim, DType::kQ8_0};
  ops->kv_store(cache, 0, {values.data(), n, dim}, {values.data(), n, dim});
  std::vector<float> k(values.size());
  ops->kv_load(cache, 0, n, k.data(), nullptr);
  for (int64_t i = 0; i < n * dim; ++i) {
    const int64_t row = i / dim, block = i % dim / 32;
    const bool bad = (row == 2 && block == 0) || (row == 3 && block == 1);
    ASSERT_EQ(std::isnan(k[size_t(i)]), bad) << i;
    if (!bad && i != 4 * dim + 9) {
      ASSERT_EQ(k[size_t(i)], 0) << i;
    }
  }
  EXPECT_NEAR(k[size_t(4 * dim + 9)] / std::numeric_limits<float>::max(), 1, 1.0 / 252);
}

// A score moves by at most delta = scale * sum over blocks of largest key / 252 * sum of |q|; then
// a weight by a factor within exp(+-2 delta), and an output by that share of the largest value and
// by what the values themselves err.
TEST_P(AttentionOnEveryTable, over_8_bits_stays_within_the_derived_bound_of_what_was_stored) {
  const auto ops = make_ops(GetParam(), 2);
  const Case c{2, 1, 64, 9, 400, true, DType::kF32};
  Filled exact(c, *ops);
  const auto wanted = exact.run(*ops);
  Case eight = c;
  eight.type = DType::kQ8_0;
  Filled f(eight, *ops);
  const auto got = f.run(*ops);
  double largest_value = 0;
  for (const float v : exact.v) largest_value = std::max(largest_value, std::abs(double(v)));
  double sum_of_errors = 0;
  for (int64_t row = 0; row < c.n_q; ++row)
    for (int64_t head = 0; head < c.n_heads; ++head) {
      double delta = 0;
      for (int64_t j = 0; j < exact.visible[size_t(row)]; ++j) {
        double moved = 0;
        for (int64_t d = 0; d < 64; ++d)
          moved += std::abs(double(exact.q[size_t((row * 2 + head) * 64 + d)])) *
                   largest_of_block(exact.k, j, 64, d) / 252;
        delta = std::max(delta, moved * double(f.args.scale));
      }
      const double bound = std::expm1(2 * delta) * largest_value + largest_value / 252;
      for (int64_t d = 0; d < 64; ++d) {
        const size_t at = size_t((row * 2 + head) * 64 + d);
        ASSERT_NEAR(got[at], wanted[at], bound);
        sum_of_errors += std::abs(double(got[at]) - wanted[at]);
      }
    }
  EXPECT_GT(sum_of_errors, 0) << "it is another cache";
}

TEST(EightBitCache, takes_53_percent_of_a_bf16_one) {
  const auto ops = make_ops("scalar", 1);
  for (const int32_t dim : {32, 64, 128, 256}) {
    const auto bf16 = static_cast<double>(ops->kv_bytes(4096, 8, dim, DType::kBf16)),
               f32 = static_cast<double>(ops->kv_bytes(4096, 8, dim, DType::kF32)),
               eight = static_cast<double>(ops->kv_bytes(4096, 8, dim, DType::kQ8_0));
    EXPECT_NEAR(eight / bf16, 34.0 / 64, 0.001) << dim;
    EXPECT_NEAR(eight / f32, 34.0 / 128, 0.001) << dim;
  }
}

}  // namespace
}  // namespace outrider::test
