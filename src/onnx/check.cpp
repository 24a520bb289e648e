#include "onnx/check.h"

#include <cstdarg>
#include <cstdio>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/printable.h"

namespace outrider::onnx {
namespace {

std::string where_of(const Node& node) {
  const std::string& first = node.outputs.empty() ? node.name : node.outputs[0];
  return "node " + printable(node.op, 40) + " \"" + printable(first) + "\"";
}

// Names that a graph sees: its own and those of the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_set<std::string> names;
  bool contains(const std::string& name) const {
    return names.contains(name) || (outer != nullptr && outer->contains(name));
  }
};

class Checker {
 public:
  explicit Checker(const std::string& file) : file_(short_path(file)) {}

  Result<void> graph(Graph& g, const Scope* outer) {
    Scope names{outer, {}};
    OUTRIDER_TRY(define_sources(g, names));
    std::unordered_map<std::string, size_t> maker;
    for (size_t i = 0; i < g.nodes.size(); ++i)
      for (const std::string& output : g.nodes[i].outputs) {
        if (output.empty()) continue;
        if (names.contains(output) || !maker.emplace(output, i).second)
          return bad("%s: output \"%s\" has a name that is taken", where_of(g.nodes[i]).c_str(),
                     printable(output).c_str());
      }
    OUTRIDER_TRY(sort(g, names, maker));
    return outputs(g, names);
  }

 private:
  __attribute__((format(printf, 2, 3))) Error bad(const char* format, ...) const {
    char text[400];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return make_error(Code::kNotFound, "%s: %s", file_.c_str(), text);
  }

  // Inputs and constants. A constant may repeat the name of an input: it is that input's value.
  Result<void> define_sources(const Graph& g, Scope& names) {
    std::unordered_set<std::string> here;
    for (const Declared& input : g.inputs) {
      if (input.name.empty()) return bad("an input has no name");
      if (names.contains(input.name) || !here.insert(input.name).second)
        return bad("input name \"%s\" is taken", printable(input.name).c_str());
    }
    std::unordered_set<std::string> constants;
    for (const Tensor& constant : g.initializers) {
      if (constant.name.empty()) return bad("a constant has no name");
      if (names.contains(constant.name) || !constants.insert(constant.name).second)
        return bad("constant name \"%s\" is taken", printable(constant.name).c_str());
    }
    names.names.merge(here);
    names.names.merge(constants);
    return {};
  }

  // Every name a node reads, those that its subgraphs take from outside included. A subgraph may
  // only be looked at for names here: whether each is defined is checked when it is its turn.
  void collect_reads(const Node& node, std::set<std::string>& reads) const {
    for (const std::string& input : node.inputs)
      if (!input.empty()) reads.insert(input);
    for (const Attribute& attribute : node.attributes) {
      if (!attribute.graph) continue;
      for (const Node& inner : attribute.graph->nodes) collect_reads(inner, reads);
      for (const Declared& output : attribute.graph->outputs) reads.insert(output.name);
    }
  }

  // Kahn's algorithm; of the nodes that are ready the first in the file comes first.
  Result<void> sort(Graph& g, Scope& names, const std::unordered_map<std::string, size_t>& maker) {
    const size_t n = g.nodes.size();
    std::vector<std::vector<size_t>> readers(n);
    std::vector<size_t> waits(n, 0);
    for (size_t i = 0; i < n; ++i) {
      std::set<std::string> reads;
      collect_reads(g.nodes[i], reads);
      for (const std::string& name : reads) {
        const auto found = maker.find(name);
        if (found == maker.end()) continue;
        readers[found->second].push_back(i);
        ++waits[i];
      }
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < n; ++i)
      if (waits[i] == 0) ready.push(i);
    std::vector<size_t> order;
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (const size_t reader : readers[i])
        if (--waits[reader] == 0) ready.push(reader);
    }
    for (size_t i = 0; i < n && order.size() != n; ++i)
      if (waits[i] != 0)
        return bad("%s waits for its own result: the graph has a cycle",
                   where_of(g.nodes[i]).c_str());
    std::vector<Node> sorted;
    sorted.reserve(n);
    for (const size_t i : order) sorted.push_back(std::move(g.nodes[i]));
    g.nodes = std::move(sorted);
    for (Node& node : g.nodes) OUTRIDER_TRY(check_node(node, names));
    return {};
  }

  Result<void> check_node(Node& node, Scope& names) {
    for (const std::string& input : node.inputs)
      if (!input.empty() && !names.contains(input))
        return bad("%s reads \"%s\", which nothing makes", where_of(node).c_str(),
                   printable(input).c_str());
    for (Attribute& attribute : node.attributes)
      if (attribute.graph) OUTRIDER_TRY(graph(*attribute.graph, &names));
    for (const std::string& output : node.outputs)
      if (!output.empty()) names.names.insert(output);
    return {};
  }

  Result<void> outputs(const Graph& g, const Scope& names) const {
    std::set<std::string> seen;
    for (const Declared& output : g.outputs) {
      if (!names.contains(output.name))
        return bad("output \"%s\" is made by nothing", printable(output.name).c_str());
      if (!seen.insert(output.name).second)
        return bad("output \"%s\" occurs twice", printable(output.name).c_str());
    }
    return {};
  }

  std::string file_;
};

}  // namespace

Result<void> check_and_sort(Graph& graph, const std::string& file) {
  return Checker(file).graph(graph, nullptr);
}

}  // namespace outrider::onnx
