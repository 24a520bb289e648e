#include "kernels/attention.h"

#include <algorithm>

#include "base/assert.h"
#include "kernels/linear.h"

namespace outrider {
namespace {

// Query rows that share one pass over the keys and values of a head. Scores and their packed form
// of 64 rows and 1000 keys are 512 kB: they stay in L2.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kTileFloats = kTileMaxRows * kTileMaxPanels * kPanelLanes;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Where one head's keys and values are.
struct HeadCache {
  float* keys;
  float* values;
  int64_t key_panel, value_panel;  // floats from one panel to the next
};

int64_t head_floats(int64_t capacity, int64_t head_dim) {
  return round_up(capacity, kPanelLanes) * head_dim + round_up(head_dim, kPanelLanes) * capacity;
}

HeadCache head_of(const KvCache& cache, int64_t head) {
  HeadCache h;
  h.keys = static_cast<float*>(cache.data) + head * head_floats(cache.capacity, cache.head_dim);
  h.values = h.keys + round_up(cache.capacity, kPanelLanes) * cache.head_dim;
  h.key_panel = int64_t{cache.head_dim} * kPanelLanes;
  h.value_panel = cache.capacity * kPanelLanes;
  return h;
}

float* key_at(const HeadCache& h, int64_t token) {
  return h.keys + token / kPanelLanes * h.key_panel + token % kPanelLanes;
}

struct ScratchPlan {
  size_t queries, scores, weights, tile, total;

  ScratchPlan(int64_t max_keys, int32_t max_head_dim) {
    const auto keys = static_cast<size_t>(round_up(max_keys, kPanelLanes));
    size_t at = 0;
    const auto take = [&](size_t floats) {
      const size_t here = at;
      at += (floats * sizeof(float) + 63) / 64 * 64;
      return here;
    };
    queries = take(static_cast<size_t>(kBlockRows) * static_cast<size_t>(max_head_dim));
    scores = take(kBlockRows * keys);
    weights = take(kBlockRows * keys);
    tile = take(kTileFloats);
    total = (at + 4095) / 4096 * 4096;
  }
};

}  // namespace

size_t kv_cache_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim) {
  return static_cast<size_t>(head_floats(capacity, head_dim)) * static_cast<size_t>(n_kv_heads) *
         sizeof(float);
}

void kv_cache_store(const KvCache& cache, int64_t first, View<const float> k,
                    View<const float> v) noexcept {
  const int64_t dim = cache.head_dim;
  OUTRIDER_ASSERT(first >= 0 && k.rows == v.rows && first + k.rows <= cache.capacity);
  OUTRIDER_ASSERT(k.cols == cache.n_kv_heads * dim && v.cols == k.cols);
  for (int64_t head = 0; head < cache.n_kv_heads; ++head) {
    const HeadCache h = head_of(cache, head);
    for (int64_t i = 0; i < k.rows; ++i) {
      const int64_t token = first + i;
      const float* key = k.row(i) + head * dim;
      const float* value = v.row(i) + head * dim;
      float* to = key_at(h, token);
      for (int64_t d = 0; d < dim; ++d) to[d * kPanelLanes] = key[d];
      for (int64_t d = 0; d < round_up(dim, kPanelLanes); ++d)
        h.values[d / kPanelLanes * h.value_panel + token * kPanelLanes + d % kPanelLanes] =
            d < dim ? value[d] : 0;
    }
  }
}

void kv_cache_load(const KvCache& cache, int64_t first, int64_t n, float* k, float* v) noexcept {
  const int64_t dim = cache.head_dim, width = cache.n_kv_heads * dim;
  OUTRIDER_ASSERT(first >= 0 && n >= 0 && first + n <= cache.capacity);
  for (int64_t head = 0; head < cache.n_kv_heads; ++head) {
    const HeadCache h = head_of(cache, head);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t token = first + i;
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t to = i * width + head * dim + d;
        if (k) k[to] = key_at(h, token)[d * kPanelLanes];
        if (v)
          v[to] = h.values[d / kPanelLanes * h.value_panel + token * kPanelLanes + d % kPanelLanes];
      }
    }
  }
}

