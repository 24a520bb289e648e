// What models ask of a device. Models call nothing else; kernels/ implements it for the CPU.
//
// Life: make the Ops, `pack` every weight, `reserve` the scratch for the largest shapes [setup];
// from then on the other verbs [hot] neither allocate nor lock nor fail. Shapes are asserted.
// All activations are f32. The same inputs give the same bits for any number of threads.
#pragma once
#include <concepts>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace outrider {

enum class Precision : uint8_t {
  kF32,   // oracle: f32 products and sums; weights keep their stored value exactly
  kBf16,  // both operands rounded to bfloat16, f32 sums
  kInt8,  // weights and activations in 8 bits, i32 sums
  // Weights as the file has them. Blocks (Q8_0, Q4_0, Q4_K, Q5_K, Q6_K) are multiplied as they are,
  // with activations in 8 bits and a scale per 32; Q5_0 in Q8_0 and Q3_K in Q6_K, which hold their
  // numbers exactly; Q4_1, Q5_1 and Q2_K become Q8_0. Other types, and stacks that mix them with
  // blocks, as in kF32. A stack of several block types becomes Q8_0.
  kStored,
};

// A matrix as it lies in a model file: n_out rows of n_in values, blocks along n_in.
struct Matrix {
  DType dtype = DType::kF32;
  int64_t n_out = 0, n_in = 0;
  const void* data = nullptr;  // borrowed
};

// A weight in the layout the kernels want. Refers to the storage it was packed into.
struct Weight {
  int64_t n_out = 0, n_in = 0;
  uint32_t format = 0;          // private to the implementation
  const void* data = nullptr;
};

// kElu: x above 0, exp(x) - 1 below. kHardSwish: x times x / 6 + 1/2, which stops at 0 and 1.
enum class Activation : uint8_t { kNone, kGeluTanh, kGeluQuick, kSilu, kRelu, kSigmoid, kTanh, kElu, kHardSwish };

// How packed rows of several matrices lie behind each other.
enum class Stack : uint8_t {
  kRows,    // outputs of the first, then of the second, ... (q, k, v in one product)
  kPaired,  // exactly two equal shapes, for gated_linear (gate, up)
};

// A norm of rows: what rms_norm and layer_norm do with the same four numbers.
struct RowNorm {
  enum class Kind : uint8_t { kNone, kRms, kLayer };
  Kind kind = Kind::kNone;
  const float* scale = nullptr;     // [n] scale of rms_norm, weight of layer_norm
  const float* shift = nullptr;     // [n] shift of rms_norm (may be null), bias of layer_norm
  float eps = 0;
};

// The left side of a product: rows, each normalised first where a norm is named. The norm happens
// where rows are packed; its result is not kept, and is the same to the bit as that of the verb.
struct LinearIn {
  template <class... A>
    requires std::constructible_from<View<const float>, A...>
  LinearIn(A... rows) : x(rows...) {}  // plain rows, or what makes a View of them
  LinearIn(View<const float> rows, const RowNorm& its_norm) : x(rows), norm(its_norm) {}

  View<const float> x;              // [m, n_in]
  RowNorm norm;
};

struct LinearOut {
  View<float> y;                    // [m, n_out]
  const float* bias = nullptr;      // [n_out] or null
  Activation activation = Activation::kNone;
  bool add = false;                 // y += result instead of y = result
  const float* gate = nullptr;      // [n_out] or null; result is multiplied by it before the add
};

// Keys and values of one layer in the layout attention reads. Storage is the caller's.
struct KvCache {
  void* data = nullptr;             // kv_bytes(capacity, ...) bytes, 64-byte aligned
  int64_t capacity = 0;             // tokens
  int32_t n_kv_heads = 0, head_dim = 0;
  // kF32, or kBf16: what is kept, and how scores and sums multiply. kQ8_0: kept in 8 bits with a scale
  // per 32 dimensions (below a 252nd of the largest of them lost), multiplied in f32.
  DType type = DType::kF32;
};

