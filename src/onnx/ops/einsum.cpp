// Einsum: each operand is summed over what it alone has and laid out as [batch, rows, k]; operands
// are then multiplied one after the other, and the result is turned into the order asked for.
#include <algorithm>
#include <map>
#include <vector>

#include "onnx/operators.h"
#include "onnx/ops/broadcast.h"

namespace outrider::onnx {
namespace {

using Letters = std::vector<int>;  // of a term; those an ellipsis stands for are negative
using Sizes = std::map<int, int64_t>;

// A walk through an array: dimensions of the result, then those that are summed over.
struct Walk {
  std::vector<int64_t> dims, strides, sum_dims, sum_strides;
  int64_t n_out = 1;
  bool as_it_is = false;  // the result is the input, place by place
};

int64_t stride_of(const Letters& term, const Shape& shape, int letter) {
  int64_t step = 1, stride = 0;
  for (size_t i = term.size(); i-- > 0;) {
    const int64_t size = shape[static_cast<int>(i)];
    if (term[i] == letter && size != 1) stride += step;  // a repeated letter walks the diagonal
    step *= size;
  }
  return stride;
}

bool has(const Letters& term, int letter) {
  return std::ranges::find(term, letter) != term.end();
}

Walk walk_of(const Letters& term, const Shape& shape, const Sizes& sizes, const Letters& out) {
  Walk w;
  for (const int letter : out) {
    w.dims.push_back(sizes.at(letter));
    w.strides.push_back(stride_of(term, shape, letter));
    w.n_out *= sizes.at(letter);
  }
  for (size_t i = 0; i < term.size(); ++i) {
    if (has(out, term[i]) || std::find(term.begin(), term.begin() + static_cast<long>(i),
                                       term[i]) != term.begin() + static_cast<long>(i))
      continue;
    w.sum_dims.push_back(sizes.at(term[i]));
    w.sum_strides.push_back(stride_of(term, shape, term[i]));
  }
  int64_t step = 1;
  w.as_it_is = w.sum_dims.empty() && w.n_out == shape.n_values();
  for (size_t i = out.size(); i-- > 0; step *= w.dims[i])
    w.as_it_is = w.as_it_is && (w.dims[i] == 1 || w.strides[i] == step);
  return w;
}

// f(offset) for every place of some dimensions, the last one fastest.
template <class F>
void each(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, const F& f) {
  int64_t index[2 * kMaxRank + 2] = {}, at = 0, n = 1;
  for (const int64_t dim : dims) n *= dim;
  for (int64_t i = 0; i < n; ++i) {
    f(at);
    for (size_t d = dims.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < dims[d]) break;
      at -= dims[d] * strides[d];
      index[d] = 0;
    }
  }
}

// What sums of a type are taken in: whole numbers wrap.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

template <class T>
void walk(const Walk& w, const T* x, T* y) {
  if (w.sum_dims.empty()) return each(w.dims, w.strides, [&](int64_t at) { *y++ = x[at]; });
  each(w.dims, w.strides, [&](int64_t at) {
    Sum<T> sum{};
    each(w.sum_dims, w.sum_strides, [&](int64_t k) { sum += static_cast<Sum<T>>(x[at + k]); });
    *y++ = static_cast<T>(sum);
  });
}

// One product of two operands laid out as [batch, m, k] and [batch, n, k] (or [batch, k, n]).
struct Product {
  Walk left, right;
  int64_t n_batch = 1, m = 1, n = 1, k = 1;
  bool right_is_turned = false;                     // [batch, n, k]
  size_t left_at = 0, right_at = 0, result_at = 0;  // bytes in the scratch

