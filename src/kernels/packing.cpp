#include "kernels/packing.h"

#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "base/assert.h"
#include "kernels/block_packing.h"
#include "tensor/dtype.h"

namespace outrider {
namespace {

// Rows are read in pieces of this many values: 16 rows of f32 fill half an L1 cache. A multiple of
// every block length.
constexpr int64_t kPieceValues = 256;

// One row of one part; data null: a padding row of zeros.
struct SourceRow {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
};

// The row of output `output` of part-stacked matrices, or a padding row behind the last.
SourceRow find_row(std::span<const Matrix> parts, int64_t output) {
  for (const Matrix& part : parts) {
    if (output < part.n_out) {
      const auto* rows = static_cast<const std::byte*>(part.data);
      return {part.dtype, rows + static_cast<size_t>(output) * row_bytes(part.dtype, part.n_in)};
    }
    output -= part.n_out;
  }
  return {};
}

SourceRow panel_row(std::span<const Matrix> parts, const PackPlan& plan, int64_t panel, int lane) {
  if (!plan.paired) return find_row(parts, panel * kPanelLanes + lane);
  return find_row(parts.subspan(static_cast<size_t>(panel % 2), 1), panel / 2 * kPanelLanes + lane);
}

// Values [k, k + n) of a row as f32; k a multiple of the block length.
void read_f32(const SourceRow& row, int64_t k, int64_t n, float* out) {
  if (row.data == nullptr) {
    std::memset(out, 0, static_cast<size_t>(n) * sizeof(float));
  } else {
    dequantize_row(row.dtype, row.data + row_bytes(row.dtype, k), out, n);
  }
}

// Values [k, k + n) of a row as 16-bit values of the packed type.
void read_16(const SourceRow& row, PackFormat format, int64_t k, int64_t n, uint16_t* out) {
  const bool stored_so =
      format == PackFormat::kF16 ? row.dtype == DType::kF16 : row.dtype == DType::kBf16;
  if (row.data == nullptr) {
    std::memset(out, 0, static_cast<size_t>(n) * 2);
  } else if (stored_so) {
    std::memcpy(out, row.data + static_cast<size_t>(k) * 2, static_cast<size_t>(n) * 2);
  } else {
    OUTRIDER_ASSERT(format != PackFormat::kF16);  // f16 is only taken as it is
    float values[kPieceValues];
    read_f32(row, k, n, values);
    quantize_row(DType::kBf16, values, out, n);
  }
}

// What one thread needs beside its stack: a piece of 16 rows.
struct PieceBuffer {
  alignas(64) uint32_t words[kPanelLanes][kPieceValues + 16];  // + 16: rows in different cache sets
};

// 16 rows of n words to [n][16].
void transpose_words(const PieceBuffer& piece, int64_t n, uint32_t* out) {
  for (int64_t i = 0; i < n; ++i)
    for (int lane = 0; lane < kPanelLanes; ++lane)
      out[i * kPanelLanes + lane] = piece.words[lane][i];
}

void transpose_halves(const PieceBuffer& piece, int64_t n, uint16_t* out) {
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    const auto* row = reinterpret_cast<const uint16_t*>(piece.words[lane]);
    for (int64_t i = 0; i < n; ++i) out[i * kPanelLanes + lane] = row[i];
  }
}

void pack_panel(std::span<const Matrix> parts, const PackPlan& plan, int64_t panel,
                PieceBuffer& piece, std::byte* out) {
  SourceRow rows[kPanelLanes];
  for (int lane = 0; lane < kPanelLanes; ++lane) rows[lane] = panel_row(parts, plan, panel, lane);
  for (int64_t k = 0; k < plan.n_in; k += kPieceValues) {
    const int64_t n = std::min(kPieceValues, plan.n_in - k);
    for (int lane = 0; lane < kPanelLanes; ++lane) {
      uint32_t* words = piece.words[lane];
      if (plan.format == PackFormat::kF32) {
        read_f32(rows[lane], k, n, reinterpret_cast<float*>(words));
      } else {
        auto* halves = reinterpret_cast<uint16_t*>(words);
        read_16(rows[lane], plan.format, k, n, halves);
        if (n % 2 == 1) halves[n] = 0;  // the zero that makes an odd k a pair
      }
    }
    if (plan.format == PackFormat::kF32) {
      transpose_words(piece, n, reinterpret_cast<uint32_t*>(out) + k * kPanelLanes);
    } else if (plan.format == PackFormat::kF16) {
      transpose_halves(piece, n, reinterpret_cast<uint16_t*>(out) + k * kPanelLanes);
    } else {
      transpose_words(piece, (n + 1) / 2, reinterpret_cast<uint32_t*>(out) + k / 2 * kPanelLanes);
    }
  }
}

// The scales of a panel need all values of its rows, so the rows are read twice.
void pack_int8_panel(std::span<const Matrix> parts, const PackPlan& plan, const KernelTable& table,
                     int64_t panel, PieceBuffer& piece, std::byte* out) {
  SourceRow rows[kPanelLanes];
  const float* values[kPanelLanes];
  float amax[kPanelLanes] = {}, inverse[kPanelLanes];
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    rows[lane] = panel_row(parts, plan, panel, lane);
    values[lane] = reinterpret_cast<const float*>(piece.words[lane]);
  }
  const auto read = [&](int lane, int64_t k, int64_t n) {
    read_f32(rows[lane], k, n, reinterpret_cast<float*>(piece.words[lane]));
  };
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    for (int64_t k = 0; k < plan.n_in && amax[lane] == amax[lane]; k += kPieceValues) {
      const int64_t n = std::min(kPieceValues, plan.n_in - k);
      read(lane, k, n);
      const float largest = table.amax_row(values[lane], n);
      if (!(largest <= amax[lane])) amax[lane] = largest;  // a NaN stays
    }
  }
  Int8PanelTail tail;
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    const Int8Scale scale = int8_scale(amax[lane]);
    tail.scale[lane] = scale.scale;
    inverse[lane] = scale.inverse;
  }
  // Sums of weights are products with ones.
  uint8_t ones[kPieceValues];
  std::memset(ones, 1, sizeof ones);
  alignas(64) int32_t sums[kPanelLanes];
  for (int64_t k = 0; k < plan.n_in; k += kPieceValues) {
    const int64_t n = std::min(kPieceValues, plan.n_in - k);
    for (int lane = 0; lane < kPanelLanes; ++lane) read(lane, k, n);
    auto* to = reinterpret_cast<uint8_t*>(out) + k * kPanelLanes;
    table.pack_int8(values, kPanelLanes, n, inverse, 0, to);
    table.tile[kTileInt8][0][0](ones, to, 0, (n + 3) / 4 * 4, reinterpret_cast<float*>(sums),
                                kPanelLanes, k != 0, ones, to);
  }
  for (int lane = 0; lane < kPanelLanes; ++lane) tail.shift[lane] = 128 * sums[lane];
  std::memcpy(out + packed_n_k(plan.format, plan.n_in) * kPanelLanes, &tail, sizeof tail);
}

