#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "reference.h"

namespace outrider::test {
namespace {

constexpr double kBf16Eps = 0x1p-9;  // half a unit in the last place of bfloat16

class LinearOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, LinearOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

// sum over k of x * w and of |x * w|, in double.
struct Sums {
  double value = 0, magnitude = 0;
};
Sums dot(const float* x, const float* w, int64_t n, bool rounded) {
  Sums s;
  for (int64_t k = 0; k < n; ++k) {
    const double p =
        rounded ? double(round_to_bf16(x[k])) * round_to_bf16(w[k]) : double(x[k]) * w[k];
    s.value += p;
    s.magnitude += std::abs(p);
  }
  return s;
}

// A chain of n roundings errs by at most n half-units of the sum of magnitudes.
double tolerance(const Sums& s, int64_t n) {
  return double(n + 1) * kEps32 * s.magnitude + 1e-30;
}

// A product whose exact sums are computed once: any first m rows and n_out outputs of it can then
// be checked, since neither depends on the others.
class KnownProduct {
 public:
  KnownProduct(DType dtype, Precision precision, int64_t max_m, int64_t max_out, int64_t n_in)
      : precision_(precision),
        max_out_(max_out),
        n_in_(n_in),
        w_(dtype, max_out, n_in, 7),
        x_(random_values(static_cast<size_t>(max_m * stride()), 11)) {
    for (int64_t i = 0; i < max_m; ++i)
      for (int64_t j = 0; j < max_out; ++j)
        sums_.push_back(
            dot(&x_[i * stride()], &w_.values[j * n_in], n_in, precision == Precision::kBf16));
  }

  void expect(Ops& ops, int64_t m, int64_t n_out) const {
    Matrix first = w_.matrix;
    first.n_out = n_out;
    const PackedWeight packed(ops, {first}, Stack::kRows, precision_);
    const int64_t y_stride = n_out + 2;
    std::vector<float> y(static_cast<size_t>(m * y_stride), 77.0f);
    LinearOut out;
    out.y = {y.data(), m, n_out, y_stride};
    ops.linear({x_.data(), m, n_in_, stride()}, packed.weight, out);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n_out; ++j) {
        const Sums& s = sums_[i * max_out_ + j];
        if (std::abs(y[i * y_stride + j] - s.value) <= tolerance(s, n_in_)) continue;
        FAIL() << dtype_info(w_.matrix.dtype).name << " m " << m << " n " << n_out << " k " << n_in_
               << " at " << i << ", " << j << ": " << y[i * y_stride + j] << " for " << s.value;
      }
      ASSERT_EQ(y[i * y_stride + n_out], 77.0f) << "wrote behind the row";
      ASSERT_EQ(y[i * y_stride + n_out + 1], 77.0f) << "wrote behind the row";
    }
  }

 private:
  int64_t stride() const { return n_in_ + 3; }

  Precision precision_;
  int64_t max_out_, n_in_;
  StoredMatrix w_;
  std::vector<float> x_;
  std::vector<Sums> sums_;
};
const KnownProduct& known(DType dtype, Precision precision, int64_t max_m, int64_t max_out,
                          int64_t n_in) {
  return once<KnownProduct>(dtype, precision, max_m, max_out, n_in);
}

constexpr DType kPlainTypes[] = {DType::kF32, DType::kF16, DType::kBf16};
constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16};

TEST_P(LinearOnEveryTable, equals_the_double_product_around_every_tile_edge) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType dtype : kPlainTypes) {
    for (Precision precision : kPrecisions) {
      const auto& narrow = known(dtype, precision, 29, 65, 19);
      for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 25, 29})
        for (int64_t n_out : {1, 15, 16, 17, 33, 65}) narrow.expect(*ops, m, n_out);
      for (int64_t n_in : {1, 2, 15, 16, 31, 32, 33, 64}) {
        const auto& wide = known(dtype, precision, 64, 129, n_in);
        for (int64_t m : {1, 3, 50, 51, 64})
          for (int64_t n_out : {31, 47, 48, 49, 128, 129}) wide.expect(*ops, m, n_out);
      }
    }
  }
}

