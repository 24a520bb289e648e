// Products with weights in the blocks of their file. The oracle reads the file's blocks itself,
// quantises activations by the rule of kernel_table.h in blocks of 32 and follows the chain that
// block_format.h states, so the bits of every table are known. A second one multiplies the exact
// activations in double: the distance is bounded by what the rounding of activations can do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/block_format.h"
#include "kernels/block_packing.h"
#include "reference.h"
#include "tensor/quant_blocks.h"

namespace outrider::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kBlockTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ5_K,
                                 DType::kQ6_K};

class BlocksOnEveryTable : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Tables, BlocksOnEveryTable, testing::ValuesIn(table_names()),
                         [](const auto& table) { return table.param; });

int64_t length_of(DType dtype) {
  return dtype_info(dtype).block_values;
}

// Whole numbers and scales of a row in blocks: value k = scale[k / 16] * q[k] - min[k / 16].
struct Codes {
  std::vector<int> q;
  std::vector<float> scale, min;
};

float half_at(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return f16_to_f32(half);
}

Codes read_codes(DType dtype, const std::byte* row, int64_t n_in) {
  Codes codes;
  const auto put = [&](float scale, float min, auto&& q_of, int n) {
    for (int i = 0; i < n; ++i) codes.q.push_back(q_of(i));
    for (int i = 0; i < n / 16; ++i) {
      codes.scale.push_back(scale);
      codes.min.push_back(min);
    }
  };
  for (int64_t b = 0; b < n_in / length_of(dtype); ++b) {
    const std::byte* at = row + b * static_cast<int64_t>(dtype_info(dtype).block_bytes);
    if (dtype == DType::kQ8_0) {
      const auto& block = *reinterpret_cast<const BlockQ8_0*>(at);
      put(
          half_at(block.d), 0, [&](int i) { return block.q[i]; }, 32);
    } else if (dtype == DType::kQ4_0) {
      const auto& block = *reinterpret_cast<const BlockQ4_0*>(at);
      put(
          half_at(block.d), 0,
          [&](int i) { return (i < 16 ? block.q[i] & 15 : block.q[i - 16] >> 4) - 8; }, 32);
    } else if (dtype == DType::kQ4_K) {
      const auto& block = *reinterpret_cast<const BlockQ4_K*>(at);
      for (int j = 0; j < 8; ++j) {
        const ScaleMin sm = q4_k_scale(block.scales, j);
        put(
            half_at(block.d) * float(sm.scale), half_at(block.dmin) * float(sm.min),
            [&](int i) { return block.q[j / 2 * 32 + i] >> (4 * (j % 2)) & 15; }, 32);
      }
    } else if (dtype == DType::kQ5_K) {
      const auto& block = *reinterpret_cast<const BlockQ5_K*>(at);
      for (int j = 0; j < 8; ++j) {
        const ScaleMin sm = q4_k_scale(block.scales, j);
        put(
            half_at(block.d) * float(sm.scale), half_at(block.dmin) * float(sm.min),
            [&](int i) {
              return (block.q[j / 2 * 32 + i] >> (4 * (j % 2)) & 15) +
                     (block.qh[i] & 1 << j ? 16 : 0);
            },
            32);
      }
    } else {
      const auto& block = *reinterpret_cast<const BlockQ6_K*>(at);
      for (int k = 0; k < 16; ++k) {
        const int half = k / 8, quarter = k % 8 / 2, l = k % 2 * 16;
        put(
            half_at(block.d) * float(block.scales[k]), 0,
            [&](int i) {
              const int low = block.ql[64 * half + 32 * (quarter % 2) + l + i] >> (quarter / 2 * 4);
              const int high = block.qh[32 * half + l + i] >> (2 * quarter);
              return ((low & 15) | (high & 3) << 4) - 32;
            },
            16);
      }
    }
  }
  return codes;
}

// A row of activations in blocks of 32.
struct Activations {
  Activations(const float* x, int64_t n) {
    for (int64_t k = 0; k < n; k += 32) {
      float amax = 0;
      for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[k + i]));
      const bool finite = std::all_of(x + k, x + k + 32, [](float v) { return std::isfinite(v); });
      const bool zero = !finite || amax < 0x1p-120f;
      scale.push_back(!finite ? kNan : zero ? 0 : amax / 127);
      for (int i = 0; i < 32; ++i)
        q.push_back(zero ? 0 : static_cast<int>(std::nearbyint(x[k + i] * (127 / amax))));
    }
  }
  std::vector<int> q;
  std::vector<float> scale;
};

