#include "kernels/block_linear.h"

#include <algorithm>

#include "base/assert.h"
#include "kernels/block_format.h"

namespace outrider {
namespace {

// Values of k of one pass over a group of panels: 16 kB of 8-bit codes a pair, so that they stay in
// L1 for all row tiles.
constexpr int64_t kBlocksAPass = 512 / kBlockValues;
// Activations that stay in L2 while a chunk of panels goes over them.
constexpr int64_t kActivationBytes = 512 * 1024;
// One row tile goes through its panels one by one, so that memory is read from front to back: what
// the processor fetches ahead by itself then reaches its read bandwidth. Tried without gain: two or
// four panels side by side (50 to 90 % of it where rows are short), fetching 1 to 16 kB ahead to L1
// or L2 by instruction (75 to 95 %).
// Below it one thread quantises faster than two meet.
constexpr int64_t kAloneValues = 16 * 1024;

struct BlockJob {
  BlockJob(const Product& p, const KernelTable& t, int threads)
      : product(p),
        table(t),
        kernels(*t.blocks),
        tiles(p.x.rows, t.blocks->max_rows),
        n_threads(threads) {
    format = block_of(static_cast<PackFormat>(p.w.format & kPackFormatMask));
    unit = (p.w.format & kPackPaired) != 0 ? 2 : 1;
    words = block_words(format);
    n_blocks = p.w.n_in / kBlockValues;
    panel_bytes = block_panel_bytes(format, p.w.n_in);
    n_units = (p.w.n_out + kPanelLanes - 1) / kPanelLanes;
    group = kBlockMaxPanels;
    if (tiles.n_tiles > 1) group = 2;
  }

  // Words of the activations before a row tile, at its first block.
  int64_t offset(int64_t tile, int64_t block) const {
    return (tiles.first(tile) * n_blocks + block * tiles.rows(tile)) * words;
  }

  const Product& product;
  const KernelTable& table;
  const BlockKernels& kernels;
  RowTiles tiles;
  int n_threads;
  int format = 0, words = 0;
  int64_t unit = 1, n_units = 0;  // panels that belong together, and how many of those
  int64_t n_blocks = 0, panel_bytes = 0;
  int64_t group = 2;  // panels computed together; a pair is never torn
};

// Every row alone: its words go between those of the other rows of its tile.
void quantize(const BlockJob& job, ThreadPool& pool, const BlockScratch& scratch,
              uint32_t* out) noexcept {
  const View<const float>& x = job.product.x;
  const auto rows = [&](Range range, int t) {
    float* room = scratch.normed + t * scratch.normed_values;
    for (int64_t row = range.first; row < range.last; ++row) {
      const int64_t longer = job.tiles.n_longer * (job.tiles.base + 1);
      const int64_t tile = row < longer ? row / (job.tiles.base + 1)
                                        : job.tiles.n_longer + (row - longer) / job.tiles.base;
      job.kernels.quantize(job.format, left_row(job.table, job.product, row, room), job.n_blocks,
                           job.tiles.rows(tile),
                           out + job.offset(tile, 0) + (row - job.tiles.first(tile)));
    }
  };
  if (x.rows == 1 || x.rows * x.cols <= kAloneValues) return rows({0, x.rows}, 0);
  pool.run([&](int t) { rows(part_of(x.rows, t, job.n_threads), t); });
}

// One thread's way through its panels. Outer to inner: chunks of panels whose sums fit the buffer,
// blocks of k, groups of panels, row tiles. One row tile goes through all of k at once.
class BlockWalk {
 public:
  BlockWalk(const BlockJob& job, const uint32_t* activations, const BlockScratch& scratch,
            int thread_index)
      : job_(job),
        activations_(activations),
        sums_(reinterpret_cast<float*>(scratch.sums + thread_index * scratch.sums_bytes)),
        tile_values_(job.tiles.rows(0) * job.group * kPanelLanes),
        n_fit_(scratch.sums_bytes / 4 / tile_values_) {}

  void run(Range units) noexcept {
    const int64_t last_panel = units.last * job_.unit;
    const int64_t chunk_tiles = std::min(job_.tiles.n_tiles, n_fit_);
    int64_t pass = job_.n_blocks;
    if (job_.tiles.n_tiles > 1) {
      const int64_t row_bytes = int64_t{job_.words} * 4;
      const int64_t fits =
          kActivationBytes / (chunk_tiles * job_.tiles.rows(0) * row_bytes) / 8 * 8;
      pass = std::clamp<int64_t>(fits, 8, kBlocksAPass);
    }
    const bool whole = pass >= job_.n_blocks;
    const int64_t chunk_panels = whole ? job_.group : n_fit_ / chunk_tiles * job_.group;
    for (int64_t t = 0; t < job_.tiles.n_tiles; t += chunk_tiles) {
      const Range tiles{t, std::min(t + chunk_tiles, job_.tiles.n_tiles)};
      for (int64_t p = units.first * job_.unit; p < last_panel; p += chunk_panels) {
        const Range panels{p, std::min(p + chunk_panels, last_panel)};
        for (int64_t b = 0; b < job_.n_blocks; b += pass)
          blocks(tiles, panels, b, std::min(pass, job_.n_blocks - b));
      }
    }
  }

