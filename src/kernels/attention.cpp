#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "kernels/kv_cache.h"
#include "kernels/kv_cache_q8.h"
#include "kernels/linear.h"

namespace outrider {
namespace {

// Query rows that share one pass over the keys and values of a head: these come from L2 then.
constexpr int64_t kBlockRows = 112;

// A score whose power of two is zero beside any other.
constexpr float kUnseen = -1e30f;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// One thread's scratch, byte offsets. Sized for f32, which bf16 does not exceed.
struct ScratchPlan {
  size_t queries, scores, weights, sums, pair, keys, values, total;

  ScratchPlan(int64_t max_head_dim, bool eight_bits) {
    const int64_t dim = round_up(max_head_dim, kPanelLanes);
    size_t at = 0;
    const auto take = [&](int64_t floats) {
      const size_t here = at;
      at += (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
      return here;
    };
    queries = take(kBlockRows * dim);
    scores = take(kTileMaxRows * kAttentionBlockKeys);
    weights = take(kTileMaxRows * kAttentionBlockKeys);
    sums = take(kBlockRows * dim);
    pair = take(dim);
    keys = take(eight_bits ? kAttentionBlockKeys * dim : 0);
    values = take(eight_bits ? kAttentionBlockKeys * dim : 0);
    total = (at + 4095) / 4096 * 4096;
  }
};

}  // namespace

// One call, cut: the rows of a kv head are those of all its query heads, head after head.
struct AttentionRunner::Job {
  const AttentionArgs& args;
  const KvCache& cache;
  int64_t rows_per_head;  // query rows that read one kv head
  int64_t n_q;
  float scale;  // of scores (with a cap: of their tanh), so that weights are powers of two

  int64_t query(int64_t row) const { return row % n_q; }
  int64_t column(int64_t kv_head, int64_t row) const {
    return (kv_head * (args.n_heads / cache.n_kv_heads) + row / n_q) * cache.head_dim;
  }
  int64_t visible(int64_t row) const {
    if (args.visible == nullptr) return args.n_keys;
    return std::clamp<int64_t>(args.visible[query(row)], 0, args.n_keys);
  }
  // The first key that a row sees; of one that sees none: where it would see the next.
  int64_t first(int64_t row) const {
    if (args.first == nullptr) return 0;
    return std::clamp<int64_t>(args.first[query(row)], 0, visible(row));
  }
};

Result<void> AttentionRunner::reserve(int64_t max_keys, int32_t max_head_dim, bool eight_bits) {
  if (max_keys < 0 || max_keys > kAttentionMaxKeys || max_head_dim < 0)
    return make_error(Code::kNoMemory, "kernels: attention over %lld keys, at most %d are allowed",
                      static_cast<long long>(max_keys), static_cast<int>(kAttentionMaxKeys));
  max_keys_ = std::max(max_keys, max_keys_);
  max_head_dim_ = std::max(max_head_dim, max_head_dim_);
  eight_bits_ = eight_bits_ || eight_bits;
  thread_bytes_ = ScratchPlan(max_head_dim_, eight_bits_).total;
  return scratch_.reserve(thread_bytes_ * static_cast<size_t>(pool_.n_threads()));
}

void AttentionRunner::run(const AttentionArgs& args, const KvCache& cache) noexcept {
  const int64_t dim = cache.head_dim;
  OUTRIDER_ASSERT(args.n_heads % cache.n_kv_heads == 0);
  OUTRIDER_ASSERT(args.n_keys >= 0 && args.n_keys <= cache.capacity && args.n_keys <= max_keys_);
  OUTRIDER_ASSERT(dim <= max_head_dim_ && args.q.cols == args.n_heads * dim);
  OUTRIDER_ASSERT(args.out.rows == args.q.rows && args.out.cols == args.q.cols);
  OUTRIDER_ASSERT(args.out.data != args.q.data || args.q.rows == 0);
  OUTRIDER_ASSERT(args.scale > 0);
  OUTRIDER_ASSERT(cache.type != DType::kQ8_0 || eight_bits_);
  if (args.q.rows == 0) return;
  constexpr float kLog2E = 1.44269504088896341f;
  OUTRIDER_ASSERT(args.soft_cap >= 0);
  const float scale = args.soft_cap > 0 ? args.soft_cap : args.scale;
  const Job job{args, cache, args.q.rows * (args.n_heads / cache.n_kv_heads), args.q.rows,
                scale * kLog2E};
  pool_.run([&](int t) { work(job, t); });
}

// Rows of one kv head, on one thread.
class AttentionRunner::Block {
 public:
  Block(const KernelTable& table, const Job& job, int64_t kv_head, int64_t first_row,
        int64_t n_rows, std::byte* scratch, const ScratchPlan& plan)
      : table_(table),
        job_(job),
        wide_keys_(reinterpret_cast<float*>(scratch + plan.keys)),
        wide_values_(reinterpret_cast<float*>(scratch + plan.values)),
        head_(eight_bits(job) ? widened() : head_of(job.cache, kv_head)),
        kv_head_(kv_head),
        first_row_(first_row),
        tiles_(n_rows, table.max_rows),
        bf16_(job.cache.type == DType::kBf16),
        format_(!bf16_                                      ? kTileF32
                : table.tile[kTileBf16Dot][0][0] != nullptr ? kTileBf16Dot
                                                            : kTileBf16),
        a_bytes_(format_ == kTileBf16Dot ? 2 : 4),
        w_bytes_(bf16_ ? 2 : 4),
        dim_(job.cache.head_dim),
        n_k_(bf16_ ? round_up(dim_, 2) : dim_),
        value_stride_(round_up(dim_, kPanelLanes)),
        queries_(scratch + plan.queries),
        weights_(scratch + plan.weights),
        pair_(scratch + plan.pair),
        scores_(reinterpret_cast<float*>(scratch + plan.scores)),
        sums_(reinterpret_cast<float*>(scratch + plan.sums)) {}

