// The driving face of a graph: warped frames and scalars in, the output vector, its heads and an
// action out; the history in between. Source: driving specification c, link specification 7 to 9.
//
// Ports are those of one frame, whatever the layout: new_img, desire, traffic_convention, action_t,
// then what else the graph reads; outputs, heads, action.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "driving/action.h"
#include "driving/desire_pulse.h"
#include "driving/heads.h"
#include "driving/staging/staging.h"
#include "outrider/ext/driving.h"
#include "providers/onnx/onnx_engine.h"
#include "providers/onnx/onnx_files.h"
#include "providers/onnx/port_face.h"

namespace outrider {

// Does this file open as a driving graph? By the key "driving"; "auto" looks at the file.
bool is_driving(const OnnxOpenConfig& config, const OnnxFile& file);

class DrivingRuntime : public PortFace {
 public:
  static constexpr uint32_t kResetRef = 4, kInferRef = 37;

  struct PortInfo : PortFacts {
    std::vector<int64_t> dims;
    bool is_action = false;
    std::byte* data = nullptr;  // where an input is kept, or an output comes from
  };

  // [setup] Takes all memory, warms up. Errors: those of read_spec() and of every part; kInvalid
  // for a key that does not go together with a driving graph.
  static Result<std::unique_ptr<DrivingRuntime>> open(const OnnxOpenConfig& config,
                                                      std::shared_ptr<const OnnxFile> file);

  // [hot] Verbs of the ABI. step is reset, then infer.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept;

  // [hot] The driving extension: include/outrider/ext/driving.h.
  Code frame(const outrider_driving_frame_v1* frame, outrider_driving_answer_v1* answer) noexcept;
  void forget_hidden() noexcept;
  Code reset() noexcept;

  const driving::Spec& spec() const { return spec_; }
  const OnnxOpenConfig& open_config() const { return config_; }
  const OnnxFile& file() const { return *file_; }
  const std::vector<PortInfo>& ports() const { return ports_; }
  const char* action_rule() const;  // "off", or the rule in force
  std::string describe() const;
  // For the proof that a reset moves nothing.
  std::vector<const void*> addresses() const;

  struct Counters {
    std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, nonfinite_outputs{0},
        resets{0}, forgotten_hidden{0}, warm_ups{0}, ns_stage{0}, ns_infer{0};
  };
  const Counters& counters() const { return counters_; }

 private:
  // What becomes of the recurrent state with the next frame.
  enum class NextState : uint8_t { kKeep, kCopy, kZero };
  struct State {
    size_t input, output;  // of the plan
  };
  struct Inputs {
    const std::byte* frames;
    const float *desire, *traffic, *action_t;
  };

  DrivingRuntime() = default;
  Result<void> prepare();
  Result<void> bind_history();
  Result<driving::Target> target(const char* input) const;
  Result<void> scalar_target(const char* input, driving::Target& out) const;
  Result<void> add_inputs();
  Result<void> add_outputs();
  Result<void> add_heads();
  Result<void> check_keys() const;
  PortInfo& add_port(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                     bool is_input, std::byte* data);
  void warm_up();

  Code infer() noexcept;
  void stage(const Inputs& in) noexcept;
  void settle_state() noexcept;
  bool run_graph() noexcept;
  Code publish() noexcept;

  OnnxOpenConfig config_;
  std::shared_ptr<const OnnxFile> file_;
  driving::Spec spec_;
  OnnxEngine engine_;
  onnx::Run* run_ = nullptr;                   // the engine's
  std::unique_ptr<driving::Staging> staging_;  // queued graphs
  driving::Target new_img_, desire_in_, traffic_in_, action_t_in_;
  std::vector<State> states_;  // stateful graphs
  NextState next_state_ = NextState::kKeep;
  std::optional<driving::DesirePulse> pulse_;
  std::optional<driving::HeadParser> heads_;
  std::optional<driving::ActionMaker> action_;

  // Staged inputs, in one place each for the life of the runtime.
  std::vector<std::byte> frames_;
  std::vector<float> desire_, traffic_, action_t_, pulse_now_, packed_;
  float v_ego_ = 0;
  const float* raw_ = nullptr;  // the output vector in f32: the graph's, or outputs_
  std::vector<float> outputs_;
  float action_out_[3] = {};
  size_t output_index_ = 0, bad_at_ = 0;
  double bad_value_ = 0;

  std::vector<PortInfo> ports_;
  MonotonicClock clock_;
  Counters counters_;
};

}  // namespace outrider
