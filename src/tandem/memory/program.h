// A compiled program and the buffer it writes. The first run links it: from then on the addresses
// it holds are fixed, so its output can be moved only before.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/memory/buffer.h"

namespace outrider::memory {

// One argument as it was captured. dtype: FRT_DTYPE_*.
struct ArgumentSpec {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  size_t bytes = 0;
};
// One argument of a call. `import` is the device's handle of foreign memory, 0 when it needs none.
struct Argument {
  std::string_view name;
  uint32_t dtype = 0;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
  uint64_t import = 0;
};

// What the runtime of a compiler gives. Implemented where that runtime is known.
class CompiledGraph {
 public:
  virtual ~CompiledGraph() = default;
  virtual std::span<const ArgumentSpec> captured() const = 0;  // in the order of the capture
  virtual size_t output_bytes() const = 0;
  // [setup] Fixes the address; called once.
  virtual Result<void> link(std::byte* output) = 0;
  // [hot] Starts a run; the arguments are those of the capture, in its order. The address that it
  // writes, or nullptr when it could not start.
  virtual const std::byte* replay(std::span<const Argument> arguments) noexcept = 0;
  // [hot] Until the run that was started is finished. kDevice: it failed.
  virtual Code wait() noexcept = 0;
};

class Program {
 public:
  enum class State : uint8_t { kUnlinked, kLinked, kBroken };

  // `output` is the program's own, of output_bytes() at least.
  static Result<std::shared_ptr<Program>> make(std::unique_ptr<CompiledGraph> graph,
                                               BufferRef output);

  // [setup] Another buffer for the output. There is no way to do so once the program is linked:
  // kInvalid, and nothing changes. kShape: too small. kInvalid: not mapped.
  Result<void> bind_output(BufferRef buffer);

  // [hot] except the first call, which links. Every call is held against the capture: number,
  // order, names, types, shapes and bytes of the arguments, none twice, none inside the output.
  // kInvalid, kShape: nothing ran. kDevice: the program could not start, or wrote elsewhere than
  // bound, and is broken for good.
  Code start(std::span<const Argument> arguments) noexcept;
  Code wait() noexcept;

  State state() const { return state_; }
  // A reference is held from make on: what the program writes cannot be freed under it.
  const BufferRef& output() const { return output_; }
  size_t output_bytes() const { return graph_->output_bytes(); }
  int64_t n_links() const { return n_links_; }
  int64_t n_bindings() const { return n_bindings_; }
  int64_t n_runs() const { return n_runs_; }
  // [any] The last refusal in words: what, which argument, value found, value allowed.
  std::string last_error() const;

 private:
  enum class Fault : uint8_t {
    kNone,
    kCount,
    kName,
    kTwice,
    kType,
    kShape,
    kBytes,
    kNull,
    kInsideOutput,
    kLink,
    kReplay,
    kElsewhere,
    kBroken
  };
  Program(std::unique_ptr<CompiledGraph> graph, BufferRef output)
      : graph_(std::move(graph)), output_(std::move(output)) {}
  Code fail(Code code, Fault fault, size_t argument = 0, uint64_t found = 0) noexcept;
  void note_name(std::string_view name) noexcept;
  Code check(std::span<const Argument> arguments) noexcept;
  Code check_one(const ArgumentSpec& spec, const Argument& argument, size_t index) noexcept;
  Code link() noexcept;

  std::unique_ptr<CompiledGraph> graph_;
  BufferRef output_;
  State state_ = State::kUnlinked;
  int64_t n_links_ = 0, n_bindings_ = 0, n_runs_ = 0;
  Fault fault_ = Fault::kNone;
  size_t bad_argument_ = 0;
  uint64_t found_ = 0;
  char found_name_[64] = {};
};

}  // namespace outrider::memory
