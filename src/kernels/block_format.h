// Weights multiplied in the blocks of their file: how 16 outputs lie side by side in a panel, and
// how activations are written for them. Included by kernel files: C headers only.
//
// A panel takes the bytes of its 16 rows in the file and at most 32 more: only their order changes.
// "Group g" of a block of 32 values is values 4g .. 4g+3; a group of a panel is 64 bytes, [16][4].
//   Q8_0  per block 512 bytes: groups 0..7, code = q + 128.
//   Q4_0  per block 256 bytes: vector v holds group v in its low, group v + 4 in its high nibbles.
//   Q4_K  per 256 values 256 + 8 * 256 bytes: 3 * [16] words with 16 values of six bits (eight
//         scales, eight minima: see q4_k_word), d [16] f16, dmin [16] f16; then eight times what
//         Q4_0 has.
//   Q5_K  per 256 values 256 + 8 * 320 bytes: what Q4_K has, and after its 256 bytes a vector of
//         fifth bits: that of group g at bit g.
//   Q6_K  per 256 values 256 + 8 * 384 bytes: scales [16 sub-blocks][16] int8; then eight times
//         what Q4_0 has and two vectors of upper bits: group g has its two bits in vector 128 + g /
//         4 at bit 2 (g % 4), so that a shift puts them at bit 4.
//   Q8_0, Q4_0, Q6_K: in front of every two blocks their d, [2][16] f16.
// All of a panel is read once from front to back. Every code is unsigned: code - kBlockOffset is
// the whole number of the file. Missing outputs have scale 0.
//
// Activations of n_rows rows: per block of 32 values 8 + n_facts groups of n_rows words:
//   words 0..7   codes of values 4g .. 4g+3, signed bytes
//   word 8       their scale s, f32 (NaN when one of the 32 is not finite)
//   word 9       Q8_0, Q4_0: -offset * sum of the codes; Q6_K: the same of the first 16
//                Q4_K, Q5_K: s * sum of the codes, f32
//   word 10      Q6_K only: -offset * sum of the last 16
// Codes by the rule of kernel_table.h, per block of 32 instead of per row.
//
// Result of one output: one chain of f32 over the blocks that starts at +0,
//   y = fma(float(sum of codes * activation codes) * s, scale, y), scale of Q4_K to Q6_K d * sub in
// f32, per 16 values for Q6_K; Q4_K and Q5_K then y = fma(-word 9, dmin * min, y). All other sums
// are whole numbers below 2^24, so every table gives the same bits for any tile and any thread.
#pragma once
#include <stdint.h>

namespace outrider {

enum BlockFormat {
  kBlockQ8_0 = 0,
  kBlockQ4_0 = 1,
  kBlockQ4_K = 2,
  kBlockQ6_K = 3,
  kBlockQ5_K = 4,
  kBlockFormats = 5,
};

constexpr int kBlockValues = 32;     // that share an activation scale
constexpr int kBlockMaxRows = 14;    // rows of the largest tile
constexpr int kBlockTileShapes = 3;  // 1, 2, 4 panels
constexpr int kBlockMaxPanels = 4;

// Eight sub-blocks of 32 values, each with a scale and a minimum.
constexpr bool block_has_minima(int format) {
  return format == kBlockQ4_K || format == kBlockQ5_K;
}
constexpr bool block_is_super(int format) {
  return block_has_minima(format) || format == kBlockQ6_K;
}
// Bytes of the codes of 32 values of a panel.
constexpr int64_t block_code_bytes(int format) {
  return format == kBlockQ8_0 ? 512 : format == kBlockQ6_K ? 384 : format == kBlockQ5_K ? 320 : 256;
}
// Values and bytes of a block; without d in the formats that have it in front of two blocks.
constexpr int64_t block_length(int format) {
  return block_is_super(format) ? 256 : 32;
}
constexpr int64_t block_bytes(int format) {
  return block_is_super(format) ? 256 + 8 * block_code_bytes(format) : block_code_bytes(format);
}
constexpr int block_offset(int format) {
  return format == kBlockQ8_0 ? 128 : format == kBlockQ4_0 ? 8 : format == kBlockQ6_K ? 32 : 0;
}
constexpr bool block_has_d_in_front(int format) {
  return !block_has_minima(format);
}
// Where block i of a panel begins, and its d.
constexpr int64_t block_at(int format, int64_t i) {
  return block_has_d_in_front(format)
             ? i / 2 * (64 + 2 * block_bytes(format)) + 64 + i % 2 * block_bytes(format)
             : i * block_bytes(format);
}
constexpr int64_t block_d_at(int format, int64_t i) {
  return i / 2 * (64 + 2 * block_bytes(format)) + i % 2 * 32;
}
constexpr int64_t block_panel_bytes(int format, int64_t n_in) {
  const int64_t n = n_in / block_length(format);
  return n == 0 ? 0 : block_at(format, n - 1) + block_bytes(format);
}
// Words a row and block of activations.
constexpr int block_words(int format) {
  return format == kBlockQ6_K ? 11 : 10;
}

// Value i of 16 in three words: five a word, the last in what is left of them.
constexpr int kSixBitsPerWord = 5;

// tile[r][16 p + lane] (+)= products of blocks [first, first + n) of 32 values.
//   a            activations of exactly this tile's rows, at block `first`
//   w            first panel, at its start; panel_bytes from one to the next
//   first, n     in super-block formats multiples of 8
//   tile         64-byte aligned; tile_stride floats from one row to the next
//   accumulate   0: start at +0; 1: go on from what the tile holds
typedef void (*BlockTileFn)(const void* a, const void* w, int64_t panel_bytes, int64_t first,
                            int64_t n, float* tile, int64_t tile_stride, int accumulate);

struct BlockKernels {
  // [format][log2(panels)][rows - 1]; null where registers would not do.
  BlockTileFn tile[kBlockFormats][kBlockTileShapes][kBlockMaxRows];
  int32_t max_rows;  // largest r with a tile of one panel, for every format
  // One row of n_blocks * 32 values to its words: word i of block b at
  // out[(b * block_words(format) + i) * n_rows].
  void (*quantize)(int32_t format, const float* x, int64_t n_blocks, int64_t n_rows, uint32_t* out);
};

}  // namespace outrider
