// An ONNX graph made ready to run: every shape fixed, constants folded, weights packed, each step's
// arrays placed in one block of memory. A plan is const and may be shared by any number of runs.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "onnx/kernel.h"
#include "onnx/model.h"

namespace outrider::onnx {

struct PlanOptions {
  std::map<std::string, int64_t> dims;    // sizes of symbolic dimensions
  std::map<std::string, Tensor> fixed;    // inputs that are constants from here on
  Precision precision = Precision::kF32;  // of products with constant weights
  size_t max_bytes = size_t{8} << 30;     // of constants, packed weights and arena together
};

// Everything that stands in the way, not only the first of it.
struct PlanProblems {
  std::vector<std::string> lines;         // one a node or input
  std::vector<std::string> free_dims;     // symbolic dimensions without a size
  std::vector<std::string> undetermined;  // inputs whose values would have to be known at open
};

struct Port {
  std::string name;
  TensorType type;
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::string what;          // "Gemm \"dense_0\""
  std::vector<int> in, out;  // values; -1: left out
  size_t scratch_bytes = 0, scratch_offset = 0;
};

class Plan {
 public:
  // [setup] Consumes the model. `ops` packs weights and folds constants; any other Ops of this
  // build may run the plan. Errors: kInvalid (dimension without a size), kUnsupported (operator,
  // element type, or a shape that depends on input values), kNotFound (a graph that contradicts
  // itself), kNoMemory. The line names as much as fits; `problems`, when given, takes all of it.
  static Result<std::shared_ptr<const Plan>> make(Model model, const PlanOptions& options, Ops& ops,
                                                  PlanProblems* problems = nullptr);

  std::span<const Port> inputs() const { return inputs_; }
  std::span<const Port> outputs() const { return outputs_; }
  int find_input(std::string_view name) const;
  int find_output(std::string_view name) const;
  size_t n_steps() const { return steps_.size(); }
  std::span<const Step> steps() const { return steps_; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t constant_bytes() const { return constant_bytes_; }  // packed weights included
  const OpsLimits& limits() const { return limits_; }
  double flop() const { return flop_; }  // of one run: products and convolutions

 private:
  friend class Planner;
  friend class Run;
  struct Place {
    const std::byte* constant = nullptr;  // or in the arena:
    size_t offset = 0;
  };

  std::vector<Port> inputs_, outputs_;
  std::vector<int> input_values_, output_values_;
  std::vector<Step> steps_;
  std::vector<Place> places_;  // by value
  std::vector<std::shared_ptr<const void>> kept_;
  size_t arena_bytes_ = 0, constant_bytes_ = 0;
  OpsLimits limits_;
  double flop_ = 0;
};

// The mutable half: one arena, and the addresses of every step in it.
class Run {
 public:
  // [setup] Takes all memory; reserves what the plan needs in `ops`, which must outlive the run.
  // Errors: kNoMemory.
  static Result<std::unique_ptr<Run>> make(std::shared_ptr<const Plan> plan, Ops& ops);

  const Plan& plan() const { return *plan_; }
  // The array of an input, zero at first, kept between ticks.
  std::span<std::byte> input(size_t i);
  // The array of an output: of the last run.
  std::span<const std::byte> output(size_t i) const;
  // [hot]
  void run() noexcept;

 private:
  Run() = default;
  std::shared_ptr<const Plan> plan_;
  Ops* ops_ = nullptr;
  Arena arena_;
  std::byte* base_ = nullptr;
  std::vector<std::byte*> addresses_;  // step by step: inputs, outputs
};

}  // namespace outrider::onnx