  void run() noexcept {
    int64_t n_keys = 0;
    for (int64_t i = 0; i < tiles_.n_tiles; ++i) {
      n_keys = std::max(n_keys, keys_of(i));
      pack_queries(i);
    }
    std::fill_n(largest_, kBlockRows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum_, kBlockRows, 0.0f);
    for (int64_t key = 0; key < n_keys; key += kAttentionBlockKeys)
      if (anybody_sees(key)) add_keys(key, std::min(kAttentionBlockKeys, n_keys - key));
    for (int64_t i = 0; i < tiles_.n_tiles; ++i) finish(i);
  }

 private:
  static bool eight_bits(const Job& job) { return job.cache.type == DType::kQ8_0; }
  // One block of keys in f32, where every block of an 8-bit cache is put in turn.
  HeadCache widened() const {
    const int64_t panel = kPanelLanes * int64_t{sizeof(float)};
    return {reinterpret_cast<std::byte*>(wide_keys_), reinterpret_cast<std::byte*>(wide_values_),
            job_.cache.head_dim * panel, kAttentionBlockKeys * panel};
  }
  void widen(int64_t key, int64_t n) noexcept {
    kv_q8_widen_keys(job_.cache, kv_head_, key, n, table_, wide_keys_);
    kv_q8_widen_values(job_.cache, kv_head_, key, n, kAttentionBlockKeys, table_, wide_values_);
  }
  // Where a block begins in what head_ points to.
  int64_t offset(int64_t key) const { return eight_bits(job_) ? 0 : key; }
  bool anybody_sees(int64_t key) const {
    for (int64_t i = 0; i < tiles_.n_tiles; ++i)
      if (keys_of(i) > key && first_block(i) <= key) return true;
    return false;
  }
  int64_t row(int64_t tile, int64_t r) const { return first_row_ + tiles_.first(tile) + r; }
  // Keys that some row of a tile sees.
  int64_t keys_of(int64_t tile) const {
    int64_t n = 0;
    for (int64_t r = 0; r < tiles_.rows(tile); ++r) n = std::max(n, job_.visible(row(tile, r)));
    return n;
  }
  // The block of keys in which some row of a tile sees its first one: what lies before is skipped,
  // so a row's sums begin there whatever other rows see.
  int64_t first_block(int64_t tile) const {
    if (job_.args.first == nullptr) return 0;
    int64_t first = job_.args.n_keys;
    for (int64_t r = 0; r < tiles_.rows(tile); ++r)
      first = std::min(first, job_.first(row(tile, r)));
    return first / kAttentionBlockKeys * kAttentionBlockKeys;
  }
  std::byte* queries(int64_t tile) const { return queries_ + tiles_.first(tile) * n_k_ * a_bytes_; }
  float* sums(int64_t tile) const { return sums_ + tiles_.first(tile) * value_stride_; }

