// Names, inputs, constants and the operators that choose between graphs.
#include "base/printable.h"
#include "onnx/fuse.h"
#include "onnx/planner.h"

namespace outrider::onnx {
namespace {

void collect_reads(const Node& node, std::set<std::string>& reads) {
  for (const std::string& input : node.inputs) reads.insert(input);
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const Node& inner : attribute.graph->nodes) collect_reads(inner, reads);
    for (const Declared& output : attribute.graph->outputs) reads.insert(output.name);
  }
}

// Which nodes of a sorted graph lead to an output.
std::vector<bool> useful_nodes(const Graph& graph) {
  std::set<std::string> wanted;
  for (const Declared& output : graph.outputs) wanted.insert(output.name);
  std::vector<bool> useful(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    for (const std::string& output : graph.nodes[i].outputs)
      useful[i] = useful[i] || wanted.contains(output);
    if (useful[i]) collect_reads(graph.nodes[i], wanted);
  }
  return useful;
}

Graph* graph_of(Node& node, const char* name) {
  for (Attribute& attribute : node.attributes)
    if (attribute.name == name && attribute.graph) return attribute.graph.get();
  return nullptr;
}

}  // namespace

int Planner::Scope::find(const std::string& name) const {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  return outer != nullptr ? outer->find(name) : kBroken;
}

void Planner::problem(const Error& error) {
  // A damaged file is worse than an operator that is missing, a missing size is the mildest.
  const auto rank = [](Code code) {
    return code == Code::kOk ? 0 : code == Code::kInvalid ? 1 : code == Code::kUnsupported ? 2 : 3;
  };
  if (rank(error.code) > rank(code_)) code_ = error.code;
  problems_.lines.emplace_back(error.text);
}

std::optional<Shape> Planner::fixed_shape(const Declared& input) {
  const std::string shown = printable(input.name);
  if (!input.has_shape) {
    problem(make_error(Code::kUnsupported, "input %s has no shape", shown.c_str()));
    return std::nullopt;
  }
  Shape shape;
  bool whole = true;
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const Dim& dim = input.dims[i];
    // A dimension without a name goes by its input and place.
    const std::string name = dim.name.empty() ? input.name + "." + std::to_string(i) : dim.name;
    const auto given = options_.dims.find(name);
    const int64_t size = dim.size >= 0                  ? dim.size
                         : given != options_.dims.end() ? given->second
                                                        : -1;
    if (size < 0) {
      whole = false;
      if (std::ranges::find(problems_.free_dims, name) == problems_.free_dims.end())
        problems_.free_dims.push_back(name);
    }
    shape.push_back(size);
  }
  if (whole) return shape;
  problem(make_error(Code::kInvalid, "input %s has dimensions without a size; give them by dims",
                     shown.c_str()));
  return std::nullopt;
}

Result<void> Planner::add_inputs(Scope& scope) {
  std::set<std::string> constants;
  for (const Tensor& tensor : model_.graph.initializers) constants.insert(tensor.name);
  for (const Declared& input : model_.graph.inputs) {
    if (constants.contains(input.name)) continue;  // older files list constants as inputs too
    scope.names[input.name] = kBroken;
    const auto fixed = options_.fixed.find(input.name);
    if (fixed != options_.fixed.end()) {
      scope.names[input.name] = add_constant(fixed->second);
      continue;
    }
    DType dtype;
    if (!known_type(input.type, dtype)) {
      problem(make_error(Code::kUnsupported, "input %s is no tensor of a type this build has: %s",
                         printable(input.name).c_str(), type_name(input.type)));
      continue;
    }
    const auto shape = fixed_shape(input);
    if (!shape) continue;
    const TensorType type{dtype, *shape};
    if (!sized(type)) {
      problem(make_error(Code::kNoMemory, "input %s: %s is larger than allowed",
                         printable(input.name).c_str(), type.text().c_str()));
      continue;
    }
    const int v = add_value(type);
    scope.names[input.name] = v;
    plan_->inputs_.push_back({input.name, type});
    plan_->input_values_.push_back(v);
  }
  return {};
}

void Planner::add_constants(Graph& graph, Scope& scope) {
  for (Tensor& tensor : graph.initializers) {
    constant_bytes_ += tensor.n_bytes;
    scope.names[tensor.name] = tensor.computable ? add_constant(tensor) : kBroken;
    if (!tensor.computable)
      problem(make_error(Code::kUnsupported, "constant %s has element type %s",
                         printable(tensor.name).c_str(), type_name(tensor.type)));
  }
}

