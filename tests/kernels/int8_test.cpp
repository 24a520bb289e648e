// Products in 8 bits. The oracle quantises by the rule of kernel_table.h and sums whole numbers, so
// the bits of every table are known: only activation functions leave a table some freedom.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "reference.h"

namespace outrider::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Int8OnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, Int8OnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

// A matrix in 8 bits with a scale a row.
struct Quantised {
  Quantised(const float* values, int64_t n_rows, int64_t n, int64_t stride) : n_k(n) {
    for (int64_t i = 0; i < n_rows; ++i) {
      const float* row = values + i * stride;
      float amax = 0;
      for (int64_t k = 0; k < n; ++k) amax = std::max(amax, std::fabs(row[k]));
      scale.push_back(amax / 127);
      const float inverse = amax > 0 ? 127 / amax : 0;
      for (int64_t k = 0; k < n; ++k)
        q.push_back(static_cast<int8_t>(std::nearbyint(row[k] * inverse)));
    }
  }
  int64_t n_k;
  std::vector<float> scale;
  std::vector<int8_t> q;
};

// What row i of x times row j of w is, to the bit.
float product(const Quantised& x, int64_t i, const Quantised& w, int64_t j) {
  int64_t sum = 0;
  for (int64_t k = 0; k < x.n_k; ++k) sum += int64_t{x.q[i * x.n_k + k]} * w.q[j * x.n_k + k];
  return static_cast<float>(sum) * w.scale[j] * x.scale[i];
}

// A product whose bits are known for any first m rows and n_out outputs.
class KnownProduct {
 public:
  KnownProduct(DType dtype, int64_t max_m, int64_t max_out, int64_t n_in)
      : max_out_(max_out),
        n_in_(n_in),
        w_(dtype, max_out, n_in, 7),
        x_(random_values(static_cast<size_t>(max_m * stride()), 11)) {
    const Quantised w(w_.values.data(), max_out, n_in, n_in), x(x_.data(), max_m, n_in, stride());
    for (int64_t i = 0; i < max_m; ++i)
      for (int64_t j = 0; j < max_out; ++j) y_.push_back(product(x, i, w, j));
  }

  void expect(Ops& ops, int64_t m, int64_t n_out) const {
    Matrix first = w_.matrix;
    first.n_out = n_out;
    const PackedWeight packed(ops, {first}, Stack::kRows, Precision::kInt8);
    const int64_t y_stride = n_out + 2;
    std::vector<float> y(static_cast<size_t>(m * y_stride), 77.0f);
    ops.linear({x_.data(), m, n_in_, stride()}, packed.weight,
               {.y = {y.data(), m, n_out, y_stride}});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n_out; ++j)
        ASSERT_EQ(y[i * y_stride + j], y_[i * max_out_ + j])
            << dtype_info(w_.matrix.dtype).name << " m " << m << " n " << n_out << " k " << n_in_
            << " at " << i << ", " << j;
      ASSERT_EQ(y[i * y_stride + n_out], 77.0f) << "wrote behind the row";
      ASSERT_EQ(y[i * y_stride + n_out + 1], 77.0f) << "wrote behind the row";
    }
  }

 private:
  int64_t stride() const { return n_in_ + 3; }

  int64_t max_out_, n_in_;
  StoredMatrix w_;
  std::vector<float> x_, y_;
};
const KnownProduct& known(DType dtype, int64_t max_m, int64_t max_out, int64_t n_in) {
  return once<KnownProduct>(dtype, max_m, max_out, n_in);
}

TEST_P(Int8OnEveryTable, gives_the_known_bits_around_every_tile_edge) {
  const auto ops = make_ops(GetParam(), 2);
  const auto& narrow = known(DType::kF32, 51, 65, 19);
  for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 25, 29, 50, 51})
    for (int64_t n_out : {1, 15, 16, 17, 33, 65}) narrow.expect(*ops, m, n_out);
  for (int64_t n_in : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 129}) {
    const auto& wide = known(DType::kBf16, 51, 129, n_in);
    for (int64_t m : {1, 3, 50, 51})
      for (int64_t n_out : {31, 47, 48, 49, 128, 129}) wide.expect(*ops, m, n_out);
  }
}

TEST_P(Int8OnEveryTable, gives_the_known_bits_for_every_stored_type) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kQ8_0, DType::kQ4_0,
                      DType::kQ4_K, DType::kQ6_K})
    known(dtype, 5, 33, 512).expect(*ops, 5, 33);
}