struct AttentionArgs {
  View<const float> q;              // [n_q, n_heads * head_dim]
  int32_t n_heads = 0;              // query head h reads kv head h / (n_heads / n_kv_heads)
  float scale = 1;                  // scores are multiplied by it; above 0
  int64_t n_keys = 0;               // keys [0, n_keys) exist
  const int32_t* visible = nullptr; // [n_q] row i sees keys [0, visible[i]); null: all
  const int32_t* first = nullptr;   // [n_q] and of those only [first[i], visible[i]); null: from 0
  float soft_cap = 0;               // above 0: a scaled score s becomes soft_cap * tanh(s / soft_cap)
  View<float> out;                  // [n_q, n_heads * head_dim]; must not alias q
};

// Sliding windows over rows that lie as they are: what a convolution is once its padding is there.
// Output o = lanes * block + l, row r, place i < n:
//   y[(o * n_rows + r) * n + i] = act(bias[o] + sum over t of w[(block * n_taps + t) * lanes + l] *
//                                     x[block * x_step + row[r] + tap[t] + i])
// The sum is one chain over t from +0; the bias comes last.
struct Correlation {
  const float* x = nullptr;
  int64_t x_step = 0;               // from one block's input to the next; 0: all read the same
  const int64_t* row = nullptr;     // [n_rows]
  const int64_t* tap = nullptr;     // [n_taps]
  int64_t n_rows = 0, n_taps = 0, n = 0;
  const float* w = nullptr;         // [blocks][n_taps][lanes], zeros for outputs beyond n_out
  int64_t n_out = 0;
  int32_t lanes = 8;                // outputs of a block: 8 or 1
  const float* bias = nullptr;      // [n_out] or null
  Activation activation = Activation::kNone;
  float* y = nullptr;               // [n_out, n_rows, n]; must not alias x
};

inline constexpr int64_t kChannelBlock = 16;

// A convolution whose output channels lie in blocks of kChannelBlock beside each other: [block][place]
// [lane]. Output o = 16 b + l at place p:
//   y[b * y_block + to[p] + l] = act(bias[o] + sum of w * x + add at the same index)
// The sum is one chain from +0 over (outer, ky, kx, run), run innermost, of the taps that its run of
// places has: x at from[p] + outer * x_outer + (ky - y0) * x_y + (kx - x0) * x_x + run * x_run. With
// `own`, block b of y reads lane l of block b of x (x_block apart) only; n_outer and n_run are 1 then.
struct ChannelConv {
  // Places whose windows reach beyond the input at the same taps: ky in [y0, y0 + n_y), kx alike.
  struct Run {
    int64_t first = 0, n_places = 0, y0 = 0, n_y = 0, x0 = 0, n_x = 0;
  };
  const float* x = nullptr;
  const int64_t *from = nullptr, *to = nullptr;  // by place
  std::span<const Run> runs;
  // With one outer: what x is at for every (ky, kx, run), for runs of places that miss no tap; or null.
  const int64_t* tap = nullptr;
  int64_t kernel_y = 1, kernel_x = 1, n_outer = 1, n_run = 1, n_last = 1;  // n_last: of the last outer
  int64_t x_outer = 0, x_y = 0, x_x = 0, x_run = 0, x_block = 0;
  bool own = false;
  int64_t n_blocks = 0;             // of outputs
  // Groups of four blocks, the last of what is left: [group][outer][ky][kx][run][blocks][lane]. Zeros
  // where there is no channel. With `own`: [block][ky][kx][lane].
  const float* w = nullptr;
  const float* bias = nullptr;      // [n_blocks * kChannelBlock]
  const float* add = nullptr;       // as y, or null; must not alias y
  Activation activation = Activation::kNone;
  float* y = nullptr;               // must not alias x
  int64_t y_block = 0;
};

// The largest shapes a run will use.
struct OpsLimits {
  int64_t max_rows = 0;             // m of any linear or norm
  int64_t max_in = 0;               // n_in of any linear
  int64_t max_out = 0;              // n_out of any linear
  int64_t max_keys = 0;             // n_keys of any attention
  int32_t max_head_dim = 0;
  bool kv_8bit = false;             // caches of type kQ8_0 will be read
  int64_t max_right = 0;            // values of the right side of any `product`, n rounded up to 16
};

