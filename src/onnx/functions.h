// Functions of a file: each call is replaced by the nodes that the function stands for.
#pragma once
#include <span>
#include <string>

#include "base/result.h"
#include "onnx/model.h"

namespace outrider::onnx {

// Replaces every node of `graph` and its subgraphs that names one of `functions`, and calls inside
// functions, by the nodes of the body. Values of a body get a name of their own for each call, an
// attribute that refers to one of the caller's takes its value or the function's default, and is
// left out where there is neither. Constant arrays are shared, not copied.
// Errors: kNotFound for a function that is defined twice, calls itself, is called with more inputs
// or outputs than it has, or makes more than kMaxNodes nodes of one file.
Result<void> inline_functions(Graph& graph, std::span<const Function> functions,
                              const std::string& file);

}  // namespace outrider::onnx
