#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "reference.h"

namespace outrider::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class RowsOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, RowsOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

constexpr int64_t kWidths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1152};

TEST_P(RowsOnEveryTable, rms_norm_is_the_double_formula) {
  const auto ops = make_ops(GetParam(), 2);
  for (int64_t n : kWidths) {
    const auto x = random_values(static_cast<size_t>(5 * n), 1, -3, 3);
    const auto scale = random_values(static_cast<size_t>(n), 2),
               shift = random_values(static_cast<size_t>(n), 3);
    for (const float* s : {static_cast<const float*>(nullptr), shift.data()}) {
      std::vector<float> y(x.size());
      ops->rms_norm({x.data(), 5, n}, scale.data(), s, 1e-6f, {y.data(), 5, n});
      for (int64_t i = 0; i < 5; ++i) {
        double squares = 0;
        for (int64_t j = 0; j < n; ++j) squares += double(x[i * n + j]) * x[i * n + j];
        for (int64_t j = 0; j < n; ++j) {
          const double value =
              x[i * n + j] / std::sqrt(squares / double(n) + 1e-6f) * (1.0 + scale[j]);
          // inverse, two products, 1 + scale: five roundings; one for the shift
          const double bound =
              5 * kEps32 * std::abs(value) + kEps32 * (std::abs(value) + 1) + 1e-7 * kEps32;
          ASSERT_NEAR(y[i * n + j], value + (s ? s[j] : 0), bound) << n;
        }
      }
    }
  }
}

TEST_P(RowsOnEveryTable, layer_norm_is_the_double_formula_even_far_from_zero) {
  const auto ops = make_ops(GetParam(), 2);
  for (float offset : {0.0f, 1000.0f}) {
    for (int64_t n : kWidths) {
      auto x = random_values(static_cast<size_t>(5 * n), 1, -3, 3);
      for (float& v : x) v += offset;
      const auto weight = random_values(static_cast<size_t>(n), 2),
                 bias = random_values(static_cast<size_t>(n), 3);
      std::vector<float> y(x.size());
      ops->layer_norm({x.data(), 5, n}, weight.data(), bias.data(), 1e-6f, {y.data(), 5, n});
      for (int64_t i = 0; i < 5; ++i) {
        double mean = 0, squares = 0;
        for (int64_t j = 0; j < n; ++j) mean += x[i * n + j];
        mean /= double(n);
        for (int64_t j = 0; j < n; ++j) squares += (x[i * n + j] - mean) * (x[i * n + j] - mean);
        for (int64_t j = 0; j < n; ++j) {
          const double value =
              (x[i * n + j] - mean) / std::sqrt(squares / double(n) + 1e-6f) * weight[j] + bias[j];
          ASSERT_NEAR(y[i * n + j], value, 6 * kEps32 * (std::abs(value) + 2))
              << n << " offset " << offset;
        }
      }
    }
  }
}

TEST_P(RowsOnEveryTable, norms_may_write_where_they_read) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n = 83, m = 61;
  const auto x = random_values(m * n, 1), w = random_values(n, 2), b = random_values(n, 3);
  std::vector<float> y(x.size());
  auto z = x;
  ops->rms_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {y.data(), m, n});
  ops->rms_norm({z.data(), m, n}, w.data(), b.data(), 1e-6f, {z.data(), m, n});
  EXPECT_EQ(y, z);
  z = x;
  ops->layer_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {y.data(), m, n});
  ops->layer_norm({z.data(), m, n}, w.data(), b.data(), 1e-6f, {z.data(), m, n});
  EXPECT_EQ(y, z);
}

TEST_P(RowsOnEveryTable, rms_norm_of_the_worked_example) {
  const auto ops = make_ops(GetParam(), 1);
  const float x[] = {1, 2, -2, 0}, scale[4] = {};
  float y[4];
  ops->rms_norm({x, 1, 4}, scale, nullptr, 1e-6f, {y, 1, 4});
  const double expected[] = {0.666667, 1.333333, -1.333333, 0};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6);
}

