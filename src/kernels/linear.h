// Matrix products with packed weights: how rows, outputs and k are cut into tiles and shared
// between threads. None of these cuts changes a bit of the result (kernel_table.h, sum order).
#pragma once
#include "kernels/kernel_table.h"
#include "kernels/packing.h"
#include "kernels/scratch.h"
#include "kernels/thread_pool.h"
#include "tensor/view.h"

namespace outrider {

// m rows cut into the fewest tiles of at most max_rows, as even as possible: 50 = 13 + 13 + 12
// + 12.
struct RowTiles {
  int64_t n_tiles = 0, base = 0, n_longer = 0;

  RowTiles(int64_t m, int32_t max_rows)
      : n_tiles((m + max_rows - 1) / max_rows), base(m / n_tiles), n_longer(m % n_tiles) {}
  int64_t rows(int64_t i) const { return base + (i < n_longer); }
  int64_t first(int64_t i) const { return i * base + (i < n_longer ? i : n_longer); }
};

// A product's right side and what happens to its result.
struct Product {
  View<const float> x;
  Weight w;
  LinearOut out;
  RowNorm norm;  // of x
};

// Row `row` of the product's left side as it is multiplied: its own, or normalised in `room`
// (x.cols floats).
const float* left_row(const KernelTable& table, const Product& product, int64_t row,
                      float* room) noexcept;

// The widest tile of `format` with that many rows that is not wider than max_panels; sets *panels.
TileFn widest_tile(const KernelTable& table, TileFormat format, int64_t rows, int64_t max_panels,
                   int* panels);

// Computes one row tile against panels [0, n_panels) of w at some k, narrower tiles at the end.
// next_a, next_w: hints, see TileFn.
void run_tiles(const KernelTable& table, TileFormat format, const void* a, int64_t rows,
               const std::byte* w, int64_t panel_bytes, int64_t n_panels, int64_t n_k, float* tile,
               int64_t tile_stride, bool accumulate, const void* next_a, const void* next_w);

class LinearRunner {
 public:
  LinearRunner(const KernelTable& table, ThreadPool& pool) : table_(table), pool_(pool) {}

  // [setup] Errors: kNoMemory.
  Result<void> reserve(int64_t max_rows, int64_t max_in);
  // [hot] Linear or, when the weight is paired, gated product.
  void run(const Product& product) noexcept;

 private:
  struct Job;
  class Walk;
  void pack(const Job& job, Range units, int thread_index) noexcept;
  void pack_rows(const Job& job, const float* const* rows, int64_t tile, int64_t k,
                 int64_t n) noexcept;
  void quantize_rows(const Job& job, const float* const* rows, int64_t tile) noexcept;
  void multiply(const Job& job, int part, int thread_index) noexcept;
  void run_own_rows(const Product& product, int thread_index) noexcept;

  const KernelTable& table_;
  ThreadPool& pool_;
  Scratch activations_, row_scales_, tiles_, widened_;
  Scratch normed_;  // a row tile a thread
  int64_t normed_cols_ = 0;
};

}  // namespace outrider
