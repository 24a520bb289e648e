// The contract of one instruction set: a table of plain functions. Everything above it (threads,
// blocking, packing of weights) is the same for all of them.
//
// The files that fill a table include this header, intrinsics and C headers, nothing else: a
// template of the standard library compiled with wide-vector flags could be the copy the linker
// keeps for everybody, and would crash older processors.
//
// Packed weights have one layout for every table, so that two Ops can share them:
//   panel p holds outputs 16p .. 16p+15, lane l is output 16p + l, missing outputs are zero;
//   [panel][k][16] f32 or f16, or [panel][k / 2][16][2] bf16 (an odd last k is zero padded),
//   or [panel][k / 4][16][4] int8 (zero padded) with an Int8PanelTail behind each panel.
// Packed activations of r rows: [k][r] f32, [k / 2][r][2] bf16 for kTileBf16Dot, or
// [k / 4][r][4] int8 for kTileInt8, to which the table's int8_shift is added.
//
// Sum order: each output element is ONE chain over k = 0, 1, 2, ... that starts at +0 (in pairs of
// k for kTileBf16Dot). It does not depend on the tile, on the other rows, or on where the chain is
// cut and continued, since a partial sum is kept as the f32 it is. Sums of kTileInt8 are whole
// numbers, the same in any order: every table gives the same bits up to the activation function.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace outrider {

struct BlockKernels;  // block_format.h

constexpr int kPanelLanes = 16;    // outputs of one weight panel
constexpr int kTileMaxRows = 14;   // rows of the largest tile
constexpr int kTileMaxPanels = 8;  // panels of the widest tile
constexpr int kAttentionMaxKeys = 1 << 20;

// How weights lie in memory and what the activations are.
enum TileFormat {
  kTileF32 = 0,      // f32 weights, f32 activations
  kTileF16 = 1,      // f16 weights, expanded exactly; f32 activations
  kTileBf16 = 2,     // bf16 weights, expanded exactly; f32 activations
  kTileBf16Dot = 3,  // bf16 weights, bf16 activations, the processor's dot instruction
  kTileInt8 = 4,     // int8 weights, 8-bit activations, i32 sums
  kTileFormats = 5,
};

// Values x of one row become scale * q with q = x / scale rounded to the nearest, halves to even,
// |q| <= 127 and scale = max |x| / 127.
constexpr int64_t kInt8MaxIn = 65536;  // 255 * 127 * 65536 < 2^31: sums cannot overflow
// Rows whose largest magnitude is below it count as zero: its inverse would leave the f32 range.
constexpr float kInt8Smallest = 7.52316384526264e-37f;  // 2^-120

// Behind the values of an int8 panel.
struct Int8PanelTail {
  float scale[kPanelLanes];    // NaN when a weight of this output is not finite
  int32_t shift[kPanelLanes];  // 128 times the sum of the weights
};

// The numbers of Activation in tensor/ops.h.
constexpr int kActNone = 0, kActGeluTanh = 1, kActGeluQuick = 2, kActSilu = 3;
constexpr int kActRelu = 4, kActSigmoid = 5, kActTanh = 6, kActElu = 7;
constexpr int kActHardSwish = 8;

// tile[r][p][lane] (+)= sum over k of a[k][r] * w[p][k][lane].
//   a              packed activations of exactly this tile's rows, at its first k
//   w              first panel, at its first k; panel_bytes from one panel to the next
//   n_k            values of k; even for the bf16 formats, a multiple of 4 for int8 (the packing
//                  pads)
//   tile           64-byte aligned; tile_stride floats from one row to the next. i32 sums in the
//                  same place for kTileInt8
//   accumulate     0: start at +0; 1: continue from what the tile holds
//   next_a, next_w what the following calls will read: one cache line of each is fetched ahead a
//                  step of k. Any addresses; they are hints and need not be readable.
typedef void (*TileFn)(const void* a, const void* w, int64_t panel_bytes, int64_t n_k, float* tile,
                       int64_t tile_stride, int accumulate, const void* next_a, const void* next_w);

// How far before its use a stream that is read once is asked for, bytes; 0: the processor fetches
// ahead well by itself. Of the processor, known before any table runs.
extern const int64_t kernel_fetch_ahead;