void Planner::add_nodes(Graph& graph, Scope& scope) {
  const std::vector<bool> useful = useful_nodes(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (useful[i]) add_node(graph.nodes[i], scope);
}

void Planner::break_outputs(const Node& node, Scope& scope) {
  for (const std::string& output : node.outputs)
    if (!output.empty()) scope.names[output] = kBroken;
}

void Planner::add_node(Node& node, Scope& scope) {
  break_outputs(node, scope);
  if (node.domain.empty() && node.op == "Constant") return add_constant_node(node, scope);
  const int64_t opset = opset_of(node);
  const Operator* op = node.domain.empty() ? find_operator(node.op, opset) : nullptr;
  const bool chooses = node.domain.empty() && (node.op == "If" || node.op == "Loop");
  if (op == nullptr && !chooses) {
    std::string name = printable(node.domain.empty() ? node.op : node.domain + "." + node.op, 60);
    if (missing_operators_.insert(name).second)
      problem(make_error(Code::kUnsupported, "operator %s (opset %lld)", name.c_str(),
                         static_cast<long long>(opset)));
    return;
  }
  if (node.op == "If" && chooses) return add_if(node, scope);
  if (node.op == "Loop" && chooses) return add_loop(node, scope);
  std::vector<int> inputs;
  for (const std::string& input : node.inputs) {
    inputs.push_back(input.empty() ? kLeftOut : scope.find(input));
    if (inputs.back() == kBroken) return;
  }
  const std::vector<int> made = prepare_node(node, inputs, *op);
  for (size_t i = 0; i < made.size() && i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) scope.names[node.outputs[i]] = made[i];
}

void Planner::add_constant_node(Node& node, Scope& scope) {
  if (node.outputs.size() != 1 || node.attributes.size() != 1) {
    return problem(make_error(Code::kNotFound,
                              "node Constant \"%s\": wanted one output and one value",
                              printable(node.name).c_str()));
  }
  Attribute& a = node.attributes[0];
  Tensor tensor;
  tensor.computable = true;
  const auto put = [&](DType dtype, const auto& values, bool is_list) {
    using V = std::decay_t<decltype(values[0])>;
    auto copy = std::make_shared<std::vector<V>>(values.begin(), values.end());
    tensor.dtype = dtype;
    if (is_list) tensor.dims = {static_cast<int64_t>(copy->size())};
    tensor.data = reinterpret_cast<const std::byte*>(copy->data());
    tensor.n_bytes = copy->size() * sizeof(V);
    tensor.owner = std::move(copy);
  };
  switch (a.kind) {
    case Attribute::Kind::kTensor:
      tensor = a.tensor;
      break;
    case Attribute::Kind::kFloat:
      put(DType::kF32, std::vector<float>{a.f}, false);
      break;
    case Attribute::Kind::kInt:
      put(DType::kI64, std::vector<int64_t>{a.i}, false);
      break;
    case Attribute::Kind::kFloats:
      put(DType::kF32, a.floats, true);
      break;
    case Attribute::Kind::kInts:
      put(DType::kI64, a.ints, true);
      break;
    default:
      tensor.computable = false;
      tensor.type = 8;
      break;
  }
  if (!tensor.computable) {
    return problem(make_error(Code::kUnsupported, "node Constant \"%s\" has element type %s",
                              printable(node.outputs[0]).c_str(), type_name(tensor.type)));
  }
  constant_bytes_ += tensor.n_bytes;
  scope.names[node.outputs[0]] = add_constant(tensor);
}

// The nodes of a branch become nodes of the graph around it. Nothing in them has an effect but its
// result, so both branches may be computed where the condition is not known at open.
std::vector<int> Planner::add_branch(Graph& graph, const Scope& outer) {
  Scope scope{&outer, {}};
  add_constants(graph, scope);
  fuse(graph);
  add_nodes(graph, scope);
  std::vector<int> out;
  for (const Declared& output : graph.outputs) out.push_back(scope.find(output.name));
  return out;
}

int Planner::choose(const Node& node, int condition, int yes, int no) {
  if (yes < 0 || no < 0) return kBroken;
  if (value(yes).type != value(no).type) {
    problem(
        make_error(Code::kUnsupported,
                   "node If \"%s\": its branches give %s and %s, and the condition depends on the "
                   "inputs",
                   printable(node.outputs[0]).c_str(), value(yes).type.text().c_str(),
                   value(no).type.text().c_str()));
    return kBroken;
  }
  Node where;
  where.op = "Where";
  where.outputs = {node.outputs[0]};
  const auto made = prepare_node(where, {condition, yes, no}, *find_operator("Where", kMaxOpset));
  return made.empty() ? kBroken : made[0];
}

void Planner::add_if(Node& node, Scope& scope) {
  Graph *yes = graph_of(node, "then_branch"), *no = graph_of(node, "else_branch");
  const std::string shown = node.outputs.empty() ? "" : printable(node.outputs[0]);
  const int condition = node.inputs.size() == 1 ? scope.find(node.inputs[0]) : kLeftOut;
  if (condition == kBroken) return;
  if (yes == nullptr || no == nullptr || condition < 0 ||
      value(condition).type.dtype != DType::kBool || value(condition).type.shape.n_values() != 1 ||
      yes->outputs.size() != node.outputs.size() || no->outputs.size() != node.outputs.size()) {
    return problem(make_error(Code::kNotFound,
                              "node If \"%s\": wanted one BOOL and two branches with %zu outputs",
                              shown.c_str(), node.outputs.size()));
  }
  std::vector<int> made;
  if (const std::byte* known = value(condition).constant) {
    made = add_branch(*known != std::byte{0} ? *yes : *no, scope);
  } else {
    made = add_branch(*yes, scope);
    const std::vector<int> other = add_branch(*no, scope);
    for (size_t i = 0; i < made.size(); ++i) made[i] = choose(node, condition, made[i], other[i]);
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (!node.outputs[i].empty()) scope.names[node.outputs[i]] = made[i];
}

}  // namespace outrider::onnx
