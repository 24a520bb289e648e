// Products that end in an activation become one node: the result is the same to the rounding of
// f32.
#pragma once
#include "onnx/model.h"

namespace outrider::onnx {

// Of a sorted graph, its subgraphs left alone:
//   Gemm, MatMul or Conv -> Relu, Sigmoid, Tanh, HardSwish, Elu (alpha 1)  when nothing else reads between
//   the same x -> Sigmoid(x), Mul(x, Sigmoid(x))                  x * sigmoid(x)
//   MatMul -> Add of a constant row                                becomes the product's bias
// A node in the middle goes; the product takes over its output's name. Of the nodes that stay, each
// learns which of its inputs it alone reads (Node::sole).
void fuse(Graph& graph);

}  // namespace outrider::onnx