TEST_P(RowsOnEveryTable, rope_turns_the_pairs_of_every_head) {
  const auto ops = make_ops(GetParam(), 2);
  for (int32_t dim : {2, 8, 16, 30, 32, 34, 72, 256}) {
    const int64_t m = 7, heads = 3, width = heads * dim, half = dim / 2;
    const auto before = random_values(static_cast<size_t>(m * width), 1);
    const auto angle = random_values(static_cast<size_t>(m * half), 2, -3, 3);
    std::vector<float> c(angle.size()), s(angle.size()), x = before;
    for (size_t i = 0; i < angle.size(); ++i) c[i] = std::cos(angle[i]), s[i] = std::sin(angle[i]);
    ops->rope({x.data(), m, width}, dim, {c.data(), m, half}, {s.data(), m, half});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t j = 0; j < half; ++j) {
          const double a = before[i * width + h * dim + j],
                       b = before[i * width + h * dim + j + half];
          const double cj = c[i * half + j], sj = s[i * half + j];
          ASSERT_NEAR(x[i * width + h * dim + j], a * cj - b * sj, 4 * kEps32) << dim;
          ASSERT_NEAR(x[i * width + h * dim + j + half], b * cj + a * sj, 4 * kEps32) << dim;
        }
  }
}

TEST_P(RowsOnEveryTable, activations_follow_the_double_formula_everywhere) {
  const auto ops = make_ops(GetParam(), 1);
  std::vector<float> xs;
  for (int i = -40000; i <= 40000; ++i) xs.push_back(static_cast<float>(i) * 0.0025f);
  for (int e = -120; e < 0; ++e)
    xs.push_back(std::ldexp(1.1f, e)), xs.push_back(-std::ldexp(1.3f, e));
  for (Activation activation : {Activation::kGeluTanh, Activation::kGeluQuick, Activation::kSilu}) {
    auto y = xs;
    ops->activate({y.data(), 1, static_cast<int64_t>(y.size())}, activation);
    for (size_t i = 0; i < xs.size(); ++i) {
      const double x = xs[i], value = activate(x, activation);
      // exp(z) errs by 2e-7 and by the rounding of z, which it multiplies by |z|; z is two to five
      // roundings. Below the smallest normal number results may be zero.
      const double z = activation == Activation::kSilu ? x
                       : activation == Activation::kGeluQuick
                           ? 1.702 * x
                           : 1.5957691 * (x + 0.044715 * x * x * x);
      const double share = x < 0 ? 1 : std::exp(-std::abs(z));  // how much exp weighs in 1 + exp
      const double bound =
          std::abs(value) * (4 * kEps32 + share * (2e-7 + 5 * kEps32 * std::abs(z))) + 2e-37 * 3;
      ASSERT_NEAR(y[i], value, bound)
          << "x " << x << " activation " << static_cast<int>(activation);
    }
  }
}

TEST_P(RowsOnEveryTable, bounded_activations_follow_the_double_formula_everywhere) {
  const auto ops = make_ops(GetParam(), 1);
  std::vector<float> xs = {0.0f, -0.0f, kInf, -kInf, 1e30f, -1e30f};
  for (int i = -40000; i <= 40000; ++i) xs.push_back(static_cast<float>(i) * 0.0025f);
  for (int e = -120; e < 0; ++e)
    xs.push_back(std::ldexp(1.1f, e)), xs.push_back(-std::ldexp(1.3f, e));
  const std::pair<Activation, double (*)(double)> rows[] = {
      {Activation::kRelu, [](double x) { return x < 0 ? 0 : x; }},
      {Activation::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Activation::kTanh, [](double x) { return std::tanh(x); }},
      {Activation::kElu, [](double x) { return x > 0 ? x : std::expm1(x); }}};
  for (const auto& [activation, formula] : rows) {
    auto y = xs;
    ops->activate({y.data(), 1, static_cast<int64_t>(y.size())}, activation);
    for (size_t i = 0; i < xs.size(); ++i) {
      const double value = formula(double(xs[i]));
      if (std::isinf(value)) {
        ASSERT_EQ(y[i], value) << xs[i];
        continue;
      }
      // exp errs by 2e-7 relative, and its result is small where it weighs little; its argument is
      // exact. Sums, quotients and the last term of exp(x) - 1 are five roundings more.
      ASSERT_NEAR(y[i], value, std::abs(value) * (2e-7 + 6 * kEps32) + 1e-37)
          << "x " << xs[i] << " activation " << static_cast<int>(activation);
    }
  }
  for (const auto& [activation, formula] : rows) {
    for (int64_t n : {1, 3, 16, 21}) {
      std::vector<float> x(static_cast<size_t>(n), 0.5f);
      x.back() = kNan;
      ops->activate({x.data(), 1, n}, activation);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(std::isnan(x[i]), i == n - 1);
    }
  }
}

