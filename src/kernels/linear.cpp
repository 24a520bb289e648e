#include "kernels/linear.h"

#include <unistd.h>

#include <algorithm>

#include "base/assert.h"
#include "kernels/block_linear.h"

namespace outrider {
namespace {

// Partial sums of one thread while k is cut: half of a 1 MB L2 cache.
constexpr int64_t kTileBufferBytes = 512 * 1024;
// Activations of one k block: what is left of L2 beside partial sums and streaming weights.
constexpr int64_t kActivationBlockBytes = 768 * 1024;
// The same for int8 on processors whose L2 cache is at least 2 MB, and the cache that it takes:
// starting a tile again costs more there, since its products take a quarter of the time.
constexpr int64_t kInt8BigBlockBytes = 1280 * 1024;
constexpr int64_t kInt8BigCacheBytes = 2 << 20;
// Bytes of weights of a group of panels. A row tile's activations stay in L1 or near for all of it,
// and more of a row of y is written at once; measured on PI0.5: 2 to 5 % of the time for 512 rows.
// Wider weights than int8 take the larger one where the cache is large enough.
constexpr int64_t kGroupBytes = 160 * 1024;
constexpr int64_t kBigGroupBytes = 320 * 1024;
constexpr int64_t kBigGroupCacheBytes = 1 << 20;
// At most so many where k is cut: activations and partial sums fill L2 then.
constexpr int64_t kCutGroupBytes = 200 * 1024;
constexpr int64_t kMinKBlock = 256;
// 16-bit weights are widened once for all row tiles when there are at least so many of them, in
// blocks of at most this many k: two panels of f32 are then 128 kB.
constexpr int64_t kWidenTiles = 8;
constexpr int64_t kWidenKBlock = 1024;
constexpr int64_t kWidenPanels = 2;
// So few rows wait for memory: it is read fastest from front to back, not in eight places at once.
constexpr int64_t kFewRows = 4;
constexpr int64_t kFewRowsPanels = 2;
// Rows that share one pass over the weights.
constexpr int64_t kMaxChunkRows = 1024;
// Below this many values one thread packs the activations faster than two threads meet.
constexpr int64_t kAlonePackValues = 8 * 1024;
// So small a product is done before a second thread has helped, about 5 us: multiply-adds times
// bytes of an activation, since narrower ones are multiplied faster; the weights are in the cache.
// Not more: 32 outputs of 1024 for 50 rows take 12 us in int8 and 16 in bf16 with two threads on an
// idle machine, 15 and 18 with one.
constexpr int64_t kAloneBytes = 1024 * 1024;
constexpr int64_t kAloneWeights = 64 * 1024;
constexpr int64_t kPackSegment = 2048;
// From so many rows a thread on, threads share rows instead of outputs: each packs what it
// multiplies, so that no packed row goes from one core's cache to another's and no thread waits for
// another before the end. Each reads all weights, but once for at least nine row tiles. Two threads
// on 256 to 968 rows: 1 to 3 % less time, up to 14 % where the cores' caches lie far apart.
// Products in blocks lose 3 % by it where outputs are many: their weights are not fetched ahead.
constexpr int64_t kOwnRows = 126;

int floor_log2(int64_t n) {
  return 63 - __builtin_clzll(static_cast<uint64_t>(n));
}

int64_t int8_block_bytes() {
  static const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE) >= kInt8BigCacheBytes
                                   ? kInt8BigBlockBytes
                                   : kActivationBlockBytes;
  return bytes;
}

int64_t group_bytes(int64_t value_bytes) {
  static const int64_t wide =
      sysconf(_SC_LEVEL2_CACHE_SIZE) >= kBigGroupCacheBytes ? kBigGroupBytes : kGroupBytes;
  return value_bytes == 1 ? kGroupBytes : wide;
}

// Rows of a product as a product of their own.
Product rows_of(const Product& product, Range rows) noexcept {
  Product part = product;
  part.x.data = product.x.row(rows.first);
  part.out.y.data = product.out.y.row(rows.first);
  part.x.rows = part.out.y.rows = rows.last - rows.first;
  return part;
}

bool in_pairs(PackFormat format) {
  return format == PackFormat::kBf16 || format == PackFormat::kBf16Rounded;
}

}  // namespace