 private:
  void blocks(Range tiles, Range panels, int64_t first, int64_t n) noexcept {
    for (int64_t p = panels.first; p < panels.last; p += job_.group) {
      const int64_t n_panels = std::min(job_.group, panels.last - p);
      const int64_t slot = (p - panels.first) / job_.group * (tiles.last - tiles.first);
      for (int64_t i = tiles.first; i < tiles.last; ++i) {
        float* sums = sums_ + (slot + i - tiles.first) * tile_values_;
        multiply(i, p, n_panels, first, n, sums);
        if (first + n == job_.n_blocks) finish(i, p, n_panels, sums);
      }
    }
  }

  void multiply(int64_t tile, int64_t panel, int64_t n_panels, int64_t first, int64_t n,
                float* sums) const noexcept {
    const int64_t rows = job_.tiles.rows(tile), stride = job_.group * kPanelLanes;
    const uint32_t* a = activations_ + job_.offset(tile, first);
    for (int64_t p = 0; p < n_panels;) {
      int shape = job_.tiles.n_tiles == 1 ? 0 : kBlockTileShapes - 1;
      const auto& tiles = job_.kernels.tile[job_.format];
      while (shape > 0 && (int64_t{1} << shape > n_panels - p || !tiles[shape][rows - 1])) --shape;
      tiles[shape][rows - 1](a, weights(panel + p), job_.panel_bytes, first, n,
                             sums + p * kPanelLanes, stride, first != 0);
      p += int64_t{1} << shape;
    }
  }

  // A tile whose sums are complete, to y.
  void finish(int64_t row_tile, int64_t panel, int64_t n_panels, const float* sums) noexcept {
    const LinearOut& out = job_.product.out;
    const int64_t column = panel / job_.unit * kPanelLanes;
    TileOut to = {};
    to.y = out.y.row(job_.tiles.first(row_tile)) + column;
    to.y_stride = out.y.stride;
    to.n_rows = static_cast<int32_t>(job_.tiles.rows(row_tile));
    to.n_cols = static_cast<int32_t>(
        std::min(n_panels / job_.unit * kPanelLanes, job_.product.w.n_out - column));
    to.bias = out.bias ? out.bias + column : nullptr;
    to.gate = out.gate ? out.gate + column : nullptr;
    to.activation = static_cast<int32_t>(out.activation);
    to.add = out.add;
    const auto finish_tile = job_.unit == 2 ? job_.table.gated_tile_out : job_.table.tile_out;
    finish_tile(sums, job_.group * kPanelLanes, &to);
  }

  const std::byte* weights(int64_t panel) const {
    return static_cast<const std::byte*>(job_.product.w.data) + panel * job_.panel_bytes;
  }

  const BlockJob& job_;
  const uint32_t* activations_;
  float* sums_;
  const int64_t tile_values_;  // floats of a row tile and a group of panels
  const int64_t n_fit_;        // of them in the buffer
};

}  // namespace

int64_t block_activation_bytes(int64_t rows, int64_t n_in) {
  return rows * (n_in / kBlockValues) * block_words(kBlockQ6_K) * 4;
}

void run_blocks(const KernelTable& table, ThreadPool& pool, const BlockScratch& scratch,
                const Product& product) noexcept {
  const BlockJob job(product, table, pool.n_threads());
  OUTRIDER_ASSERT(block_activation_bytes(product.x.rows, product.x.cols) <=
                  static_cast<int64_t>(scratch.activations.size()));
  auto* activations = reinterpret_cast<uint32_t*>(scratch.activations.data());
  quantize(job, pool, scratch, activations);
  // Whole groups a thread while there are many of them.
  const int64_t units_a_group = job.group / job.unit;
  const int64_t grain = job.n_units >= 8 * units_a_group * job.n_threads ? units_a_group : 1;
  const int64_t n_grains = (job.n_units + grain - 1) / grain;
  pool.run([&](int t) {
    const Range grains = part_of(n_grains, t, job.n_threads);
    const Range units{grains.first * grain, std::min(grains.last * grain, job.n_units)};
    if (units.first < units.last) BlockWalk(job, activations, scratch, t).run(units);
  });
}

}  // namespace outrider
