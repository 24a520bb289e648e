// LSTM, GRU and RNN. The products with the input are made for all times at once, those with the
// hidden state one time after the other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/packed.h"

namespace outrider::onnx {
namespace {

enum class Cell : uint8_t { kLstm, kGru, kRnn };

struct Sizes {
  Cell cell = Cell::kLstm;
  int64_t n_gates = 4, n_times = 0, n_batch = 0, n_in = 0, n_hidden = 0, n_directions = 1;
  bool first_is_reverse = false, batch_first = false, linear_before_reset = false,
       input_forget = false;
  bool with_bias = false, with_lengths = false, with_h = false, with_c = false,
       with_peepholes = false;
  float clip = 0;                       // 0: none
  std::vector<Activation> activations;  // three a direction (LSTM), two (GRU), one (RNN)
  int64_t width() const { return n_gates * n_hidden; }
};

// One direction's weights: packed when they are constant, else taken from the input at run time.
struct Side {
  bool packed = false;
  Weight w, r;
};

Result<Activation> activation_of(NodeContext& c, const std::string& name) {
  if (name == "Sigmoid") return Activation::kSigmoid;
  if (name == "Tanh") return Activation::kTanh;
  if (name == "Relu") return Activation::kRelu;
  return c.unsupported("activation %.40s", name.c_str());
}

Result<void> read_activations(NodeContext& c, Sizes& s) {
  const Attribute* a = c.node().find("activations");
  std::vector<std::string> names;
  if (a != nullptr && a->kind == Attribute::Kind::kStrings) names = a->strings;
  const std::vector<std::string> usual =
      s.cell == Cell::kLstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : s.cell == Cell::kGru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                             : std::vector<std::string>{"Tanh"};
  const size_t wanted = usual.size() * static_cast<size_t>(s.n_directions);
  if (names.empty())
    for (size_t i = 0; i < wanted; ++i) names.push_back(usual[i % usual.size()]);
  if (names.size() != wanted) return c.wrong("%zu activations, wanted %zu", names.size(), wanted);
  for (const std::string& name : names) {
    const auto found = activation_of(c, name);
    if (!found) return found.error();
    s.activations.push_back(found.value());
  }
  return {};
}

Result<void> require_shape(NodeContext& c, size_t i, const Shape& wanted) {
  if (c.has(i) && (c.dtype(i) != DType::kF32 || !(c.shape(i) == wanted)))
    return c.wrong("input %zu is %s, wanted f32 %s", i, c.type(i).text().c_str(),
                   wanted.text().c_str());
  return {};
}

Result<Sizes> read_sizes(NodeContext& c, Cell cell) {
  OUTRIDER_TRY(c.require_inputs(3, cell == Cell::kLstm ? 8 : 6));
  for (size_t i = 0; i < 3; ++i) OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  Sizes s;
  s.cell = cell;
  s.n_gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  const Shape &x = c.shape(0), &w = c.shape(1), &r = c.shape(2);
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3)
    return c.wrong("input %s, weights %s and %s", x.text().c_str(), w.text().c_str(),
                   r.text().c_str());
  s.batch_first = c.integer("layout", 0) != 0;
  s.n_times = x[s.batch_first ? 1 : 0];
  s.n_batch = x[s.batch_first ? 0 : 1];
  s.n_in = x[2];
  s.n_hidden = r[2];
  s.n_directions = w[0];
  const std::string direction = c.text("direction", "forward");
  s.first_is_reverse = direction == "reverse";
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return c.wrong("direction \"%.20s\"", direction.c_str());
  if (s.n_directions != (direction == "bidirectional" ? 2 : 1) || s.n_hidden < 1 || s.n_in < 1 ||
      s.n_batch < 1 || s.n_times < 1 || s.n_hidden > (1 << 20) ||
      c.integer("hidden_size", s.n_hidden) != s.n_hidden ||
      !(w == Shape{s.n_directions, s.width(), s.n_in}) ||
      !(r == Shape{s.n_directions, s.width(), s.n_hidden}))
    return c.wrong("input %s, weights %s and %s do not fit each other", x.text().c_str(),
                   w.text().c_str(), r.text().c_str());
  s.with_bias = c.has(3);
  s.with_lengths = c.has(4);
  s.with_h = c.has(5);
  s.with_c = cell == Cell::kLstm && c.has(6);
  s.with_peepholes = cell == Cell::kLstm && c.has(7);
  const Shape state = s.batch_first ? Shape{s.n_batch, s.n_directions, s.n_hidden}
                                    : Shape{s.n_directions, s.n_batch, s.n_hidden};
  OUTRIDER_TRY(require_shape(c, 3, {s.n_directions, 2 * s.width()}));
  OUTRIDER_TRY(require_shape(c, 5, state));
  if (cell == Cell::kLstm) OUTRIDER_TRY(require_shape(c, 6, state));
  if (cell == Cell::kLstm) OUTRIDER_TRY(require_shape(c, 7, {s.n_directions, 3 * s.n_hidden}));
  if (s.with_lengths && (c.dtype(4) != DType::kI32 || !(c.shape(4) == Shape{s.n_batch})))
    return c.wrong("sequence_lens is %s", c.type(4).text().c_str());
  s.clip = c.real("clip", 0);
  s.linear_before_reset = c.integer("linear_before_reset", 0) != 0;
  s.input_forget = c.integer("input_forget", 0) != 0;
  if (c.has_attribute("activation_alpha") || c.has_attribute("activation_beta"))
    return c.unsupported("scaled activations");
  OUTRIDER_TRY(read_activations(c, s));
  return s;
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const Sizes& s, std::vector<Side> sides) : s_(s), sides_(std::move(sides)) {}