// One product, cut.
struct LinearRunner::Job {
  Job(const Product& p, const KernelTable& table, int n_threads, std::byte* packed, float* scales)
      : product(p), tiles(p.x.rows, table.max_rows), activations(packed), row_scales(scales) {
    format = static_cast<PackFormat>(p.w.format & kPackFormatMask);
    paired = (p.w.format & kPackPaired) != 0;
    round = format == PackFormat::kBf16Rounded;
    tile_format = format == PackFormat::kF32    ? kTileF32
                  : format == PackFormat::kF16  ? kTileF16
                  : format == PackFormat::kInt8 ? kTileInt8
                                                : kTileBf16;
    if (round && table.tile[kTileBf16Dot][0][0] != nullptr) tile_format = kTileBf16Dot;
    a_bytes = tile_format == kTileInt8 ? 1 : tile_format == kTileBf16Dot ? 2 : 4;
    w_bytes = format == PackFormat::kInt8 ? 1 : format == PackFormat::kF32 ? 4 : 2;
    n_k = packed_n_k(format, p.w.n_in);
    panel_bytes = packed_panel_bytes(format, p.w.n_in);
    unit = paired ? 2 : 1;
    n_units = (p.w.n_out + kPanelLanes - 1) / kPanelLanes;
    int panels = 0;
    widest_tile(table, tile_format, tiles.rows(0),
                p.x.rows <= kFewRows ? kFewRowsPanels : kTileMaxPanels, &panels);
    group = std::max<int64_t>(panels, 2);  // panels; a pair is never torn
    widen = w_bytes == 2 && a_bytes == 4 && tiles.n_tiles >= kWidenTiles && group <= kWidenPanels;
    k_block = choose_k_block();
    if (widen) k_block = std::min(k_block, kWidenKBlock);
    if (!widen) group = std::max(group, wide_group());
    pack_units = tiles.n_tiles;
    // A scale or a norm needs all of a row, so such a row is not shared between threads.
    if (format != PackFormat::kInt8 && p.norm.kind == RowNorm::Kind::kNone)
      pack_units *= (p.x.cols + kPackSegment - 1) / kPackSegment;
    share(n_threads);
  }

  // Not more panels than row tiles: each of them fetches one panel of the next group ahead.
  int64_t wide_group() const {
    const int64_t bytes =
        k_block < n_k ? std::min(group_bytes(w_bytes), kCutGroupBytes) : group_bytes(w_bytes);
    const int64_t wanted = bytes / (k_block * kPanelLanes * w_bytes);
    const int64_t most = std::min<int64_t>({wanted, tiles.n_tiles, kTileMaxPanels});
    return most < 2 ? 2 : int64_t{1} << floor_log2(most);
  }

  // All of k when the activations of a chunk of rows fit the cache that way.
  int64_t choose_k_block() const {
    const int64_t rows = std::min(product.x.rows, kMaxChunkRows);
    const int64_t bytes = format == PackFormat::kInt8 ? int8_block_bytes() : kActivationBlockBytes;
    const int64_t fits = std::max(bytes / (rows * a_bytes) / 64 * 64, kMinKBlock);
    if (n_k <= fits + fits / 4) return n_k;
    const int64_t n_blocks = (n_k + fits - 1) / fits;
    return ((n_k + n_blocks - 1) / n_blocks + 63) / 64 * 64;
  }

  bool is_small() const {
    const int64_t weights = product.w.n_out * product.w.n_in, products = product.x.rows * weights;
    return weights <= kAloneWeights && products * a_bytes <= kAloneBytes;
  }