TEST_P(Int8OnEveryTable, gives_the_known_bits_when_k_is_cut_into_blocks) {
  const auto ops = make_ops(GetParam(), 2, 1100, 4200);
  known(DType::kBf16, 1100, 18, 4099).expect(*ops, 1100, 18);
}

// Every product has the largest magnitude and, in the last outputs, the same sign.
TEST_P(Int8OnEveryTable, sums_of_the_largest_codes_neither_saturate_nor_overflow) {
  for (int64_t n_in : {int64_t{64}, int64_t{16384}, int64_t{65536}}) {
    const auto ops = make_ops(GetParam(), 1, 3, n_in);
    std::vector<float> x(static_cast<size_t>(3 * n_in)), w(static_cast<size_t>(4 * n_in));
    for (int64_t k = 0; k < n_in; ++k) {
      x[k] = 1;
      x[n_in + k] = -1;
      x[2 * n_in + k] = k % 2 ? 1 : -1;
      w[k] = 127;
      w[n_in + k] = -127;
      w[2 * n_in + k] = k % 2 ? 127 : -127;
      w[3 * n_in + k] = k % 4 < 2 ? 127 : -127;
    }
    const Matrix matrix{DType::kF32, 4, n_in, w.data()};
    const PackedWeight packed(*ops, {matrix}, Stack::kRows, Precision::kInt8);
    float y[12];
    ops->linear({x.data(), 3, n_in}, packed.weight, {.y = {y, 3, 4}});
    const float all = static_cast<float>(127 * 127 * n_in) * 1.0f * (1.0f / 127);
    const float wanted[12] = {all, -all, 0, 0, -all, all, 0, 0, 0, 0, all, 0};
    for (int i = 0; i < 12; ++i) EXPECT_EQ(y[i], wanted[i]) << n_in << " at " << i;
  }
}

TEST_P(Int8OnEveryTable, is_as_near_to_f32_as_the_roundings_of_both_sides_allow) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 6, n_out = 50, n_in = 300;
  const StoredMatrix w(DType::kF32, n_out, n_in, 1);
  const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kInt8);
  auto x = random_values(m * n_in, 2);
  for (int64_t k = 0; k < n_in; ++k) x[3 * n_in + k] *= 1e30f;
  for (int64_t k = 0; k < n_in; ++k) x[4 * n_in + k] *= 1e-30f;
  x[5 * n_in] = 3.4e38f;
  std::vector<float> y(m * n_out);
  ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
  const auto half_step = [&](const float* row) {
    float amax = 0;
    for (int64_t k = 0; k < n_in; ++k) amax = std::max(amax, std::fabs(row[k]));
    return 0.5 * amax / 127 * (1 + 1e-4);  // codes are found with an inverse that is rounded
  };
  double largest = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n_out; ++j) {
      const float *a = &x[i * n_in], *b = &w.values[j * n_in];
      const double da = half_step(a), db = half_step(b);
      double exact = 0, bound = 0;
      for (int64_t k = 0; k < n_in; ++k) {
        exact += double(a[k]) * b[k];
        bound += std::fabs(a[k]) * db + std::fabs(b[k]) * da + da * db;
      }
      const double error = std::fabs(y[i * n_out + j] - exact);
      ASSERT_LE(error, bound + 4 * kEps32 * std::fabs(exact)) << i << ", " << j;
      if (i == 0) largest = std::max(largest, error);
    }
  EXPECT_GT(largest, 1e-4) << "nothing was rounded: this is not the int8 path";
}