  static size_t scratch_values(const Sizes& s) {
    const int64_t rows = s.n_times * s.n_batch;
    return static_cast<size_t>(rows * s.n_in + rows * s.width() + 2 * s.n_batch * s.width() +
                               s.width() * 2 + 4 * s.n_batch * s.n_hidden);
  }

  void run(const Operands& o) const noexcept override {
    for (int64_t d = 0; d < s_.n_directions; ++d) direction(o, d);
  }

 private:
  // The arrays of one direction.
  struct Work {
    float *x, *gates, *now, *side, *bias, *hidden_bias, *h, *c, *reset_h;
    const float* peepholes;
    const Activation* f;
    const Side* weights;
    int64_t d;
  };

  int64_t length(const Operands& o, int64_t b) const {
    return s_.with_lengths ? std::clamp<int64_t>(o.input<int32_t>(4)[b], 0, s_.n_times)
                           : s_.n_times;
  }
  int64_t state_at(int64_t d, int64_t b) const {
    return (s_.batch_first ? b * s_.n_directions + d : d * s_.n_batch + b) * s_.n_hidden;
  }

  void direction(const Operands& o, int64_t d) const noexcept {
    const int64_t rows = s_.n_times * s_.n_batch, n = s_.n_batch * s_.n_hidden, width = s_.width();
    float* at = reinterpret_cast<float*>(o.scratch);
    const auto take = [&](int64_t count) {
      float* p = at;
      at += count;
      return p;
    };
    Work k{};
    k.d = d;
    k.x = take(rows * s_.n_in);
    k.gates = take(rows * width);
    k.now = take(s_.n_batch * width);
    k.side = take(s_.n_batch * width);
    k.bias = take(width);
    k.hidden_bias = take(width);
    k.h = take(n);
    k.c = take(n);
    k.reset_h = take(n);
    k.weights = &sides_[static_cast<size_t>(d)];
    k.f = s_.activations.data() +
          static_cast<size_t>(d) * s_.activations.size() / static_cast<size_t>(s_.n_directions);
    k.peepholes = s_.with_peepholes ? o.input<float>(7) + d * 3 * s_.n_hidden : nullptr;
    start(o, k);
    const bool reverse = s_.first_is_reverse || d == 1;
    for (int64_t t = 0; t < s_.n_times; ++t) step(o, k, t, reverse);
    for (int64_t b = 0; b < s_.n_batch; ++b) {
      const auto bytes = static_cast<size_t>(s_.n_hidden) * sizeof(float);
      if (o.out[1] != nullptr)
        std::memcpy(o.output<float>(1) + state_at(d, b), k.h + b * s_.n_hidden, bytes);
      if (s_.cell == Cell::kLstm && o.out[2] != nullptr)
        std::memcpy(o.output<float>(2) + state_at(d, b), k.c + b * s_.n_hidden, bytes);
    }
  }