// Rows in blocks of another type than the panel's: their numbers in its blocks where these hold
// them exactly, else requantised.
void pack_stored_panel(std::span<const Matrix> parts, const PackPlan& plan, int64_t panel,
                       std::byte* requantised, std::byte* out) {
  const std::byte* rows[kPanelLanes];
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    const SourceRow row = panel_row(parts, plan, panel, lane);
    rows[lane] = row.data;
    if (row.data == nullptr || block_format_of(row.dtype) == block_of(plan.format)) continue;
    std::byte* to = requantised + static_cast<size_t>(lane) * row_bytes(DType::kQ8_0, plan.n_in);
    rows[lane] = to;
    if (rewrite_blocks(row.dtype, row.data, block_of(plan.format), plan.n_in, to)) continue;
    for (int64_t k = 0; k < plan.n_in; k += kPieceValues) {
      const int64_t n = std::min(kPieceValues, plan.n_in - k);
      float values[kPieceValues];
      read_f32(row, k, n, values);
      quantize_row(DType::kQ8_0, values, to + row_bytes(DType::kQ8_0, k), n);
    }
  }
  pack_block_panel(block_of(plan.format), rows, plan.n_in, out);
}

// A stack keeps its blocks when all of it is in blocks: of one type as they are (or in the blocks
// that hold them best), of several types as Q8_0, which is finer than the others.
int stored_blocks(std::span<const Matrix> parts) {
  int format = stored_format_of(parts[0].dtype);
  for (const Matrix& part : parts) {
    const int other = stored_format_of(part.dtype);
    if (other < 0 || format < 0) return -1;
    if (other != format) format = kBlockQ8_0;
  }
  return format;
}

