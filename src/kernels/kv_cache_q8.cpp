#include "kernels/kv_cache_q8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"
#include "tensor/dtype.h"

namespace outrider {
namespace {

constexpr int64_t kWidenMost = 256;

int64_t up(int64_t n, int64_t to) {
  return (n + to - 1) / to;
}

// Where the parts of one head are.
struct Place {
  int64_t key_panel, value_panel, value_scales, bytes;  // bytes
  int64_t n_blocks;

  Place(int64_t capacity, int64_t dim)
      : key_panel(dim * kPanelLanes + up(dim, kQ8Block) * kPanelLanes * 2),
        value_panel(capacity * kPanelLanes),
        value_scales(up(dim, kPanelLanes) * value_panel),
        n_blocks(up(dim, kQ8Block)) {
    bytes =
        up(up(capacity, kPanelLanes) * key_panel + value_scales + n_blocks * capacity * 2, 64) * 64;
  }
};

struct Head {
  const KvCache& cache;
  Place place;
  std::byte *keys, *values;

  Head(const KvCache& c, int64_t kv_head) : cache(c), place(c.capacity, c.head_dim) {
    keys = static_cast<std::byte*>(c.data) + kv_head * place.bytes;
    values = keys + up(c.capacity, kPanelLanes) * place.key_panel;
  }
  int8_t* key_panel(int64_t token) const {
    return reinterpret_cast<int8_t*>(keys + token / kPanelLanes * place.key_panel);
  }
  uint16_t* key_scales(int64_t token) const {
    return reinterpret_cast<uint16_t*>(key_panel(token) + cache.head_dim * kPanelLanes);
  }
  int8_t* value_panel(int64_t d) const {
    return reinterpret_cast<int8_t*>(values + d / kPanelLanes * place.value_panel);
  }
  uint16_t* value_scales(int64_t block) const {
    return reinterpret_cast<uint16_t*>(values + place.value_scales) + block * cache.capacity;
  }
};

float widened(uint16_t scale) {
  return std::bit_cast<float>(static_cast<uint32_t>(scale) << 16);
}

// The scale of a block, in bfloat16; the quotients go to q.
uint16_t quantize(const float* x, int64_t n, int8_t* q) noexcept {
  uint32_t worst = 0;
  for (int64_t i = 0; i < n; ++i)
    worst = std::max(worst, std::bit_cast<uint32_t>(x[i]) & 0x7fffffff);
  if (worst >= 0x7f800000) {
    std::fill_n(q, n, int8_t{0});
    return 0x7fc0;  // NaN
  }
  const auto largest = std::bit_cast<float>(worst);
  if (largest < kInt8Smallest) {
    std::fill_n(q, n, int8_t{0});
    return 0;
  }
  const auto scale = static_cast<uint16_t>((std::bit_cast<uint32_t>(largest / 127) + 0xffff) >> 16);
  const float inverse = 1 / widened(scale);
  // Adding 1.5 * 2^23 rounds to the nearest, halves to even, and leaves the number in the low bits.
  constexpr float kRounder = 12582912.0f;
  for (int64_t i = 0; i < n; ++i)
    q[i] = static_cast<int8_t>(std::bit_cast<int32_t>(x[i] * inverse + kRounder) -
                               std::bit_cast<int32_t>(kRounder));
  return scale;
}

}  // namespace

int64_t kv_q8_bytes(int64_t capacity, int64_t head_dim) {
  return Place(capacity, head_dim).bytes;
}

void kv_q8_store(const KvCache& cache, int64_t kv_head, int64_t first, View<const float> k,
                 View<const float> v) noexcept {
  const Head head(cache, kv_head);
  const int64_t dim = cache.head_dim;
  for (int64_t i = 0; i < k.rows; ++i) {
    const int64_t token = first + i, lane = token % kPanelLanes;
    for (int64_t block = 0; block < head.place.n_blocks; ++block) {
      const int64_t d = block * kQ8Block, n = std::min(kQ8Block, dim - d);
      int8_t q[kQ8Block] = {};
      head.key_scales(token)[block * kPanelLanes + lane] = quantize(k.row(i) + d, n, q);
      int8_t* keys = head.key_panel(token) + d * kPanelLanes + lane;
      for (int64_t j = 0; j < n; ++j) keys[j * kPanelLanes] = q[j];
      std::fill_n(q, kQ8Block, int8_t{0});  // dimensions that are missing are zero
      head.value_scales(block)[token] = quantize(v.row(i) + d, n, q);
      for (int64_t j = 0; j < n; j += kPanelLanes)
        std::copy_n(q + j, kPanelLanes, head.value_panel(d + j) + token * kPanelLanes);
    }
  }
}

float kv_q8_key(const KvCache& cache, int64_t kv_head, int64_t token, int64_t d) noexcept {
  const Head head(cache, kv_head);
  const int64_t lane = token % kPanelLanes;
  return static_cast<float>(head.key_panel(token)[d * kPanelLanes + lane]) *
         widened(head.key_scales(token)[d / kQ8Block * kPanelLanes + lane]);
}

float kv_q8_value(const KvCache& cache, int64_t kv_head, int64_t token, int64_t d) noexcept {
  const Head head(cache, kv_head);
  return static_cast<float>(head.value_panel(d)[token * kPanelLanes + d % kPanelLanes]) *
         widened(head.value_scales(d / kQ8Block)[token]);
}

void kv_q8_widen_keys(const KvCache& cache, int64_t kv_head, int64_t first, int64_t n,
                      const KernelTable& table, float* out) noexcept {
  OUTRIDER_DEBUG_ASSERT(first % kPanelLanes == 0);
  const Head head(cache, kv_head);
  const int64_t dim = cache.head_dim;
  for (int64_t token = first; token < first + n; token += kPanelLanes) {
    const int8_t* panel = head.key_panel(token);
    const uint16_t* scales = head.key_scales(token);
    for (int64_t d = 0; d < dim; d += kQ8Block, scales += kPanelLanes) {
      float wide[kPanelLanes];
      for (int l = 0; l < kPanelLanes; ++l) wide[l] = widened(scales[l]);
      const int64_t n_d = std::min(kQ8Block, dim - d);
      table.widen_int8(panel + d * kPanelLanes, wide, 0, n_d, out);
      out += n_d * kPanelLanes;
    }
  }
}

void kv_q8_widen_values(const KvCache& cache, int64_t kv_head, int64_t first, int64_t n,
                        int64_t stride, const KernelTable& table, float* out) noexcept {
  OUTRIDER_DEBUG_ASSERT(n <= kWidenMost && n <= stride);
  const Head head(cache, kv_head);
  for (int64_t block = 0; block < head.place.n_blocks; ++block) {
    const uint16_t* scales = head.value_scales(block) + first;
    float wide[kWidenMost];
    for (int64_t i = 0; i < n; ++i) wide[i] = widened(scales[i]);
    const int64_t last = std::min<int64_t>(cache.head_dim, (block + 1) * kQ8Block);
    for (int64_t d = block * kQ8Block; d < last; d += kPanelLanes)
      table.widen_int8(head.value_panel(d) + first * kPanelLanes, wide, 1, n,
                       out + d / kPanelLanes * stride * kPanelLanes);
  }
}

}  // namespace outrider