  // Rows of n values, packed for a tile. rounded to bf16 when the cache is.
  void pack(const float* const* rows, int64_t n_rows, int64_t n, std::byte* out) noexcept {
    if (format_ == kTileBf16Dot) {
      table_.pack_bf16(rows, static_cast<int32_t>(n_rows), n, reinterpret_cast<uint16_t*>(out));
    } else {
      table_.pack_f32(rows, static_cast<int32_t>(n_rows), n, bf16_, bf16_,
                      reinterpret_cast<float*>(out));
    }
  }

  void pack_queries(int64_t tile) noexcept {
    const float* rows[kTileMaxRows];
    for (int64_t r = 0; r < tiles_.rows(tile); ++r)
      rows[r] = job_.args.q.row(job_.query(row(tile, r))) + job_.column(kv_head_, row(tile, r));
    pack(rows, tiles_.rows(tile), dim_, queries(tile));
  }

  // Keys [key, key + n): a block.
  void add_keys(int64_t key, int64_t n) noexcept {
    if (eight_bits(job_)) widen(key, n);
    const bool odd = bf16_ && n % 2 == 1;
    if (odd) take_last_value(key + n - 1);
    for (int64_t i = 0; i < tiles_.n_tiles; ++i) {
      if (keys_of(i) <= key || first_block(i) > key) continue;
      score(i, key, n);
      weigh(i, key, n);
      add_values(i, key, odd ? n - 1 : n, odd);
    }
  }

  // scores = q k^T
  void score(int64_t tile, int64_t key, int64_t n) noexcept {
    const std::byte* keys = head_.keys + offset(key) / kPanelLanes * head_.key_panel;
    run_tiles(table_, format_, queries(tile), tiles_.rows(tile), keys, head_.key_panel,
              (n + kPanelLanes - 1) / kPanelLanes, n_k_, scores_, kAttentionBlockKeys, false,
              queries(tile), keys);
  }

  // Scores to packed weights; what was summed before is scaled.
  void weigh(int64_t tile, int64_t key, int64_t n) noexcept {
    const float* rows[kTileMaxRows];
    for (int64_t r = 0; r < tiles_.rows(tile); ++r) {
      float* s = scores_ + r * kAttentionBlockKeys;
      rows[r] = s;
      const int64_t seen = std::min(job_.visible(row(tile, r)) - key, n),
                    unseen = std::max<int64_t>(job_.first(row(tile, r)) - key, 0),
                    padded = round_up(n, kPanelLanes);
      if (seen <= unseen) {
        std::fill_n(s, padded, 0.0f);
        continue;
      }
      cap(s, padded);
      std::fill_n(s, unseen, kUnseen);
      const int64_t i = tiles_.first(tile) + r;
      const float factor =
          table_.softmax_block(s, seen, padded, job_.scale, &largest_[i], &sum_[i]);
      float* sums_row = sums(tile) + r * value_stride_;
      if (key > first_block(tile) && factor != 1)
        table_.scale_row(sums_row, factor, value_stride_, sums_row);
    }
    pack(rows, tiles_.rows(tile), n, weights_);
  }