// A loop of multiply-adds in registers, to measure what the processor can do at most. At least 20
// independent sums, no memory access inside.
struct PeakLoop {
  void (*run)(int64_t n_rounds);  // null: the set has no instruction of that kind
  int32_t ops_per_round;          // two for every multiply-add
};

// What happens to a finished tile. Pointers are at the tile's first column.
struct TileOut {
  float* y;
  int64_t y_stride;
  int32_t n_rows;
  int32_t n_cols;      // columns that exist; the tile may be wider
  const float* bias;   // or null
  const float* gate;   // or null
  int32_t activation;  // kAct*
  int32_t add;         // 1: y += result
  // Of an int8 tile, whose sums become (sum - shift) * scale * row_scale first; else null.
  const float* row_scale;     // [n_rows]
  const Int8PanelTail* tail;  // of the tile's first panel
  int64_t tail_bytes;         // from one panel's tail to the next
  int32_t shifted;            // 0: the activations were signed, nothing is to be subtracted
};

// One or two rows of sliding windows: y[o * y_stride + i] = bias[o] + sum over t of w[t * lanes + o] *
// x[tap[t] + i], the sum one chain over t from +0. Two short rows side by side fill registers that one
// would leave empty.
struct WindowRow {
  const float* x;
  const int64_t* tap;
  int64_t n_taps, n;  // places i in [0, n); nothing behind the last is read
  const float* w;
  const float* bias;  // [n_outputs] or null
  float* y;
  int64_t y_stride;
  int32_t lanes, n_outputs;  // lanes 8 or 1; n_outputs <= lanes are stored
  int32_t n_rows;            // 1 or 2; the second row lies x_next and y_next behind
  int64_t x_next, y_next;
  int32_t relu;  // 1: kActRelu of the results is stored
};

// Windows over an image whose channels lie in blocks of kPanelLanes beside each other. For place p and
// lane l of output block b, with bias last but for what is added:
//   y[b * y_block + to[p] + l] = act(bias[b][l] + sum of w * x + add at the same index)
// The sum is one chain from +0 over (outer, y, x, run), run innermost: x at from[p] + outer * x_outer +
// y * x_y + x * x_x + run * x_run, w at outer * w_outer + y * w_y + x * w_x + (run * n_blocks + b) *
// kPanelLanes + l. Taps in the padding are not in it: a call has places with the same taps.
struct ChannelWindows {
  const float* x;
  const int64_t *from, *to;  // [n_places]
  int64_t n_places;
  // Offsets of all n_y * n_x * n_run taps of the one outer, in the order of their weights; or null.
  const int64_t* tap;
  int64_t n_outer, n_y, n_x, n_run, n_last;  // n_last: the run of the last outer
  int64_t x_outer, x_y, x_x, x_run;
  const float* w;
  int64_t w_outer, w_y, w_x;
  const float* bias;  // [n_blocks * kPanelLanes]
  const float* add;   // as y, or null
  float* y;
  int64_t y_block;
  int32_t n_blocks;  // 1 to kMaxChannelBlocks
  int32_t relu;      // 1: kActRelu of the results is stored
  // A chain cut at an outer: 1 for the first part, else the sum goes on from y; 1 for the last part,
  // else the sum itself is stored.
  int32_t begins, ends;
};
constexpr int32_t kMaxChannelBlocks = 4;

struct KernelTable {
  const char* name;

  // tile[format][log2(panels)][rows - 1] for 1, 2, 4, 8 panels; null where registers would not do.
  TileFn tile[kTileFormats][4][kTileMaxRows];
  int32_t max_rows;  // largest r with a tile of one panel

  // n_k values of k of one panel in kTileF16 or kTileBf16 to [k][16] f32: the same numbers.
  void (*widen_panel)(int32_t format, const void* panel, int64_t n_k, float* out);

  // out[k][l] = q[k][l] * scale, 16 values a row: scale[k] with per_row, else scale[l].
  void (*widen_int8)(const int8_t* q, const float* scale, int32_t per_row, int64_t n_k, float* out);

