#include "base/printable.h"
#include "onnx/proto.h"

namespace outrider::onnx {
namespace {

using AttributeProto = ::onnx::AttributeProto;
using Kind = Attribute::Kind;

std::string where_of(const ::onnx::NodeProto& node) {
  const std::string& first = node.output_size() > 0 ? node.output(0) : node.name();
  return "node " + printable(node.op_type(), 40) + " \"" + printable(first) + "\"";
}

// Files before IR version 3 do not say which field is used.
Kind kind_of(const AttributeProto& a) {
  switch (a.type()) {
    case AttributeProto::FLOAT:
      return Kind::kFloat;
    case AttributeProto::INT:
      return Kind::kInt;
    case AttributeProto::STRING:
      return Kind::kString;
    case AttributeProto::TENSOR:
      return Kind::kTensor;
    case AttributeProto::GRAPH:
      return Kind::kGraph;
    case AttributeProto::FLOATS:
      return Kind::kFloats;
    case AttributeProto::INTS:
      return Kind::kInts;
    case AttributeProto::STRINGS:
      return Kind::kStrings;
    case AttributeProto::UNDEFINED:
      break;
    default:
      return Kind::kOther;
  }
  if (a.has_f()) return Kind::kFloat;
  if (a.has_i()) return Kind::kInt;
  if (a.has_s()) return Kind::kString;
  if (a.has_t()) return Kind::kTensor;
  if (a.has_g()) return Kind::kGraph;
  if (a.floats_size() > 0) return Kind::kFloats;
  if (a.ints_size() > 0) return Kind::kInts;
  if (a.strings_size() > 0) return Kind::kStrings;
  return Kind::kOther;
}

Result<Declared> take_declared(const ::onnx::ValueInfoProto& proto, const char* what,
                               const ProtoContext& c) {
  Declared out;
  out.name = proto.name();
  if (!proto.type().has_tensor_type()) return out;
  const auto& type = proto.type().tensor_type();
  out.type = type.elem_type();
  out.has_shape = type.has_shape();
  if (type.shape().dim_size() > static_cast<int>(kMaxRank))
    return c.damaged("%s %s: %d dimensions, at most %zu are read", what,
                     printable(out.name).c_str(), type.shape().dim_size(), kMaxRank);
  for (const auto& dim : type.shape().dim()) {
    Dim d;
    if (dim.has_dim_value()) {
      d.size = dim.dim_value();
      // Some exporters write -1 or 0 where they mean "any".
      if (d.size < -1)
        return c.damaged("%s %s: dimension %lld, allowed is 0 or more", what,
                         printable(out.name).c_str(), static_cast<long long>(d.size));
    } else if (dim.has_dim_param()) {
      d.name = dim.dim_param();
    }
    out.dims.push_back(std::move(d));
  }
  return out;
}

}  // namespace

Result<Attribute> take_attribute(AttributeProto& proto, const std::string& node, int depth,
                                 ProtoContext& c) {
  Attribute a;
  a.name = proto.name();
  a.kind = kind_of(proto);
  a.refers_to = proto.ref_attr_name();
  a.f = proto.f();
  a.i = proto.i();
  a.s = proto.s();
  a.floats.assign(proto.floats().begin(), proto.floats().end());
  a.ints.assign(proto.ints().begin(), proto.ints().end());
  a.strings.assign(proto.strings().begin(), proto.strings().end());
  if (a.kind == Kind::kTensor) {
    auto tensor = take_tensor(*proto.mutable_t(), node + " attribute " + printable(a.name, 40), c);
    if (!tensor) return tensor.error();
    a.tensor = std::move(tensor.value());
  } else if (a.kind == Kind::kGraph) {
    auto graph = take_graph(*proto.mutable_g(), depth + 1, c);
    if (!graph) return graph.error();
    a.graph = std::make_unique<Graph>(std::move(graph.value()));
  }
  return a;
}

// What tinygrad's exporter leaves in driving models: it is about that library's buffers and changes
// no value. Anything else of that domain stays what it is: unknown.
bool is_layout_hint(const Node& node) {
  return node.domain == "org.tinygrad" && node.op == "Contiguous" && node.inputs.size() == 1 &&
         node.outputs.size() == 1 && node.attributes.empty();
}

Result<Node> take_node(::onnx::NodeProto& proto, int depth, ProtoContext& c) {
  const std::string where = where_of(proto);
  if (++c.n_nodes > kMaxNodes)
    return c.damaged("more than %zu nodes, which is the most that is read", kMaxNodes);
  Node node;
  node.name = proto.name();
  node.op = proto.op_type();
  node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (auto& attribute : *proto.mutable_attribute()) {
    if (node.find(attribute.name()) != nullptr)
      return c.damaged("%s: attribute %s occurs twice", where.c_str(),
                       printable(attribute.name(), 40).c_str());
    auto taken = take_attribute(attribute, where, depth, c);
    if (!taken) return taken.error();
    node.attributes.push_back(std::move(taken.value()));
  }
  if (is_layout_hint(node)) {
    node.op = "Identity";
    node.domain.clear();
  }
  return node;
}

Result<Graph> take_graph(::onnx::GraphProto& proto, int depth, ProtoContext& c) {
  if (depth > kMaxGraphDepth)
    return c.damaged("graphs inside each other more than %d deep", kMaxGraphDepth);
  if (proto.sparse_initializer_size() > 0)
    return make_error(Code::kUnsupported, "%s: sparse constants are not in this build",
                      short_path(c.file).c_str());
  Graph graph;
  graph.name = proto.name();
  for (auto& initializer : *proto.mutable_initializer()) {
    auto tensor = take_tensor(initializer, "constant " + printable(initializer.name()), c);
    if (!tensor) return tensor.error();
    c.n_parameters += tensor.value().n_values();
    graph.initializers.push_back(std::move(tensor.value()));
  }
  for (auto& node : *proto.mutable_node()) {
    auto taken = take_node(node, depth, c);
    if (!taken) return taken.error();
    graph.nodes.push_back(std::move(taken.value()));
  }
  for (const auto& value : proto.input()) {
    auto declared = take_declared(value, "input", c);
    if (!declared) return declared.error();
    graph.inputs.push_back(std::move(declared.value()));
  }
  for (const auto& value : proto.output()) {
    auto declared = take_declared(value, "output", c);
    if (!declared) return declared.error();
    graph.outputs.push_back(std::move(declared.value()));
  }
  return graph;
}

}  // namespace outrider::onnx