  // Scores to tanh(scale * score / cap), when there is a cap.
  void cap(float* s, int64_t n) const noexcept {
    if (!(job_.args.soft_cap > 0)) return;
    table_.scale_row(s, job_.args.scale / job_.args.soft_cap, n, s);
    table_.activate_row(s, n, kActTanh);
  }

  // sums += weights v, and for a last token without a partner the copy of it.
  void add_values(int64_t tile, int64_t key, int64_t n, bool with_last) noexcept {
    const int64_t n_rows = tiles_.rows(tile), n_panels = value_stride_ / kPanelLanes;
    const bool more = key > first_block(tile);
    const std::byte* values = head_.values + offset(key) * kPanelLanes * w_bytes_;
    if (n > 0)
      run_tiles(table_, format_, weights_, n_rows, values, head_.value_panel, n_panels, n,
                sums(tile), value_stride_, more, weights_, values);
    if (with_last)
      run_tiles(table_, format_, weights_ + n * n_rows * a_bytes_, n_rows, pair_,
                2 * kPanelLanes * w_bytes_, n_panels, 2, sums(tile), value_stride_, more || n > 0,
                weights_, pair_);
  }

  // A token's values with zeros for its partner, which nobody stored or which is not seen.
  void take_last_value(int64_t token) noexcept {
    for (int64_t p = 0; p < value_stride_ / kPanelLanes; ++p) {
      uint32_t words[kPanelLanes];
      std::memcpy(words, head_.values + p * head_.value_panel + token / 2 * sizeof words,
                  sizeof words);
      for (uint32_t& word : words) word &= 0xffff;
      std::memcpy(pair_ + p * static_cast<int64_t>(sizeof words), words, sizeof words);
    }
  }

  // out = sums / sum of weights
  void finish(int64_t tile) noexcept {
    for (int64_t r = 0; r < tiles_.rows(tile); ++r) {
      float* out =
          job_.args.out.row(job_.query(row(tile, r))) + job_.column(kv_head_, row(tile, r));
      const float sum = sum_[tiles_.first(tile) + r];
      if (job_.visible(row(tile, r)) == job_.first(row(tile, r))) {
        std::fill_n(out, dim_, 0.0f);
      } else {
        table_.scale_row(sums(tile) + r * value_stride_, 1 / sum, dim_, out);
      }
    }
  }

  const KernelTable& table_;
  const Job& job_;
  float *const wide_keys_, *const wide_values_;  // of an 8-bit cache
  const HeadCache head_;
  const int64_t kv_head_, first_row_;
  const RowTiles tiles_;
  const bool bf16_;
  const TileFormat format_;
  const int64_t a_bytes_, w_bytes_;  // of one value
  const int64_t dim_, n_k_;          // as the caller counts it, as tiles do
  const int64_t value_stride_;       // floats
  std::byte *queries_, *weights_, *pair_;
  float *scores_, *sums_;
  float largest_[kBlockRows], sum_[kBlockRows];  // of scores so far, of weights so far
};

// The thread's share of all rows of all kv heads, in blocks that do not cross a kv head.
void AttentionRunner::work(const Job& job, int thread_index) noexcept {
  const Range share =
      part_of(job.rows_per_head * job.cache.n_kv_heads, thread_index, pool_.n_threads());
  std::byte* scratch = scratch_.data() + thread_bytes_ * static_cast<size_t>(thread_index);
  const ScratchPlan plan(max_head_dim_, eight_bits_);
  for (int64_t row = share.first; row < share.last;) {
    const int64_t kv_head = row / job.rows_per_head, first = row % job.rows_per_head;
    const int64_t run = std::min(share.last - row, job.rows_per_head - first);
    const int64_t n = std::min(run, kBlockRows);
    Block(table_, job, kv_head, first, n, scratch, plan).run();
    row += n;
  }
}

}  // namespace outrider