// To the bit, by the chain of block_format.h.
float known_product(DType dtype, const Codes& w, const Activations& x) {
  float y = 0;
  const size_t step = dtype == DType::kQ6_K ? 16 : 32;
  for (size_t k = 0; k < w.q.size(); k += step) {
    int sum = 0, x_sum = 0;
    for (size_t i = k; i < k + step; ++i) {
      sum += w.q[i] * x.q[i];
      x_sum += x.q[i];
    }
    const float s = x.scale[k / 32];
    y = std::fmaf(static_cast<float>(sum) * s, w.scale[k / 16], y);
    if (dtype == DType::kQ4_K || dtype == DType::kQ5_K)
      y = std::fmaf(-(s * static_cast<float>(x_sum)), w.min[k / 16], y);
  }
  return y;
}

// A product whose bits are known for any first m rows and n_out outputs.
class KnownProduct {
 public:
  KnownProduct(DType dtype, int64_t max_m, int64_t max_out, int64_t n_in)
      : max_out_(max_out),
        n_in_(n_in),
        w_(dtype, max_out, n_in, 7),
        x_(random_values(static_cast<size_t>(max_m * stride()), 11)) {
    std::vector<Codes> rows;
    for (int64_t j = 0; j < max_out; ++j) rows.push_back(read_codes(dtype, row(j), n_in));
    for (int64_t i = 0; i < max_m; ++i) {
      const Activations x(x_.data() + i * stride(), n_in);
      for (int64_t j = 0; j < max_out; ++j)
        y_.push_back(known_product(dtype, rows[static_cast<size_t>(j)], x));
    }
  }

  void expect(Ops& ops, int64_t m, int64_t n_out) const {
    Matrix first = w_.matrix;
    first.n_out = n_out;
    const PackedWeight packed(ops, {first}, Stack::kRows, Precision::kStored);
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

  const std::byte* row(int64_t j) const {
    return w_.bytes.data() + static_cast<size_t>(j) * row_bytes(w_.matrix.dtype, n_in_);
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

TEST_P(BlocksOnEveryTable, give_the_known_bits_around_every_tile_edge) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType dtype : kBlockTypes) {
    const auto& narrow = known(dtype, 51, 130, length_of(dtype));
    for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 25, 29, 50, 51})
      for (int64_t n_out : {1, 15, 16, 17, 33, 63, 64, 65, 130}) narrow.expect(*ops, m, n_out);
    for (int64_t n_blocks : {2, 3, 5, 8}) {
      const auto& wide = known(dtype, 15, 49, n_blocks * length_of(dtype));
      for (int64_t m : {1, 4, 15})
        for (int64_t n_out : {16, 31, 49}) wide.expect(*ops, m, n_out);
    }
  }
}

TEST_P(BlocksOnEveryTable, give_the_known_bits_when_k_is_cut) {
  const auto ops = make_ops(GetParam(), 2, 600, 1536);
  for (DType dtype : kBlockTypes) known(dtype, 600, 40, 1536).expect(*ops, 600, 40);
}

TEST_P(BlocksOnEveryTable, give_the_same_bits_for_any_number_of_threads) {
  for (int n_threads : {1, 3, 5}) {
    const auto ops = make_ops(GetParam(), n_threads);
    for (DType dtype : kBlockTypes) {
      const auto& product = known(dtype, 17, 200, 256);
      product.expect(*ops, 1, 200);
      product.expect(*ops, 17, 200);
    }
  }
}

TEST_P(BlocksOnEveryTable, take_the_bytes_of_the_file) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType dtype : kBlockTypes) {
    for (int64_t n_in : {256, 768, 8960}) {
      const Matrix matrix{dtype, 1600, n_in, nullptr};
      const size_t file = 1600 * row_bytes(dtype, n_in);
      const size_t packed =
          ops->packed_bytes({&matrix, 1}, Stack::kRows, Precision::kStored).value();
      EXPECT_GE(packed, file) << dtype_info(dtype).name;
      EXPECT_LE(packed, file + 100 * 32) << dtype_info(dtype).name;  // 100 panels
    }
  }
}