TEST_P(LinearOnEveryTable, equals_the_double_product_for_quantised_weights) {
  const auto ops = make_ops(GetParam(), 2);
  for (Precision precision : kPrecisions) {
    for (DType dtype : {DType::kQ8_0, DType::kQ4_0})
      known(dtype, precision, 9, 33, 96).expect(*ops, 9, 33);
    for (DType dtype : {DType::kQ4_K, DType::kQ6_K})
      known(dtype, precision, 5, 17, 512).expect(*ops, 5, 17);
  }
}

TEST_P(LinearOnEveryTable, is_right_when_k_is_cut_into_blocks) {
  const auto ops = make_ops(GetParam(), 2);
  for (Precision precision : kPrecisions)
    known(DType::kBf16, precision, 128, 18, 4099).expect(*ops, 128, 18);
}

TEST_P(LinearOnEveryTable, gives_the_same_bits_for_any_threads_and_any_rows_together) {
  const int64_t n_in = 4101, n_out = 33, max_m = 128;
  const auto one = make_ops(GetParam(), 1), two = make_ops(GetParam(), 2),
             three = make_ops(GetParam(), 3);
  const auto x = random_values(static_cast<size_t>(max_m * n_in), 3);
  for (DType dtype : kPlainTypes) {
    for (Precision precision : kPrecisions) {
      if (dtype == DType::kF32 && precision == Precision::kBf16) continue;  // packs as bf16 does
      const StoredMatrix w(dtype, n_out, n_in, 5);
      // Packed by one, read by all: weights are shared data.
      const PackedWeight packed(*one, {w.matrix}, Stack::kRows, precision);
      std::vector<float> all(static_cast<size_t>(max_m * n_out));
      one->linear({x.data(), max_m, n_in}, packed.weight, {.y = {all.data(), max_m, n_out}});
      const auto expect_same = [&](Ops& ops, int64_t first, int64_t m) {
        std::vector<float> y(static_cast<size_t>(m * n_out));
        ops.linear({x.data() + first * n_in, m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
        ASSERT_EQ(std::memcmp(y.data(), &all[first * n_out], y.size() * sizeof(float)), 0)
            << dtype_info(dtype).name << " threads " << ops.n_threads() << " rows from " << first
            << ", " << m;
      };
      for (Ops* ops : {one.get(), two.get(), three.get()})
        for (int64_t m : {1, 2, 7, 14, 50}) expect_same(*ops, max_m - m, m);
      expect_same(*three, 0, max_m);
      for (int64_t i = 0; i < max_m; i += 11) expect_same(*two, i, 1);
    }
  }
}

// A norm that happens while rows are packed gives what the verb and then the product give, which
// one thread computes: more of them give the same bits in either way.
TEST_P(LinearOnEveryTable, a_norm_in_front_gives_the_bits_of_the_norm_and_then_the_product) {
  const int64_t n_in = 512, n_out = 35, max_m = 61, stride = n_in + 5;
  const auto x = random_values(static_cast<size_t>(max_m * stride), 3),
             scale = random_values(n_in, 8), shift = random_values(n_in, 9),
             bias = random_values(n_out, 10);
  const RowNorm norms[] = {{RowNorm::Kind::kRms, scale.data(), nullptr, 1e-6f},
                           {RowNorm::Kind::kRms, scale.data(), shift.data(), 1e-5f},
                           {RowNorm::Kind::kLayer, scale.data(), shift.data(), 1e-6f}};
  const std::unique_ptr<Ops> by_threads[] = {make_ops(GetParam(), 1), make_ops(GetParam(), 2),
                                             make_ops(GetParam(), 3)};
  Ops& one = *by_threads[0];
  for (const auto& [dtype, precision] : {std::pair{DType::kF32, Precision::kF32},
                                         {DType::kF16, Precision::kF32},
                                         {DType::kBf16, Precision::kBf16},
                                         {DType::kF32, Precision::kInt8},
                                         {DType::kQ8_0, Precision::kStored},
                                         {DType::kQ4_K, Precision::kStored}}) {
    const auto &w = once<StoredMatrix>(dtype, n_out, n_in, 5u),
               &up = once<StoredMatrix>(dtype, n_out, n_in, 6u);
    const PackedWeight packed(one, {w.matrix}, Stack::kRows, precision),
        pair(one, {w.matrix, up.matrix}, Stack::kPaired, precision);
    for (int64_t m : {1, 2, 13, 14, 15, 29, 61}) {
      for (const RowNorm& norm : norms) {
        std::vector<float> normed(m * n_in), y(m * n_out), gated(y);
        const View<const float> rows(x.data(), m, n_in, stride);
        const View<float> behind(normed.data(), m, n_in);
        if (norm.kind == RowNorm::Kind::kRms)
          one.rms_norm(rows, norm.scale, norm.shift, norm.eps, behind);
        else
          one.layer_norm(rows, norm.scale, norm.shift, norm.eps, behind);
        one.linear(behind, packed.weight, {.y = {y.data(), m, n_out}, .bias = bias.data()});
        one.gated_linear(behind, pair.weight, Activation::kSilu, {gated.data(), m, n_out});
        for (const auto& ops : by_threads) {
          std::vector<float> z(m * n_out), gated_z(z);
          ops->linear({rows, norm}, packed.weight,
                      {.y = {z.data(), m, n_out}, .bias = bias.data()});
          ops->gated_linear({rows, norm}, pair.weight, Activation::kSilu,
                            {gated_z.data(), m, n_out});
          ASSERT_EQ(std::memcmp(y.data(), z.data(), y.size() * 4), 0)
              << dtype_info(dtype).name << " m " << m << " threads " << ops->n_threads();
          ASSERT_EQ(std::memcmp(gated.data(), gated_z.data(), y.size() * 4), 0)
              << dtype_info(dtype).name << " m " << m << " threads " << ops->n_threads();
        }
      }
    }
  }
}

// More threads than panels: rows are shared out too.
TEST_P(LinearOnEveryTable, gives_the_same_bits_when_threads_outnumber_the_panels) {
  const auto one = make_ops(GetParam(), 1), seven = make_ops(GetParam(), 7);
  const int64_t m = 61, n_out = 20, n_in = 33;
  const StoredMatrix w(DType::kBf16, n_out, n_in, 5);
  const PackedWeight packed(*one, {w.matrix}, Stack::kRows, Precision::kBf16);
  const auto x = random_values(m * n_in, 3);
  std::vector<float> y(m * n_out), z(y.size());
  one->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
  seven->linear({x.data(), m, n_in}, packed.weight, {.y = {z.data(), m, n_out}});
  EXPECT_EQ(y, z);
}

// So many rows that each thread takes some of them for itself.
TEST_P(LinearOnEveryTable, gives_the_same_bits_when_threads_share_the_rows) {
  const auto one = make_ops(GetParam(), 1, 400);
  const int64_t max_in = 1027, n_out = 35, max_m = 385, stride = max_in + 5, y_stride = n_out + 3;
  const auto x = random_values(static_cast<size_t>(max_m * stride), 3),
             bias = random_values(n_out, 4), gate = random_values(n_out, 5),
             scale = random_values(max_in, 6),
             before = random_values(static_cast<size_t>(max_m * y_stride), 7);
  const RowNorm rms{RowNorm::Kind::kRms, scale.data(), nullptr, 1e-6f};
  for (const auto& [dtype, precision] : {std::pair{DType::kF32, Precision::kF32},
                                         {DType::kF16, Precision::kF32},
                                         {DType::kBf16, Precision::kBf16},
                                         {DType::kF32, Precision::kInt8},
                                         {DType::kQ8_0, Precision::kStored},
                                         {DType::kQ4_K, Precision::kStored}}) {
    const int64_t n_in = precision == Precision::kStored ? 768 : 1027;
    const StoredMatrix w(dtype, n_out, n_in, 8), up(dtype, n_out, n_in, 9);
    const PackedWeight packed(*one, {w.matrix}, Stack::kRows, precision),
        pair(*one, {w.matrix, up.matrix}, Stack::kPaired, precision);
    for (const bool normed : {false, true}) {
      // Both products of the first m rows; what lies behind them stays as it was.
      const auto products = [&](Ops& ops, int64_t m) {
        const View<const float> rows(x.data(), m, n_in, stride);
        const LinearIn in = normed ? LinearIn(rows, rms) : LinearIn(rows);
        std::vector<float> y = before, gated = before;
        ops.linear(in, packed.weight,
                   {.y = {y.data(), m, n_out, y_stride},
                    .bias = bias.data(),
                    .add = true,
                    .gate = gate.data()});
        ops.gated_linear(in, pair.weight, Activation::kSilu, {gated.data(), m, n_out, y_stride});
        return std::pair(std::move(y), std::move(gated));
      };
      const auto [all, all_gated] = products(*one, max_m);
      for (int threads : {2, 3}) {
        const auto ops = make_ops(GetParam(), threads, 400);
        for (int64_t m : {126 * threads - 1, 126 * threads, 126 * threads + 5}) {
          auto wanted = before, wanted_gated = before;
          std::copy_n(all.begin(), m * y_stride, wanted.begin());
          std::copy_n(all_gated.begin(), m * y_stride, wanted_gated.begin());
          const auto [y, gated] = products(*ops, m);
          ASSERT_EQ(y, wanted) << dtype_info(dtype).name << " m " << m << " threads " << threads;
          ASSERT_EQ(gated, wanted_gated)
              << dtype_info(dtype).name << " m " << m << " threads " << threads;
        }
      }
    }
  }
}

TEST_P(LinearOnEveryTable, applies_bias_activation_gate_and_add_in_that_order) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 9, n_out = 37, n_in = 24;
  const StoredMatrix w(DType::kF32, n_out, n_in, 1);
  const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kF32);
  const auto x = random_values(m * n_in, 2);
  const auto bias = random_values(n_out, 3), gate = random_values(n_out, 4),
             before = random_values(m * n_out, 5);
  for (int activation = 0; activation < 4; ++activation) {
    for (int parts = 0; parts < 8; ++parts) {
      std::vector<float> y = before;
      LinearOut out;
      out.y = {y.data(), m, n_out};
      out.bias = parts & 1 ? bias.data() : nullptr;
      out.gate = parts & 2 ? gate.data() : nullptr;
      out.add = parts & 4;
      out.activation = static_cast<Activation>(activation);
      ops->linear({x.data(), m, n_in}, packed.weight, out);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n_out; ++j) {
          const Sums s = dot(&x[i * n_in], &w.values[j * n_in], n_in, false);
          double value = activate(s.value + (out.bias ? bias[j] : 0), out.activation);
          if (out.gate) value *= gate[j];
          if (out.add) value += before[i * n_out + j];
          // the activations' slopes are below 1.13; the rest are single roundings
          ASSERT_NEAR(y[i * n_out + j], value,
                      1.2 * tolerance(s, n_in) + 16 * kEps32 * (1 + std::abs(s.value)))
              << "activation " << activation << " parts " << parts;
        }
      }
    }
  }
}

