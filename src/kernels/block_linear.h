// Products with weights in blocks (block_format.h): how they are cut and shared between threads.
#pragma once
#include <span>

#include "kernels/linear.h"

namespace outrider {

// Memory of LinearRunner that a product may write.
struct BlockScratch {
  std::span<std::byte> activations;  // rows * n_in * 44 / 32 bytes and more
  std::byte* sums;                   // sums_bytes for each thread, 64-byte aligned
  int64_t sums_bytes;
  float* normed;  // normed_values for each thread: a row behind its norm
  int64_t normed_values;
};

// Bytes of activations for so many rows of n_in values.
int64_t block_activation_bytes(int64_t rows, int64_t n_in);

// [hot] Linear or, when the weight is paired, gated product. The same bits for any number of
// threads, any table, and a row alone or among others; up to the activation function.
void run_blocks(const KernelTable& table, ThreadPool& pool, const BlockScratch& scratch,
                const Product& product) noexcept;

}  // namespace outrider