TEST_P(Int8OnEveryTable, gives_the_same_bits_for_any_threads_and_any_rows_together) {
  const int64_t n_in = 1029, n_out = 33, max_m = 128;
  const auto one = make_ops(GetParam(), 1);
  const StoredMatrix w(DType::kBf16, n_out, n_in, 5);
  PackedWeight packed(*one, {w.matrix}, Stack::kRows, Precision::kInt8);
  const auto x = random_values(static_cast<size_t>(max_m * n_in), 3);
  std::vector<float> all(static_cast<size_t>(max_m * n_out));
  one->linear({x.data(), max_m, n_in}, packed.weight, {.y = {all.data(), max_m, n_out}});
  for (int n_threads : {1, 2, 3, 7}) {
    const auto ops = make_ops(GetParam(), n_threads);
    // Packed by any number of threads, too.
    PackedWeight again(*ops, {w.matrix}, Stack::kRows, Precision::kInt8);
    ASSERT_EQ(
        std::memcmp(again.storage.data(), packed.storage.data(), packed.storage.span().size()), 0);
    for (int64_t m : {1, 2, 7, 14, 50, 128}) {
      std::vector<float> y(static_cast<size_t>(m * n_out));
      const int64_t first = max_m - m;
      ops->linear({x.data() + first * n_in, m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
      ASSERT_EQ(std::memcmp(y.data(), &all[first * n_out], y.size() * sizeof(float)), 0)
          << n_threads << " threads, last " << m << " rows";
    }
  }
}

TEST_P(Int8OnEveryTable, packs_the_bytes_of_the_scalar_table) {
  const auto ops = make_ops(GetParam(), 1), scalar = make_ops("scalar", 1);
  for (int64_t n_in : {1, 6, 64, 300, 513}) {
    const StoredMatrix w(DType::kF16, 21, n_in, 5);
    PackedWeight a(*ops, {w.matrix}, Stack::kRows, Precision::kInt8),
        b(*scalar, {w.matrix}, Stack::kRows, Precision::kInt8);
    ASSERT_EQ(std::memcmp(a.storage.data(), b.storage.data(), b.storage.span().size()), 0) << n_in;
  }
}

TEST_P(Int8OnEveryTable, applies_bias_activation_gate_and_add_in_that_order) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 9, n_out = 37, n_in = 24;
  const StoredMatrix w(DType::kF32, n_out, n_in, 1);
  const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kInt8);
  const auto x = random_values(m * n_in, 2);
  const Quantised qw(w.values.data(), n_out, n_in, n_in), qx(x.data(), m, n_in, n_in);
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
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n_out; ++j) {
          float sum = product(qx, i, qw, j);
          if (out.bias) sum += bias[j];
          float value = static_cast<float>(activate(sum, out.activation));
          if (out.gate) value *= gate[j];
          if (out.add) value = before[i * n_out + j] + value;
          if (activation == 0) {
            ASSERT_EQ(y[i * n_out + j], value) << "parts " << parts;
          } else {
            ASSERT_NEAR(y[i * n_out + j], value, 16 * kEps32 * (1 + std::abs(sum)))
                << "activation " << activation << " parts " << parts;
          }
        }
    }
  }
}

TEST_P(Int8OnEveryTable, multiplies_the_activated_gate_with_up) {
  const auto one = make_ops(GetParam(), 1), three = make_ops(GetParam(), 3);
  const int64_t n_in = 35;
  for (int64_t width : {1, 15, 16, 17, 40, 100}) {
    const StoredMatrix gate(DType::kF32, width, n_in, 1), up(DType::kBf16, width, n_in, 2);
    const PackedWeight packed(*one, {gate.matrix, up.matrix}, Stack::kPaired, Precision::kInt8);
    ASSERT_EQ(packed.weight.n_out, width);
    const Quantised g(gate.values.data(), width, n_in, n_in),
        u(up.values.data(), width, n_in, n_in);
    for (int64_t m : {1, 2, 5, 13, 50}) {
      const auto x = random_values(static_cast<size_t>(m * n_in), 3);
      const Quantised qx(x.data(), m, n_in, n_in);
      for (Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
        std::vector<float> y(static_cast<size_t>(m * width)), z = y;
        one->gated_linear({x.data(), m, n_in}, packed.weight, activation, {y.data(), m, width});
        three->gated_linear({x.data(), m, n_in}, packed.weight, activation, {z.data(), m, width});
        ASSERT_EQ(y, z);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < width; ++j) {
            const float a = product(qx, i, g, j), b = product(qx, i, u, j);
            const float value = static_cast<float>(activate(a, activation)) * b;
            if (activation == Activation::kNone) {
              ASSERT_EQ(y[i * width + j], value) << width << ", " << m;
            } else {
              ASSERT_NEAR(y[i * width + j], value,
                          16 * kEps32 * (1 + std::abs(a)) * (1 + std::abs(b)));
            }
          }
      }
    }
  }
}

TEST_P(Int8OnEveryTable, stacks_rows_of_several_matrices_of_any_type) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_in = 256, m = 5;
  const StoredMatrix a(DType::kQ4_K, 19, n_in, 1), b(DType::kF16, 3, n_in, 2),
      c(DType::kF32, 30, n_in, 3);
  const PackedWeight packed(*ops, {a.matrix, b.matrix, c.matrix}, Stack::kRows, Precision::kInt8);
  ASSERT_EQ(packed.weight.n_out, 52);
  std::vector<float> rows;
  for (const auto* part : {&a, &b, &c})
    rows.insert(rows.end(), part->values.begin(), part->values.end());
  const auto x = random_values(m * n_in, 4);
  const Quantised w(rows.data(), 52, n_in, n_in), qx(x.data(), m, n_in, n_in);
  std::vector<float> y(m * 52);
  ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, 52}});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < 52; ++j) ASSERT_EQ(y[i * 52 + j], product(qx, i, w, j));
}