TEST_P(LinearOnEveryTable, stacks_rows_of_several_matrices_of_any_type) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_in = 256, m = 5;
  const StoredMatrix a(DType::kQ4_K, 19, n_in, 1), b(DType::kF16, 3, n_in, 2),
      c(DType::kF32, 30, n_in, 3);
  const PackedWeight packed(*ops, {a.matrix, b.matrix, c.matrix}, Stack::kRows, Precision::kF32);
  ASSERT_EQ(packed.weight.n_out, 52);
  std::vector<float> rows;
  for (const auto* part : {&a, &b, &c})
    rows.insert(rows.end(), part->values.begin(), part->values.end());
  const auto x = random_values(m * n_in, 4);
  std::vector<float> y(m * 52);
  ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, 52}});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < 52; ++j) {
      const Sums s = dot(&x[i * n_in], &rows[j * n_in], n_in, false);
      ASSERT_NEAR(y[i * 52 + j], s.value, tolerance(s, n_in));
    }
}

TEST_P(LinearOnEveryTable, multiplies_the_activated_gate_with_up) {
  const auto one = make_ops(GetParam(), 1), three = make_ops(GetParam(), 3);
  const int64_t n_in = 35;
  for (int64_t width : {1, 15, 16, 17, 40, 100}) {
    for (int64_t m : {1, 2, 5, 13, 50}) {
      for (DType dtype : {DType::kF32, DType::kBf16}) {
        const StoredMatrix gate(dtype, width, n_in, 1), up(dtype, width, n_in, 2);
        const PackedWeight packed(*one, {gate.matrix, up.matrix}, Stack::kPaired, Precision::kF32);
        ASSERT_EQ(packed.weight.n_out, width);
        const auto x = random_values(static_cast<size_t>(m * n_in), 3);
        std::vector<float> y(static_cast<size_t>(m * width)), z = y;
        one->gated_linear({x.data(), m, n_in}, packed.weight, Activation::kGeluTanh,
                          {y.data(), m, width});
        three->gated_linear({x.data(), m, n_in}, packed.weight, Activation::kGeluTanh,
                            {z.data(), m, width});
        ASSERT_EQ(y, z);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < width; ++j) {
            const Sums g = dot(&x[i * n_in], &gate.values[j * n_in], n_in, false);
            const Sums u = dot(&x[i * n_in], &up.values[j * n_in], n_in, false);
            const double bound = 1.2 * (tolerance(g, n_in) + 8 * kEps32) * (1 + std::abs(u.value)) +
                                 tolerance(u, n_in) * (1 + std::abs(g.value));
            ASSERT_NEAR(y[i * width + j], activate(g.value, Activation::kGeluTanh) * u.value,
                        bound);
          }
      }
    }
  }
}

