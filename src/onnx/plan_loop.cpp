// Loop, unrolled: its trips must be known at open.
#include "base/printable.h"
#include "onnx/fuse.h"
#include "onnx/planner.h"

namespace outrider::onnx {
namespace {

constexpr int64_t kMaxTrips = 1024;
constexpr size_t kMaxUnrolled = 1 << 16;  // nodes that all loops together may become

Node helper(const char* op, const Node& loop) {
  Node node;
  node.op = op;
  node.outputs = {loop.outputs.empty() ? loop.name : loop.outputs[0]};
  return node;
}

Attribute integer_attribute(const char* name, int64_t value) {
  Attribute a;
  a.name = name;
  a.kind = Attribute::Kind::kInt;
  a.i = value;
  return a;
}

}  // namespace

// One more dimension in front, then all one behind the other.
int Planner::stack(const Node& loop, const std::vector<int>& parts) {
  const auto axes = std::make_shared<const std::vector<int64_t>>(1, 0);
  Tensor zero;
  zero.dtype = DType::kI64;
  zero.dims = {1};
  zero.data = reinterpret_cast<const std::byte*>(axes->data());
  zero.n_bytes = sizeof(int64_t);
  zero.owner = axes;
  std::vector<int> raised;
  for (const int part : parts) {
    Node raise = helper("Unsqueeze", loop);
    Attribute axis;  // where opsets before 13 look for it
    axis.name = "axes";
    axis.kind = Attribute::Kind::kInts;
    axis.ints = {0};
    raise.attributes.push_back(std::move(axis));
    const auto made =
        prepare_node(raise, {part, add_constant(zero)}, *find_operator("Unsqueeze", kMaxOpset));
    if (made.empty()) return kBroken;
    raised.push_back(made[0]);
  }
  Node concat = helper("Concat", loop);
  concat.attributes.push_back(integer_attribute("axis", 0));
  const auto made = prepare_node(concat, raised, *find_operator("Concat", kMaxOpset));
  return made.empty() ? kBroken : made[0];
}

int Planner::known_scalar(DType dtype, int64_t number) {
  auto block = std::make_shared<int64_t>(number);
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.n_bytes = dtype_bytes(dtype);
  tensor.data = reinterpret_cast<const std::byte*>(block.get());
  tensor.owner = std::move(block);
  return add_constant(tensor);
}

void Planner::add_loop(Node& node, Scope& scope) {
  Graph* body = nullptr;
  for (Attribute& a : node.attributes)
    if (a.name == "body" && a.graph) body = a.graph.get();
  const std::string shown = node.outputs.empty() ? "" : printable(node.outputs[0]);
  std::vector<int> inputs;
  for (const std::string& input : node.inputs) {
    inputs.push_back(input.empty() ? kLeftOut : scope.find(input));
    if (inputs.back() == kBroken) return;
  }
  const size_t n_carried = inputs.size() < 2 ? 0 : inputs.size() - 2;
  if (body == nullptr || inputs.size() < 2 || body->inputs.size() != n_carried + 2 ||
      body->outputs.size() < n_carried + 1 || node.outputs.size() + 1 > body->outputs.size() ||
      node.outputs.size() < n_carried) {
    return problem(make_error(Code::kNotFound,
                              "node Loop \"%s\": its body's inputs and outputs do not "
                              "fit its own",
                              shown.c_str()));
  }
  const auto known = [&](int v, DType dtype) {
    return value(v).constant != nullptr && value(v).type.dtype == dtype &&
           value(v).type.shape.n_values() == 1;
  };
  for (int k = 0; k < 2; ++k) {
    if (inputs[static_cast<size_t>(k)] < 0 ||
        known(inputs[static_cast<size_t>(k)], k == 0 ? DType::kI64 : DType::kBool))
      continue;
    for (size_t p = 0; p < plan_->inputs_.size(); ++p)
      if (root_of(inputs[static_cast<size_t>(k)]) == plan_->input_values_[p])
        problems_.undetermined.push_back(plan_->inputs_[p].name);
    return problem(make_error(Code::kUnsupported,
                              "node Loop \"%s\": its %s depends on the inputs; "
                              "this build unrolls loops at open",
                              shown.c_str(), k == 0 ? "number of trips" : "condition"));
  }
  const int64_t trips =
      inputs[0] < 0 ? kMaxTrips + 1 : *reinterpret_cast<const int64_t*>(value(inputs[0]).constant);
  bool go_on = inputs[1] < 0 || *value(inputs[1]).constant != std::byte{0};
  std::vector<int> carried(inputs.begin() + 2, inputs.end());
  std::vector<std::vector<int>> scans(body->outputs.size() - 1 - n_carried);
  for (int64_t trip = 0; go_on && trip < trips; ++trip) {
    n_unrolled_ += body->nodes.size();
    if (trip >= kMaxTrips || n_unrolled_ > kMaxUnrolled)
      return problem(make_error(Code::kUnsupported,
                                "node Loop \"%s\": more than %lld trips or %zu "
                                "nodes when unrolled",
                                shown.c_str(), static_cast<long long>(kMaxTrips), kMaxUnrolled));
    Scope inner{&scope, {}};
    inner.names[body->inputs[0].name] = known_scalar(DType::kI64, trip);
    inner.names[body->inputs[1].name] = known_scalar(DType::kBool, 1);
    for (size_t i = 0; i < n_carried; ++i) inner.names[body->inputs[i + 2].name] = carried[i];
    const std::vector<int> made = add_branch(*body, inner);
    for (const int v : made)
      if (v < 0) return;
    if (!known(made[0], DType::kBool))
      return problem(make_error(Code::kUnsupported,
                                "node Loop \"%s\": its condition depends on the "
                                "inputs; this build unrolls loops at open",
                                shown.c_str()));
    go_on = *value(made[0]).constant != std::byte{0};
    for (size_t i = 0; i < n_carried; ++i) carried[i] = made[i + 1];
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(made[i + 1 + n_carried]);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= n_carried && scans[i - n_carried].empty())
      return problem(make_error(Code::kUnsupported,
                                "node Loop \"%s\": output %zu of a loop without "
                                "trips",
                                shown.c_str(), i));
    scope.names[node.outputs[i]] = i < n_carried ? carried[i] : stack(node, scans[i - n_carried]);
  }
}

}  // namespace outrider::onnx