  // Initial states, biases, and the input's share of all gates.
  void start(const Operands& o, Work& k) const noexcept {
    const int64_t width = s_.width(), rows = s_.n_times * s_.n_batch;
    for (int64_t b = 0; b < s_.n_batch; ++b) {
      const auto n = static_cast<size_t>(s_.n_hidden);
      const float *h = s_.with_h ? o.input<float>(5) + state_at(k.d, b) : nullptr,
                  *c = s_.with_c ? o.input<float>(6) + state_at(k.d, b) : nullptr;
      for (size_t i = 0; i < n; ++i) k.h[b * s_.n_hidden + static_cast<int64_t>(i)] = h ? h[i] : 0;
      for (size_t i = 0; i < n; ++i) k.c[b * s_.n_hidden + static_cast<int64_t>(i)] = c ? c[i] : 0;
    }
    // The hidden gate of a GRU keeps its two biases apart: one may stand inside the reset.
    const int64_t joined =
        s_.cell == Cell::kGru && s_.linear_before_reset ? 2 * s_.n_hidden : width;
    const float* bias = s_.with_bias ? o.input<float>(3) + k.d * 2 * width : nullptr;
    for (int64_t i = 0; i < width; ++i) {
      k.bias[i] = bias ? bias[i] + (i < joined ? bias[width + i] : 0) : 0;
      k.hidden_bias[i] = bias && i >= joined ? bias[width + i] : 0;
    }
    // Rows time by time, whatever the layout.
    for (int64_t t = 0; t < s_.n_times; ++t)
      for (int64_t b = 0; b < s_.n_batch; ++b)
        std::memcpy(k.x + (t * s_.n_batch + b) * s_.n_in,
                    o.input<float>(0) +
                        (s_.batch_first ? b * s_.n_times + t : t * s_.n_batch + b) * s_.n_in,
                    static_cast<size_t>(s_.n_in) * sizeof(float));
    if (k.weights->packed) {
      LinearOut to;
      to.y = {k.gates, rows, width};
      to.bias = k.bias;
      o.ops->linear({k.x, rows, s_.n_in}, k.weights->w, to);
    } else {
      o.ops->product({k.x, rows, s_.n_in},
                     {o.input<float>(1) + k.d * width * s_.n_in, width, s_.n_in}, true,
                     {k.gates, rows, width});
      for (int64_t i = 0; i < rows * width; ++i) k.gates[i] += k.bias[i % width];
    }
  }

  // out = h R^T of gates [first, last).
  void hidden_product(const Operands& o, const Work& k, const float* h, float* out) const noexcept {
    const int64_t width = s_.width();
    if (k.weights->packed) {
      LinearOut to;
      to.y = {out, s_.n_batch, width};
      o.ops->linear({h, s_.n_batch, s_.n_hidden}, k.weights->r, to);
    } else {
      o.ops->product({h, s_.n_batch, s_.n_hidden},
                     {o.input<float>(2) + k.d * width * s_.n_hidden, width, s_.n_hidden}, true,
                     {out, s_.n_batch, width});
    }
  }

  void bound(View<float> v) const noexcept {
    if (s_.clip <= 0) return;
    for (int64_t r = 0; r < v.rows; ++r)
      for (int64_t i = 0; i < v.cols; ++i) v.row(r)[i] = std::clamp(v.row(r)[i], -s_.clip, s_.clip);
  }
  void activate(const Operands& o, View<float> v, Activation f) const noexcept {
    bound(v);
    o.ops->activate(v, f);
  }