TEST_P(LinearOnEveryTable, shows_nan_and_infinity_of_a_row_in_that_row_only) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 17, n_out = 33, n_in = 20;
  const StoredMatrix w(DType::kBf16, n_out, n_in, 1);
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, precision);
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kSilu}) {
        auto x = random_values(m * n_in, 2);
        x[5 * n_in + 7] = bad;
        std::vector<float> y(m * n_out);
        ops->linear({x.data(), m, n_in}, packed.weight,
                    {.y = {y.data(), m, n_out}, .activation = activation});
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n_out; ++j)
            ASSERT_EQ(std::isfinite(y[i * n_out + j]), i != 5) << i << ", " << j << " of " << bad;
      }
    }
  }
}

TEST_P(LinearOnEveryTable, bf16_is_as_near_to_f32_as_two_roundings_allow) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 6, n_out = 50, n_in = 300;
  const StoredMatrix w(DType::kF32, n_out, n_in, 1);
  const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kBf16);
  const auto x = random_values(m * n_in, 2);
  std::vector<float> y(m * n_out);
  ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
  double largest = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n_out; ++j) {
      const Sums s = dot(&x[i * n_in], &w.values[j * n_in], n_in, false);
      const double error = std::abs(y[i * n_out + j] - s.value);
      ASSERT_LE(error, 2.01 * kBf16Eps * s.magnitude);
      largest = std::max(largest, error);
    }
  EXPECT_GT(largest, 1e-5) << "nothing was rounded: this is not the bf16 path";
}

