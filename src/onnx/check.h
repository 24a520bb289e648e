// Rules of a graph that no single message shows: every name defined once and before it is used.
#pragma once
#include <string>

#include "base/result.h"
#include "onnx/model.h"

namespace outrider::onnx {

// Puts the nodes of the graph and its subgraphs into an order in which each follows what it reads
// (a stable one: a sorted file stays as it is). Errors: kNotFound for a repeated or undefined name,
// a cycle, an output nobody makes; the line names `file`, node and value.
Result<void> check_and_sort(Graph& graph, const std::string& file);

}  // namespace outrider::onnx