  // Outputs first; rows too when there are more threads than panels. In whole groups only where
  // every thread gets as many: a thread that has one more keeps the others waiting for it.
  void share(int n_threads) {
    const int64_t units_per_group = group / unit;
    grain = n_units % (units_per_group * n_threads) == 0 ? units_per_group : 1;
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
  std::byte* activations;  // packed rows
  float* row_scales;       // of int8 activations
  PackFormat format;
  TileFormat tile_format;
  bool paired, round, widen;
  int64_t a_bytes, w_bytes, n_k, panel_bytes;
  int64_t unit;     // panels that belong together
  int64_t n_units;  // panels, or pairs of them
  int64_t group;    // panels computed together
  int64_t grain;    // units that one thread takes at once
  int64_t k_block;
  int64_t
      pack_units;  // packing is shared by row tiles, and by segments of k where a row may be cut
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
  normed_cols_ = std::max(normed_cols_, (max_in + 15) / 16 * 16);
  OUTRIDER_TRY(normed_.reserve(static_cast<size_t>(normed_cols_ * kTileMaxRows) * sizeof(float) *
                               static_cast<size_t>(pool_.n_threads())));
  OUTRIDER_TRY(row_scales_.reserve(static_cast<size_t>(max_rows) * sizeof(float)));
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
  OUTRIDER_ASSERT(static_cast<size_t>(x.rows) * sizeof(float) <= row_scales_.bytes());
  if (block_of(static_cast<PackFormat>(product.w.format & kPackFormatMask)) >= 0)
    return run_blocks(table_, pool_,
                      {{activations_.data(), activations_.bytes()},
                       tiles_.data(),
                       kTileBufferBytes,
                       reinterpret_cast<float*>(normed_.data()),
                       normed_cols_ * kTileMaxRows},
                      product);
  Job job(product, table_, pool_.n_threads(), activations_.data(),
          reinterpret_cast<float*>(row_scales_.data()));
  const bool alone = job.is_small();
  if (!alone && pool_.n_threads() > 1 && x.rows >= kOwnRows * pool_.n_threads())
    return pool_.run([&](int t) { run_own_rows(product, t); });
  if (alone) job.share(1);
  if (alone || job.pack_units == 1 || x.rows * x.cols <= kAlonePackValues) {
    pack(job, {0, job.pack_units}, 0);
    if (alone) return multiply(job, 0, 0);
    return pool_.run([&](int t) { multiply(job, t, t); });
  }
  pool_.run_in_two([&](int t) { pack(job, part_of(job.pack_units, t, pool_.n_threads()), t); },
                   [&](int t) { multiply(job, t, t); });
}

// A thread's share of the rows.
void LinearRunner::run_own_rows(const Product& product, int thread_index) noexcept {
  const Range rows = part_of(product.x.rows, thread_index, pool_.n_threads());
  const Product part = rows_of(product, rows);
  const int64_t row_bytes = (product.x.cols + 1) * static_cast<int64_t>(sizeof(float));  // at most
  Job job(part, table_, 1, activations_.data() + rows.first * row_bytes,
          reinterpret_cast<float*>(row_scales_.data()) + rows.first);
  pack(job, {0, job.pack_units}, thread_index);
  multiply(job, 0, thread_index);
}

const float* left_row(const KernelTable& table, const Product& product, int64_t row,
                      float* room) noexcept {
  const float* x = product.x.row(row);
  const RowNorm& norm = product.norm;
  switch (norm.kind) {
    case RowNorm::Kind::kNone:
      return x;
    case RowNorm::Kind::kRms:
      table.rms_norm_row(x, norm.scale, norm.shift, norm.eps, product.x.cols, room);
      return room;
    case RowNorm::Kind::kLayer:
      table.layer_norm_row(x, norm.scale, norm.shift, norm.eps, product.x.cols, room);
      return room;
  }
  return x;
}

void LinearRunner::pack(const Job& job, Range units, int thread_index) noexcept {
  const int64_t n_segments = job.pack_units / job.tiles.n_tiles;
  float* room =
      reinterpret_cast<float*>(normed_.data()) + thread_index * kTileMaxRows * normed_cols_;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t tile = unit / n_segments;
    const float* rows[kTileMaxRows];
    for (int64_t r = 0; r < job.tiles.rows(tile); ++r)
      rows[r] = left_row(table_, job.product, job.tiles.first(tile) + r, room + r * normed_cols_);
    if (job.format == PackFormat::kInt8) {
      quantize_rows(job, rows, tile);
    } else {
      const int64_t k = unit % n_segments * kPackSegment, all = job.product.x.cols;
      pack_rows(job, rows, tile, k, n_segments == 1 ? all : std::min(kPackSegment, all - k));
    }
  }
}