  template <class T>
  void run(const T* a, const T* b, T* y, Ops* ops) const {
    for (int64_t i = 0; i < n_batch; ++i, a += m * k, b += n * k, y += m * n) {
      if constexpr (std::is_same_v<T, float>) {
        const int64_t rows = right_is_turned ? n : k, columns = right_is_turned ? k : n;
        ops->product({a, m, k}, {b, rows, columns}, right_is_turned, {y, m, n});
      } else {
        for (int64_t r = 0; r < m; ++r)
          for (int64_t col = 0; col < n; ++col) {
            Sum<T> sum{};
            for (int64_t j = 0; j < k; ++j)
              sum += static_cast<Sum<T>>(a[r * k + j]) *
                     static_cast<Sum<T>>(right_is_turned ? b[col * k + j] : b[j * n + col]);
            y[r * n + col] = static_cast<T>(sum);
          }
      }
    }
  }
};

struct Equation {
  std::vector<Letters> terms;
  Letters out;
};

// Letters of a term; `n_more` dimensions where the three dots are, -1: as many as are left.
Result<Letters> read_term(const NodeContext& c, const std::string& text, int rank, int dots_rank) {
  Letters letters;
  int named = 0;
  for (const char ch : text) named += ch != '.';
  const bool dots = text.find("...") != std::string::npos;
  const int more = !dots ? 0 : rank >= 0 ? rank - named : dots_rank;
  if (more < 0 || (rank >= 0 && named + more != rank) || named + more > static_cast<int>(kMaxRank))
    return c.wrong("equation: term \"%.40s\" for %d dimensions", text.c_str(), rank);
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      letters.push_back(ch);
    } else if (text.compare(i, 3, "...") == 0 && text.find('.', i + 3) == std::string::npos) {
      for (int d = more; d > 0; --d) letters.push_back(-d);  // counted from the right
      i += 2;
    } else {
      return c.wrong("equation: \"%.40s\"", text.c_str());
    }
  }
  return letters;
}

Result<Equation> read_equation(const NodeContext& c) {
  std::string text = c.text("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> parts{""};
  for (const char ch : left) {
    if (ch == ',')
      parts.emplace_back();
    else
      parts.back() += ch;
  }
  if (parts.size() != c.n_inputs())
    return c.wrong("equation \"%.60s\" for %zu inputs", text.c_str(), c.n_inputs());
  Equation e;
  std::map<int, int> count;
  int most_dots = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto term = read_term(c, parts[i], c.shape(i).rank(), 0);
    if (!term) return term.error();
    for (const int letter : term.value()) {
      ++count[letter];
      most_dots = std::max(most_dots, -letter);
    }
    e.terms.push_back(std::move(term.value()));
  }
  if (arrow == std::string::npos) {  // what occurs once, in the order of the alphabet
    for (const auto& [letter, n] : count)
      if (letter < 0 || n == 1) e.out.push_back(letter);
    return e;
  }
  auto out = read_term(c, text.substr(arrow + 2), -1, most_dots);
  if (!out) return out.error();
  e.out = std::move(out.value());
  for (size_t i = 0; i < e.out.size(); ++i)
    if (!count.contains(e.out[i]) || std::ranges::count(e.out, e.out[i]) != 1)
      return c.wrong("equation \"%.60s\": its result", text.c_str());
  return e;
}

Result<Sizes> sizes_of(const NodeContext& c, const Equation& e) {
  Sizes sizes;
  for (size_t i = 0; i < e.terms.size(); ++i)
    for (size_t d = 0; d < e.terms[i].size(); ++d) {
      const int letter = e.terms[i][d];
      const int64_t size = c.shape(i)[static_cast<int>(d)];
      int64_t& known = sizes.emplace(letter, size).first->second;
      if (known != size && known != 1 && size != 1)
        return c.wrong("sizes %lld and %lld for one letter", static_cast<long long>(known),
                       static_cast<long long>(size));
      if (known == 1) known = size;
      if (size < 1) return c.unsupported("an empty operand");
    }
  return sizes;
}

struct Plan {
  std::vector<Product> products;
  Walk last;  // of the only operand, or of the last product
  size_t last_at = 0;
};

Shape shape_of(const Letters& letters, const Sizes& sizes) {
  Shape s;
  for (const int letter : letters) s.push_back(sizes.at(letter));
  return s;
}

