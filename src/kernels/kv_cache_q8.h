// A key/value cache in 8 bits (KvCache::type kQ8_0): what kv_cache.h does for it.
//
// Each token's keys of one head are cut in blocks of 32 dimensions, and so are its values. A block
// becomes whole numbers q in [-127, 127] and one scale, x = scale * q, where scale is the block's
// largest magnitude / 127, rounded up to bfloat16. So a value errs by at most half a scale, which
// is below largest / 252 (1/254 and at most 2^-7 of it); blocks whose largest is below
// kInt8Smallest become zeros. A block with a value that is not finite gives NaN everywhere.
// 34 bytes hold 32 values: 53 % of a bf16 cache, 27 % of an f32 one.
//
// Layout per kv head, quotients rounded up:
//   keys    [capacity / 16]{ i8 [head_dim][16], bf16 [head_dim / 32][16] }   scales behind a panel
//   values  i8 [head_dim / 16][capacity][16], then scales bf16 [head_dim / 32][capacity]
#pragma once
#include <cstddef>

#include "kernels/kernel_table.h"
#include "tensor/ops.h"

namespace outrider {

constexpr int64_t kQ8Block = 32;

// Bytes of one kv head.
int64_t kv_q8_bytes(int64_t capacity, int64_t head_dim);
// [hot] Rows of k, v [n, head_dim] to tokens first .. first + n - 1 of one head. No other changes.
void kv_q8_store(const KvCache& cache, int64_t kv_head, int64_t first, View<const float> k,
                 View<const float> v) noexcept;
// The values as they are kept.
float kv_q8_key(const KvCache& cache, int64_t kv_head, int64_t token, int64_t d) noexcept;
float kv_q8_value(const KvCache& cache, int64_t kv_head, int64_t token, int64_t d) noexcept;

// [hot] Tokens [first, first + n) as f32 panels, first a multiple of 16. Keys: [n / 16][head_dim]
// [16] (tokens beyond n hold anything); values: [head_dim / 16][stride][16], of which n rows are
// written, n <= 256.
void kv_q8_widen_keys(const KvCache& cache, int64_t kv_head, int64_t first, int64_t n,
                      const KernelTable& table, float* out) noexcept;
void kv_q8_widen_values(const KvCache& cache, int64_t kv_head, int64_t first, int64_t n,
                        int64_t stride, const KernelTable& table, float* out) noexcept;

}  // namespace outrider
