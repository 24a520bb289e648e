// Weights from the rows of a model file to the panels of kernel_table.h.
#pragma once
#include <cstddef>
#include <span>

#include "base/result.h"
#include "kernels/block_format.h"
#include "kernels/kernel_table.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

// What Weight::format says. The numbers stay: a packed form may be kept on disk.
enum class PackFormat : uint32_t {
  kF32 = 1,          // [panel][k][16] f32
  kF16 = 2,          // [panel][k][16] f16, f32 activations
  kBf16 = 3,         // [panel][k / 2][16][2] bf16, f32 activations
  kBf16Rounded = 4,  // the same bytes as kBf16; activations are rounded to bf16 too
  kInt8 = 5,         // [panel][k / 4][16][4] int8 + Int8PanelTail; activations become int8 too
  // The blocks of the file (block_format.h); activations become int8 in blocks of 32.
  kQ8_0 = 6,
  kQ4_0 = 7,
  kQ4_K = 8,
  kQ6_K = 9,
  kQ5_K = 10,
};
inline constexpr uint32_t kPackFormatMask = 0xff;
inline constexpr uint32_t kPackPaired = 0x100;  // panels alternate: gate 0, up 0, gate 1, up 1, ...

struct PackPlan {
  PackFormat format = PackFormat::kF32;
  bool paired = false;
  int64_t n_out = 0;  // rows of y: all parts one after the other, or those of one of a pair
  int64_t n_in = 0;
  int64_t n_panels = 0;  // both members of a pair counted
  int64_t panel_bytes = 0;
  size_t bytes = 0;  // panels * panel_bytes
};

// The BlockFormat, or -1 where blocks are not kept.
constexpr int block_of(PackFormat format) {
  const int block = static_cast<int>(format) - static_cast<int>(PackFormat::kQ8_0);
  return block >= 0 && block < kBlockFormats ? block : -1;
}
// n_in as packed: padded to even in the bf16 formats, to a multiple of 4 for int8.
int64_t packed_n_k(PackFormat format, int64_t n_in);
// Bytes of one panel.
int64_t packed_panel_bytes(PackFormat format, int64_t n_in);

// How a row with this largest magnitude (KernelTable::amax_row) becomes int8.
struct Int8Scale {
  float scale, inverse;  // of a row that is not finite: NaN and 0; of one of zeros: 0 and 0
};
Int8Scale int8_scale(float amax);

// Checks the parts and plans their packed form. Errors: kShape, kUnsupported.
Result<PackPlan> plan_packing(std::span<const Matrix> parts, Stack stack, Precision precision);

// Fills storage (plan.bytes, 64-byte aligned). Works panel by panel: beside the storage only a few
// kilobytes a thread are taken. Errors: kNoMemory.
Result<void> pack_weights(std::span<const Matrix> parts, const PackPlan& plan,
                          const KernelTable& table, ThreadPool& pool, std::byte* storage);

}  // namespace outrider