  // Activations of n_rows rows, columns [0, n_k), to packed [k][r] (see above). round: to bfloat16
  // first (nearest even). An odd n_k is padded with a zero k when the layout is in pairs
  // (pack_bf16) or when pad is set (pack_f32).
  void (*pack_f32)(const float* const* rows, int32_t n_rows, int64_t n_k, int32_t round,
                   int32_t pad, float* out);
  void (*pack_bf16)(const float* const* rows, int32_t n_rows, int64_t n_k, uint16_t* out);
  // The largest magnitude; NaN when a value is not finite.
  float (*amax_row)(const float* x, int64_t n);
  // round(rows[r][k] * inverse[r]) + shift as a byte, [k / 4][n_rows][4], zeros (plus shift) behind
  // n_k. n_rows <= 16, so that weights become panels by it too. shift: 0 or 128.
  void (*pack_int8)(const float* const* rows, int32_t n_rows, int64_t n_k, const float* inverse,
                    int32_t shift, uint8_t* out);
  int32_t int8_shift;  // 128 when the int8 tiles take unsigned activations, else 0

  // y = gate * act(tile + bias), stored or added.
  void (*tile_out)(const float* tile, int64_t tile_stride, const TileOut* out);
  // tile holds panels gate, up, gate, up, ...; y[16 i + l] = act(gate_i[l]) * up_i[l].
  // Of out: y, n_rows, n_cols (of y), activation.
  void (*gated_tile_out)(const float* tile, int64_t tile_stride, const TileOut* out);

  // One row each; n values. See Ops for what they mean. Sums are in double, in a fixed order.
  void (*rms_norm_row)(const float* x, const float* scale, const float* shift, float eps, int64_t n,
                       float* y);
  void (*layer_norm_row)(const float* x, const float* weight, const float* bias, float eps,
                         int64_t n, float* y);
  void (*rope_head)(float* x, int32_t half, const float* cosine, const float* sine);
  void (*activate_row)(float* x, int64_t n, int32_t activation);
  // y = x * factor.
  void (*scale_row)(const float* x, float factor, int64_t n, float* y);
  void (*window_row)(const WindowRow* row);
  void (*channel_windows)(const ChannelWindows* windows);
  // Each lane of the input has its own output: n_outer, n_run, n_blocks are 1, x is read a block at once.
  void (*own_windows)(const ChannelWindows* windows);
  // One block of a softmax in powers of two that runs over several. With m = max(*largest, scale *
  // max of s[0, n)): s[0, n) becomes 2^(scale * s - m) and s[n, n_padded) becomes 0; n > 0, scale >
  // 0. Returns f = 2^(*largest - m), by which everything summed before must be multiplied: exactly
  // 1 when the largest stays, 0 when *largest is minus infinity. Then *largest = m and *sum = f *
  // *sum + the sum of s.
  float (*softmax_block)(float* s, int64_t n, int64_t n_padded, float scale, float* largest,
                         float* sum);

  // For peak.h. bf16 and int8: the instructions that multiply them directly, if any.
  PeakLoop peak_f32, peak_bf16, peak_int8;
  // Reads all of data (64-byte aligned, a multiple of 1024 bytes) once; returns a sum of it.
  float (*read_all)(const float* data, int64_t bytes);

  // Products with weights in blocks of 32 or 256 values.
  const BlockKernels* blocks;
};

extern const BlockKernels kScalarBlocks;

extern const KernelTable kScalarTable;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx512Table;
// What the instructions of avx512_bf16 and avx512_vnni add, in files with their own flags.
extern const TileFn kAvx512Bf16Tiles[4][kTileMaxRows];
extern const PeakLoop kAvx512Bf16Peak;
void pack_for_avx512_bf16(const float* const* rows, int32_t n_rows, int64_t n_k, uint16_t* out);
extern const TileFn kAvx512VnniTiles[4][kTileMaxRows];
extern const PeakLoop kAvx512VnniPeak;
extern const BlockKernels kAvx2Blocks, kAvx512Blocks, kAvx512VnniBlocks;
// The int8 dot instruction on 32-byte vectors, in both of its encodings: AVX-VNNI, AVX-512 VL.
extern const TileFn kAvxVnniTiles[4][kTileMaxRows];
extern const PeakLoop kAvxVnniPeak;
extern const TileFn kAvx512vlVnniTiles[4][kTileMaxRows];
extern const PeakLoop kAvx512vlVnniPeak;
#elif defined(__aarch64__)
extern const KernelTable kNeonTable;
// What the dot product instructions of ARMv8.2 add.
extern const TileFn kNeonDotTiles[4][kTileMaxRows];
extern const BlockKernels kNeonBlocks, kNeonDotBlocks;
#endif

}  // namespace outrider