// Columns [k, k + n) of a row tile.
void LinearRunner::pack_rows(const Job& job, const float* const* whole, int64_t tile, int64_t k,
                             int64_t n) noexcept {
  const auto n_rows = static_cast<int32_t>(job.tiles.rows(tile));
  const float* rows[kTileMaxRows];
  for (int32_t r = 0; r < n_rows; ++r) rows[r] = whole[r] + k;
  auto* out = job.activations + job.activation_offset(tile, k);
  if (job.tile_format == kTileBf16Dot) {
    table_.pack_bf16(rows, n_rows, n, reinterpret_cast<uint16_t*>(out));
  } else {
    table_.pack_f32(rows, n_rows, n, job.round, in_pairs(job.format),
                    reinterpret_cast<float*>(out));
  }
}

// A row's scale needs all of the row; its second reading finds it in the cache, and so does the
// first behind a norm.
void LinearRunner::quantize_rows(const Job& job, const float* const* rows, int64_t tile) noexcept {
  const int64_t n = job.product.x.cols;
  const auto n_rows = static_cast<int32_t>(job.tiles.rows(tile));
  float inverse[kTileMaxRows];
  for (int32_t r = 0; r < n_rows; ++r) {
    const Int8Scale scale = int8_scale(table_.amax_row(rows[r], n));
    job.row_scales[job.tiles.first(tile) + r] = scale.scale;
    inverse[r] = scale.inverse;
  }
  auto* out = reinterpret_cast<uint8_t*>(job.activations + job.activation_offset(tile, 0));
  table_.pack_int8(rows, n_rows, n, inverse, table_.int8_shift, out);
}

// One thread's way through its part of a product. Outer to inner: rows that share a pass, some
// groups of panels (a chunk), blocks of k, groups, row tiles. So a group's weights stay in L1 or L2
// for all row tiles, and the partial sums of a chunk in L2.
class LinearRunner::Walk {
 public:
  Walk(const LinearRunner& runner, const Job& job, int part, int thread_index)
      : table_(runner.table_),
        job_(job),
        panels_(job.panels_of(part % job.n_output_parts)),
        tiles_(part_of(job.tiles.n_tiles, part / job.n_output_parts, job.n_row_parts)),
        sums_(reinterpret_cast<float*>(runner.tiles_.data() + thread_index * kTileBufferBytes)),
        widened_(reinterpret_cast<float*>(runner.widened_.data()) +
                 thread_index * kWidenPanels * kWidenKBlock * kPanelLanes),
        tile_stride_(job.group * kPanelLanes),
        tile_values_(job.tiles.rows(0) * tile_stride_),
        one_block_(job.k_block >= job.n_k) {}

  void run() noexcept {
    const int64_t n_fit = kTileBufferBytes / 4 / tile_values_;  // tiles that the buffer holds
    const int64_t chunk_tiles =
        std::min({tiles_.last - tiles_.first, kMaxChunkRows / job_.tiles.rows(0), n_fit});
    const int64_t chunk_panels = (one_block_ ? 1 : n_fit / chunk_tiles) * job_.group;
    for (int64_t t = tiles_.first; t < tiles_.last; t += chunk_tiles) {
      const Range tiles{t, std::min(t + chunk_tiles, tiles_.last)};
      for (int64_t p = panels_.first; p < panels_.last; p += chunk_panels)
        chunk(tiles, {p, std::min(p + chunk_panels, panels_.last)});
    }
  }

