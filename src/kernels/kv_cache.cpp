#include "kernels/kv_cache.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "kernels/kv_cache_q8.h"
#include "tensor/dtype.h"

namespace outrider {
namespace {

// Below this many values one thread stores them faster than two threads meet.
constexpr int64_t kAloneValues = 8 * 1024;

int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Values of one head's keys, of its values, and bytes of one of them.
struct HeadSize {
  int64_t key_dims, key_values, value_tokens, value_values, bytes_each;

  HeadSize(int64_t capacity, int64_t head_dim, DType type) {
    const int64_t step = type == DType::kBf16 ? 2 : 1;
    key_dims = round_up(head_dim, step);
    value_tokens = round_up(capacity, step);
    key_values = round_up(capacity, kPanelLanes) * key_dims;
    value_values = round_up(head_dim, kPanelLanes) * value_tokens;
    bytes_each = type == DType::kBf16 ? 2 : 4;
  }
  int64_t bytes() const { return (key_values + value_values) * bytes_each; }
};

// Where a value lies: counted in values of the cache's type.
int64_t key_index(const KvCache& cache, int64_t token, int64_t d) {
  const int64_t lane = token % kPanelLanes;
  if (cache.type != DType::kBf16)
    return (token / kPanelLanes * cache.head_dim + d) * kPanelLanes + lane;
  const int64_t pairs = round_up(cache.head_dim, 2) / 2;
  return ((token / kPanelLanes * pairs + d / 2) * kPanelLanes + lane) * 2 + d % 2;
}

int64_t value_index(const KvCache& cache, int64_t token, int64_t d) {
  const int64_t panel = d / kPanelLanes, lane = d % kPanelLanes;
  if (cache.type != DType::kBf16) return (panel * cache.capacity + token) * kPanelLanes + lane;
  const int64_t pairs = round_up(cache.capacity, 2) / 2;
  return ((panel * pairs + token / 2) * kPanelLanes + lane) * 2 + token % 2;
}

// Tokens [first, first + n) of one head, all in one panel of keys. Of k and v: the rows of these
// tokens, the columns of this head.
struct Piece {
  const KvCache& cache;
  HeadCache head;
  int64_t first, n;
  View<const float> k, v;
};

void store_keys(const Piece& piece, const KernelTable& table) noexcept {
  const KvCache& cache = piece.cache;
  const int64_t dim = cache.head_dim;
  const bool bf16 = cache.type == DType::kBf16;
  if (piece.n == kPanelLanes) {  // a whole panel is what packed activations of 16 rows are
    const float* rows[kPanelLanes];
    for (int r = 0; r < kPanelLanes; ++r) rows[r] = piece.k.row(r);
    std::byte* panel = piece.head.keys + piece.first / kPanelLanes * piece.head.key_panel;
    if (bf16) {
      table.pack_bf16(rows, kPanelLanes, dim, reinterpret_cast<uint16_t*>(panel));
    } else {
      table.pack_f32(rows, kPanelLanes, dim, 0, 0, reinterpret_cast<float*>(panel));
    }
    return;
  }
  auto* halves = reinterpret_cast<uint16_t*>(piece.head.keys);
  auto* floats = reinterpret_cast<float*>(piece.head.keys);
  for (int64_t i = 0; i < piece.n; ++i) {
    const float* key = piece.k.row(i);
    const int64_t token = piece.first + i;
    if (bf16) {
      for (int64_t d = 0; d < dim; ++d) halves[key_index(cache, token, d)] = f32_to_bf16(key[d]);
      if (dim % 2 == 1) halves[key_index(cache, token, dim)] = 0;
    } else {
      for (int64_t d = 0; d < dim; ++d) floats[key_index(cache, token, d)] = key[d];
    }
  }
}

// As f32_to_bf16, here so that the compiler can do a panel's lanes at once.
inline uint32_t bf16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = bits >> 16 | 0x40;
  return (bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

// One token's values of one panel, n of them.
void store_value_panel(const KvCache& cache, std::byte* values, int64_t token, int64_t d,
                       const float* from, int64_t n) noexcept {
  const int64_t at = value_index(cache, token, d);
  if (cache.type == DType::kBf16) {
    auto* to = reinterpret_cast<uint16_t*>(values) + at;
    for (int64_t l = 0; l < kPanelLanes; ++l)
      to[2 * l] = l < n ? static_cast<uint16_t>(bf16_bits(from[l])) : uint16_t{0};
  } else {
    auto* to = reinterpret_cast<float*>(values) + at;
    for (int64_t l = 0; l < kPanelLanes; ++l) to[l] = l < n ? from[l] : 0;
  }
}

// Both tokens of a pair, a whole panel: a cache line at once.
void store_value_pair(std::byte* values, int64_t at, const float* even, const float* odd) noexcept {
  auto* words = reinterpret_cast<uint32_t*>(reinterpret_cast<uint16_t*>(values) + at);
  for (int64_t l = 0; l < kPanelLanes; ++l) words[l] = bf16_bits(even[l]) | bf16_bits(odd[l]) << 16;
}

void store_values(const Piece& piece) noexcept {
  const KvCache& cache = piece.cache;
  const int64_t dim = cache.head_dim;
  for (int64_t i = 0; i < piece.n;) {
    const int64_t token = piece.first + i;
    const bool pair = cache.type == DType::kBf16 && token % 2 == 0 && i + 1 < piece.n;
    for (int64_t d = 0; d < dim; d += kPanelLanes) {
      const int64_t n = std::min<int64_t>(kPanelLanes, dim - d);
      if (pair && n == kPanelLanes) {
        store_value_pair(piece.head.values, value_index(cache, token, d), piece.v.row(i) + d,
                         piece.v.row(i + 1) + d);
        continue;
      }
      for (int64_t j = 0; j < (pair ? 2 : 1); ++j)
        store_value_panel(cache, piece.head.values, token + j, d, piece.v.row(i + j) + d, n);
    }
    i += pair ? 2 : 1;
  }
}

}  // namespace

size_t kv_cache_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim, DType type) {
  if (type == DType::kQ8_0)
    return static_cast<size_t>(kv_q8_bytes(capacity, head_dim)) * static_cast<size_t>(n_kv_heads);
  return static_cast<size_t>(HeadSize(capacity, head_dim, type).bytes()) *
         static_cast<size_t>(n_kv_heads);
}

HeadCache head_of(const KvCache& cache, int64_t kv_head) {
  const HeadSize size(cache.capacity, cache.head_dim, cache.type);
  HeadCache h;
  h.keys = static_cast<std::byte*>(cache.data) + kv_head * size.bytes();
  h.values = h.keys + size.key_values * size.bytes_each;
  h.key_panel = size.key_dims * kPanelLanes * size.bytes_each;
  h.value_panel = size.value_tokens * kPanelLanes * size.bytes_each;
  return h;
}

void kv_cache_store(const KvCache& cache, int64_t first, View<const float> k, View<const float> v,
                    const KernelTable& table, ThreadPool& pool) noexcept {
  const int64_t dim = cache.head_dim, last = first + k.rows;
  const bool eight_bits = cache.type == DType::kQ8_0;
  OUTRIDER_ASSERT(cache.type == DType::kF32 || cache.type == DType::kBf16 || eight_bits);
  OUTRIDER_ASSERT(first >= 0 && k.rows == v.rows && last <= cache.capacity);
  OUTRIDER_ASSERT(k.cols == cache.n_kv_heads * dim && v.cols == k.cols);
  if (k.rows == 0) return;
  // Pieces that end where panels end: no two of them write the same panel of keys or pair of
  // tokens.
  const int64_t first_panel = first / kPanelLanes,
                n_panels = (last - 1) / kPanelLanes + 1 - first_panel;
  const auto store = [&](Range range) {
    for (int64_t i = range.first; i < range.last; ++i) {
      const int64_t head = i / n_panels, panel = first_panel + i % n_panels;
      const int64_t from = std::max(first, panel * kPanelLanes),
                    to = std::min(last, (panel + 1) * kPanelLanes);
      const auto keys = k.rows_from(from - first, to - from).cols_from(head * dim, dim),
                 values = v.rows_from(from - first, to - from).cols_from(head * dim, dim);
      if (eight_bits) {
        kv_q8_store(cache, head, from, keys, values);
        continue;
      }
      const Piece piece{cache, head_of(cache, head), from, to - from, keys, values};
      store_keys(piece, table);
      store_values(piece);
    }
  };
  const int64_t n_pieces = n_panels * cache.n_kv_heads;
  if (k.rows * k.cols <= kAloneValues) return store({0, n_pieces});
  pool.run([&](int t) { store(part_of(n_pieces, t, pool.n_threads())); });
}

void kv_cache_load(const KvCache& cache, int64_t first, int64_t n, float* k, float* v) noexcept {
  const int64_t dim = cache.head_dim, width = cache.n_kv_heads * dim;
  OUTRIDER_ASSERT(first >= 0 && n >= 0 && first + n <= cache.capacity);
  const auto read = [&](const std::byte* values, int64_t i) {
    return cache.type == DType::kBf16 ? bf16_to_f32(reinterpret_cast<const uint16_t*>(values)[i])
                                      : reinterpret_cast<const float*>(values)[i];
  };
  const auto key = [&](int64_t head, int64_t token, int64_t d) {
    return cache.type == DType::kQ8_0 ? kv_q8_key(cache, head, token, d)
                                      : read(head_of(cache, head).keys, key_index(cache, token, d));
  };
  const auto value = [&](int64_t head, int64_t token, int64_t d) {
    return cache.type == DType::kQ8_0
               ? kv_q8_value(cache, head, token, d)
               : read(head_of(cache, head).values, value_index(cache, token, d));
  };
  for (int64_t head = 0; head < cache.n_kv_heads; ++head) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t to = i * width + head * dim + d;
        if (k) k[to] = key(head, first + i, d);
        if (v) v[to] = value(head, first + i, d);
      }
    }
  }
}

}  // namespace outrider