  void step(const Operands& o, Work& k, int64_t t, bool reverse) const noexcept {
    const int64_t width = s_.width(), H = s_.n_hidden;
    // A shorter sequence is turned within its own length.
    for (int64_t b = 0; b < s_.n_batch; ++b) {
      const int64_t n = length(o, b), at = !reverse ? t : t < n ? n - 1 - t : t;
      std::memcpy(k.now + b * width, k.gates + (at * s_.n_batch + b) * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
    hidden_product(o, k, k.h, k.side);
    if (s_.cell == Cell::kLstm) lstm(o, k, t);
    if (s_.cell == Cell::kGru) gru(o, k, t);
    if (s_.cell == Cell::kRnn) {
      for (int64_t i = 0; i < s_.n_batch * H; ++i) k.now[i] += k.side[i];
      activate(o, {k.now, s_.n_batch, H}, k.f[0]);
      for (int64_t b = 0; b < s_.n_batch; ++b)
        if (t < length(o, b)) std::copy_n(k.now + b * H, H, k.h + b * H);
    }
    if (o.out[0] == nullptr) return;
    for (int64_t b = 0; b < s_.n_batch; ++b) {
      const int64_t n = length(o, b), at = !reverse ? t : t < n ? n - 1 - t : t;
      float* y =
          o.output<float>(0) + (s_.batch_first ? ((b * s_.n_times + at) * s_.n_directions + k.d)
                                               : ((at * s_.n_directions + k.d) * s_.n_batch + b)) *
                                   H;
      for (int64_t i = 0; i < H; ++i) y[i] = t < n ? k.h[b * H + i] : 0;
    }
  }

  // Gates i, o, f, c.
  void lstm(const Operands& o, Work& k, int64_t t) const noexcept {
    const int64_t H = s_.n_hidden, width = 4 * H;
    for (int64_t i = 0; i < s_.n_batch * width; ++i) k.now[i] += k.side[i];
    const View<float> now(k.now, s_.n_batch, width);
    if (k.peepholes != nullptr)
      for (int64_t b = 0; b < s_.n_batch; ++b)
        for (int64_t j = 0; j < H; ++j) {
          k.now[b * width + j] += k.peepholes[j] * k.c[b * H + j];
          k.now[b * width + 2 * H + j] += k.peepholes[2 * H + j] * k.c[b * H + j];
        }
    activate(o, now.cols_from(0, H), k.f[0]);
    if (!s_.input_forget) activate(o, now.cols_from(2 * H, H), k.f[0]);
    activate(o, now.cols_from(3 * H, H), k.f[1]);
    if (k.peepholes == nullptr) activate(o, now.cols_from(H, H), k.f[0]);
    for (int64_t b = 0; b < s_.n_batch; ++b) {
      const float* g = k.now + b * width;
      float *c = k.c + b * H, *next = k.side + b * H;
      for (int64_t j = 0; j < H; ++j) {
        const float forget = s_.input_forget ? 1 - g[j] : g[2 * H + j];
        next[j] = forget * c[j] + g[j] * g[3 * H + j];
      }
      if (k.peepholes != nullptr)
        for (int64_t j = 0; j < H; ++j) k.now[b * width + H + j] += k.peepholes[H + j] * next[j];
      if (t < length(o, b)) std::copy_n(next, H, c);
    }
    if (k.peepholes != nullptr) activate(o, now.cols_from(H, H), k.f[0]);
    o.ops->activate({k.side, s_.n_batch, H}, k.f[2]);
    for (int64_t b = 0; b < s_.n_batch; ++b)
      for (int64_t j = 0; t < length(o, b) && j < H; ++j)
        k.h[b * H + j] = k.now[b * width + H + j] * k.side[b * H + j];
  }

  // Gates z, r, h.
  void gru(const Operands& o, Work& k, int64_t t) const noexcept {
    const int64_t H = s_.n_hidden, width = 3 * H;
    const View<float> now(k.now, s_.n_batch, width);
    for (int64_t b = 0; b < s_.n_batch; ++b)
      for (int64_t j = 0; j < 2 * H; ++j) k.now[b * width + j] += k.side[b * width + j];
    activate(o, now.cols_from(0, 2 * H), k.f[0]);
    if (!s_.linear_before_reset) {
      for (int64_t b = 0; b < s_.n_batch; ++b)
        for (int64_t j = 0; j < H; ++j)
          k.reset_h[b * H + j] = k.now[b * width + H + j] * k.h[b * H + j];
      hidden_product(o, k, k.reset_h, k.side);
    }
    for (int64_t b = 0; b < s_.n_batch; ++b)
      for (int64_t j = 0; j < H; ++j) {
        const float hidden = k.side[b * width + 2 * H + j];
        k.now[b * width + 2 * H + j] +=
            s_.linear_before_reset ? k.now[b * width + H + j] * (hidden + k.hidden_bias[2 * H + j])
                                   : hidden;
      }
    activate(o, now.cols_from(2 * H, H), k.f[1]);
    for (int64_t b = 0; b < s_.n_batch; ++b)
      for (int64_t j = 0; t < length(o, b) && j < H; ++j) {
        const float z = k.now[b * width + j];
        k.h[b * H + j] = (1 - z) * k.now[b * width + 2 * H + j] + z * k.h[b * H + j];
      }
  }

  Sizes s_;
  std::vector<Side> sides_;
};

template <Cell kCell>
Prepared recurrent(NodeContext& c) {
  const auto sizes = read_sizes(c, kCell);
  if (!sizes) return sizes.error();
  const Sizes& s = sizes.value();
  c.output(0, DType::kF32,
           s.batch_first ? Shape{s.n_batch, s.n_times, s.n_directions, s.n_hidden}
                         : Shape{s.n_times, s.n_directions, s.n_batch, s.n_hidden});
  const Shape state = s.batch_first ? Shape{s.n_batch, s.n_directions, s.n_hidden}
                                    : Shape{s.n_directions, s.n_batch, s.n_hidden};
  c.output(1, DType::kF32, state);
  if (kCell == Cell::kLstm) c.output(2, DType::kF32, state);
  std::vector<Side> sides(static_cast<size_t>(s.n_directions));
  const int64_t width = s.width();
  for (int64_t d = 0; d < s.n_directions; ++d) {
    Side& side = sides[static_cast<size_t>(d)];
    side.packed = c.is_constant(1) && c.is_constant(2);
    if (!side.packed) continue;
    const auto w = pack_weight(c, c.constant<float>(1) + d * width * s.n_in, width, s.n_in, true);
    if (!w) return w.error();
    const auto r =
        pack_weight(c, c.constant<float>(2) + d * width * s.n_hidden, width, s.n_hidden, true);
    if (!r) return r.error();
    side.w = w.value();
    side.r = r.value();
  }
  c.will_multiply(s.n_times * s.n_batch, s.n_in);
  c.count_flop(2.0 * static_cast<double>(s.n_directions * s.n_times * s.n_batch * width) *
               static_cast<double>(s.n_in + s.n_hidden));
  c.will_multiply(s.n_batch, s.n_hidden);
  c.will_multiply_by(width, std::max(s.n_in, s.n_hidden));
  c.scratch(RecurrentKernel::scratch_values(s) * sizeof(float));
  return std::unique_ptr<Kernel>(new RecurrentKernel(s, std::move(sides)));
}

constexpr Operator kOperators[] = {
    {"GRU", 7, kMaxOpset, recurrent<Cell::kGru>, true},
    {"LSTM", 7, kMaxOpset, recurrent<Cell::kLstm>, true},
    {"RNN", 7, kMaxOpset, recurrent<Cell::kRnn>, true},
};

}  // namespace

std::span<const Operator> recurrent_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