Result<PackFormat> choose_format(std::span<const Matrix> parts, Precision precision) {
  if (precision == Precision::kInt8) return PackFormat::kInt8;
  if (precision == Precision::kBf16) return PackFormat::kBf16Rounded;
  if (precision == Precision::kStored && stored_blocks(parts) >= 0)
    return static_cast<PackFormat>(static_cast<int>(PackFormat::kQ8_0) + stored_blocks(parts));
  bool all_f16 = true, all_bf16 = true;
  for (const Matrix& part : parts) {
    all_f16 = all_f16 && part.dtype == DType::kF16;
    all_bf16 = all_bf16 && part.dtype == DType::kBf16;
  }
  return all_f16 ? PackFormat::kF16 : all_bf16 ? PackFormat::kBf16 : PackFormat::kF32;
}

Result<void> check_part(const Matrix& part, const Matrix& first) {
  const DTypeInfo& info = dtype_info(part.dtype);
  if (!info.can_be_weight)
    return make_error(Code::kUnsupported, "weight of type %.*s: no product for it",
                      static_cast<int>(info.name.size()), info.name.data());
  if (part.n_out <= 0 || part.n_in <= 0 || part.n_in > (int64_t{1} << 40))
    return make_error(Code::kShape, "weight [%lld, %lld]: both sizes must be positive",
                      static_cast<long long>(part.n_out), static_cast<long long>(part.n_in));
  if (part.n_in % info.block_values != 0)
    return make_error(Code::kShape, "weight of type %.*s: n_in %lld is no multiple of %u",
                      static_cast<int>(info.name.size()), info.name.data(),
                      static_cast<long long>(part.n_in), info.block_values);
  if (part.n_in != first.n_in)
    return make_error(Code::kShape, "stacked weights: n_in %lld and %lld differ",
                      static_cast<long long>(first.n_in), static_cast<long long>(part.n_in));
  return {};
}

}  // namespace

int64_t packed_n_k(PackFormat format, int64_t n_in) {
  if (format == PackFormat::kInt8) return (n_in + 3) / 4 * 4;
  const bool in_pairs = format == PackFormat::kBf16 || format == PackFormat::kBf16Rounded;
  return in_pairs ? n_in + n_in % 2 : n_in;
}

Int8Scale int8_scale(float amax) {
  if (!(amax <= std::numeric_limits<float>::max()))
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (amax < kInt8Smallest) return {0, 0};
  return {amax / 127, 127 / amax};
}

