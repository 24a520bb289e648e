#include "kernels/linear.h"

#include <algorithm>

#include "base/assert.h"

namespace outrider {
namespace {

// Partial sums of one thread while k is cut: half of a 1 MB L2 cache.
constexpr int64_t kTileBufferBytes = 512 * 1024;
// Activations of one k block: what is left of L2 beside partial sums and streaming weights.
constexpr int64_t kActivationBlockBytes = 768 * 1024;
constexpr int64_t kMinKBlock = 256;
// 16-bit weights are widened once for all row tiles when there are at least so many of them, in
// blocks of at most this many k: two panels of f32 are then 128 kB.
constexpr int64_t kWidenTiles = 8;
constexpr int64_t kWidenKBlock = 1024;
constexpr int64_t kWidenPanels = 2;
// Rows that share one pass over the weights.
constexpr int64_t kMaxChunkRows = 1024;
// Below this many values one thread packs the activations faster than two threads meet.
constexpr int64_t kAlonePackValues = 8 * 1024;
constexpr int64_t kPackSegment = 2048;

int floor_log2(int64_t n) {
  return 63 - __builtin_clzll(static_cast<uint64_t>(n));
}

bool in_pairs(PackFormat format) {
  return format == PackFormat::kBf16 || format == PackFormat::kBf16Rounded;
}

}  // namespace

// One product, cut.
struct LinearRunner::Job {
  Job(const Product& p, const KernelTable& table, int n_threads)
      : product(p), tiles(p.x.rows, table.max_rows) {
    format = static_cast<PackFormat>(p.w.format & kPackFormatMask);
    paired = (p.w.format & kPackPaired) != 0;
    round = format == PackFormat::kBf16Rounded;
    tile_format = format == PackFormat::kF32   ? kTileF32
                  : format == PackFormat::kF16 ? kTileF16
                                               : kTileBf16;
    if (round && table.tile[kTileBf16Dot][0][0] != nullptr) tile_format = kTileBf16Dot;
    a_bytes = tile_format == kTileBf16Dot ? 2 : 4;
    w_bytes = format == PackFormat::kF32 ? 4 : 2;
    n_k = p.w.n_in + (in_pairs(format) ? p.w.n_in % 2 : 0);
    panel_bytes = packed_panel_bytes(format, p.w.n_in);
    unit = paired ? 2 : 1;
    n_units = (p.w.n_out + kPanelLanes - 1) / kPanelLanes;
    int panels = 0;
    widest_tile(table, tile_format, tiles.rows(0), kTileMaxPanels, &panels);
    group = std::max<int64_t>(panels, 2);  // panels; a pair is never torn
    widen = w_bytes == 2 && a_bytes == 4 && tiles.n_tiles >= kWidenTiles && group <= kWidenPanels;
    k_block = choose_k_block();
    if (widen) k_block = std::min(k_block, kWidenKBlock);
    share(n_threads);
  }

  // All of k when the activations of a chunk of rows fit the cache that way.
  int64_t choose_k_block() const {
    const int64_t rows = std::min(product.x.rows, kMaxChunkRows);
    const int64_t fits = std::max(kActivationBlockBytes / (rows * a_bytes) / 64 * 64, kMinKBlock);
    if (n_k <= fits + fits / 4) return n_k;
    const int64_t n_blocks = (n_k + fits - 1) / fits;
    return ((n_k + n_blocks - 1) / n_blocks + 63) / 64 * 64;
  }

  // Outputs first; rows too when there are more threads than panels.
  void share(int n_threads) {
    const int64_t units_per_group = group / unit,
                  n_groups = (n_units + units_per_group - 1) / units_per_group;
    grain = n_groups % n_threads == 0 || n_groups >= 8 * n_threads ? units_per_group : 1;
    const int64_t n_grains = (n_units + grain - 1) / grain;
    n_output_parts = static_cast<int>(std::min<int64_t>(n_threads, n_grains));
    n_row_parts = static_cast<int>(std::min<int64_t>(n_threads / n_output_parts, tiles.n_tiles));
  }

  Range panels_of(int part) const {
    const Range grains = part_of((n_units + grain - 1) / grain, part, n_output_parts);
    return {grains.first * grain * unit, std::min(grains.last * grain, n_units) * unit};
  }

  // Where the packed activations of a row tile begin at k.
  int64_t activation_offset(int64_t tile, int64_t k) const {
    return (tiles.first(tile) * n_k + k * tiles.rows(tile)) * a_bytes;
  }

