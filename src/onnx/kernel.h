// How one operator runs, and what it is told while the plan is made.
//
// An operator is a function `prepare` that sees the types of its inputs (and the values of those
// that are constant), declares its outputs, packs its weights and returns a Kernel. After that
// nothing of the node is left: the kernel holds numbers only, is const, and is shared by all runs
// of the plan.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/constant_pool.h"
#include "onnx/model.h"
#include "onnx/shape.h"
#include "tensor/ops.h"

namespace outrider::onnx {

// Where one step's arrays lie in one run. Inputs that were left out are null.
struct Operands {
  const std::byte* const* in;
  std::byte* const* out;
  std::byte* scratch;  // what prepare asked for, 64-byte aligned
  Ops* ops;

  template <class T>
  const T* input(size_t i) const {
    return reinterpret_cast<const T*>(in[i]);
  }
  template <class T>
  T* output(size_t i) const {
    return reinterpret_cast<T*>(out[i]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // [hot] The same inputs give the same bits for any number of threads.
  virtual void run(const Operands& o) const noexcept = 0;
  // [setup] True: from now on it does to its result what the next node would have done. The added
  // array is input kAdded, laid out as the result.
  virtual bool absorb(Activation) { return false; }
  virtual bool absorb_add() { return false; }
  static constexpr size_t kAdded = 3;
};

// A kernel of a callable f(const Operands&).
template <class F>
class LambdaKernel final : public Kernel {
 public:
  explicit LambdaKernel(F f) : f_(std::move(f)) {}
  void run(const Operands& o) const noexcept override { f_(o); }

 private:
  F f_;
};
template <class F>
std::unique_ptr<Kernel> make_kernel(F f) {
  return std::make_unique<LambdaKernel<F>>(std::move(f));
}

class NodeContext {
 public:
  struct Input {
    bool given = false;
    TensorType type;
    const std::byte* constant = nullptr;  // its values, when they are known at open
    bool blocked = false;                 // lies in channel blocks (channels.h)
  };
  // What an operator may ask for instead of an answer: the same inputs in another layout.
  enum class Wish : uint8_t { kNone, kRows, kBlocks };

  struct Surroundings {
    int64_t opset = kMaxOpset;
    Precision precision = Precision::kF32;
    Ops* ops = nullptr;
    OpsLimits* limits = nullptr;
    double* flop = nullptr;
    ConstantPool* pool = nullptr;
  };

  NodeContext(const Node& node, std::vector<Input> inputs, const Surroundings& around)
      : node_(node), inputs_(std::move(inputs)), around_(around) {}

  // ... or Ops::product with a right side of k x n.
  void will_multiply_by(int64_t n, int64_t k) {
    around_.limits->max_right = std::max(around_.limits->max_right, (n + 15) / 16 * 16 * k);
  }

  const Node& node() const { return node_; }
  int64_t opset() const { return around_.opset; }
  Ops& ops() const { return *around_.ops; }
  Precision precision() const { return around_.precision; }
  // Multiplies and adds of one run, for estimates.
  void count_flop(double flop) { *around_.flop += flop; }
  // The kernel will call Ops::linear with so many rows and inputs.
  void will_multiply(int64_t rows, int64_t n_in) {
    around_.limits->max_rows = std::max(around_.limits->max_rows, rows);
    around_.limits->max_in = std::max(around_.limits->max_in, n_in);
  }

  // ---- inputs ----
  size_t n_inputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].given; }
  const TensorType& type(size_t i) const { return inputs_[i].type; }
  const Shape& shape(size_t i) const { return inputs_[i].type.shape; }
  DType dtype(size_t i) const { return inputs_[i].type.dtype; }
  bool is_constant(size_t i) const { return has(i) && inputs_[i].constant != nullptr; }
  template <class T>
  const T* constant(size_t i) const {
    return reinterpret_cast<const T*>(inputs_[i].constant);
  }
  // Only operators that read channel blocks (Operator::channels) see any.
  bool is_blocked(size_t i) const { return has(i) && inputs_[i].blocked; }
  // The answer of an operator that wants all inputs as rows, or input 0 in blocks: it is asked
  // again.
  Error again_with(Wish wish) {
    wish_ = wish;
    return make_error(Code::kUnsupported, "%s", "asked again with its inputs in another layout");
  }
  Wish wish() const { return wish_; }
  // Values of an i64 or i32 input of rank 0 or 1 that must be known at open. Errors: kUnsupported
  // (depends on inputs; noted in undetermined()), kNotFound (another type or rank).
  Result<std::vector<int64_t>> known_ints(size_t i, const char* what);
  // One value of any number type that must be known at open.
  Result<double> known_number(size_t i, const char* what);
  // Inputs that known_ints and its kin could not see.
  const std::vector<size_t>& undetermined() const { return undetermined_; }
  void note_undetermined(size_t i) { undetermined_.push_back(i); }

  // ---- attributes; `otherwise` when absent or of another kind ----
  int64_t integer(const char* name, int64_t otherwise) const;
  float real(const char* name, float otherwise) const;
  std::string text(const char* name, const char* otherwise) const;
  std::vector<int64_t> integers(const char* name) const;
  std::vector<float> reals(const char* name) const;
  bool has_attribute(const char* name) const { return node_.find(name) != nullptr; }

  // ---- outputs ----
  size_t n_outputs() const { return node_.outputs.size(); }
  bool wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  void output(size_t i, DType dtype, const Shape& shape);
  // The same, in channel blocks: f32, rank 3 to 5.
  void blocked_output(size_t i, const Shape& shape);
  // Output i is input j seen with another shape: no kernel, no copy.
  void output_is_input(size_t i, size_t j, const Shape& shape);
  // The outputs follow from the shapes alone: the kernel reads no input and runs at open.
  void outputs_are_known() { known_ = true; }
  bool known() const { return known_; }
  void scratch(size_t n_bytes) { scratch_bytes_ += (n_bytes + 63) / 64 * 64; }
  // 64-byte aligned zeroed memory that lives as long as the plan.
  std::span<std::byte> keep(size_t n_bytes);

  // ---- refusals: the node's place is put in front ----
  __attribute__((format(printf, 2, 3))) Error wrong(const char* format, ...) const;  // the file
  __attribute__((format(printf, 2, 3))) Error unsupported(const char* format,
                                                          ...) const;  // this build
  // dtype(i) is one of these, else unsupported.
  Result<void> require_type(size_t i, std::initializer_list<DType> allowed) const;
  Result<void> require_inputs(size_t least, size_t most) const;
  // axis in [-rank, rank) to [0, rank).
  Result<int> axis(int64_t axis, int rank) const;

  struct Output {
    TensorType type;
    int alias = -1;  // index of the input it looks at
    bool declared = false;
    bool blocked = false;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  std::vector<std::shared_ptr<void>> take_kept() { return std::move(kept_); }
  // "node Gemm \"dense_0\""
  std::string where() const;

 private:
  const Node& node_;
  std::vector<Input> inputs_;
  Surroundings around_;
  std::vector<Output> outputs_;
  size_t scratch_bytes_ = 0;
  bool known_ = false;
  Wish wish_ = Wish::kNone;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<size_t> undetermined_;
};

// A kernel, or null when every output looks at an input.
using Prepared = Result<std::unique_ptr<Kernel>>;
using Prepare = Prepared (*)(NodeContext&);

}  // namespace outrider::onnx
