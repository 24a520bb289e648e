// From a Jetlink device to a frt_model_runtime_v1.
#include "abi/provider.h"
#include "base/json_text.h"
#include "outrider/ext/history.h"
#include "providers/link/provider.h"
#include "providers/link/remote.h"

namespace outrider {
namespace {

using link::jetlink::Device;

// Those of a local driving graph.
constexpr uint32_t kResetRef = 4, kInferRef = 37;

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<Device> device;
  std::string description;
  bool send_receive = false;
  outrider_status_v1 status{};
  outrider_liveness_v1 liveness{};
  outrider_history_v1 history{};

  UpkeepThread upkeep;  // ends before the device
};

Device& device_of(void* self) {
  return *static_cast<Published*>(self)->device;
}

// ---- verbs --------------------------------------------------------------------------------------

using Verbs = abi::ModelVerbs<device_of>;

int prepare(void* self, uint32_t, uint64_t) {
  return self == nullptr ? FRT_ERR_INVALID : FRT_ERR_UNSUPPORTED;
}
// A whole tick is reset, then infer, as for a local graph.
int step(void* self) {
  if (self == nullptr) return FRT_ERR_INVALID;
  if (const Code code = device_of(self).reset(); code != Code::kOk) return to_abi(code);
  return to_abi(device_of(self).infer());
}
int run_stage(void* self, uint32_t executor_ref) {
  if (self == nullptr) return FRT_ERR_INVALID;
  Device& device = device_of(self);
  if (static_cast<Published*>(self)->send_receive) {
    if (executor_ref == kSendRef) return to_abi(device.send());
    if (executor_ref == kReceiveRef) return to_abi(device.receive());
  } else {
    if (executor_ref == kResetRef) return to_abi(device.reset());
    if (executor_ref == kInferRef) return to_abi(device.infer());
  }
  return FRT_ERR_NOT_FOUND;
}

// ---- extensions ---------------------------------------------------------------------------------

int history_reset(void* self) {
  return to_abi(device_of(self).reset());
}

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const link::jetlink::DeviceCounters& c = device_of(self).counters();
  using link::jetlink::Loss;
  const auto lost = [&](Loss loss) { return &c.lost[static_cast<size_t>(loss)]; };
  const abi::Counter rows[] = {{"runs", &c.frames},
                               {"failed_runs", &c.failed_frames},
                               {"refused_inputs", &c.refused_inputs},
                               {"resets", &c.resets},
                               {"connects", &c.connects},
                               {"reconnects", &c.reconnects},
                               {"dial_failures", &c.dial_failures},
                               {"uploads", &c.uploads},
                               {"frames_by_datagram", &c.frames_by_datagram},
                               {"frames_held", &c.frames_held},
                               {"frames_lost", &c.frames_lost},
                               {"lost_cable", lost(Loss::kCable)},
                               {"lost_host", lost(Loss::kHost)},
                               {"lost_protocol", lost(Loss::kProtocol)},
                               {"lost_deadline", lost(Loss::kDeadline)},
                               {"lost_status", lost(Loss::kStatus)},
                               {"ns_total", &c.ns_total},
                               {"ns_host", &c.ns_host},
                               {"ns_run", &c.ns_run},
                               {"ns_queue", &c.ns_queue}};
  return abi::read_counters(rows, out, capacity);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

// ---- descriptors --------------------------------------------------------------------------------

void describe(abi::MetadataBuilder& b, const Device& device, const RemoteConfig& config,
              Published* self) {
  const std::pair<const char*, std::string> pairs[] = {
      {"provider", "outrider"},
      {"model_family", "remote"},
      {"dialect", "jetlink"},
      {"weights_sha256", device.spec().id.sha256},
      {"frame_skip", std::to_string(device.spec().id.frame_skip)},
      {"desire", config.pulse ? "pulse" : "level"},
      {"stage_plan", config.send_receive ? "send_receive" : "reset_infer"}};
  b.identities(pairs);
  b.manifest(self->description);
  for (const link::jetlink::DevicePort& port : device.ports())
    b.port({port.name, FRT_MODALITY_TENSOR, port.is_bytes ? FRT_DTYPE_U8 : FRT_DTYPE_F32,
            FRT_LAYOUT_FLAT, port.is_input ? FRT_PORT_IN : FRT_PORT_OUT, port.is_input ? 1u : 0u,
            port.shape});
  if (config.send_receive) {
    add_send_receive(b);
  } else {
    b.stage("reset", kResetRef);
    b.stage("infer", kInferRef);
  }
  b.runner(run_stage, self);
}

}  // namespace

Result<frt_model_runtime_v1*> publish_jetlink_runtime(std::unique_ptr<Device> device,
                                                      const RemoteConfig& config) {
  auto published = std::make_unique<Published>();
  published->device = std::move(device);
  published->send_receive = config.send_receive;
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  published->liveness = liveness_table<device_of>(published.get());
  published->history = {1, sizeof(outrider_history_v1), published.get(), history_reset};
  const Device& at = *published->device;
  published->description = "{\"family\":\"remote\",\"dialect\":\"jetlink\",\"endpoint\":" +
                           json_quoted(config.endpoint) +
                           ",\"host\":" + json_quoted(at.host_text()) +
                           ",\"wire\":" + std::to_string(at.version()) + ",\"plan\":\"" +
                           (config.send_receive ? "send_receive" : "mirror") +
                           "\",\"deadline_ms\":" + std::to_string(config.deadline_ms) +
                           ",\"spec\":" + link::jetlink::to_json(at.spec()) + "}";
  abi::MetadataBuilder builder;
  describe(builder, at, config, published.get());
  if (!builder.ok()) return builder.refusal(Code::kInvalid, kNoRuntime);
  const frt_model_runtime_verbs verbs = {sizeof(frt_model_runtime_verbs),
                                         0,
                                         Verbs::set_input,
                                         Verbs::get_output,
                                         prepare,
                                         step,
                                         Verbs::last_error};
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_LIVENESS, 1, &published->liveness},
                                            {OUTRIDER_EXT_HISTORY, 1, &published->history}};
  Published* self = published.get();
  auto made = abi::publish(builder, std::move(published), verbs, extensions);
  if (made) self->upkeep.begin([device = self->device.get()] { device->upkeep(); });
  return made;
}

}  // namespace outrider
