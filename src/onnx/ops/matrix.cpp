// Matrix products. A constant right side is packed at open; another one as the step runs.
#include <cstring>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"
#include "onnx/ops/packed.h"

namespace outrider::onnx {
namespace {

// ---- Gemm: alpha A' B' + beta C
// ---------------------------------------------------------------------

struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  float alpha = 1, beta = 1;
};

Result<GemmSizes> gemm_sizes(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));
  for (size_t i = 0; i < c.n_inputs(); ++i)
    if (c.has(i)) OUTRIDER_TRY(c.require_type(i, {DType::kF32}));
  const Shape &a = c.shape(0), &b = c.shape(1);
  if (a.rank() != 2 || b.rank() != 2)
    return c.wrong("operands %s and %s, wanted matrices", a.text().c_str(), b.text().c_str());
  GemmSizes s;
  s.trans_a = c.integer("transA", 0) != 0;
  s.trans_b = c.integer("transB", 0) != 0;
  s.alpha = c.real("alpha", 1);
  s.beta = c.real("beta", 1);
  s.m = a[s.trans_a ? 1 : 0];
  s.k = a[s.trans_a ? 0 : 1];
  s.n = b[s.trans_b ? 0 : 1];
  if (b[s.trans_b ? 1 : 0] != s.k)
    return c.wrong("operands %s and %s do not fit each other", a.text().c_str(), b.text().c_str());
  if (s.m < 1 || s.n < 1 || s.k < 1) return c.unsupported("an empty product");
  return s;
}

void transpose(const float* x, int64_t rows, int64_t cols, float* y) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) y[j * rows + i] = x[i * cols + j];
}

// What is added behind the product when it is no plain row: beta C, broadcast to y.
struct Addend {
  bool given = false;
  Loops loops;
  float alpha = 1, beta = 1;

  void apply(const float* c, float* y, int64_t n_values) const {
    if (!given) {
      for (int64_t i = 0; i < n_values && alpha != 1; ++i) y[i] *= alpha;
      return;
    }
    const int64_t n = loops.inner(), s = loops.inner_stride(0);
    loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
      for (int64_t i = 0; i < n; ++i) y[at + i] = alpha * y[at + i] + beta * c[from[0] + i * s];
    });
  }
};

Prepared gemm(NodeContext& c) {
  const auto sizes = gemm_sizes(c);
  if (!sizes) return sizes.error();
  const GemmSizes s = sizes.value();
  const Shape out{s.m, s.n};
  c.output(0, DType::kF32, out);
  const bool with_c = c.has(2);
  if (with_c) {
    const auto shape = broadcast_shape(c, c.shape(2), out);
    if (!shape) return shape.error();
    if (!(shape.value() == out)) return c.wrong("addend %s is larger", c.shape(2).text().c_str());
  }
  // A whole row that is added as it is goes into the product.
  const bool row_bias = with_c && s.alpha == 1 && s.beta == 1 && c.shape(2).n_values() == s.n &&
                        c.shape(2).rank() > 0 && c.shape(2).back() == s.n;
  Addend addend;
  addend.alpha = s.alpha;
  addend.beta = s.beta;
  addend.given = with_c && !row_bias;
  if (addend.given) addend.loops = Loops(out, {&c.shape(2)});
  const bool late = addend.given || s.alpha != 1;
  const bool turn = s.trans_a && s.m > 1 && s.k > 1;
  if (turn) c.scratch(static_cast<size_t>(s.m * s.k) * sizeof(float));
  c.will_multiply(s.m, s.k);
  c.count_flop(2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k));
  const Activation activation = c.node().activation;
  const auto after = [=](const Operands& o) {
    float* y = o.output<float>(0);
    if (late) addend.apply(o.input<float>(2), y, s.m * s.n);
    if (late && activation != Activation::kNone) o.ops->activate({y, s.m, s.n}, activation);
  };
  const auto left = [=](const Operands& o) {
    if (turn) transpose(o.input<float>(0), s.k, s.m, reinterpret_cast<float*>(o.scratch));
    return View<const float>(turn ? reinterpret_cast<const float*>(o.scratch) : o.input<float>(0),
                             s.m, s.k);
  };
  if (c.is_constant(1)) {
    const auto weight = pack_weight(c, c.constant<float>(1), s.n, s.k, s.trans_b);
    if (!weight) return weight.error();
    return make_kernel([=, w = weight.value()](const Operands& o) {
      LinearOut to;
      to.y = {o.output<float>(0), s.m, s.n};
      to.bias = row_bias ? o.input<float>(2) : nullptr;
      to.activation = late ? Activation::kNone : activation;
      o.ops->linear(left(o), w, to);
      after(o);
    });
  }
  c.will_multiply_by(s.n, s.k);
  return make_kernel([=](const Operands& o) {
    float* y = o.output<float>(0);
    o.ops->product(left(o), {o.input<float>(1), s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n},
                   s.trans_b, {y, s.m, s.n});
    if (row_bias)
      for (int64_t i = 0; i < s.m * s.n; ++i) y[i] += o.input<float>(2)[i % s.n];
    if (!late && activation != Activation::kNone) o.ops->activate({y, s.m, s.n}, activation);
    after(o);
  });
}