// |y - exact| <= sum over blocks of half a step of the activations times the magnitudes of the
// weights, and what f32 sums add.
TEST_P(BlocksOnEveryTable, differ_from_exact_activations_by_no_more_than_their_rounding) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 6, n_out = 33, n_in = 1024;
  for (DType dtype : kBlockTypes) {
    const StoredMatrix w(dtype, n_out, n_in, 3);
    const auto x = random_values(m * n_in, 4, -2, 3);
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    std::vector<float> y(m * n_out);
    ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n_out; ++j) {
        double exact = 0, bound = 0, sum = 0;
        for (int64_t b = 0; b < n_in; b += 32) {
          double amax = 0, weights = 0;
          for (int64_t k = b; k < b + 32; ++k) {
            exact += double{x[i * n_in + k]} * w.values[j * n_in + k];
            sum += std::fabs(double{x[i * n_in + k]} * w.values[j * n_in + k]);
            amax = std::max(amax, std::fabs(double{x[i * n_in + k]}));
            weights += std::fabs(double{w.values[j * n_in + k]});
          }
          bound += amax / 127 / 2 * weights;
        }
        // Q4_K subtracts two sums that may be larger than their difference: 16 times covers it.
        ASSERT_NEAR(y[i * n_out + j], exact, bound * 1.0001 + 16 * sum * kEps32 * n_in / 32)
            << dtype_info(dtype).name;
      }
    }
  }
}

TEST_P(BlocksOnEveryTable, add_bias_gate_activation_and_residual) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_out = 35, n_in = 256;
  for (int64_t m : {1, 9}) {
    const StoredMatrix w(DType::kQ4_K, n_out, n_in, 3);
    const auto x = random_values(m * n_in, 4), bias = random_values(n_out, 5),
               gate = random_values(n_out, 6), before = random_values(m * n_out, 8);
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    std::vector<float> plain(m * n_out), y = before;
    ops->linear({x.data(), m, n_in}, packed.weight, {.y = {plain.data(), m, n_out}});
    ops->linear({x.data(), m, n_in}, packed.weight,
                {.y = {y.data(), m, n_out},
                 .bias = bias.data(),
                 .activation = Activation::kSilu,
                 .add = true,
                 .gate = gate.data()});
    for (int64_t i = 0; i < m * n_out; ++i) {
      const auto j = static_cast<size_t>(i % n_out);
      const double wanted =
          before[i] + gate[j] * activate(double{plain[i]} + bias[j], Activation::kSilu);
      ASSERT_NEAR(y[i], wanted, 1e-5);
    }
  }
}

TEST_P(BlocksOnEveryTable, multiply_gate_and_up_in_one_product) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_out = 37, n_in = 256;
  for (DType dtype : kBlockTypes) {
    const StoredMatrix gate(dtype, n_out, n_in, 3), up(dtype, n_out, n_in, 4);
    const PackedWeight pair(*ops, {gate.matrix, up.matrix}, Stack::kPaired, Precision::kStored),
        one(*ops, {gate.matrix}, Stack::kRows, Precision::kStored),
        two(*ops, {up.matrix}, Stack::kRows, Precision::kStored);
    for (int64_t m : {1, 2, 15}) {
      const auto x = random_values(m * n_in, 5);
      std::vector<float> y(m * n_out), a(m * n_out), b(m * n_out);
      ops->gated_linear({x.data(), m, n_in}, pair.weight, Activation::kNone, {y.data(), m, n_out});
      ops->linear({x.data(), m, n_in}, one.weight, {.y = {a.data(), m, n_out}});
      ops->linear({x.data(), m, n_in}, two.weight, {.y = {b.data(), m, n_out}});
      for (int64_t i = 0; i < m * n_out; ++i) ASSERT_EQ(y[i], a[i] * b[i]);
    }
  }
}

TEST_P(BlocksOnEveryTable, give_exact_zeros_for_zero_weights_and_zero_activations) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType dtype : kBlockTypes) {
    StoredMatrix w(dtype, 17, 512, 3);
    std::vector<float> x = random_values(512, 4), y(17, 5.0f);
    std::fill(x.begin() + 32, x.end(), 0.0f);
    std::vector<std::byte> zeros(w.bytes.size());
    const Matrix zero{dtype, 17, 512, zeros.data()};
    const PackedWeight packed(*ops, {zero}, Stack::kRows, Precision::kStored);
    ops->linear({x.data(), 1, 512}, packed.weight, {.y = {y.data(), 1, 17}});
    for (float v : y) EXPECT_EQ(v, 0.0f);
    const PackedWeight real(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    std::fill(x.begin(), x.end(), 0.0f);
    ops->linear({x.data(), 1, 512}, real.weight, {.y = {y.data(), 1, 17}});
    for (float v : y) EXPECT_EQ(v, 0.0f);
  }
}

