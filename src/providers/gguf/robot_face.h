// What every robot face has: a picture port for each camera by its name, the prompt, the state and
// the actions in robot units. Everything between those and the model is the policy description's.
//
// Ports, in this order: one picture port a camera, in the order of the slots; prompt; state;
// actions (out); then those of the face. An optional camera that is not staged is masked out (in
// PI0-FAST: black); 0 bytes take it back.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "policy/pipeline.h"
#include "policy/prompt.h"
#include "providers/gguf/pi_face.h"
#include "vision/resize.h"

namespace outrider {

class RobotFace : public PiFace {
 public:
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept final;
  std::vector<Port> ports() const final;

 protected:
  // Ports behind the cameras; those of the face follow from kOwn on.
  enum After : uint32_t { kPrompt, kState, kActions, kOwn };
  struct Camera {
    PolicyCamera spec;
    int64_t height = 0, width = 0;
    std::vector<Resizer> pil;          // one when bytes are resized
    std::vector<TorchResizer> torch;   // one when the rule gives floats
    std::vector<uint8_t> raw, pixels;  // as it came; at the model's size
    std::vector<float> scaled;
    std::string what;
    bool set = false;
  };
  // A float input of fixed length.
  struct Values {
    std::vector<float> values;
    bool set = false;
  };

  RobotFace() = default;
  // [setup] Everything that does not belong to one face alone: refuses before the engine packs
  // weights. files->robot is there and fits. Errors: those of every part.
  Result<void> open_robot(const PiOpenConfig& config, std::shared_ptr<const PiFiles> files);
  // The face's own ports, behind `actions`.
  virtual uint32_t n_own() const noexcept { return 0; }
  virtual Code stage_own(uint32_t own, const void* data, uint64_t bytes) noexcept;
  virtual void add_own_ports(std::vector<Port>&) const {}
  virtual std::string describe_own() const { return ""; }

  uint32_t actions_port() const noexcept final { return port_of(kActions); }
  uint32_t port_of(uint32_t after) const noexcept {
    return static_cast<uint32_t>(cameras_.size()) + after;
  }
  std::string describe_face() const final;
  Code context() noexcept final;
  Code stage_values(Values& input, const char* name, const void* data, uint64_t bytes,
                    bool optional) noexcept;
  const PiConfig& pi_config() const { return engine_->pi_config(); }
  const PolicyDescription& robot() const { return *engine_->files().robot; }
  PolicyPipeline& pipeline() { return *pipeline_; }
  const PolicyPipeline& pipeline() const { return *pipeline_; }

 private:
  Result<void> prepare(const PiOpenConfig& config);
  Result<void> prepare_camera(const PiOpenConfig& config, const PolicyCamera& spec);
  Code stage_camera(Camera& camera, const void* data, uint64_t bytes) noexcept;
  Code stage_prompt(const void* data, uint64_t bytes) noexcept;
  Code stage_after(uint32_t after, const void* data, uint64_t bytes) noexcept;
  Code check_ready() noexcept;
  Code write_prompt(std::span<const double> state, size_t& n_ids) noexcept;
  size_t collect_views(PiPixels views[kMaxCameras]) noexcept;
  std::string describe_cameras() const;
  std::string describe_rules() const;

  std::vector<Camera> cameras_;
  std::unique_ptr<PolicyPipeline> pipeline_;
  std::unique_ptr<PolicyPrompt> prompt_writer_;
  std::vector<char> prompt_;
  size_t prompt_bytes_ = 0;
  bool prompt_set_ = false, prompt_cut_ = false;
  Values state_;
  // PI0-FAST as openpi trains it looks at every slot, whether a camera is there or not: black then.
  bool every_slot_ = false;
  std::vector<uint8_t> black_;
  std::vector<int32_t> ids_;
  std::vector<double> shortest_state_;  // as text: one digit each
};

}  // namespace outrider