 private:
  void chunk(Range tiles, Range panels) noexcept {
    for (int64_t k = 0; k < job_.n_k; k += job_.k_block)
      for (int64_t p = panels.first; p < panels.last; p += job_.group)
        group(tiles, panels, k, std::min(job_.k_block, job_.n_k - k), p);
  }

  // A group of panels at n_k values of k, for all row tiles of the chunk.
  void group(Range tiles, Range panels, int64_t k, int64_t n_k, int64_t p) noexcept {
    const int64_t n_panels = std::min(job_.group, panels.last - p);
    const std::byte* w = weights(p, k);
    const std::byte* next = next_weights(panels, k, n_k, p);
    int64_t panel_bytes = job_.panel_bytes;
    TileFormat format = job_.tile_format;
    const std::byte* tile_w = w;
    if (job_.widen) {
      for (int64_t j = 0; j < n_panels; ++j)
        table_.widen_panel(format, weights(p + j, k), n_k, widened_ + j * n_k * kPanelLanes);
      tile_w = reinterpret_cast<const std::byte*>(widened_);
      panel_bytes = n_k * kPanelLanes * 4;
      format = kTileF32;
    }
    const int64_t slot =
        one_block_ ? 0 : (p - panels.first) / job_.group * (tiles.last - tiles.first);
    for (int64_t i = tiles.first; i < tiles.last; ++i) {
      float* sums = sums_ + (one_block_ ? 0 : slot + i - tiles.first) * tile_values_;
      // Ahead: the next row tile's activations, and in turn the panels of what follows.
      const int64_t next_tile = i + 1 < tiles.last ? i + 1 : tiles.first;
      const int64_t ahead = i - tiles.first;
      const std::byte* next_w = ahead < job_.group ? next + ahead * job_.panel_bytes : w;
      run_tiles(table_, format, activations(i, k), job_.tiles.rows(i), tile_w, panel_bytes,
                n_panels, n_k, sums, tile_stride_, k != 0, activations(next_tile, k), next_w);
      if (k + n_k == job_.n_k) finish(i, p, n_panels, sums);
    }
  }

  // What is multiplied after group p at k.
  const std::byte* next_weights(Range panels, int64_t k, int64_t n_k, int64_t p) const {
    if (p + job_.group < panels.last) return weights(p + job_.group, k);
    if (k + n_k < job_.n_k) return weights(panels.first, k + n_k);
    if (panels.last < panels_.last) return weights(panels.last, 0);
    return weights(p, k);
  }

  const std::byte* weights(int64_t panel, int64_t k) const {
    return static_cast<const std::byte*>(job_.product.w.data) + panel * job_.panel_bytes +
           k * kPanelLanes * job_.w_bytes;
  }
  const std::byte* activations(int64_t tile, int64_t k) const {
    return job_.activations + job_.activation_offset(tile, k);
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
    if (job_.format == PackFormat::kInt8) {
      to.row_scale = job_.row_scales + job_.tiles.first(row_tile);
      to.tail = reinterpret_cast<const Int8PanelTail*>(weights(panel, job_.n_k));
      to.tail_bytes = job_.panel_bytes;
      to.shifted = table_.int8_shift != 0;
    }
    (job_.paired ? table_.gated_tile_out : table_.tile_out)(sums, tile_stride_, &to);
  }

  const KernelTable& table_;
  const Job& job_;
  const Range panels_, tiles_;  // this thread's part
  float *sums_, *widened_;
  const int64_t tile_stride_, tile_values_;  // floats
  const bool one_block_;                     // k is not cut: a tile is finished at once
};

void LinearRunner::multiply(const Job& job, int part, int thread_index) noexcept {
  if (part < job.n_output_parts * job.n_row_parts) Walk(*this, job, part, thread_index).run();
}

}  // namespace outrider
