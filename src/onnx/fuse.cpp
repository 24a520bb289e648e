#include "onnx/fuse.h"

#include <algorithm>
#include <unordered_map>

namespace outrider::onnx {
namespace {

struct Uses {
  std::unordered_map<std::string, size_t> maker, count;
  std::unordered_map<std::string, std::vector<size_t>> readers;

  void note_inner(const Graph& g) {
    for (const Node& node : g.nodes) {
      for (const std::string& name : node.inputs) count[name] += 1000;  // never fused away
      for (const Attribute& a : node.attributes)
        if (a.graph) note_inner(*a.graph);
    }
    for (const Declared& output : g.outputs) count[output.name] += 1000;
  }

  explicit Uses(const Graph& g) {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      for (const std::string& name : g.nodes[i].outputs) maker[name] = i;
      for (const std::string& name : g.nodes[i].inputs) {
        ++count[name];
        readers[name].push_back(i);
      }
      for (const Attribute& a : g.nodes[i].attributes)
        if (a.graph) note_inner(*a.graph);
    }
    for (const Declared& output : g.outputs) count[output.name] += 1000;
  }
};

bool is_product(const Node& node) {
  return node.domain.empty() && (node.op == "Gemm" || node.op == "MatMul" || node.op == "Conv") &&
         node.outputs.size() == 1;
}

Activation activation_of(const Node& node) {
  if (!node.domain.empty() || node.inputs.size() != 1 || node.outputs.size() != 1)
    return Activation::kNone;
  if (node.op == "Relu") return Activation::kRelu;
  if (node.op == "Sigmoid") return Activation::kSigmoid;
  if (node.op == "Tanh") return Activation::kTanh;
  if (node.op == "HardSwish") return Activation::kHardSwish;
  if (node.op == "Elu") {
    const Attribute* alpha = node.find("alpha");
    if (alpha == nullptr || (alpha->kind == Attribute::Kind::kFloat && alpha->f == 1))
      return Activation::kElu;
  }
  return Activation::kNone;
}

const Tensor* constant_of(const Graph& g, const std::string& name) {
  for (const Declared& input : g.inputs)
    if (input.name == name) return nullptr;
  for (const Tensor& tensor : g.initializers)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

class Fuser {
 public:
  explicit Fuser(Graph& g) : g_(g), uses_(g), gone_(g.nodes.size(), false) {}

  void run() {
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (gone_[i] || !is_product(g_.nodes[i])) continue;
      take_bias(i);
      take_activation(i);
    }
    std::vector<Node> kept;
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (!gone_[i]) {
        note_sole(g_.nodes[i]);
        kept.push_back(std::move(g_.nodes[i]));
      }
    g_.nodes = std::move(kept);
  }

 private:
  void note_sole(Node& node) {
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 32); ++i)
      if (uses_.maker.contains(node.inputs[i]) && uses_.count[node.inputs[i]] == 1)
        node.sole |= 1u << i;
  }

  const std::vector<size_t>& readers(const std::string& name) { return uses_.readers[name]; }

  void replace(size_t product, size_t last) {
    g_.nodes[product].outputs[0] = g_.nodes[last].outputs[0];
    gone_[last] = true;
  }

  // Only where the constant is one row as wide as the weight: nothing is broadcast the other way.
  void take_bias(size_t i) {
    Node& product = g_.nodes[i];
    if (product.op != "MatMul" || product.inputs.size() != 2) return;
    const std::string y = product.outputs[0];
    const Tensor* weight = constant_of(g_, product.inputs[1]);
    if (weight == nullptr || weight->dims.size() != 2 || uses_.count[y] != 1) return;
    const size_t reader = readers(y)[0];
    const Node& add = g_.nodes[reader];
    if (!add.domain.empty() || add.op != "Add" || add.inputs.size() != 2) return;
    const std::string& other = add.inputs[add.inputs[0] == y ? 1 : 0];
    const Tensor* bias = constant_of(g_, other);
    if (bias == nullptr || bias->dims.size() != 1 || bias->dims[0] != weight->dims[1] ||
        bias->type != weight->type)
      return;
    product.inputs.push_back(other);
    replace(i, reader);
  }

  void take_activation(size_t i) {
    const std::string y = g_.nodes[i].outputs[0];
    const size_t n = uses_.count[y];
    if (n == 1) {
      const size_t reader = readers(y)[0];
      const Activation activation = activation_of(g_.nodes[reader]);
      if (activation == Activation::kNone) return;
      g_.nodes[i].activation = activation;
      replace(i, reader);
    } else if (n == 2) {
      take_silu(i, y);
    }
  }

  void take_silu(size_t i, const std::string& y) {
    const auto& both = readers(y);
    if (both.size() != 2 || both[0] == both[1]) return;
    for (const auto& [s, m] : {std::pair(both[0], both[1]), std::pair(both[1], both[0])}) {
      const Node &sigmoid = g_.nodes[s], &mul = g_.nodes[m];
      if (activation_of(sigmoid) != Activation::kSigmoid || !mul.domain.empty() ||
          mul.op != "Mul" || mul.inputs.size() != 2)
        continue;
      const std::string& gate = sigmoid.outputs[0];
      if (uses_.count[gate] != 1 || (mul.inputs[0] != gate && mul.inputs[1] != gate)) continue;
      g_.nodes[i].activation = Activation::kSilu;
      gone_[s] = true;
      replace(i, m);
      return;
    }
  }

  Graph& g_;
  Uses uses_;
  std::vector<bool> gone_;
};

}  // namespace

void fuse(Graph& graph) {
  Fuser(graph).run();
}

}  // namespace outrider::onnx
