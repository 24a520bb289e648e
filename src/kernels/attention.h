// Attention over a key/value cache, and the cache's layout.
//
// Per kv head, f32:
//   keys    [capacity / 16][head_dim][16]   16 tokens side by side: a packed weight of scores = q
//   k^T values  [head_dim / 16][capacity][16]   16 dimensions side by side: a packed weight of p v
// with both quotients rounded up. So scores and weighted sums are products of the same tiles as
// `linear`, and have the same sum order: one chain over head_dim, one chain over keys 0, 1, 2, ...
#pragma once
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

class AttentionRunner {
 public:
  AttentionRunner(const KernelTable& table, ThreadPool& pool) : table_(table), pool_(pool) {}

  // [setup] Errors: kNoMemory.
  Result<void> reserve(int64_t max_keys, int32_t max_head_dim);
  // [hot] A row that sees no key gives zeros. A masked key within n_keys must hold finite values
  // (it enters the sum with weight zero).
  void run(const AttentionArgs& args, const KvCache& cache) noexcept;

 private:
  struct Job;
  void work(const Job& job, int thread_index) noexcept;
  void block(const Job& job, int64_t kv_head, int64_t first_row, int64_t n_rows,
             std::byte* scratch) noexcept;

  const KernelTable& table_;
  ThreadPool& pool_;
  Scratch scratch_;
  size_t thread_bytes_ = 0;
  int64_t max_keys_ = 0;
  int32_t max_head_dim_ = 0;
};

size_t kv_cache_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim);
void kv_cache_store(const KvCache& cache, int64_t first, View<const float> k,
                    View<const float> v) noexcept;
void kv_cache_load(const KvCache& cache, int64_t first, int64_t n, float* k, float* v) noexcept;

}  // namespace outrider