TEST_P(Int8OnEveryTable, shows_nan_and_infinity_as_nan_in_their_row_only) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 17, n_out = 33, n_in = 83;
  const StoredMatrix w(DType::kBf16, n_out, n_in, 1);
  const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kInt8);
  for (float bad : {kNan, kInf, -kInf}) {
    for (int64_t at : {int64_t{0}, int64_t{7}, int64_t{64}, n_in - 1}) {
      for (Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kSilu}) {
        auto x = random_values(m * n_in, 2);
        x[5 * n_in + at] = bad;
        std::vector<float> y(m * n_out);
        ops->linear({x.data(), m, n_in}, packed.weight,
                    {.y = {y.data(), m, n_out}, .activation = activation});
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n_out; ++j)
            ASSERT_EQ(std::isnan(y[i * n_out + j]), i == 5) << i << ", " << j << " of " << bad;
      }
    }
  }
}

TEST_P(Int8OnEveryTable, shows_a_weight_that_is_not_finite_as_nan_in_its_output_only) {
  const auto ops = make_ops(GetParam(), 1);
  const int64_t m = 3, n_out = 20, n_in = 300;
  for (float bad : {kNan, kInf}) {
    for (int64_t at : {int64_t{0}, int64_t{290}}) {
      auto w = random_values(n_out * n_in, 1);
      w[17 * n_in + at] = bad;
      const Matrix matrix{DType::kF32, n_out, n_in, w.data()};
      const PackedWeight packed(*ops, {matrix}, Stack::kRows, Precision::kInt8);
      const auto x = random_values(m * n_in, 2);
      std::vector<float> y(m * n_out);
      ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
      for (int64_t i = 0; i < m * n_out; ++i)
        ASSERT_EQ(std::isnan(y[i]), i % n_out == 17) << i << " of " << bad;
    }
  }
}

TEST_P(Int8OnEveryTable, rows_of_zeros_and_of_nearly_nothing_give_exactly_the_bias) {
  const auto ops = make_ops(GetParam(), 1);
  const int64_t m = 4, n_out = 20, n_in = 70;
  auto w = random_values(n_out * n_in, 1);
  for (int64_t k = 0; k < n_in; ++k) w[3 * n_in + k] = 0;
  const Matrix matrix{DType::kF32, n_out, n_in, w.data()};
  const PackedWeight packed(*ops, {matrix}, Stack::kRows, Precision::kInt8);
  auto x = random_values(m * n_in, 2);
  for (int64_t k = 0; k < n_in; ++k) {
    x[k] = 0;
    x[n_in + k] = -0.0f;
    x[2 * n_in + k] = k % 2 ? 1e-45f : -1e-38f;  // 127 over them would be infinite
  }
  const auto bias = random_values(n_out, 3);
  std::vector<float> y(m * n_out);
  ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}, .bias = bias.data()});
  for (int64_t j = 0; j < n_out; ++j) {
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(y[i * n_out + j], bias[j]) << i << ", " << j;
    EXPECT_EQ(y[3 * n_out + j] == bias[j], j == 3) << j;
  }
}

TEST(Int8, takes_a_byte_a_weight_and_a_tail_a_panel) {
  const auto ops = make_ops("", 1);
  const StoredMatrix w(DType::kF32, 33, 65, 1);
  const auto bytes = [&](std::vector<Matrix> parts, Stack stack) {
    return ops->packed_bytes(parts, stack, Precision::kInt8).value();
  };
  EXPECT_EQ(bytes({w.matrix}, Stack::kRows), 3u * (16 * 68 + 128));
  EXPECT_EQ(bytes({w.matrix, w.matrix}, Stack::kRows), 5u * (16 * 68 + 128));
  EXPECT_EQ(bytes({w.matrix, w.matrix}, Stack::kPaired), 6u * (16 * 68 + 128));
}

TEST(Int8, refuses_rows_whose_sums_could_overflow) {
  const auto ops = make_ops("", 1);
  const float data[4] = {};
  const auto refused = [&](int64_t n_in, Precision precision) {
    const Matrix matrix{DType::kF32, 1, n_in, data};
    const auto result = ops->packed_bytes({&matrix, 1}, Stack::kRows, precision);
    return result ? Code::kOk : result.code();
  };
  EXPECT_EQ(refused(65536, Precision::kInt8), Code::kOk);
  EXPECT_EQ(refused(65537, Precision::kInt8), Code::kShape);
  EXPECT_EQ(refused(65537, Precision::kBf16), Code::kOk);
}

}  // namespace
}  // namespace outrider::test
