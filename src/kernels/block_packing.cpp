#include "kernels/block_packing.h"

#include <cstring>

#include "kernels/kernel_table.h"
#include "tensor/quant_blocks.h"

namespace outrider {
namespace {

constexpr uint32_t kNibbles = 0x0f0f0f0f, kPairs = 0x03030303, kOnes = 0x01010101;

uint32_t word_at(const void* bytes, int i) {
  uint32_t word;
  std::memcpy(&word, static_cast<const uint8_t*>(bytes) + 4 * i, sizeof word);
  return word;
}

// What one lane of a panel receives.
struct Lane {
  std::byte* panel;
  int lane;

  void word(int64_t offset, uint32_t value) const {
    std::memcpy(panel + offset + lane * 4, &value, sizeof value);
  }
  void half(int64_t offset, const uint8_t* value) const {
    std::memcpy(panel + offset + lane * 2, value, 2);
  }
  // Eight groups of four 4-bit codes.
  void nibbles(int64_t offset, const uint32_t* groups) const {
    for (int v = 0; v < 4; ++v) word(offset + v * 64, groups[v] | groups[v + 4] << 4);
  }
};

void put(const BlockQ8_0& block, const Lane& lane, int64_t at, int64_t d_at) {
  for (int g = 0; g < 8; ++g) lane.word(at + g * 64, word_at(block.q, g) ^ 0x80808080);
  lane.half(d_at, block.d);
}

// The file's bytes hold values j and j + 16: groups v and v + 4 already.
void put(const BlockQ4_0& block, const Lane& lane, int64_t at, int64_t d_at) {
  for (int v = 0; v < 4; ++v) lane.word(at + v * 64, word_at(block.q, v));
  lane.half(d_at, block.d);
}

// Scales, minima, d and dmin of a super-block that has them.
template <class Block>
void put_minima(const Block& block, const Lane& lane, int64_t at) {
  uint32_t six[16], words[3] = {};
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sm = q4_k_scale(block.scales, j);
    six[j] = sm.scale;
    six[8 + j] = sm.min;
  }
  for (int i = 0; i < 15; ++i) words[i / kSixBitsPerWord] |= six[i] << (6 * (i % kSixBitsPerWord));
  for (int j = 0; j < 3; ++j) lane.word(at + j * 64, words[j] | (six[15] >> (2 * j) & 3) << 30);
  lane.half(at + 192, block.d);
  lane.half(at + 224, block.dmin);
}

void put(const BlockQ4_K& block, const Lane& lane, int64_t at, int64_t) {
  put_minima(block, lane, at);
  for (int s = 0; s < 8; ++s) {
    uint32_t groups[8];
    for (int g = 0; g < 8; ++g)
      groups[g] = word_at(block.q + s / 2 * 32, g) >> (4 * (s % 2)) & kNibbles;
    lane.nibbles(at + 256 + s * 256, groups);
  }
}

void put(const BlockQ5_K& block, const Lane& lane, int64_t at, int64_t) {
  put_minima(block, lane, at);
  for (int s = 0; s < 8; ++s) {
    uint32_t groups[8], fifth = 0;
    for (int g = 0; g < 8; ++g) {
      groups[g] = word_at(block.q + s / 2 * 32, g) >> (4 * (s % 2)) & kNibbles;
      fifth |= (word_at(block.qh, g) >> s & kOnes) << g;
    }
    const int64_t to = at + 256 + s * block_code_bytes(kBlockQ5_K);
    lane.nibbles(to, groups);
    lane.word(to + 256, fifth);
  }
}

void put(const BlockQ6_K& block, const Lane& lane, int64_t at, int64_t d_at) {
  for (int i = 0; i < 16; ++i)
    lane.panel[at + i * kPanelLanes + lane.lane] = static_cast<std::byte>(block.scales[i]);
  lane.half(d_at, block.d);
  for (int s = 0; s < 8; ++s) {
    const int half = s / 4, quarter = s % 4;  // see from_q6_k in tensor/dequantize.cpp
    const uint8_t *ql = block.ql + 64 * half + 32 * (quarter % 2), *qh = block.qh + 32 * half;
    uint32_t low[8], upper[2] = {};
    for (int g = 0; g < 8; ++g) {
      low[g] = word_at(ql, g) >> (4 * (quarter / 2)) & kNibbles;
      upper[g / 4] |= (word_at(qh, g) >> (2 * quarter) & kPairs) << (2 * (g % 4));
    }
    const int64_t to = at + 256 + s * 384;
    lane.nibbles(to, low);
    for (int v = 0; v < 2; ++v) lane.word(to + 256 + v * 64, upper[v]);
  }
}

template <class Block>
void pack_rows(int format, const std::byte* const* rows, int64_t n_in, std::byte* out) {
  for (int64_t b = 0; b < n_in / block_length(format); ++b) {
    for (int l = 0; l < kPanelLanes; ++l) {
      if (rows[l] == nullptr) continue;
      Block block;
      std::memcpy(&block, rows[l] + b * static_cast<int64_t>(sizeof block), sizeof block);
      put(block, Lane{out, l}, block_at(format, b), block_d_at(format, b));
    }
  }
}

}  // namespace

