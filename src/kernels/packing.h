// Weights from the rows of a model file to the panels of kernel_table.h.
#pragma once
#include <cstddef>
#include <span>

#include "base/result.h"
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
  // 5 is kept for int8 with a scale per output: [panel][k / 4][16][4].
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

// Bytes of one panel. Odd n_in is padded by one in the bf16 formats.
int64_t packed_panel_bytes(PackFormat format, int64_t n_in);

// Checks the parts and plans their packed form. Errors: kShape, kUnsupported.
Result<PackPlan> plan_packing(std::span<const Matrix> parts, Stack stack, Precision precision);

// Fills storage (plan.bytes, 64-byte aligned). Works panel by panel: beside the storage only a few
// kilobytes a thread are taken. Errors: kNoMemory.
Result<void> pack_weights(std::span<const Matrix> parts, const PackPlan& plan, ThreadPool& pool,
                          std::byte* storage);

}  // namespace outrider
