#include "onnx/operators.h"

#include <algorithm>
#include <cstring>

namespace outrider::onnx {
namespace {

constexpr PlannedOperator kPlanned[] = {{"Constant", 1}, {"If", 1}, {"Loop", 1}};

std::vector<Operator> collect() {
  std::vector<Operator> all;
  for (const auto part :
       {elementwise_operators, unary_operators, compare_operators, matrix_operators,
        shape_operators, layout_operators, gather_operators, reduce_operators, norm_operators,
        softmax_operators, conv_operators, pool_operators, recurrent_operators, resize_operators,
        select_operators, cast_operators, einsum_operators, quantize_operators}) {
    const auto rows = part();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::sort(all.begin(), all.end(), [](const Operator& a, const Operator& b) {
    const int order = std::strcmp(a.name, b.name);
    return order != 0 ? order < 0 : a.since < b.since;
  });
  return all;
}

}  // namespace

std::span<const Operator> operators() {
  static const std::vector<Operator> all = collect();
  return all;
}

std::span<const PlannedOperator> planned_operators() {
  return kPlanned;
}

const Operator* find_operator(std::string_view op, int64_t opset) {
  for (const Operator& row : operators())
    if (op == row.name && opset >= row.since && opset <= row.last) return &row;
  return nullptr;
}

bool knows_operator(std::string_view op) {
  const auto named = [&](const auto& row) { return op == row.name; };
  return std::ranges::any_of(operators(), named) || std::ranges::any_of(kPlanned, named);
}

}  // namespace outrider::onnx
