// From a DrivingRuntime to a frt_model_runtime_v1: ports, plan, identity, extensions.
#include "abi/provider.h"
#include "outrider/ext/history.h"
#include "providers/onnx/provider.h"
#include "providers/onnx/values.h"

namespace outrider {
namespace {

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<DrivingRuntime> runtime;
  std::string description, spec_json;
  outrider_status_v1 status{};
  outrider_history_v1 history{};
  outrider_driving_v1 driving{};
};

DrivingRuntime& runtime_of(void* self) {
  return *static_cast<Published*>(self)->runtime;
}

using Verbs = abi::ModelVerbs<runtime_of>;

// ---- extensions ---------------------------------------------------------------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const DrivingRuntime::Counters& c = runtime_of(self).counters();
  const abi::Counter rows[] = {{"runs", &c.runs},
                               {"failed_runs", &c.failed_runs},
                               {"refused_inputs", &c.refused_inputs},
                               {"nonfinite_outputs", &c.nonfinite_outputs},
                               {"resets", &c.resets},
                               {"forgotten_hidden", &c.forgotten_hidden},
                               {"warm_ups", &c.warm_ups},
                               {"ns_stage", &c.ns_stage},
                               {"ns_infer", &c.ns_infer}};
  return abi::read_counters(rows, out, capacity);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}
int history_reset(void* self) {
  return to_abi(runtime_of(self).reset());
}
int driving_run(void* self, const outrider_driving_frame_v1* frame,
                outrider_driving_answer_v1* answer) {
  return to_abi(runtime_of(self).frame(frame, answer));
}
void driving_forget(void* self) {
  runtime_of(self).forget_hidden();
}
void driving_reset(void* self) {
  (void)runtime_of(self).reset();
}

void fill_extensions(Published& p) {
  const driving::Spec& spec = p.runtime->spec();
  p.status = {1, sizeof p.status, &p, status_read, status_describe};
  p.history = {1, sizeof p.history, &p, history_reset};
  outrider_driving_v1& d = p.driving;
  d.abi_version = 1;
  d.struct_size = sizeof d;
  d.self = &p;
  d.spec_json = p.spec_json.c_str();
  d.layout =
      spec.layout == driving::Layout::kQueued ? OUTRIDER_DRIVING_QUEUED : OUTRIDER_DRIVING_STATEFUL;
  d.frame_skip = static_cast<uint32_t>(spec.frame_skip);
  d.frames_bytes = static_cast<uint64_t>(spec.frames_bytes());
  d.n_packed = static_cast<uint64_t>(spec.n_packed());
  d.n_outputs = static_cast<uint64_t>(spec.n_outputs);
  d.hidden_begin = static_cast<uint64_t>(spec.hidden.begin);
  d.hidden_end = static_cast<uint64_t>(spec.hidden.end);
  d.run = driving_run;
  d.forget_hidden = driving_forget;
  d.reset = driving_reset;
}

// ---- descriptors --------------------------------------------------------------------------------

// Optional keys enter the identity when they can change a result and differ from their default.
// How the key "driving" was answered is in it always: the ports follow from it.
IdentityPairs identity_pairs(const DrivingRuntime& runtime) {
  const OnnxOpenConfig& c = runtime.open_config();
  const OnnxOpenConfig defaults;
  IdentityPairs pairs = file_identity(c, runtime.file());
  pairs.emplace_back("stage_plan", "reset_infer");
  pairs.emplace_back("driving",
                     runtime.spec().layout == driving::Layout::kQueued ? "queued" : "stateful");
  const auto text = [&](const char* key, const std::string& value, const std::string& usual) {
    if (value != usual) pairs.emplace_back(key, value);
  };
  const auto number = [&](const char* key, int64_t value, int64_t usual) {
    if (value != usual) pairs.emplace_back(key, std::to_string(value));
  };
  text("precision", c.precision, defaults.precision);
  text("dims", c.dims, defaults.dims);
  number("frame_skip", c.frame_skip, defaults.frame_skip);
  text("heads", c.heads, defaults.heads);
  text("desire", c.desire, defaults.desire);
  text("action", c.action, defaults.action);
  number("lateral_smooth_ms", c.lateral_smooth_ms, defaults.lateral_smooth_ms);
  number("longitudinal_smooth_ms", c.longitudinal_smooth_ms, defaults.longitudinal_smooth_ms);
  return pairs;
}

void describe(abi::MetadataBuilder& b, Published& published) {
  const DrivingRuntime& runtime = *published.runtime;
  b.identities(identity_pairs(runtime));
  b.manifest(published.description);
  for (const DrivingRuntime::PortInfo& port : runtime.ports())
    b.port({port.name, port.is_action ? FRT_MODALITY_ACTION : FRT_MODALITY_TENSOR,
            port_dtype(port.dtype), FRT_LAYOUT_FLAT, port.is_input ? FRT_PORT_IN : FRT_PORT_OUT,
            port.is_input ? 1u : 0u, port.dims});
  // The history is fresh at open: infer comes after reset in a whole tick, and may run without it.
  b.stage("reset", DrivingRuntime::kResetRef);
  b.stage("infer", DrivingRuntime::kInferRef);
  b.runner(Verbs::run_stage, &published);
}

}  // namespace

Result<frt_model_runtime_v1*> publish_driving_runtime(std::unique_ptr<DrivingRuntime> runtime) {
  auto published = std::make_unique<Published>();
  published->runtime = std::move(runtime);
  published->description = published->runtime->describe();
  published->spec_json = driving::spec_json(published->runtime->spec());
  fill_extensions(*published);
  abi::MetadataBuilder builder;
  describe(builder, *published);
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_HISTORY, 1, &published->history},
                                            {OUTRIDER_EXT_DRIVING, 1, &published->driving}};
  return abi::publish(builder, std::move(published), Verbs::kTable, extensions);
}

}  // namespace outrider
