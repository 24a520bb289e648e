#include "providers/onnx/provider.h"

#include "abi/guard.h"
#include "abi/provider.h"
#include "outrider/ext/history.h"
#include "providers/onnx/values.h"

namespace outrider {
namespace {

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<OnnxRuntime> runtime;
  std::string description;
  outrider_status_v1 status{};
  outrider_history_v1 history{};
};

OnnxRuntime& runtime_of(void* self) {
  return *static_cast<Published*>(self)->runtime;
}

using Verbs = abi::ModelVerbs<runtime_of>;

// ---- history extension, of graphs that keep something from run to run
// ----------------------------

int history_reset(void* self) {
  return to_abi(runtime_of(self).run_stage(OnnxRuntime::kResetRef));
}

// ---- status extension ---------------------------------------------------------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const OnnxRuntime::Counters& c = runtime_of(self).counters();
  const abi::Counter rows[] = {{"runs", &c.runs},
                               {"failed_runs", &c.failed_runs},
                               {"refused_inputs", &c.refused_inputs},
                               {"nonfinite_outputs", &c.nonfinite_outputs},
                               {"resets", &c.resets},
                               {"clipped_values", &c.clipped_values},
                               {"warm_ups", &c.warm_ups},
                               {"ns_infer", &c.ns_infer}};
  return abi::read_counters(rows, out, capacity);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

// ---- descriptors --------------------------------------------------------------------------------

// What a graph calls its actions is a port of actions; everything else is a plain array.
uint32_t port_modality(const OnnxRuntime::PortInfo& port) {
  const bool action = !port.is_input && port.type.dtype == DType::kF32 &&
                      port.type.shape.rank() > 0 && port.name.find("action") != std::string::npos;
  return action ? FRT_MODALITY_ACTION : FRT_MODALITY_TENSOR;
}

// Optional keys enter the identity when they can change a result and differ from their default.
IdentityPairs identity_pairs(const OnnxRuntime& runtime) {
  const OnnxOpenConfig& c = runtime.open_config();
  const OnnxOpenConfig defaults;
  IdentityPairs pairs = file_identity(c, runtime.file());
  pairs.emplace_back("stage_plan", runtime.stateful() ? "reset_infer" : "full");
  if (c.precision != defaults.precision) pairs.emplace_back("precision", c.precision);
  if (!c.dims.empty()) pairs.emplace_back("dims", c.dims);
  if (!c.state_pairs.empty()) pairs.emplace_back("state_pairs", c.state_pairs);
  if (!runtime.stats_sha256().empty()) pairs.emplace_back("stats_sha256", runtime.stats_sha256());
  if (c.history != defaults.history) pairs.emplace_back("history", std::to_string(c.history));
  return pairs;
}

void describe(abi::MetadataBuilder& b, Published& published) {
  const OnnxRuntime& runtime = *published.runtime;
  b.identities(identity_pairs(runtime));
  b.manifest(published.description);
  for (const OnnxRuntime::PortInfo& port : runtime.ports()) {
    const auto dims = port.type.shape.dims();
    b.port({port.name,
            port_modality(port),
            port_dtype(port.type.dtype),
            FRT_LAYOUT_FLAT,
            port.is_input ? FRT_PORT_IN : FRT_PORT_OUT,
            port.is_input ? 1u : 0u,
            {dims.begin(), dims.end()}});
  }
  // The state is fresh at open: infer comes after reset in a whole tick, and may run without it.
  if (runtime.stateful()) b.stage("reset", OnnxRuntime::kResetRef);
  b.stage("infer", OnnxRuntime::kInferRef);
  b.runner(Verbs::run_stage, &published);
}

}  // namespace

Result<frt_model_runtime_v1*> publish_onnx_runtime(std::unique_ptr<OnnxRuntime> runtime) {
  auto published = std::make_unique<Published>();
  published->runtime = std::move(runtime);
  published->description = published->runtime->describe();
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  abi::MetadataBuilder builder;
  describe(builder, *published);
  published->history = {1, sizeof(outrider_history_v1), published.get(), history_reset};
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_HISTORY, 1, &published->history}};
  const size_t offered = published->runtime->stateful() ? 2 : 1;
  return abi::publish(builder, std::move(published), Verbs::kTable,
                      std::span(extensions).first(offered));
}

}  // namespace outrider