// One call, cut: the rows of a kv head are those of all its query heads, head after head.
struct AttentionRunner::Job {
  const AttentionArgs& args;
  const KvCache& cache;
  int64_t rows_per_head;  // query rows that read one kv head
  int64_t n_q;

  int64_t query(int64_t row) const { return row % n_q; }
  int64_t column(int64_t kv_head, int64_t row) const {
    return (kv_head * (args.n_heads / cache.n_kv_heads) + row / n_q) * cache.head_dim;
  }
  int64_t visible(int64_t row) const {
    if (args.visible == nullptr) return args.n_keys;
    return std::clamp<int64_t>(args.visible[query(row)], 0, args.n_keys);
  }
};

Result<void> AttentionRunner::reserve(int64_t max_keys, int32_t max_head_dim) {
  if (max_keys < 0 || max_keys > kAttentionMaxKeys || max_head_dim < 0)
    return make_error(Code::kNoMemory, "kernels: attention over %lld keys, at most %d are allowed",
                      static_cast<long long>(max_keys), static_cast<int>(kAttentionMaxKeys));
  max_keys_ = std::max(max_keys, max_keys_);
  max_head_dim_ = std::max(max_head_dim, max_head_dim_);
  thread_bytes_ = ScratchPlan(max_keys_, max_head_dim_).total;
  return scratch_.reserve(thread_bytes_ * static_cast<size_t>(pool_.n_threads()));
}

void AttentionRunner::run(const AttentionArgs& args, const KvCache& cache) noexcept {
  const int64_t dim = cache.head_dim;
  OUTRIDER_ASSERT(args.n_heads % cache.n_kv_heads == 0);
  OUTRIDER_ASSERT(args.n_keys >= 0 && args.n_keys <= cache.capacity && args.n_keys <= max_keys_);
  OUTRIDER_ASSERT(dim <= max_head_dim_ && args.q.cols == args.n_heads * dim);
  OUTRIDER_ASSERT(args.out.rows == args.q.rows && args.out.cols == args.q.cols);
  OUTRIDER_ASSERT(args.out.data != args.q.data || args.q.rows == 0);
  if (args.q.rows == 0) return;
  const Job job{args, cache, args.q.rows * (args.n_heads / cache.n_kv_heads), args.q.rows};
  pool_.run([&](int t) { work(job, t); });
}

// The thread's share of all rows of all kv heads, in blocks that do not cross a kv head.
void AttentionRunner::work(const Job& job, int thread_index) noexcept {
  const Range share =
      part_of(job.rows_per_head * job.cache.n_kv_heads, thread_index, pool_.n_threads());
  std::byte* scratch = scratch_.data() + thread_bytes_ * static_cast<size_t>(thread_index);
  for (int64_t row = share.first; row < share.last;) {
    const int64_t kv_head = row / job.rows_per_head, first = row % job.rows_per_head;
    const int64_t run = std::min(share.last - row, job.rows_per_head - first);
    const int64_t n_blocks = (run + kBlockRows - 1) / kBlockRows;
    const int64_t n = (run + n_blocks - 1) / n_blocks;
    block(job, kv_head, first, n, scratch);
    row += n;
  }
}

