// The pi0 face (PI0 and PI0.5). ABI text 13.1.
#include <cstring>
#include <limits>
#include <optional>

#include "host/conform_face.h"

namespace outrider::host::conformance {

void expect_ports(Bench& b, Verdict& v, const std::vector<FacePort>& want) {
  const auto ports = b.main->ports();
  if (ports.size() != want.size())
    return v.fail("%zu ports, the face has %zu", ports.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const auto& p = ports[i];
    const auto& w = want[i];
    if (std::strcmp(p.name, w.name) != 0)
      v.fail("port %zu is %.96s, the face has %s there", i, p.name, w.name);
    if (p.modality != w.modality || p.dtype != w.dtype || p.layout != w.layout ||
        p.direction != w.direction || p.required != w.required || p.update != FRT_UPDATE_STAGED)
      v.fail(
          "port %zu (%s): modality %u dtype %u layout %u direction %u required %u update %u, the "
          "face has %u %u %u %u %u 1",
          i, w.name, p.modality, p.dtype, p.layout, p.direction, p.required, p.update, w.modality,
          w.dtype, w.layout, w.direction, w.required);
    if (!std::equal(p.shape, p.shape + p.rank, w.shape.begin(), w.shape.end()))
      v.fail("port %zu (%s): its shape is not the face's and the configuration's", i, w.name);
  }
}

void expect_stages(Bench& b, Verdict& v, const std::vector<FaceStage>& want) {
  const auto stages = b.main->stages();
  if (stages.size() != want.size())
    return v.fail("%zu stages, the face has %zu", stages.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const auto& s = stages[i];
    if (std::strcmp(s.name, want[i].name) != 0)
      v.fail("stage %zu is %s, the face has %s", i, s.name, want[i].name);
    if (!std::equal(s.after, s.after + s.n_after, want[i].after.begin(), want[i].after.end()))
      v.fail("stage %zu (%s) waits for other stages than the face's", i, s.name);
    if (s.executor_ref != want[i].usual_ref)
      v.advise("stage %zu (%s): executor_ref %u, FlashRT's is %u", i, s.name, s.executor_ref,
               want[i].usual_ref);
  }
}

namespace {

// Where the inputs and the output of a policy lie: one picture port for all cameras in the plain
// face, one a camera in a face that speaks a robot's units (policy_dir).
struct Roles {
  std::vector<uint32_t> images;
  uint32_t prompt = 0, state = 0, actions = 0;
  std::vector<uint32_t> inputs() const {
    std::vector<uint32_t> all = images;
    all.push_back(prompt);
    all.push_back(state);
    return all;
  }
};

std::optional<Roles> roles(const Bench& b) {
  Roles found;
  const auto ports = b.main->ports();
  for (uint32_t i = 0; i < ports.size(); ++i)
    if (ports[i].modality == FRT_MODALITY_IMAGE && ports[i].direction == FRT_PORT_IN)
      found.images.push_back(i);
  const auto prompt = b.main->port("prompt"), state = b.main->port("state"),
             actions = b.main->port("actions");
  if (found.images.empty() || !prompt || !state || !actions) return std::nullopt;
  found.prompt = *prompt;
  found.state = *state;
  found.actions = *actions;
  return found;
}

bool is_face(Bench& b, Verdict& v) {
  if (!b.is_policy())
    v.skip("model_family is not pi0");
  else if (!roles(b))
    v.skip("not the ports of the face");
  return b.is_policy() && roles(b).has_value();
}

bool speaks_robot_units(const Bench& b) {
  return !b.text_key("policy_dir").empty() || !b.integer_key("n_views");
}

// A face in robot units: a picture port for each camera, and widths that are fixed.
void robot_ports(Bench& b, Verdict& v) {
  const auto found = roles(b);
  if (!found) return v.fail("not one picture port, prompt, state and actions");
  const auto ports = b.main->ports();
  for (const uint32_t i : found->images)
    if (ports[i].rank != 4 || ports[i].shape[0] != 1 || ports[i].update != FRT_UPDATE_STAGED)
      v.fail("port %u (%.96s): a camera's port is STAGED and holds one picture", i, ports[i].name);
  const auto& state = ports[found->state];
  if (state.rank != 1 || state.shape[0] < 1 || state.dtype != FRT_DTYPE_F32)
    v.fail("port state: its width in robot units is not fixed");
  const auto& actions = ports[found->actions];
  if (actions.rank != 2 || actions.direction != FRT_PORT_OUT || actions.dtype != FRT_DTYPE_F32)
    v.fail("port actions: not F32 rows and columns out");
}

void ports(Bench& b, Verdict& v) {
  if (!b.is_policy()) return v.skip("model_family is not pi0");
  if (speaks_robot_units(b)) return robot_ports(b, v);
  // Sizes left out of a configuration with a policy_dir: whatever the port says.
  const auto key = [&](const char* name, uint32_t port, uint32_t dim) -> int64_t {
    if (const auto value = b.integer_key(name)) return *value;
    const auto all = b.main->ports();
    return port < all.size() && dim < all[port].rank ? all[port].shape[dim] : -1;
  };
  expect_ports(b, v,
               {{"images",
                 FRT_MODALITY_IMAGE,
                 FRT_DTYPE_U8,
                 FRT_LAYOUT_NHWC,
                 FRT_PORT_IN,
                 1,
                 {key("n_views", 0, 0), key("image_height", 0, 1), key("image_width", 0, 2),
                  key("image_channels", 0, 3)}},
                {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
                {"state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1}},
                {"actions",
                 FRT_MODALITY_ACTION,
                 FRT_DTYPE_F32,
                 FRT_LAYOUT_FLAT,
                 FRT_PORT_OUT,
                 0,
                 {key("action_steps", 3, 0), key("action_dim", 3, 1)}}});
}

void plan(Bench& b, Verdict& v) {
  if (!is_face(b, v)) return;
  if (b.main->stages().size() == 1) return expect_stages(b, v, {{"infer", 37, {}}});
  expect_stages(b, v, {{"context", 4, {}}, {"action", 91, {0}}});
}

void inputs_show(Bench& b, Verdict& v) {
  if (!is_face(b, v) || !b.run_tick(*b.main, v)) return;
  const Roles at = *roles(b);
  const Output first = b.main->read(at.actions);
  for (const uint32_t port : at.inputs()) {
    if (!b.stage_all(*b.main, v)) return;
    const auto other = b.payload(b.main->ports()[port], 1);
    if (!other || b.main->set(port, *other) != 0 || b.main->tick() != 0)
      return v.fail("another %s failed: %s", b.main->ports()[port].name, b.main->error().c_str());
    if (b.main->read(at.actions) == first)
      v.advise("another %s gives the same actions; random weights may do that",
               b.main->ports()[port].name);
  }
}

// Stages everything and runs `context` only.
bool run_context(Bench& b, Verdict& v) {
  if (!b.stage_all(*b.main, v)) return false;
  if (const int code = b.main->run_stage(0); code != 0) {
    v.fail("context answered %d: %s", code, b.main->error().c_str());
    return false;
  }
  return true;
}

bool is_split(Bench& b, Verdict& v) {
  if (!is_face(b, v)) return false;
  if (b.main->stages().size() != 2) v.skip("no split plan");
  return b.main->stages().size() == 2;
}

void context_is_used_once(Bench& b, Verdict& v) {
  if (!is_split(b, v) || !run_context(b, v)) return;
  const uint32_t actions = roles(b)->actions;
  if (b.main->read(actions).code != FRT_ERR_NOT_READY)
    v.fail("actions answered %d after context alone, not ready is -7", b.main->read(actions).code);
  if (const int code = b.main->run_stage(1); code != 0)
    return v.fail("action answered %d: %s", code, b.main->error().c_str());
  const int second = b.main->run_stage(1);
  if (second != FRT_ERR_NOT_READY)
    v.fail("a second action on one context answered %d, must be -7", second);
}

void inputs_drop_the_context(Bench& b, Verdict& v) {
  if (!is_split(b, v)) return;
  for (const uint32_t port : roles(b)->inputs()) {
    if (!run_context(b, v)) return;
    const auto again = b.payload(b.main->ports()[port]);
    if (!again || b.main->set(port, *again) != 0)
      return v.fail("staging failed: %s", b.main->error().c_str());
    if (const int code = b.main->run_stage(1); code >= 0)
      v.fail("action answered %d although %s came after context", code, b.main->ports()[port].name);
  }
  if (!run_context(b, v)) return;
  if (b.main->set(99, "", 0) >= 0) v.fail("set_input of port 99 was accepted");
  if (const int code = b.main->run_stage(1); code >= 0)
    v.fail("action answered %d although a refused set_input (unknown port) came after context",
           code);
}

void chunk_is_dropped_by_unknown_port(Bench& b, Verdict& v) {
  if (!is_face(b, v) || !b.run_tick(*b.main, v)) return;
  b.main->set(99, "", 0);
  if (const int code = b.main->read(roles(b)->actions).code; code == 0)
    v.fail("actions are still readable after a refused set_input of an unknown port");
}

void values_must_be_finite(Bench& b, Verdict& v) {
  if (!is_face(b, v)) return;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    if (!b.stage_all(*b.main, v)) return;
    const uint32_t port = roles(b)->state;
    auto payload = b.payload(b.main->ports()[port]);
    if (!payload || payload->bytes.size() < sizeof bad) return v.skip("no state could be made");
    std::memcpy(payload->bytes.data(), &bad, sizeof bad);
    const int set = b.main->set(port, *payload);
    if (set == 0) {
      v.advise("state %f was taken by set_input; refusing it there with -1 is earlier",
               static_cast<double>(bad));
      if (b.main->tick() >= 0) v.fail("a run with state %f was accepted", static_cast<double>(bad));
    }
  }
}

void empty_inputs_are_refused(Bench& b, Verdict& v) {
  if (!is_face(b, v)) return;
  const float value = 0;
  const Roles at = *roles(b);
  // Where a prompt may be left out, an empty one takes the last one back.
  if (b.main->ports()[at.prompt].required != 0 && b.main->set(at.prompt, "", 0) >= 0)
    v.fail("an empty prompt was accepted");
  if (b.main->set(at.state, &value, 0) >= 0) v.fail("an empty state was accepted");
  for (const uint64_t bytes : {1, 2, 3})
    if (b.main->set(at.state, &value, bytes) >= 0)
      v.fail("a state of %d bytes was accepted", static_cast<int>(bytes));
}

void a_state_beyond_the_model_fails(Bench& b, Verdict& v) {
  if (!is_face(b, v) || !b.stage_all(*b.main, v)) return;
  const Roles at = *roles(b);
  const auto& actions = b.main->ports()[at.actions];
  if (speaks_robot_units(b)) {
    const auto fixed = fixed_bytes(b.main->ports()[at.state]);
    if (!fixed) return v.skip("state has no fixed width");
    for (const uint64_t bytes : {*fixed - sizeof(float), *fixed + sizeof(float)}) {
      const std::vector<float> other(bytes / sizeof(float) + 1, 0.125f);
      if (b.main->set(at.state, other.data(), bytes) >= 0 && b.main->tick() >= 0)
        v.fail("a state of %d values ran, the robot has %d",
               static_cast<int>(bytes / sizeof(float)), static_cast<int>(*fixed / sizeof(float)));
    }
    return;
  }
  if (actions.rank != 2 || actions.shape[1] < 1 || actions.shape[1] > 4096)
    return v.skip("action width unknown");
  const std::vector<float> state(static_cast<size_t>(actions.shape[1]) + 1, 0.125f);
  if (b.main->set(at.state, state.data(), state.size() * sizeof(float)) >= 0 && b.main->tick() >= 0)
    v.fail("a state of %zu values ran; the model has at most %zu", state.size(), state.size() - 1);
}

// For these outputs the size is fixed by the port, so it is told before readiness.
void actions_size_before_readiness(Bench& b, Verdict& v) {
  if (!is_face(b, v) || !b.stage_all(*b.main, v)) return;
  const uint32_t actions = roles(b)->actions;
  const auto fixed = fixed_bytes(b.main->ports()[actions]);
  if (!fixed) return v.skip("actions have no fixed size");
  unsigned char room[64];
  uint64_t written = 0;
  const int code = b.main->get(actions, room, 1, &written);
  if (code != FRT_ERR_STORAGE || written != *fixed)
    v.advise(
        "actions that are not ready, with too little room, answered %d; FlashRT says -5 and the "
        "size",
        code);
}

constexpr Check kChecks[] = {
    {"pi0: the four ports", Check::kSound, ports},
    {"pi0: the plan", Check::kSound, plan},
    {"pi0: every input shows in the actions", Check::kSound, inputs_show},
    {"pi0: a context serves one action", Check::kSound, context_is_used_once},
    {"pi0: any set_input drops a pending context", Check::kSound, inputs_drop_the_context},
    {"pi0: a refused set_input drops the chunk", Check::kSound, chunk_is_dropped_by_unknown_port},
    {"pi0: a state must be finite", Check::kSound, values_must_be_finite},
    {"pi0: empty prompt and broken state are refused", Check::kSound, empty_inputs_are_refused},
    {"pi0: a state wider than the model fails", Check::kSound, a_state_beyond_the_model_fails},
    {"pi0: actions tell their size before readiness", Check::kSound, actions_size_before_readiness},
};

}  // namespace

std::span<const Check> policy_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
