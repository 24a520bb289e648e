#include "onnx/functions.h"

#include <cstdarg>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "base/printable.h"

namespace outrider::onnx {
namespace {

// The most bodies inside each other; a body that reaches itself never ends before it.
constexpr int kMaxCalls = 32;
// Of names and attributes in copied bodies; constant arrays are shared.
constexpr size_t kMaxCopiedBytes = size_t{256} << 20;

class Inliner {
 public:
  Inliner(std::span<const Function> functions, const std::string& file)
      : functions_(functions), file_(short_path(file)) {}

  Result<void> find() {
    for (const Function& f : functions_)
      if (!by_name_.emplace(std::pair(f.domain, f.name), &f).second)
        return bad("function %s is defined twice", shown(f).c_str());
    return {};
  }

  Result<void> graph(Graph& g, int depth) {
    std::vector<Node> nodes;
    nodes.reserve(g.nodes.size());
    for (Node& node : g.nodes) OUTRIDER_TRY(add(std::move(node), nodes, depth));
    g.nodes = std::move(nodes);
    return {};
  }

 private:
  // Names of one call: what stands for a name of the body.
  using Names = std::unordered_map<std::string, std::string>;
  struct Call {
    const Node* node = nullptr;
    const Function* function = nullptr;
    Names names;
    std::string ending;  // of names that are the body's own
  };

  __attribute__((format(printf, 2, 3))) Error bad(const char* format, ...) const {
    char text[400];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return make_error(Code::kNotFound, "%s: %s", file_.c_str(), text);
  }
  static std::string shown(const Function& f) {
    return printable(f.domain.empty() ? f.name : f.domain + "." + f.name, 60);
  }

  Result<void> add(Node node, std::vector<Node>& out, int depth) {
    const auto found = by_name_.find(std::pair(node.domain, node.op));
    if (found != by_name_.end()) return call(node, *found->second, out, depth);
    if (++n_nodes_ > kMaxNodes)
      return bad("functions make more than %zu nodes, which is the most that is read", kMaxNodes);
    for (Attribute& attribute : node.attributes)
      if (attribute.graph) OUTRIDER_TRY(graph(*attribute.graph, depth));
    out.push_back(std::move(node));
    return {};
  }

  Result<void> call(const Node& node, const Function& f, std::vector<Node>& out, int depth) {
    if (++n_calls_ > kMaxNodes)
      return bad("more than %zu calls of functions, which is the most that is read", kMaxNodes);
    if (depth >= kMaxCalls)
      return bad("function %s: calls inside each other more than %d deep", shown(f).c_str(),
                 kMaxCalls);
    if (node.inputs.size() > f.inputs.size() || node.outputs.size() > f.outputs.size())
      return bad("function %s takes %zu inputs and gives %zu outputs, a node has %zu and %zu",
                 shown(f).c_str(), f.inputs.size(), f.outputs.size(), node.inputs.size(),
                 node.outputs.size());
    Call c{&node, &f, {}, "/" + printable(f.name, 40) + "." + std::to_string(n_calls_)};
    for (size_t i = 0; i < f.inputs.size(); ++i)
      c.names[f.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    for (size_t i = 0; i < f.outputs.size() && i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (c.names.emplace(f.outputs[i], node.outputs[i]).second) continue;
      Node same;  // an input, or another output, handed on
      same.op = "Identity";
      same.opset = f.opset;
      same.inputs = {c.names[f.outputs[i]]};
      same.outputs = {node.outputs[i]};
      OUTRIDER_TRY(add(std::move(same), out, depth + 1));
    }
    for (const Node& inner : f.nodes) {
      OUTRIDER_TRY(add(copy(inner, c), out, depth + 1));
      if (copied_bytes_ > kMaxCopiedBytes)
        return bad("functions make more than %zu bytes of names and attributes", kMaxCopiedBytes);
    }
    return {};
  }

  std::string name_of(const std::string& name, Call& c) {
    if (name.empty()) return name;
    copied_bytes_ += name.size();
    const auto found = c.names.find(name);
    if (found != c.names.end()) return found->second;
    return c.names[name] = name + c.ending;
  }

  Node copy(const Node& from, Call& c) {
    Node to;
    to.name = from.name;
    to.op = from.op;
    to.domain = from.domain;
    to.opset = c.function->opset;
    for (const std::string& input : from.inputs) to.inputs.push_back(name_of(input, c));
    for (const std::string& output : from.outputs) to.outputs.push_back(name_of(output, c));
    for (const Attribute& a : from.attributes) {
      const Attribute* value = &a;
      if (!a.refers_to.empty()) {
        value = c.node->find(a.refers_to);
        for (const Attribute& d : c.function->defaults)
          if (value == nullptr && d.name == a.refers_to) value = &d;
        if (value == nullptr) continue;
      }
      // A value of the caller's was named there: only the body's own graphs are renamed.
      to.attributes.push_back(copy(*value, value == &a ? &c : nullptr));
      to.attributes.back().name = a.name;
    }
    return to;
  }

  static size_t a_bytes(const Attribute& a) {
    size_t n = a.s.size() + a.floats.size() * sizeof(float) + a.ints.size() * sizeof(int64_t);
    for (const std::string& text : a.strings) n += sizeof text + text.size();
    return n;
  }

  Attribute copy(const Attribute& from, Call* c) {
    Attribute to;
    to.name = from.name;
    to.kind = from.kind;
    to.f = from.f;
    to.i = from.i;
    to.s = from.s;
    to.floats = from.floats;
    to.ints = from.ints;
    to.strings = from.strings;
    to.tensor = from.tensor;
    copied_bytes_ += sizeof(Attribute) + a_bytes(from);
    if (!from.graph) return to;
    to.graph = std::make_unique<Graph>();
    Call as_it_is{nullptr, nullptr, {}, ""};
    static const Node kNoNode;
    static const Function kNoFunction;
    as_it_is.node = &kNoNode;
    as_it_is.function = &kNoFunction;
    *to.graph = copy(*from.graph, c != nullptr ? *c : as_it_is);
    return to;
  }

  Graph copy(const Graph& from, Call& c) {
    Graph to;
    to.name = from.name;
    to.initializers = from.initializers;
    for (Tensor& tensor : to.initializers) tensor.name = name_of(tensor.name, c);
    to.inputs = from.inputs;
    for (Declared& input : to.inputs) input.name = name_of(input.name, c);
    for (const Node& node : from.nodes) to.nodes.push_back(copy(node, c));
    to.outputs = from.outputs;
    for (Declared& output : to.outputs) output.name = name_of(output.name, c);
    return to;
  }

  std::span<const Function> functions_;
  std::string file_;
  std::map<std::pair<std::string, std::string>, const Function*> by_name_;
  size_t n_nodes_ = 0, n_calls_ = 0, copied_bytes_ = 0;
};

}  // namespace

Result<void> inline_functions(Graph& graph, std::span<const Function> functions,
                              const std::string& file) {
  if (functions.empty()) return {};
  Inliner inliner(functions, file);
  OUTRIDER_TRY(inliner.find());
  return inliner.graph(graph, 0);
}

}  // namespace outrider::onnx