int64_t packed_panel_bytes(PackFormat format, int64_t n_in) {
  switch (format) {
    case PackFormat::kF32:
      return n_in * kPanelLanes * 4;
    case PackFormat::kF16:
      return n_in * kPanelLanes * 2;
    case PackFormat::kBf16:
    case PackFormat::kBf16Rounded:
      return packed_n_k(format, n_in) * kPanelLanes * 2;
    case PackFormat::kInt8:
      return packed_n_k(format, n_in) * kPanelLanes + static_cast<int64_t>(sizeof(Int8PanelTail));
    case PackFormat::kQ8_0:
    case PackFormat::kQ4_0:
    case PackFormat::kQ4_K:
    case PackFormat::kQ6_K:
    case PackFormat::kQ5_K:
      return block_panel_bytes(block_of(format), n_in);
  }
  return 0;
}

Result<PackPlan> plan_packing(std::span<const Matrix> parts, Stack stack, Precision precision) {
  if (parts.empty()) return make_error(Code::kShape, "weights to pack: none given");
  const bool paired = stack == Stack::kPaired;
  if (paired && (parts.size() != 2 || parts[0].n_out != parts[1].n_out))
    return make_error(Code::kShape, "paired weights: exactly two of equal n_out are wanted");
  auto format = choose_format(parts, precision);
  if (!format) return format.error();
  PackPlan plan;
  plan.format = format.value();
  plan.paired = paired;
  plan.n_in = parts[0].n_in;
  for (const Matrix& part : parts) {
    OUTRIDER_TRY(check_part(part, parts[0]));
    if (__builtin_add_overflow(plan.n_out, part.n_out, &plan.n_out))
      return make_error(Code::kShape, "stacked weights: too many outputs");
  }
  if (plan.format == PackFormat::kInt8 && plan.n_in > kInt8MaxIn)
    return make_error(Code::kShape, "weight [%lld, %lld]: n_in of int8 products is at most %lld",
                      static_cast<long long>(plan.n_out), static_cast<long long>(plan.n_in),
                      static_cast<long long>(kInt8MaxIn));
  if (paired) plan.n_out /= 2;
  plan.n_panels = plan.n_out / kPanelLanes + (plan.n_out % kPanelLanes != 0);
  plan.panel_bytes = packed_panel_bytes(plan.format, plan.n_in);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(plan.n_panels, int64_t{paired ? 2 : 1}, &plan.n_panels) ||
      __builtin_mul_overflow(plan.n_panels, plan.panel_bytes, &bytes))
    return make_error(Code::kShape, "weight [%lld, %lld]: too large to address",
                      static_cast<long long>(plan.n_out), static_cast<long long>(plan.n_in));
  plan.bytes = static_cast<size_t>(bytes);
  return plan;
}

Result<void> pack_weights(std::span<const Matrix> parts, const PackPlan& plan,
                          const KernelTable& table, ThreadPool& pool, std::byte* storage) {
  const int n_threads = pool.n_threads();
  std::unique_ptr<PieceBuffer[]> pieces(new (std::nothrow) PieceBuffer[n_threads]);
  const bool blocks = block_of(plan.format) >= 0;
  bool requantise = false;
  for (const Matrix& part : parts)
    requantise = requantise || (blocks && block_format_of(part.dtype) != block_of(plan.format));
  const size_t rows_bytes = requantise ? kPanelLanes * row_bytes(DType::kQ8_0, plan.n_in) : 1;
  std::unique_ptr<std::byte[]> requantised(new (std::nothrow) std::byte[n_threads * rows_bytes]);
  if (!pieces || !requantised)
    return make_error(Code::kNoMemory, "packing weights: no memory for its buffers");
  pool.run([&](int t) {
    const Range range = part_of(plan.n_panels, t, n_threads);
    for (int64_t panel = range.first; panel < range.last; ++panel) {
      std::byte* out = storage + panel * plan.panel_bytes;
      if (blocks) {
        pack_stored_panel(parts, plan, panel, requantised.get() + t * rows_bytes, out);
      } else if (plan.format == PackFormat::kInt8) {
        pack_int8_panel(parts, plan, table, panel, pieces[t], out);
      } else {
        pack_panel(parts, plan, panel, pieces[t], out);
      }
    }
  });
  return {};
}

}  // namespace outrider