// ---- MatMul: NumPy's rules
// ---------------------------------------------------------------------------

Shape batch_of(const Shape& s) {
  return Shape(s.dims().first(static_cast<size_t>(s.rank() - 2)));
}

Prepared matmul(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(2, 3));  // the third is a bias that fuse() put there
  OUTRIDER_TRY(c.require_type(0, {DType::kF32}));
  OUTRIDER_TRY(c.require_type(1, {DType::kF32}));
  Shape a = c.shape(0), b = c.shape(1);
  if (a.rank() == 0 || b.rank() == 0) return c.wrong("an operand is a single value");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = {1, a[0]};
  if (column) b = {b[0], 1};
  const int64_t m = a[a.rank() - 2], k = a.back(), n = b.back();
  if (b[b.rank() - 2] != k)
    return c.wrong("operands %s and %s do not fit each other", c.shape(0).text().c_str(),
                   c.shape(1).text().c_str());
  const auto batch = broadcast_shape(c, batch_of(a), batch_of(b));
  if (!batch) return batch.error();
  Shape out = batch.value();
  if (out.rank() + (row ? 0 : 1) + (column ? 0 : 1) > static_cast<int>(kMaxRank))
    return c.unsupported("a result of more than %zu dimensions", kMaxRank);
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  c.output(0, DType::kF32, out);
  if (m < 1 || n < 1 || k < 1 || batch.value().n_values() < 1)
    return c.unsupported("an empty product");
  const Activation activation = c.node().activation;
  const bool with_bias = c.has(2);
  if (b.rank() == 2 && c.is_constant(1)) {
    const int64_t rows = a.product(0, a.rank() - 1);
    c.will_multiply(rows, k);
    c.count_flop(2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k));
    const auto weight = pack_weight(c, c.constant<float>(1), n, k, false);
    if (!weight) return weight.error();
    return make_kernel([=, w = weight.value()](const Operands& o) {
      LinearOut to;
      to.y = {o.output<float>(0), rows, n};
      to.bias = with_bias ? o.input<float>(2) : nullptr;
      to.activation = activation;
      o.ops->linear({o.input<float>(0), rows, k}, w, to);
    });
  }
  if (with_bias) return c.wrong("three inputs");
  c.will_multiply(m, k);
  c.count_flop(2.0 * static_cast<double>(batch.value().n_values() * m) * static_cast<double>(n) *
               static_cast<double>(k));
  c.will_multiply_by(n, k);
  Shape batch_a = batch_of(a), batch_b = batch_of(b);
  const Loops loops(batch.value(), {&batch_a, &batch_b});
  return make_kernel([=](const Operands& o) {
    const int64_t inner = loops.inner(), sa = loops.inner_stride(0), sb = loops.inner_stride(1);
    float* y = o.output<float>(0);
    loops.rows(0, loops.n_rows(), [&](int64_t at, const int64_t* from) {
      for (int64_t i = 0; i < inner; ++i) {
        const float *x = o.input<float>(0) + (from[0] + i * sa) * m * k,
                    *w = o.input<float>(1) + (from[1] + i * sb) * k * n;
        o.ops->product({x, m, k}, {w, k, n}, false, {y + (at + i) * m * n, m, n});
      }
    });
    if (activation != Activation::kNone)
      o.ops->activate({y, 1, loops.n_values * m * n}, activation);
  });
}

constexpr Operator kOperators[] = {
    {"Gemm", 7, kMaxOpset, gemm, true},
    {"MatMul", 1, kMaxOpset, matmul, true},
};

}  // namespace

std::span<const Operator> matrix_operators() {
  return kOperators;
}

Result<Weight> pack_weight(NodeContext& c, const float* values, int64_t n_out, int64_t n_in,
                           bool rows_are_outputs) {
  std::vector<float> turned;
  if (!rows_are_outputs) {
    turned.resize(static_cast<size_t>(n_out * n_in));
    transpose(values, n_in, n_out, turned.data());
    values = turned.data();
  }
  const Matrix parts[] = {{DType::kF32, n_out, n_in, values}};
  auto n_bytes = c.ops().packed_bytes(parts, Stack::kRows, c.precision());
  if (!n_bytes) return n_bytes.error();
  return c.ops().pack(parts, Stack::kRows, c.precision(), c.keep(n_bytes.value()));
}

}  // namespace outrider::onnx