// The code -128 is no code that Outrider writes, but a file may hold it.
TEST_P(BlocksOnEveryTable, sums_of_the_largest_codes_neither_saturate_nor_overflow) {
  const auto ops = make_ops(GetParam(), 1);
  const int64_t n_in = 4096;
  for (DType dtype : kBlockTypes) {
    for (int fill : {0x00, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> bytes(row_bytes(dtype, n_in), static_cast<std::byte>(fill));
      const auto put_half = [&](size_t at, float value) {
        const uint16_t half = f32_to_f16(value);
        std::memcpy(bytes.data() + at, &half, 2);
      };
      for (size_t at = 0; at < bytes.size(); at += dtype_info(dtype).block_bytes) {
        put_half(at + (dtype == DType::kQ6_K ? 208 : 0), 0.5f);
        if (dtype == DType::kQ4_K || dtype == DType::kQ5_K) put_half(at + 2, 0.25f);
      }
      std::vector<float> x(3 * n_in);
      for (int64_t k = 0; k < n_in; ++k) {
        x[k] = 1;
        x[n_in + k] = -1;
        x[2 * n_in + k] = k % 2 ? 1 : -1;
      }
      const PackedWeight packed(*ops, {{dtype, 1, n_in, bytes.data()}}, Stack::kRows,
                                Precision::kStored);
      float y[3];
      ops->linear({x.data(), 3, n_in}, packed.weight, {.y = {y, 3, 1}});
      const Codes codes = read_codes(dtype, bytes.data(), n_in);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(y[i], known_product(dtype, codes, Activations(x.data() + i * n_in, n_in)))
            << dtype_info(dtype).name << " fill " << fill << " row " << i;
    }
  }
}

// Scales that a file may hold: the smallest, the largest, infinite, not a number.
TEST_P(BlocksOnEveryTable, take_any_scale_and_show_those_that_are_not_finite) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType dtype : kBlockTypes) {
    const int64_t n_in = 512, n_out = 20;
    for (uint16_t half : {0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e01}) {
      StoredMatrix w(dtype, n_out, n_in, 3);
      const size_t row = 3 * row_bytes(dtype, n_in), at = dtype == DType::kQ6_K ? 208 : 0;
      std::memcpy(w.bytes.data() + row + at, &half, 2);
      const auto x = random_values(n_in, 5);
      std::vector<float> y(n_out);
      const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
      ops->linear({x.data(), 1, n_in}, packed.weight, {.y = {y.data(), 1, n_out}});
      const Activations a(x.data(), n_in);
      for (int64_t j = 0; j < n_out; ++j) {
        const Codes codes = read_codes(dtype, w.bytes.data() + j * row_bytes(dtype, n_in), n_in);
        const float wanted = known_product(dtype, codes, a);
        if (std::isfinite(wanted)) {
          EXPECT_EQ(y[j], wanted) << dtype_info(dtype).name << " half " << half << " row " << j;
        } else {
          EXPECT_EQ(j, 3);
          EXPECT_FALSE(std::isfinite(y[j])) << dtype_info(dtype).name << " half " << half;
        }
      }
    }
  }
}

TEST_P(BlocksOnEveryTable, rows_that_are_not_finite_give_nan_and_leave_the_others_alone) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType dtype : kBlockTypes) {
    const int64_t n_in = 512, n_out = 18;
    const StoredMatrix w(dtype, n_out, n_in, 3);
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    for (float bad : {kNan, -kNan, kInf, -kInf}) {
      auto x = random_values(3 * n_in, 5);
      std::vector<float> y(3 * n_out), clean(3 * n_out);
      ops->linear({x.data(), 3, n_in}, packed.weight, {.y = {clean.data(), 3, n_out}});
      x[n_in + 77] = bad;
      ops->linear({x.data(), 3, n_in}, packed.weight, {.y = {y.data(), 3, n_out}});
      for (int64_t j = 0; j < n_out; ++j) {
        EXPECT_EQ(y[j], clean[j]);
        EXPECT_TRUE(std::isnan(y[n_out + j]));
        EXPECT_EQ(y[2 * n_out + j], clean[2 * n_out + j]);
      }
    }
  }
}