  const Product& product;
  RowTiles tiles;
  PackFormat format;
  TileFormat tile_format;
  bool paired, round, widen;
  int64_t a_bytes, w_bytes, n_k, panel_bytes;
  int64_t unit;     // panels that belong together
  int64_t n_units;  // panels, or pairs of them
  int64_t group;    // panels computed together
  int64_t grain;    // units that one thread takes at once
  int64_t k_block;
  int n_output_parts = 1, n_row_parts = 1;
};

TileFn widest_tile(const KernelTable& table, TileFormat format, int64_t rows, int64_t max_panels,
                   int* panels) {
  for (int log = std::min(floor_log2(max_panels), 3); log > 0; --log) {
    if (TileFn tile = table.tile[format][log][rows - 1]) {
      *panels = 1 << log;
      return tile;
    }
  }
  *panels = 1;
  return table.tile[format][0][rows - 1];
}

void run_tiles(const KernelTable& table, TileFormat format, const void* a, int64_t rows,
               const std::byte* w, int64_t panel_bytes, int64_t n_panels, int64_t n_k, float* tile,
               int64_t tile_stride, bool accumulate, const void* next_a, const void* next_w) {
  while (n_panels > 0) {
    int panels = 0;
    const TileFn fn = widest_tile(table, format, rows, n_panels, &panels);
    fn(a, w, panel_bytes, n_k, tile, tile_stride, accumulate, next_a, next_w);
    w += panels * panel_bytes;
    tile += panels * kPanelLanes;
    n_panels -= panels;
  }
}

Result<void> LinearRunner::reserve(int64_t max_rows, int64_t max_in) {
  int64_t values = 0;
  if (max_rows < 0 || max_in < 0 || __builtin_mul_overflow(max_rows, max_in + 1, &values) ||
      values > INT64_MAX / 8)
    return make_error(Code::kNoMemory, "kernels: scratch for %lld rows of %lld cannot be addressed",
                      static_cast<long long>(max_rows), static_cast<long long>(max_in));
  OUTRIDER_TRY(activations_.reserve(static_cast<size_t>(values) * sizeof(float)));
  OUTRIDER_TRY(widened_.reserve(static_cast<size_t>(kWidenPanels * kWidenKBlock * kPanelLanes * 4) *
                                pool_.n_threads()));
  OUTRIDER_TRY(tiles_.reserve(static_cast<size_t>(kTileBufferBytes) * pool_.n_threads()));
  return {};
}

void LinearRunner::run(const Product& product) noexcept {
  const View<const float>& x = product.x;
  if (x.rows == 0) return;
  OUTRIDER_ASSERT(x.cols == product.w.n_in && x.stride >= x.cols);
  OUTRIDER_ASSERT(product.out.y.rows == x.rows && product.out.y.cols == product.w.n_out);
  OUTRIDER_ASSERT(product.out.y.data != x.data);
  OUTRIDER_ASSERT(static_cast<size_t>(x.rows) * static_cast<size_t>(x.cols + 1) * sizeof(float) <=
                  activations_.bytes());
  const Job job(product, table_, pool_.n_threads());
  pack_activations(job);
  pool_.run([&](int t) { multiply(job, t); });
}

void LinearRunner::pack_activations(const Job& job) noexcept {
  const View<const float>& x = job.product.x;
  const int64_t n_segments = (x.cols + kPackSegment - 1) / kPackSegment;
  const auto pack = [&](int64_t unit) {
    const int64_t tile = unit / n_segments, k = unit % n_segments * kPackSegment;
    const int64_t n = std::min(kPackSegment, x.cols - k);
    const auto n_rows = static_cast<int32_t>(job.tiles.rows(tile));
    const float* rows[kTileMaxRows];
    for (int32_t r = 0; r < n_rows; ++r) rows[r] = x.row(job.tiles.first(tile) + r) + k;
    auto* out = activations_.data() + job.activation_offset(tile, k);
    if (job.tile_format == kTileBf16Dot) {
      table_.pack_bf16(rows, n_rows, n, reinterpret_cast<uint16_t*>(out));
    } else {
      table_.pack_f32(rows, n_rows, n, job.round, in_pairs(job.format),
                      reinterpret_cast<float*>(out));
    }
  };
  const int64_t n_units = job.tiles.n_tiles * n_segments;
  if (n_units == 1 || x.rows * x.cols <= kAlonePackValues) {
    for (int64_t unit = 0; unit < n_units; ++unit) pack(unit);
    return;
  }
  pool_.run([&](int t) {
    const Range range = part_of(n_units, t, pool_.n_threads());
    for (int64_t unit = range.first; unit < range.last; ++unit) pack(unit);
  });
}

// A tile whose sums are complete, to y.
void LinearRunner::finish(const Job& job, int64_t row_tile, int64_t panel, int64_t n_panels,
                          const float* tile, int64_t tile_stride) noexcept {
  const LinearOut& out = job.product.out;
  const int64_t column = panel / job.unit * kPanelLanes;
  TileOut to;
  to.y = out.y.row(job.tiles.first(row_tile)) + column;
  to.y_stride = out.y.stride;
  to.n_rows = static_cast<int32_t>(job.tiles.rows(row_tile));
  to.n_cols = static_cast<int32_t>(
      std::min(n_panels / job.unit * kPanelLanes, job.product.w.n_out - column));
  to.bias = out.bias ? out.bias + column : nullptr;
  to.gate = out.gate ? out.gate + column : nullptr;
  to.activation = static_cast<int32_t>(out.activation);
  to.add = out.add;
  (job.paired ? table_.gated_tile_out : table_.tile_out)(tile, tile_stride, &to);
}

// Outer to inner: rows that share a pass, some groups of panels, blocks of k, groups, row tiles. So
// a group's weights stay in L1 or L2 for all row tiles, and the partial sums of the groups in L2.
void LinearRunner::multiply(const Job& job, int thread_index) noexcept {
  if (thread_index >= job.n_output_parts * job.n_row_parts) return;
  const Range panels = job.panels_of(thread_index % job.n_output_parts);
  const Range tiles =
      part_of(job.tiles.n_tiles, thread_index / job.n_output_parts, job.n_row_parts);
  auto* buffer = reinterpret_cast<float*>(tiles_.data() + thread_index * kTileBufferBytes);
  const int64_t tile_stride = job.group * kPanelLanes;
  const bool one_block = job.k_block >= job.n_k;
  const int64_t tile_values = job.tiles.rows(0) * tile_stride;
  const int64_t n_fit = kTileBufferBytes / 4 / tile_values;  // tiles that the buffer holds
  const int64_t chunk_tiles =
      std::min({tiles.last - tiles.first, kMaxChunkRows / job.tiles.rows(0), n_fit});
  const int64_t chunk_panels = (one_block ? 1 : n_fit / chunk_tiles) * job.group;
  const auto* w = static_cast<const std::byte*>(job.product.w.data);
  auto* widened = reinterpret_cast<float*>(widened_.data()) +
                  thread_index * kWidenPanels * kWidenKBlock * kPanelLanes;
  const TileFormat tile_format = job.widen ? kTileF32 : job.tile_format;

  for (int64_t t0 = tiles.first; t0 < tiles.last; t0 += chunk_tiles) {
    const int64_t t1 = std::min(t0 + chunk_tiles, tiles.last);
    for (int64_t p0 = panels.first; p0 < panels.last; p0 += chunk_panels) {
      const int64_t p1 = std::min(p0 + chunk_panels, panels.last);
      for (int64_t k = 0; k < job.n_k; k += job.k_block) {
        const int64_t n_k = std::min(job.k_block, job.n_k - k);
        for (int64_t p = p0; p < p1; p += job.group) {
          const int64_t n_panels = std::min(job.group, p1 - p);
          const int64_t k_bytes = kPanelLanes * job.w_bytes;
          const std::byte* w_block = w + p * job.panel_bytes + k * k_bytes;
          // What this thread multiplies after this block.
          const std::byte* next_block = nullptr;
          if (p + job.group < p1) {
            next_block = w_block + job.group * job.panel_bytes;
          } else if (k + n_k < job.n_k) {
            next_block = w + p0 * job.panel_bytes + (k + n_k) * k_bytes;
          } else if (p1 < panels.last) {
            next_block = w + p1 * job.panel_bytes;
          }
          const std::byte* tile_w = w_block;
          int64_t panel_bytes = job.panel_bytes;
          if (job.widen) {
            panel_bytes = n_k * kPanelLanes * 4;
            tile_w = reinterpret_cast<const std::byte*>(widened);
            for (int64_t j = 0; j < n_panels; ++j)
              table_.widen_panel(job.tile_format, w_block + j * job.panel_bytes, n_k,
                                 widened + j * n_k * kPanelLanes);
          }
          for (int64_t i = t0; i < t1; ++i) {
            const int64_t slot = one_block ? 0 : (p - p0) / job.group * (t1 - t0) + (i - t0);
            float* tile = buffer + slot * tile_values;
            // The next row tile's activations, and in turn the panels of the next group.
            const int64_t next_i = i + 1 < t1 ? i + 1 : t0;
            const std::byte* next_w = i - t0 < job.group && next_block
                                          ? next_block + (i - t0) * job.panel_bytes
                                          : w_block;
            run_tiles(table_, tile_format, activations_.data() + job.activation_offset(i, k),
                      job.tiles.rows(i), tile_w, panel_bytes, n_panels, n_k, tile, tile_stride,
                      k != 0, activations_.data() + job.activation_offset(next_i, k), next_w);
            if (k + n_k == job.n_k) finish(job, i, p, n_panels, tile, tile_stride);
          }
        }
      }
    }
  }
}

}  // namespace outrider
