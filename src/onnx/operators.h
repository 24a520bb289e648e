// The operators of this build: one table, from which the registry, the claims of the reference page
// and the tests of the standard's node tests are made.
#pragma once
#include <span>
#include <string_view>

#include "onnx/kernel.h"

namespace outrider::onnx {

// What an operator does with inputs in channel blocks (channels.h).
enum class Channels : uint8_t {
  kRows,   // wants none: they are laid out in rows before it
  kReads,  // its prepare looks at is_blocked()
  kEach,   // treats every value alone, with broadcasting: sees arrays with one dimension more
};

struct Operator {
  const char* name;
  int64_t since, last;  // opsets in which this definition is the one that holds
  Prepare prepare;
  // Computes in f32: f16 and bf16 inputs are widened before it and its f32 results narrowed again.
  bool in_f32 = false;
  Channels channels = Channels::kRows;
};

// The definition of `op` in `opset`, or null.
const Operator* find_operator(std::string_view op, int64_t opset);
// Is there one in any opset?
bool knows_operator(std::string_view op);
// All of them, sorted by name, then opset.
std::span<const Operator> operators();
// Operators that the planner itself resolves (If, Loop, Constant): listed, not in operators().
struct PlannedOperator {
  const char* name;
  int64_t since;
};
std::span<const PlannedOperator> planned_operators();

// What each file below ops/ has.
std::span<const Operator> elementwise_operators();
std::span<const Operator> unary_operators();
std::span<const Operator> compare_operators();
std::span<const Operator> matrix_operators();
std::span<const Operator> shape_operators();
std::span<const Operator> layout_operators();
std::span<const Operator> gather_operators();
std::span<const Operator> reduce_operators();
std::span<const Operator> norm_operators();
std::span<const Operator> softmax_operators();
std::span<const Operator> conv_operators();
std::span<const Operator> pool_operators();
std::span<const Operator> recurrent_operators();
std::span<const Operator> resize_operators();
std::span<const Operator> select_operators();
std::span<const Operator> cast_operators();
std::span<const Operator> einsum_operators();
std::span<const Operator> quantize_operators();

}  // namespace outrider::onnx