// The operands from left to right; the scratch takes what is laid out anew.
Result<Plan> plan_of(NodeContext& c, const Equation& e, const Sizes& sizes) {
  Plan plan;
  const size_t value_bytes = dtype_bytes(c.dtype(0));
  size_t used = 0;
  const auto place = [&](int64_t n) {
    const size_t n_bytes = (static_cast<size_t>(n) * value_bytes + 63) / 64 * 64, at = used;
    c.scratch(n_bytes);
    used += n_bytes;
    return at;
  };
  Letters now = e.terms[0];
  Shape now_shape = c.shape(0);
  for (size_t i = 1; i < e.terms.size(); ++i) {
    const Letters& other = e.terms[i];
    const auto later = [&](int letter) {
      for (size_t k = i + 1; k < e.terms.size(); ++k)
        if (has(e.terms[k], letter)) return true;
      return has(e.out, letter);
    };
    Letters batch, rows, columns, sum;
    for (const int letter : now) {
      Letters& to = !has(other, letter) ? rows : later(letter) ? batch : sum;
      if ((&to != &rows || later(letter)) && !has(to, letter)) to.push_back(letter);
    }
    for (const int letter : other)
      if (!has(now, letter) && later(letter) && !has(columns, letter)) columns.push_back(letter);
    const auto joined = [](std::initializer_list<const Letters*> parts) {
      Letters all;
      for (const Letters* part : parts) all.insert(all.end(), part->begin(), part->end());
      return all;
    };
    const Letters made = joined({&batch, &rows, &columns});
    const Letters left = joined({&batch, &rows, &sum}), right = joined({&batch, &columns, &sum}),
                  plain = joined({&batch, &sum, &columns});
    if (std::max({made.size(), left.size(), right.size()}) > kMaxRank)
      return c.unsupported("more than %zu dimensions on the way", kMaxRank);
    const auto n_of = [&](const Letters& letters) { return shape_of(letters, sizes).n_values(); };
    if (std::max({n_of(made), n_of(left), n_of(right)}) > int64_t{1} << 31)
      return c.unsupported("an array of more than 2^31 values on the way");
    Product p;
    p.n_batch = n_of(batch);
    p.m = n_of(rows);
    p.n = n_of(columns);
    p.k = n_of(sum);
    p.left = walk_of(now, now_shape, sizes, left);
    p.right = walk_of(other, c.shape(i), sizes, plain);
    p.right_is_turned = !p.right.as_it_is;
    if (p.right_is_turned) p.right = walk_of(other, c.shape(i), sizes, right);
    p.left_at = p.left.as_it_is ? 0 : place(p.left.n_out);
    p.right_at = p.right.as_it_is ? 0 : place(p.right.n_out);
    p.result_at = place(n_of(made));
    c.will_multiply(p.m, p.k);
    c.will_multiply_by(p.n, p.k);
    c.count_flop(2.0 * static_cast<double>(p.n_batch * p.m) * static_cast<double>(p.n) *
                 static_cast<double>(p.k));
    plan.last_at = p.result_at;
    plan.products.push_back(std::move(p));
    now = made;
    now_shape = shape_of(made, sizes);
  }
  plan.last = walk_of(now, now_shape, sizes, e.out);
  return plan;
}

template <class T>
std::unique_ptr<Kernel> einsum_kernel(Plan plan) {
  return make_kernel([plan = std::move(plan)](const Operands& o) {
    const auto at = [&](size_t place) { return reinterpret_cast<T*>(o.scratch + place); };
    const T* now = o.input<T>(0);
    for (size_t i = 0; i < plan.products.size(); ++i) {
      const Product& p = plan.products[i];
      const T* other = o.input<T>(i + 1);
      if (!p.left.as_it_is) walk(p.left, now, at(p.left_at));
      if (!p.right.as_it_is) walk(p.right, other, at(p.right_at));
      const bool last = i + 1 == plan.products.size() && plan.last.as_it_is;
      T* y = last ? o.output<T>(0) : at(p.result_at);
      p.run(p.left.as_it_is ? now : at(p.left_at), p.right.as_it_is ? other : at(p.right_at), y,
            o.ops);
      now = y;
    }
    if (plan.products.empty() || !plan.last.as_it_is) walk(plan.last, now, o.output<T>(0));
  });
}

Prepared einsum(NodeContext& c) {
  OUTRIDER_TRY(c.require_inputs(1, 16));
  for (size_t i = 0; i < c.n_inputs(); ++i) {
    if (!c.has(i)) return c.wrong("an operand is left out");
    OUTRIDER_TRY(c.require_type(i, {DType::kF32, DType::kF64, DType::kI64, DType::kI32}));
    if (c.dtype(i) != c.dtype(0)) return c.wrong("operands of different types");
  }
  const auto equation = read_equation(c);
  if (!equation) return equation.error();
  const auto sizes = sizes_of(c, equation.value());
  if (!sizes) return sizes.error();
  auto plan = plan_of(c, equation.value(), sizes.value());
  if (!plan) return plan.error();
  c.output(0, c.dtype(0), shape_of(equation.value().out, sizes.value()));
  switch (c.dtype(0)) {
    case DType::kF32:
      return einsum_kernel<float>(std::move(plan.value()));
    case DType::kF64:
      return einsum_kernel<double>(std::move(plan.value()));
    case DType::kI64:
      return einsum_kernel<int64_t>(std::move(plan.value()));
    default:
      return einsum_kernel<int32_t>(std::move(plan.value()));
  }
}

constexpr Operator kOperators[] = {
    {"Einsum", 12, kMaxOpset, einsum, true},
};

}  // namespace

std::span<const Operator> einsum_operators() {
  return kOperators;
}

}  // namespace outrider::onnx
