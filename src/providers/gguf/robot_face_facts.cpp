// What a robot face publishes: ports and description.
#include <algorithm>
#include <cstdio>

#include "base/json_text.h"
#include "outrider/frt_v1.h"
#include "providers/gguf/robot_face.h"

namespace outrider {
std::vector<PiFace::Port> RobotFace::ports() const {
  std::vector<Port> out;
  for (const Camera& camera : cameras_)
    out.push_back({camera.spec.name,
                   FRT_MODALITY_IMAGE,
                   FRT_DTYPE_U8,
                   FRT_LAYOUT_NHWC,
                   FRT_PORT_IN,
                   camera.spec.required ? 1u : 0u,
                   {1, camera.height, camera.width, 3}});
  const int64_t steps = pi_config().action_steps, columns = pipeline_->columns();
  const auto values = [&](const char* name, uint32_t modality, uint32_t direction,
                          uint32_t required, std::vector<int64_t> shape) {
    out.push_back(
        {name, modality, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, direction, required, std::move(shape)});
  };
  out.push_back({"prompt",
                 FRT_MODALITY_TEXT,
                 FRT_DTYPE_U8,
                 FRT_LAYOUT_FLAT,
                 FRT_PORT_IN,
                 robot().default_prompt.empty() ? 1u : 0u,
                 {-1}});
  values("state", FRT_MODALITY_STATE, FRT_PORT_IN, 1, {pipeline_->state_width()});
  values("actions", FRT_MODALITY_ACTION, FRT_PORT_OUT, 0, {steps, columns});
  add_own_ports(out);
  return out;
}

std::string RobotFace::describe_cameras() const {
  const auto& slots = pi_config().is_fast() ? kFastCameraSlots : kCameraSlots;
  std::string out = ",\"units\":\"robot\",\"robot\":" + json_quoted(robot_name(robot().robot));
  out += ",\"cameras\":[";
  for (const Camera& camera : cameras_) {
    if (&camera != &cameras_[0]) out += ",";
    out += "{\"name\":" + json_quoted(camera.spec.name) +
           ",\"slot\":" + json_quoted(slots[static_cast<size_t>(camera.spec.slot)]) +
           ",\"required\":" + (camera.spec.required ? "true" : "false") +
           ",\"rotate_180\":" + (camera.spec.rotate_180 ? "true" : "false") +
           ",\"height\":" + std::to_string(camera.height) +
           ",\"width\":" + std::to_string(camera.width) + "}";
  }
  out += every_slot_ ? "],\"masked_slots\":[],\"black_slots\":[" : "],\"masked_slots\":[";
  bool first = true;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (std::any_of(cameras_.begin(), cameras_.end(),
                    [&](const Camera& c) { return c.spec.slot == static_cast<int64_t>(slot); }))
      continue;
    out += std::string(first ? "" : ",") + "\"" + slots[slot] + "\"";
    first = false;
  }
  return out + "]";
}

std::string RobotFace::describe_rules() const {
  const PolicyDescription& r = robot();
  const PiFamily family = pi_config().family;
  std::string out = ",\"state_fields\":[";
  for (const StateField& field : r.state) {
    if (&field != &r.state[0]) out += ",";
    out += "{\"name\":" + json_quoted(field.name) + ",\"size\":" + std::to_string(field.size) +
           ",\"unit\":" + json_quoted(field.unit) + "}";
  }
  out += "],\"action_unit\":" + json_quoted(r.action_unit) + ",\"delta_mask\":[";
  for (size_t i = 0; i < r.delta_mask.size(); ++i)
    out += std::string(i > 0 ? "," : "") + (r.delta_mask[i] ? "true" : "false");
  const NormForm state = state_form(r, family), actions = action_form(r, family);
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "],\"rate_hz\":%g,\"max_tokens\":%lld,\"epsilon\":%g",
                r.rate_hz, static_cast<long long>(prompt_writer_->max_tokens()), r.epsilon);
  out += numbers;
  out += ",\"state_in_text\":" + std::string(prompt_writer_->reads_state() ? "true" : "false") +
         ",\"prompt_rule\":" +
         json_quoted(r.prompt_rule == PromptRule::kOpenpi ? "openpi" : "lerobot") +
         ",\"default_prompt\":" + json_quoted(r.default_prompt) +
         ",\"resize\":" + json_quoted(r.resize == ResizeChoice::kPil ? "pil" : "torch") +
         ",\"normalisation\":{\"state\":" + json_quoted(norm_form_name(state)) +
         ",\"actions\":" + json_quoted(norm_form_name(actions)) +
         ",\"rule\":" + json_quoted(norm_rule_name(r.norm_rule)) + "},\"statistics\":{\"state\":" +
         json_quoted(statistics_summary(r.statistics.state, state)) +
         ",\"actions\":" + json_quoted(statistics_summary(r.statistics.actions, actions)) +
         ",\"origin\":" + json_quoted(r.statistics.origin) + "}";
  out += ",\"notes\":[";
  const std::vector<std::string>& notes = engine_->files().notes;
  for (size_t i = 0; i < notes.size(); ++i) out += (i > 0 ? "," : "") + json_quoted(notes[i]);
  return out + "],\"max_prompt_bytes\":" + std::to_string(kMaxPromptBytes);
}

std::string RobotFace::describe_face() const {
  return describe_cameras() + describe_rules() + describe_own();
}

}  // namespace outrider