TEST_P(RowsOnEveryTable, hard_swish_is_x_times_a_share_that_stops_at_0_and_1) {
  const auto ops = make_ops(GetParam(), 1);
  std::vector<float> xs = {kInf, -3.0f, 3.0f, 0.0f, 1e30f, -1e30f, kNan};
  for (int i = -4000; i <= 4000; ++i) xs.push_back(static_cast<float>(i) * 0.0025f);
  auto y = xs;
  ops->activate({y.data(), 1, static_cast<int64_t>(y.size())}, Activation::kHardSwish);
  EXPECT_EQ(y[0], kInf);
  EXPECT_TRUE(std::isnan(y[6]));
  for (size_t i = 1; i < xs.size(); ++i) {
    if (i == 6) continue;
    const double x = double(xs[i]), share = std::clamp(x / 6 + 0.5, 0.0, 1.0);
    // The share errs by at most three roundings of numbers up to 1.
    ASSERT_NEAR(y[i], x * share, std::abs(x) * (share == 0 ? 0 : 4 * kEps32)) << "x " << x;
  }
}

TEST_P(RowsOnEveryTable, shared_work_reaches_every_part_once) {
  const auto ops = make_ops(GetParam(), 3);
  std::array<int, 8> seen{};
  ops->share(
      [](const void* context, int t, int n) {
        auto& counts = *static_cast<std::array<int, 8>*>(const_cast<void*>(context));
        counts[static_cast<size_t>(t)] += n;
      },
      &seen);
  for (int t = 0; t < 8; ++t) EXPECT_EQ(seen[static_cast<size_t>(t)], t < 3 ? 3 : 0) << t;
}

TEST_P(RowsOnEveryTable, activations_show_nan_and_infinity) {
  const auto ops = make_ops(GetParam(), 1);
  for (Activation activation : {Activation::kGeluTanh, Activation::kGeluQuick, Activation::kSilu}) {
    for (int64_t n : {1, 3, 16, 21}) {
      for (int64_t at = 0; at < n; ++at) {
        std::vector<float> x(static_cast<size_t>(n), 0.5f);
        x[at] = kNan;
        ops->activate({x.data(), 1, n}, activation);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(std::isnan(x[i]), i == at);
        x.assign(static_cast<size_t>(n), 0.5f);
        x[at] = kInf;
        ops->activate({x.data(), 1, n}, activation);
        ASSERT_EQ(x[at], kInf);
        x[at] = -kInf;  // -inf * 0
        ops->activate({x.data(), 1, n}, activation);
        ASSERT_TRUE(std::isnan(x[at]));
      }
    }
  }
}

// A value has the same result wherever it stands: in a full vector or in a tail.
TEST_P(RowsOnEveryTable, results_do_not_depend_on_the_position) {
  const auto ops = make_ops(GetParam(), 1);
  const auto xs = random_values(67, 9, -6, 6);
  for (Activation activation : {Activation::kGeluTanh, Activation::kGeluQuick, Activation::kSilu}) {
    auto all = xs;
    ops->activate({all.data(), 1, 67}, activation);
    for (size_t i = 0; i < xs.size(); ++i) {
      float alone = xs[i];
      ops->activate({&alone, 1, 1}, activation);
      ASSERT_EQ(alone, all[i]) << i;
    }
  }
}

TEST_P(RowsOnEveryTable, give_the_same_bits_for_any_threads) {
  const auto one = make_ops(GetParam(), 1), three = make_ops(GetParam(), 3);
  const int64_t m = 50, n = 1024;
  const auto x = random_values(m * n, 1), w = random_values(n, 2), b = random_values(n, 3);
  std::vector<float> y(x.size()), z(x.size());
  one->rms_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {y.data(), m, n});
  three->rms_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {z.data(), m, n});
  EXPECT_EQ(y, z);
  one->layer_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {y.data(), m, n});
  three->layer_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {z.data(), m, n});
  EXPECT_EQ(y, z);
  one->activate({y.data(), m, n}, Activation::kGeluTanh);
  three->activate({z.data(), m, n}, Activation::kGeluTanh);
  EXPECT_EQ(y, z);
}

TEST_P(RowsOnEveryTable, a_nan_spoils_its_row_and_no_other) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 3, n = 37;
  auto x = random_values(m * n, 1);
  const auto w = random_values(n, 2), b = random_values(n, 3);
  x[n + 36] = kNan;
  std::vector<float> y(x.size());
  for (bool rms : {true, false}) {
    if (rms) {
      ops->rms_norm({x.data(), m, n}, w.data(), nullptr, 1e-6f, {y.data(), m, n});
    } else {
      ops->layer_norm({x.data(), m, n}, w.data(), b.data(), 1e-6f, {y.data(), m, n});
    }
    for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(std::isnan(y[i]), i / n == 1) << i;
  }
}

}  // namespace
}  // namespace outrider::test
