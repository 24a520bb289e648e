// The onnx face: ports of a graph, its state, normalisation and history. Source: model-runtime
// ABI 12.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "onnx/plan.h"
#include "providers/onnx/onnx_engine.h"
#include "providers/onnx/onnx_files.h"
#include "providers/onnx/port_face.h"
#include "providers/onnx/stats.h"

namespace outrider {

class OnnxRuntime : public PortFace {
 public:
  // Private numbers of the stages; a host passes what the plan publishes.
  static constexpr uint32_t kResetRef = 4, kInferRef = 37;

  struct PortInfo : PortFacts {
    onnx::TensorType type;
    size_t index = 0;  // of the plan's input or output
    bool has_stats = false;
    PortStats stats;
    int64_t frame = 0;          // values of the last dimension as the port has it
    bool stacked = false;       // the model reads `history` frames of it
    std::vector<float> values;  // mutable: a stacked input's newest frame, a scaled output's values
  };

  // [setup] Takes all memory, warms up. Errors: those of every part.
  static Result<std::unique_ptr<OnnxRuntime>> open(const OnnxOpenConfig& config,
                                                   std::shared_ptr<const OnnxFile> file);

  // [hot] Verbs of the ABI. step is what a host does that runs every stage: reset, where there is
  // state, then infer.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept;

  // Facts for descriptors, identity and status.
  const OnnxOpenConfig& open_config() const { return config_; }
  const OnnxFile& file() const { return *file_; }
  const std::vector<PortInfo>& ports() const { return ports_; }
  const std::string& stats_sha256() const { return stats_sha256_; }
  bool stateful() const { return !pairs_.empty() || config_.history > 1; }
  std::string describe() const;

  struct Counters {
    std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, nonfinite_outputs{0},
        resets{0}, clipped_values{0}, warm_ups{0}, ns_infer{0};
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Pair {
    size_t input, output;
  };
  OnnxRuntime() = default;
  Result<void> prepare();
  Result<void> find_pairs();
  Result<void> add_ports();
  Result<void> add_stats();
  Result<void> add_history();
  void warm_up();
  void keep(PortInfo& port, const void* data) noexcept;
  void normalise(const PortInfo& port, float* x, int64_t n) noexcept;
  void push_history(PortInfo& port) noexcept;
  Code reset() noexcept;
  Code infer() noexcept;
  Code check_outputs() noexcept;

  OnnxOpenConfig config_;
  std::shared_ptr<const OnnxFile> file_;
  OnnxEngine engine_;
  onnx::Run* run_ = nullptr;  // the engine's
  std::vector<PortInfo> ports_;
  std::vector<Pair> pairs_;
  std::string stats_sha256_;
  MonotonicClock clock_;
  bool history_filled_ = false;
  Counters counters_;
};

}  // namespace outrider
