// What the server runs frames with: any runtime that has a driving description. One engine is
// resident at a time; the server's lock is held around every call.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "link/jetlink/spec.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {

struct Frame {
  std::span<const std::byte> warped;     // u8, Sizes::warped_bytes
  std::span<const std::byte> packed;     // f32 at any address, Sizes::packed()
  std::span<const std::byte> prev_feat;  // f32, wire version 2 of a queued graph; empty: as kept
  bool reset = false;                    // history to zero before this frame
};

struct Answer {
  Status status = Status::kInferFailed;  // kOk, kInferFailed or kNotFinite
  bool fatal = false;                    // the accelerator is gone: the process must end
  int64_t stage_ns = 0, run_ns = 0;
  std::span<const float> outputs;  // Sizes::output, until the next call; empty when it failed
};

class Engine {
 public:
  virtual ~Engine() = default;
  // [hot] Stages, runs, checks. Hidden state is kept from frames answered kOk alone; what was
  // pushed stays pushed.
  virtual Answer run(const Frame& frame) noexcept = 0;
  // [hot] The kept hidden state becomes zero, queues stay. Graphs with a state of their own are
  // left as they are.
  virtual void forget_hidden() noexcept = 0;
  // [hot] Everything as after loading.
  virtual void reset() noexcept = 0;
  virtual std::string last_error() const { return {}; }
};

struct BackendFacts {
  std::string name = "outrider", runtime_version, device;
  // Changes exactly when what was built is no longer valid: "outrider0.1.0.cpu".
  std::string tag;
};

// frac 0 to 1 of a stage's work.
using Report = std::function<void(const char* stage, double frac, const std::string& msg)>;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendFacts& facts() const = 0;
  // [setup] Reads and checks the graph; what it says of itself, with `id`. Errors: one line for the
  // client.
  virtual Result<ModelSpec> build(const std::string& path, const ModelId& id,
                                  const Report& report) = 0;
  // [setup] `spec` is what build() gave. The file may not change meanwhile.
  virtual Result<std::unique_ptr<Engine>> load(const std::string& path, const ModelSpec& spec,
                                               const Report& report) = 0;
};

}  // namespace outrider::link::jetlink
