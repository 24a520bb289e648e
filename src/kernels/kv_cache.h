// The layout of a key/value cache, and how tokens get into it and out again.
//
// Per kv head, in the type that attention multiplies (KvCache::type), quotients rounded up:
//   f32   keys   [capacity / 16][head_dim][16]           16 tokens side by side
//         values [head_dim / 16][capacity][16]           16 dimensions side by side
//   bf16  keys   [capacity / 16][head_dim / 2][16][2]    dimensions in pairs
//         values [head_dim / 16][capacity / 2][16][2]    tokens in pairs
// So keys are a packed weight of scores = q k^T and values one of weights v (kernel_table.h).
//   kQ8_0 8 bits and a scale per 32 dimensions: kv_cache_q8.h
// Missing dimensions are zero. Tokens that nobody stored hold anything.
#pragma once
#include <cstddef>

#include "kernels/kernel_table.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

// Where one head's keys and values are; not of kQ8_0.
struct HeadCache {
  std::byte* keys;
  std::byte* values;
  int64_t key_panel, value_panel;  // bytes from one panel to the next
};

// Bytes of a cache. type: kF32, kBf16 or kQ8_0.
size_t kv_cache_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim, DType type);
HeadCache head_of(const KvCache& cache, int64_t kv_head);

// [hot] k, v [n, n_kv_heads * head_dim] to tokens first .. first + n - 1, rounded to the cache's
// type (nearest, halves to even). No other token changes.
void kv_cache_store(const KvCache& cache, int64_t first, View<const float> k, View<const float> v,
                    const KernelTable& table, ThreadPool& pool) noexcept;
// The values as they are kept. Either may be null.
void kv_cache_load(const KvCache& cache, int64_t first, int64_t n, float* k, float* v) noexcept;

}  // namespace outrider
