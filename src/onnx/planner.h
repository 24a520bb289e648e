// How a Plan is made: node by node in order, each with the types of what it reads.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/operators.h"
#include "onnx/plan.h"

namespace outrider::onnx {

class Planner {
 public:
  Planner(Model model, const PlanOptions& options, Ops& ops, PlanProblems& problems)
      : model_(std::move(model)), options_(options), ops_(ops), problems_(problems) {}
  Result<std::shared_ptr<const Plan>> make();

 private:
  // What a name stands for: an array that steps make, a constant, or another look at one of them.
  struct Value {
    TensorType type;
    int root = -1;                      // of a look: the value that has the bytes
    std::shared_ptr<const void> owner;  // of a constant
    const std::byte* constant = nullptr;
    bool blocked = false;  // in channel blocks
  };
  static constexpr int kLeftOut = -1, kBroken = -2;  // broken: its maker is among the problems

  struct Scope {
    const Scope* outer = nullptr;
    std::unordered_map<std::string, int> names;
    int find(const std::string& name) const;
  };

  // plan_graph.cpp, plan_loop.cpp
  Result<void> add_inputs(Scope& scope);
  std::optional<Shape> fixed_shape(const Declared& input);
  void add_constants(Graph& graph, Scope& scope);
  void add_nodes(Graph& graph, Scope& scope);
  void add_node(Node& node, Scope& scope);
  void add_constant_node(Node& node, Scope& scope);
  void add_if(Node& node, Scope& scope);
  void add_loop(Node& node, Scope& scope);
  std::vector<int> add_branch(Graph& graph, const Scope& outer);
  int stack(const Node& loop, const std::vector<int>& parts);
  int known_scalar(DType dtype, int64_t number);
  int choose(const Node& node, int condition, int yes, int no);
  void break_outputs(const Node& node, Scope& scope);
  void problem(const Error& error);

  // plan_node.cpp
  int add_value(const TensorType& type);
  int add_constant(const Tensor& tensor);
  std::vector<int> prepare_node(const Node& node, const std::vector<int>& inputs,
                                const Operator& op);
  std::vector<int> prepare_as_is(const Node& node, const std::vector<int>& inputs,
                                 const Operator& op);
  // each_of: channels of an operator that sees blocks as one dimension more, or 0.
  std::vector<int> prepare_once(const Node& node, const std::vector<int>& inputs,
                                const Operator& op, int64_t each_of, NodeContext::Wish& wish);
  void add_step(Step&& step);
  int cast(int value, DType dtype);
  bool fold(Step& step);
  int64_t opset_of(const Node& node) const { return node.opset != 0 ? node.opset : model_.opset; }
  bool sized(const TensorType& type) const;
  int root_of(int value) const;
  const Value& value(int i) const { return values_[static_cast<size_t>(i)]; }

  // plan_channels.cpp
  int in_rows(int value);
  int in_blocks(int value);
  int constant_in_blocks(int value, int64_t n_channels, int rank);
  Step* maker_of(int value);
  int absorbed(const Node& node, const std::vector<int>& inputs);
  int absorbed_add(const Node& node, const std::vector<int>& inputs);
  bool blocks_of_each(std::vector<int>& inputs, int64_t& n_channels);

  // plan_memory.cpp
  size_t bytes_of(int value) const;
  Result<void> add_outputs(const Scope& scope);
  void drop_unused_steps();
  Result<void> place();

  Model model_;
  const PlanOptions& options_;
  Ops& ops_;
  PlanProblems& problems_;
  Code code_ = Code::kOk;  // of the worst problem
  std::vector<Value> values_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::unordered_map<int, int> widened_;              // f16 value -> its f32 twin
  std::unordered_map<int, int> in_rows_, in_blocks_;  // the same array in the other layout
  std::set<std::string> missing_operators_;
  size_t constant_bytes_ = 0, folded_bytes_ = 0;
  size_t n_unrolled_ = 0;
  ConstantPool pool_{0};
  std::shared_ptr<Plan> plan_;
};

}  // namespace outrider::onnx
