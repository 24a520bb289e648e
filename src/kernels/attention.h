// Attention over a key/value cache (kv_cache.h).
//
// Scores are never all in memory. Keys are taken in blocks of kAttentionBlockKeys from key 0 on
// (blocks that no row of a tile sees are left out, which changes no bit of another row);
// a block's scores become weights against the largest score so far, and what was summed before is
// multiplied by exp(old largest - new largest). So an output element is a chain over keys
// 0, 1, 2, ... (in pairs with bf16 dot instructions) that is rescaled at block borders: the same
// for any number of threads and any rows beside it.
//
// Products are the tiles of `linear`. With a bf16 cache queries and weights are rounded to bf16;
// the sum of weights is that of the unrounded ones. A cache in 8 bits is widened to f32 block by
// block, once for all rows of a pass, and multiplied as an f32 one.
#pragma once
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

constexpr int64_t kAttentionBlockKeys = 256;  // even, a multiple of kPanelLanes

class AttentionRunner {
 public:
  AttentionRunner(const KernelTable& table, ThreadPool& pool) : table_(table), pool_(pool) {}

  // [setup] Errors: kNoMemory.
  // eight_bits: caches of type kQ8_0 will come.
  Result<void> reserve(int64_t max_keys, int32_t max_head_dim, bool eight_bits);
  // [hot] A row that sees no key gives zeros. A masked key within n_keys must hold finite values
  // (it enters the sum with weight zero).
  void run(const AttentionArgs& args, const KvCache& cache) noexcept;

 private:
  struct Job;
  class Block;
  void work(const Job& job, int thread_index) noexcept;

  const KernelTable& table_;
  ThreadPool& pool_;
  Scratch scratch_;
  size_t thread_bytes_ = 0;
  int64_t max_keys_ = 0;
  int32_t max_head_dim_ = 0;
  bool eight_bits_ = false;
};

}  // namespace outrider