int block_format_of(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return kBlockQ8_0;
    case DType::kQ4_0:
      return kBlockQ4_0;
    case DType::kQ4_K:
      return kBlockQ4_K;
    case DType::kQ6_K:
      return kBlockQ6_K;
    case DType::kQ5_K:
      return kBlockQ5_K;
    default:
      return -1;
  }
}

int stored_format_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ2_K:
      return kBlockQ8_0;
    case DType::kQ3_K:
      return kBlockQ6_K;
    default:
      return block_format_of(dtype);
  }
}

namespace {

void rewrite(const BlockQ5_0& from, BlockQ8_0& to) {
  std::memcpy(to.d, from.d, sizeof to.d);
  for (int i = 0; i < 32; ++i) to.q[i] = static_cast<int8_t>(five_bits(from.q, from.qh, i) - 16);
}

void rewrite(const BlockQ3_K& from, BlockQ6_K& to) {
  to = {};
  std::memcpy(to.d, from.d, sizeof to.d);
  for (int j = 0; j < 16; ++j) to.scales[j] = static_cast<int8_t>(q3_k_scale(from.scales, j));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32, code = q3_k_code(from, i) + 32;
    to.ql[64 * half + 32 * (quarter % 2) + l] |=
        static_cast<uint8_t>((code & 15) << (4 * (quarter / 2)));
    to.qh[32 * half + l] |= static_cast<uint8_t>((code >> 4) << (2 * quarter));
  }
}

template <class From, class To>
bool rewrite_row(const std::byte* row, int64_t n_blocks, std::byte* out) {
  for (int64_t b = 0; b < n_blocks; ++b) {
    From from;
    To to;
    std::memcpy(&from, row + b * static_cast<int64_t>(sizeof from), sizeof from);
    rewrite(from, to);
    std::memcpy(out + b * static_cast<int64_t>(sizeof to), &to, sizeof to);
  }
  return true;
}

}  // namespace

bool rewrite_blocks(DType from, const std::byte* row, int format, int64_t n_in, std::byte* out) {
  if (from == DType::kQ5_0 && format == kBlockQ8_0)
    return rewrite_row<BlockQ5_0, BlockQ8_0>(row, n_in / 32, out);
  if (from == DType::kQ3_K && format == kBlockQ6_K)
    return rewrite_row<BlockQ3_K, BlockQ6_K>(row, n_in / 256, out);
  return false;
}

void pack_block_panel(int format, const std::byte* const* rows, int64_t n_in, std::byte* out) {
  std::memset(out, 0, static_cast<size_t>(block_panel_bytes(format, n_in)));
  switch (format) {
    case kBlockQ8_0:
      return pack_rows<BlockQ8_0>(format, rows, n_in, out);
    case kBlockQ4_0:
      return pack_rows<BlockQ4_0>(format, rows, n_in, out);
    case kBlockQ4_K:
      return pack_rows<BlockQ4_K>(format, rows, n_in, out);
    case kBlockQ6_K:
      return pack_rows<BlockQ6_K>(format, rows, n_in, out);
    case kBlockQ5_K:
      return pack_rows<BlockQ5_K>(format, rows, n_in, out);
  }
}

}  // namespace outrider
