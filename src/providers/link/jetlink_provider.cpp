// From a Jetlink device to a frt_model_runtime_v1.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "abi/provider.h"
#include "base/json_text.h"
#include "outrider/ext/history.h"
#include "outrider/ext/liveness.h"
#include "providers/link/provider.h"

namespace outrider {
namespace {

using link::jetlink::Device;

// Those of a local driving graph, then our own.
constexpr uint32_t kResetRef = 4, kInferRef = 37, kSendRef = 1, kReceiveRef = 2;
constexpr auto kUpkeepPause = std::chrono::milliseconds(50);

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<Device> device;
  std::string description;
  bool send_receive = false;
  outrider_status_v1 status{};
  outrider_liveness_v1 liveness{};
  outrider_history_v1 history{};

  std::mutex lock;  // of the thread below; no verb takes it
  std::condition_variable wake;
  bool stop = false;
  std::thread upkeep;

  ~Published() {
    {
      std::scoped_lock hold(lock);
      stop = true;
    }
    wake.notify_all();
    if (upkeep.joinable()) upkeep.join();
  }
  void begin() {
    upkeep = std::thread([this] {
      std::unique_lock hold(lock);
      while (!wake.wait_for(hold, kUpkeepPause, [this] { return stop; })) {
        hold.unlock();
        device->upkeep();
        hold.lock();
      }
    });
  }
};

Device& device_of(void* self) {
  return *static_cast<Published*>(self)->device;
}

// ---- verbs --------------------------------------------------------------------------------------

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
  return self == nullptr ? FRT_ERR_INVALID : to_abi(device_of(self).set_input(port, data, bytes));
}
int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int) {
  if (self == nullptr) return FRT_ERR_INVALID;
  return to_abi(device_of(self).get_output(port, out, capacity, written));
}
int prepare(void* self, uint32_t, uint64_t) {
  return self == nullptr ? FRT_ERR_INVALID : FRT_ERR_UNSUPPORTED;
}
// A whole tick is reset, then infer, as for a local graph.
int step(void* self) {
  if (self == nullptr) return FRT_ERR_INVALID;
  if (const Code code = device_of(self).reset(); code != Code::kOk) return to_abi(code);
  return to_abi(device_of(self).infer());
}
const char* last_error(void* self) {
  return self == nullptr ? "self is NULL" : device_of(self).last_error();
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

int alive(void* self) {
  return device_of(self).connected() ? 1 : 0;
}
uint64_t generation(void* self) {
  return static_cast<uint64_t>(
      device_of(self).counters().reconnects.load(std::memory_order_acquire));
}
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

bool describe(frt_runtime_builder b, const Device& device, const RemoteConfig& config,
              Published* self) {
  const std::pair<const char*, std::string> pairs[] = {
      {"provider", "outrider"},
      {"model_family", "remote"},
      {"dialect", "jetlink"},
      {"weights_sha256", device.spec().id.sha256},
      {"frame_skip", std::to_string(device.spec().id.frame_skip)},
      {"desire", config.pulse ? "pulse" : "level"},
      {"stage_plan", config.send_receive ? "send_receive" : "reset_infer"}};
  bool ok = b != nullptr;
  for (const auto& [key, value] : pairs)
    ok = ok && frt_runtime_builder_add_identity(b, key, value.c_str()) == 0;
  ok = ok && frt_runtime_builder_set_manifest(b, self->description.c_str()) == 0;
  for (const link::jetlink::DevicePort& port : device.ports())
    ok = ok &&
         frt_runtime_builder_add_port(
             b, port.name.c_str(), FRT_MODALITY_TENSOR,
             port.is_bytes ? FRT_DTYPE_U8 : FRT_DTYPE_F32, FRT_LAYOUT_FLAT,
             port.is_input ? FRT_PORT_IN : FRT_PORT_OUT, FRT_UPDATE_STAGED, port.is_input ? 1 : 0,
             port.shape.data(), static_cast<uint32_t>(port.shape.size()), 0, nullptr, 0, 0) == 0;
  const auto stage = [&](const char* name, uint32_t ref, bool after_first) {
    const uint32_t first[] = {0};
    ok = ok && frt_runtime_builder_add_generic_stage(b, name, FRT_EXECUTOR_OPAQUE, ref,
                                                     after_first ? first : nullptr,
                                                     after_first ? 1 : 0) == 0;
  };
  if (config.send_receive) {
    stage("send", kSendRef, false);
    stage("receive", kReceiveRef, true);
  } else {
    stage("reset", kResetRef, false);
    stage("infer", kInferRef, false);
  }
  return ok && frt_runtime_builder_set_generic_stage_runner(b, self, run_stage) == 0;
}

}  // namespace

Result<frt_model_runtime_v1*> publish_jetlink_runtime(std::unique_ptr<Device> device,
                                                      const RemoteConfig& config) {
  auto published = std::make_unique<Published>();
  published->device = std::move(device);
  published->send_receive = config.send_receive;
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  published->liveness = {1, sizeof(outrider_liveness_v1), published.get(), alive, generation};
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
  if (!describe(builder.get(), at, config, published.get()))
    return make_error(Code::kInvalid, "link: what the host describes is no valid runtime: %s",
                      abi::builder_error(builder.get()));
  const frt_model_runtime_verbs verbs = {
      sizeof(frt_model_runtime_verbs), 0, set_input, get_output, prepare, step, last_error};
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_LIVENESS, 1, &published->liveness},
                                            {OUTRIDER_EXT_HISTORY, 1, &published->history}};
  Published* self = published.get();
  auto made = abi::publish(builder, std::move(published), verbs, extensions);
  if (made) self->begin();
  return made;
}

}  // namespace outrider