TEST(Linear, f32_precision_keeps_16_bit_weights_in_16_bits) {
  const auto ops = make_ops("", 1);
  const StoredMatrix f16(DType::kF16, 32, 64, 1), bf16(DType::kBf16, 32, 64, 1),
      f32(DType::kF32, 32, 64, 1);
  EXPECT_EQ(ops->packed_bytes({{f16.matrix}}, Stack::kRows, Precision::kF32).value(), 32u * 64 * 2);
  EXPECT_EQ(ops->packed_bytes({{bf16.matrix}}, Stack::kRows, Precision::kF32).value(),
            32u * 64 * 2);
  EXPECT_EQ(ops->packed_bytes({{f32.matrix}}, Stack::kRows, Precision::kF32).value(), 32u * 64 * 4);
  EXPECT_EQ(ops->packed_bytes({{f32.matrix}}, Stack::kRows, Precision::kBf16).value(),
            32u * 64 * 2);
}

TEST(Linear, refuses_weights_that_cannot_be_packed) {
  const auto ops = make_ops("scalar", 1);
  const float data[64] = {};
  const auto refused = [&](std::vector<Matrix> parts, Stack stack, Precision precision) {
    const auto result = ops->packed_bytes(parts, stack, precision);
    return result ? Code::kOk : result.code();
  };
  const Matrix good{DType::kF32, 4, 8, data};
  EXPECT_EQ(refused({good}, Stack::kRows, Precision::kF32), Code::kOk);
  EXPECT_EQ(refused({}, Stack::kRows, Precision::kF32), Code::kShape);
  EXPECT_EQ(refused({{DType::kF32, 0, 8, data}}, Stack::kRows, Precision::kF32), Code::kShape);
  EXPECT_EQ(refused({{DType::kF32, 4, -8, data}}, Stack::kRows, Precision::kF32), Code::kShape);
  EXPECT_EQ(refused({{DType::kQ8_0, 4, 33, data}}, Stack::kRows, Precision::kF32), Code::kShape);
  EXPECT_EQ(refused({good, {DType::kF32, 4, 7, data}}, Stack::kRows, Precision::kF32),
            Code::kShape);
  EXPECT_EQ(refused({good}, Stack::kPaired, Precision::kF32), Code::kShape);
  EXPECT_EQ(refused({good, {DType::kF32, 3, 8, data}}, Stack::kPaired, Precision::kF32),
            Code::kShape);
  EXPECT_EQ(refused({{DType::kI64, 4, 8, data}}, Stack::kRows, Precision::kF32),
            Code::kUnsupported);
  EXPECT_EQ(refused({{DType::kF32, INT64_MAX, 1 << 20, data}}, Stack::kRows, Precision::kF32),
            Code::kShape);
  EXPECT_EQ(refused({{DType::kF32, 8, INT64_MAX / 2, data}}, Stack::kRows, Precision::kF32),
            Code::kShape);

  Aligned storage(64 * 1024);
  EXPECT_EQ(ops->pack({{good}}, Stack::kRows, Precision::kF32, storage.span().first(8)).code(),
            Code::kNoMemory);
  EXPECT_EQ(ops->pack({{good}}, Stack::kRows, Precision::kF32, storage.span().subspan(4)).code(),
            Code::kInvalid);
}

TEST(Linear, refuses_scratch_that_cannot_exist) {
  auto ops = make_cpu_ops({.n_threads = 1, .kernel_table = "scalar"});
  OpsLimits limits;
  limits.max_rows = INT64_MAX / 2;
  limits.max_in = INT64_MAX / 2;
  EXPECT_EQ(ops.value()->reserve(limits).code(), Code::kNoMemory);
}

}  // namespace
}  // namespace outrider::test