class Ops {
 public:
  virtual ~Ops() = default;

  // [setup] Bytes `pack` needs for these matrices stacked. Errors: kUnsupported (type), kShape.
  virtual Result<size_t> packed_bytes(std::span<const Matrix> parts, Stack stack, Precision precision) const = 0;
  // [setup] Packs into storage (64-byte aligned, packed_bytes long). The result refers to storage.
  virtual Result<Weight> pack(std::span<const Matrix> parts, Stack stack, Precision precision,
                              std::span<std::byte> storage) = 0;
  // [setup] Takes all scratch memory. Errors: kNoMemory.
  virtual Result<void> reserve(const OpsLimits& limits) = 0;
  virtual int n_threads() const = 0;
  // Name of the kernel table in use: "scalar", "avx2", "avx512", "neon".
  virtual const char* kernel_table() const = 0;

  // [hot] y = gate * act(x w^T + bias), stored or added. x [m, n_in] must not alias y.
  virtual void linear(const LinearIn& x, const Weight& w, const LinearOut& out) noexcept = 0;
  // [hot] y[m, F] = act(x gate^T) * (x up^T) for a kPaired weight.
  virtual void gated_linear(const LinearIn& x, const Weight& gate_up, Activation activation,
                            View<float> y) noexcept = 0;
  // [hot] y[m, n] = a[m, k] b, for a right side that is known only now: b[k, n], or b[n, k] when
  // transposed. f32 throughout, the sums in the order of `linear`. m and k within max_rows, max_in.
  virtual void product(View<const float> a, View<const float> b, bool transposed,
                       View<float> y) noexcept = 0;
  // [hot] See Correlation. f32 throughout.
  virtual void correlate(const Correlation& job) noexcept = 0;
  // [hot] See ChannelConv. f32 throughout.
  virtual void convolve(const ChannelConv& job) noexcept = 0;
  // [hot] y = x / sqrt(mean(x^2) + eps) * (1 + scale) + shift; shift may be null. y may be x.
  virtual void rms_norm(View<const float> x, const float* scale, const float* shift, float eps,
                        View<float> y) noexcept = 0;
  // [hot] y = (x - mean) / sqrt(var + eps) * weight + bias. y may be x.
  virtual void layer_norm(View<const float> x, const float* weight, const float* bias, float eps,
                          View<float> y) noexcept = 0;
  // [hot] Rotary embedding, split halves, in place: pairs (j, j + head_dim/2) of every head.
  // cos, sin: [rows, head_dim/2], one row a token.
  virtual void rope(View<float> x, int32_t head_dim, View<const float> cos, View<const float> sin) noexcept = 0;
  // [hot] x = act(x) in place.
  virtual void activate(View<float> x, Activation activation) noexcept = 0;

  // [hot] part(context, t, n) for every t in [0, n), n = n_threads(), side by side; returns when all are
  // done. For work the verbs here do not know: elementwise arithmetic, pooling, ... A part calls no
  // verb, and cuts its work over outputs, so that no bit depends on n.
  using Part = void (*)(const void* context, int t, int n);
  virtual void share(Part part, const void* context) noexcept = 0;

  virtual size_t kv_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim, DType type) const = 0;
  // [hot] Puts k, v [n, n_kv_heads * head_dim] at tokens first .. first + n - 1.
  virtual void kv_store(const KvCache& cache, int64_t first, View<const float> k, View<const float> v) noexcept = 0;
  // [any] Reads keys and values back as rows: for taps and tests. Either may be null.
  virtual void kv_load(const KvCache& cache, int64_t first, int64_t n, float* k, float* v) const noexcept = 0;
  // [hot] out = softmax(scale * q k^T) v per head, softmax in f32. With a bf16 cache queries and
  // weights are rounded to bf16 too; sums are f32.
  virtual void attention(const AttentionArgs& args, const KvCache& cache) noexcept = 0;
};

}  // namespace outrider