TEST_P(BlocksOnEveryTable, activations_at_the_ends_of_the_range) {
  const auto ops = make_ops(GetParam(), 1);
  for (DType dtype : kBlockTypes) {
    const int64_t n_in = 256, n_out = 3;
    const StoredMatrix w(dtype, n_out, n_in, 3);
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    for (float factor : {0x1p-149f, 0x1p-126f, 0x1p-121f, 0x1p-119f, 0x1p+100f, 0x1p+118f}) {
      auto x = random_values(n_in, 5);
      for (float& v : x) v *= factor;
      float y[3];
      ops->linear({x.data(), 1, n_in}, packed.weight, {.y = {y, 1, n_out}});
      for (int64_t j = 0; j < n_out; ++j)
        EXPECT_EQ(y[j],
                  known_product(
                      dtype, read_codes(dtype, w.bytes.data() + j * row_bytes(dtype, n_in), n_in),
                      Activations(x.data(), n_in)))
            << dtype_info(dtype).name << " factor " << factor;
    }
  }
}

TEST_P(BlocksOnEveryTable, stacks_of_one_type_stay_and_of_several_become_q8_0) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_in = 512;
  const StoredMatrix a(DType::kQ4_K, 20, n_in, 3), b(DType::kQ6_K, 7, n_in, 4),
      c(DType::kQ8_0, 9, n_in, 5);
  const auto x = random_values(n_in, 6);
  const PackedWeight mixed(*ops, {a.matrix, b.matrix, c.matrix}, Stack::kRows, Precision::kStored);
  std::vector<float> y(36);
  ops->linear({x.data(), 1, n_in}, mixed.weight, {.y = {y.data(), 1, 36}});
  const Activations quantised(x.data(), n_in);
  int64_t at = 0;
  for (const StoredMatrix* part : {&a, &b, &c}) {
    for (int64_t j = 0; j < part->matrix.n_out; ++j, ++at) {
      std::vector<std::byte> row(row_bytes(DType::kQ8_0, n_in));
      quantize_row(DType::kQ8_0, part->values.data() + j * n_in, row.data(), n_in);
      const bool same = part == &c;
      const std::byte* bytes =
          same ? c.bytes.data() + j * row_bytes(DType::kQ8_0, n_in) : row.data();
      EXPECT_EQ(y[at],
                known_product(DType::kQ8_0, read_codes(DType::kQ8_0, bytes, n_in), quantised));
    }
  }
}

TEST_P(BlocksOnEveryTable, other_types_stay_exact_in_precision_stored) {
  const auto ops = make_ops(GetParam(), 2);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const StoredMatrix w(dtype, 33, 70, 3), blocks(DType::kQ8_0, 5, 64, 3);
    const PackedWeight stored(*ops, {w.matrix}, Stack::kRows, Precision::kStored),
        exact(*ops, {w.matrix}, Stack::kRows, Precision::kF32);
    const auto x = random_values(5 * 70, 4);
    std::vector<float> a(5 * 33), b(5 * 33);
    ops->linear({x.data(), 5, 70}, stored.weight, {.y = {a.data(), 5, 33}});
    ops->linear({x.data(), 5, 70}, exact.weight, {.y = {b.data(), 5, 33}});
    EXPECT_EQ(a, b) << dtype_info(dtype).name;
  }
}

// Vector and scalar tables quantise alike, so packed words may be compared as they are.
TEST_P(BlocksOnEveryTable, write_the_same_words_for_activations) {
  const KernelTable& scalar = *find_kernel_table("scalar").value();
  const KernelTable& table = *find_kernel_table(GetParam().c_str()).value();
  auto x = random_values(320, 9);
  x[40] = kNan;
  std::fill(x.begin() + 96, x.begin() + 128, 0.0f);
  for (int i = 0; i < 32; ++i) x[128 + i] = static_cast<float>(i % 2 ? 1 : -1) * (i + 0.5f);
  x[160] = -63.5f;  // halves to even
  for (int format = 0; format < kBlockFormats; ++format) {
    for (int64_t n_rows : {1, 3}) {
      const auto n = static_cast<size_t>(10 * block_words(format) * n_rows);
      std::vector<uint32_t> a(n, 7), b(n, 7);
      scalar.blocks->quantize(format, x.data(), 10, n_rows, a.data());
      table.blocks->quantize(format, x.data(), 10, n_rows, b.data());
      for (size_t i = 0; i < n; ++i) {
        float u, v;
        std::memcpy(&u, &a[i], 4);
        std::memcpy(&v, &b[i], 4);
        if (std::isnan(u) && std::isnan(v)) continue;  // signs of a NaN may differ
        ASSERT_EQ(a[i], b[i]) << "format " << format << " rows " << n_rows << " word " << i;
      }
    }
  }
}