void AttentionRunner::block(const Job& job, int64_t kv_head, int64_t first_row, int64_t n_rows,
                            std::byte* scratch) noexcept {
  const AttentionArgs& args = job.args;
  const int64_t dim = job.cache.head_dim;
  const HeadCache head = head_of(job.cache, kv_head);
  const ScratchPlan plan(max_keys_, max_head_dim_);
  auto* queries = reinterpret_cast<float*>(scratch + plan.queries);
  auto* scores = reinterpret_cast<float*>(scratch + plan.scores);
  auto* weights = reinterpret_cast<float*>(scratch + plan.weights);
  auto* tile = reinterpret_cast<float*>(scratch + plan.tile);
  const RowTiles tiles(n_rows, table_.max_rows);

  int64_t n_keys = 0;
  for (int64_t r = 0; r < n_rows; ++r) n_keys = std::max(n_keys, job.visible(first_row + r));
  const int64_t key_stride = round_up(n_keys, kPanelLanes);
  int panels_at_once = 0;
  widest_tile(table_, kTileF32, tiles.rows(0), kTileMaxPanels, &panels_at_once);
  const int64_t tile_stride = panels_at_once * kPanelLanes;

  const float* rows[kTileMaxRows];
  for (int64_t i = 0; i < tiles.n_tiles; ++i) {
    for (int64_t r = 0; r < tiles.rows(i); ++r) {
      const int64_t row = first_row + tiles.first(i) + r;
      rows[r] = args.q.row(job.query(row)) + job.column(kv_head, row);
    }
    table_.pack_f32(rows, static_cast<int32_t>(tiles.rows(i)), dim, 0, 0,
                    queries + tiles.first(i) * dim);
  }

  // scores = q k^T
  for (int64_t p = 0; p < key_stride / kPanelLanes; p += panels_at_once) {
    const int64_t n_panels = std::min<int64_t>(panels_at_once, key_stride / kPanelLanes - p);
    const auto* keys = reinterpret_cast<const std::byte*>(head.keys + p * head.key_panel);
    for (int64_t i = 0; i < tiles.n_tiles; ++i) {
      run_tiles(table_, kTileF32, queries + tiles.first(i) * dim, tiles.rows(i), keys,
                head.key_panel * 4, n_panels, dim,
                scores + tiles.first(i) * key_stride + p * kPanelLanes, key_stride, false, queries,
                keys);
    }
  }

  float inverse_sum[kBlockRows];
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t visible = job.visible(first_row + r);
    float* row = scores + r * key_stride;
    if (visible == 0) {
      std::fill_n(row, key_stride, 0.0f);
      inverse_sum[r] = 0;
    } else {
      inverse_sum[r] = 1 / table_.softmax_row(row, visible, key_stride, args.scale);
    }
  }
  for (int64_t i = 0; i < tiles.n_tiles; ++i) {
    for (int64_t r = 0; r < tiles.rows(i); ++r)
      rows[r] = scores + (tiles.first(i) + r) * key_stride;
    table_.pack_f32(rows, static_cast<int32_t>(tiles.rows(i)), n_keys, 0, 0,
                    weights + tiles.first(i) * key_stride);
  }

  // out = weights v / sum
  const int64_t n_value_panels = (dim + kPanelLanes - 1) / kPanelLanes;
  for (int64_t p = 0; p < n_value_panels; p += panels_at_once) {
    const int64_t n_panels = std::min<int64_t>(panels_at_once, n_value_panels - p);
    const int64_t n_cols = std::min(n_panels * kPanelLanes, dim - p * kPanelLanes);
    const auto* values = reinterpret_cast<const std::byte*>(head.values + p * head.value_panel);
    for (int64_t i = 0; i < tiles.n_tiles; ++i) {
      run_tiles(table_, kTileF32, weights + tiles.first(i) * key_stride, tiles.rows(i), values,
                head.value_panel * 4, n_panels, n_keys, tile, tile_stride, false, weights, values);
      for (int64_t r = 0; r < tiles.rows(i); ++r) {
        const int64_t row = first_row + tiles.first(i) + r;
        table_.scale_row(tile + r * tile_stride, inverse_sum[tiles.first(i) + r], n_cols,
                         args.out.row(job.query(row)) + job.column(kv_head, row) + p * kPanelLanes);
      }
    }
  }
}

}  // namespace outrider