// Rows of these types lie in wider blocks: the product is that of a file which has them so.
TEST_P(BlocksOnEveryTable, q5_0_and_q3_k_are_multiplied_by_their_exact_numbers) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t n_out = 35, n_in = 512;
  for (const auto& [dtype, format] :
       {std::pair{DType::kQ5_0, kBlockQ8_0}, std::pair{DType::kQ3_K, kBlockQ6_K}}) {
    const DType wide = format == kBlockQ8_0 ? DType::kQ8_0 : DType::kQ6_K;
    const StoredMatrix w(dtype, n_out, n_in, 3);
    std::vector<std::byte> bytes(static_cast<size_t>(n_out) * row_bytes(wide, n_in));
    std::vector<float> values(n_in);
    for (int64_t j = 0; j < n_out; ++j) {
      std::byte* to = bytes.data() + static_cast<size_t>(j) * row_bytes(wide, n_in);
      ASSERT_TRUE(rewrite_blocks(dtype,
                                 w.bytes.data() + static_cast<size_t>(j) * row_bytes(dtype, n_in),
                                 format, n_in, to));
      dequantize_row(wide, to, values.data(), n_in);
      for (int64_t k = 0; k < n_in; ++k)
        ASSERT_EQ(values[size_t(k)], w.values[size_t(j * n_in + k)]) << j << ' ' << k;
    }
    const PackedWeight one(*ops, {w.matrix}, Stack::kRows, Precision::kStored),
        two(*ops, {{wide, n_out, n_in, bytes.data()}}, Stack::kRows, Precision::kStored);
    for (int64_t m : {1, 9}) {
      const auto x = random_values(m * n_in, 5);
      std::vector<float> y(m * n_out), z(m * n_out);
      ops->linear({x.data(), m, n_in}, one.weight, {.y = {y.data(), m, n_out}});
      ops->linear({x.data(), m, n_in}, two.weight, {.y = {z.data(), m, n_out}});
      for (int64_t i = 0; i < m * n_out; ++i) ASSERT_EQ(y[i], z[i]);
    }
  }
}

// Types without blocks of their own here become Q8_0: half a step of 1 / 127 of a block's largest
// value in the weight, and the rounding of the activations, both against the f32 product.
TEST_P(BlocksOnEveryTable, q4_1_q5_1_and_q2_k_stay_within_an_eighth_bit_of_their_values) {
  const auto ops = make_ops(GetParam(), 2);
  const int64_t m = 3, n_out = 33, n_in = 512;
  for (DType dtype : {DType::kQ4_1, DType::kQ5_1, DType::kQ2_K}) {
    const StoredMatrix w(dtype, n_out, n_in, 3);
    const PackedWeight packed(*ops, {w.matrix}, Stack::kRows, Precision::kStored);
    const auto x = random_values(m * n_in, 4);
    std::vector<float> y(m * n_out);
    ops->linear({x.data(), m, n_in}, packed.weight, {.y = {y.data(), m, n_out}});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n_out; ++j) {
        double exact = 0, bound = 0;
        for (int64_t b = 0; b < n_in; b += 32) {
          double x_most = 0, w_most = 0, x_sum = 0, w_sum = 0;
          for (int64_t k = b; k < b + 32; ++k) {
            const double a = x[i * n_in + k], c = w.values[j * n_in + k];
            exact += a * c;
            x_most = std::max(x_most, std::fabs(a)), w_most = std::max(w_most, std::fabs(c));
            x_sum += std::fabs(a), w_sum += std::fabs(c);
          }
          // f16 rounds the scale of a weight block: 2^-11 of its values.
          bound += x_most / 254 * w_sum + (w_most / 254 + w_most / 2048) * x_sum * 1.01;
        }
        ASSERT_NEAR(y[i * n_out + j], exact, bound + 1e-4) << dtype_info(dtype).name;
      }
    }
  }
}

}  // namespace
}  // namespace outrider::test
