#include "providers/link/provider.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "abi/provider.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "outrider/ext/borrow.h"
#include "providers/link/remote.h"

namespace outrider {
namespace {

using link::Device;

constexpr size_t kMostText = 200;  // of a description

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<Device> device;
  std::string description;
  outrider_status_v1 status{};
  outrider_liveness_v1 liveness{};
  outrider_borrow_v1 borrow{};
  bool send_receive = false;

  UpkeepThread upkeep;  // ends before the device
};

Device& device_of(void* self) {
  return *static_cast<Published*>(self)->device;
}

// ---- verbs --------------------------------------------------------------------------------------

using Verbs = abi::ModelVerbs<device_of>;

int prepare(void* self, uint32_t graph, uint64_t key) {
  return self == nullptr ? FRT_ERR_INVALID : to_abi(device_of(self).prepare(graph, key));
}
int run_opaque(void* self, uint32_t executor_ref) {
  if (self == nullptr) return FRT_ERR_INVALID;
  Device& device = device_of(self);
  if (!static_cast<Published*>(self)->send_receive) return to_abi(device.run(executor_ref));
  if (executor_ref == kSendRef) return to_abi(device.send_step());
  if (executor_ref == kReceiveRef) return to_abi(device.receive_step());
  return to_abi(device.run(executor_ref));  // the host's runtime knows it, or says that it does not
}

// ---- borrow extension ---------------------------------------------------------------------------

int lend_input(void* self, uint32_t port, const void* data, uint64_t bytes, uint64_t* token) {
  if (self == nullptr || token == nullptr) return FRT_ERR_INVALID;
  return to_abi(device_of(self).lend_input(port, data, bytes, token));
}
int is_free(void* self, uint64_t token) {
  return self == nullptr || device_of(self).is_free(token) ? 1 : 0;
}
int wait_free(void* self, uint64_t token, uint64_t timeout_ns) {
  if (self == nullptr) return FRT_ERR_INVALID;
  const auto most = static_cast<uint64_t>(INT64_MAX);
  return to_abi(device_of(self).wait_free(token, static_cast<int64_t>(std::min(timeout_ns, most))));
}

// ---- status extension ---------------------------------------------------------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const link::DeviceCounters& c = device_of(self).counters();
  const Device::Snapshot s = device_of(self).snapshot();
  const auto as_signed = [](uint64_t value) { return static_cast<int64_t>(value); };
  const auto lost = [&](link::wire::Cause cause) {
    return c.lost[static_cast<size_t>(cause)].load(std::memory_order_relaxed);
  };
  using link::wire::Cause;
  const std::pair<const char*, int64_t> rows[] = {
      {"runs", c.runs},
      {"failed_runs", c.failed_runs},
      {"refused_inputs", c.refused_inputs},
      {"late_refusals", c.late_refusals},
      {"inputs_sent", c.inputs_sent},
      {"inputs_waited", c.inputs_waited},
      {"inputs_lent", c.inputs_lent},
      {"pushed_outputs", c.pushed_outputs},
      {"read_outputs", c.read_outputs},
      {"late_answers", c.late_answers},
      {"stale_answers", c.stale_answers},
      {"replaced_inputs", c.replaced_inputs},
      {"connects", c.connects},
      {"reconnects", c.reconnects},
      {"dial_failures", c.dial_failures},
      {"lost_cable", lost(Cause::kCable)},
      {"lost_host", lost(Cause::kHost)},
      {"lost_busy", lost(Cause::kBusy)},
      {"lost_protocol", lost(Cause::kProtocol)},
      {"lost_deadline", lost(Cause::kDeadline)},
      {"lost_corrupted", lost(Cause::kCorrupted)},
      {"lost_security", lost(Cause::kSecurity)},
      {"lost_stopped", lost(Cause::kStopped)},
      {"ns_send", c.ns_send},
      {"ns_forth", c.ns_forth},
      {"ns_queue", c.ns_queue},
      {"ns_run", c.ns_run},
      {"ns_back", c.ns_back},
      {"ns_total", c.ns_total},
      {"ns_age", c.ns_age},
      {"connected", s.connected ? 1 : 0},
      {"epoch", s.epoch},
      {"clock_offset_ns", s.offset_ns},
      {"clock_bound_ns", s.bound_ns},
      {"round_trip_ns", s.trip_ns},
      {"clock_steps", s.clock_steps},
      {"sent_messages", as_signed(s.channel.sent)},
      {"received_messages", as_signed(s.channel.received)},
      {"sent_bytes", as_signed(s.channel.sent_bytes)},
      {"received_bytes", as_signed(s.channel.received_bytes)},
      {"corrupted_messages", as_signed(s.channel.corrupted)},
      {"resyncs", as_signed(s.channel.resyncs)},
      {"missing_messages", as_signed(s.channel.gaps)},
      {"copied_input_bytes", as_signed(s.channel.copied_bytes)},
  };
  constexpr size_t kCount = std::size(rows);
  for (size_t i = 0; i < kCount && i < capacity && out != nullptr; ++i)
    out[i] = {rows[i].first, rows[i].second};
  return kCount;
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

// ---- descriptors --------------------------------------------------------------------------------

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The producer's pairs of an identity text: what stands between its first line and its descriptors.
Pairs identity_pairs(std::string_view text) {
  Pairs pairs;
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::exchange(first, false)) continue;
    for (const char* descriptor : {"graph:", "region:", "port:", "stage:", "gstage-v1:"})
      if (line.starts_with(descriptor)) return pairs;
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      pairs.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    else if (!pairs.empty())  // a value with a line break in it
      pairs.back().second += "\n" + std::string(line);
  }
  return pairs;
}

void add_ports(abi::MetadataBuilder& b, const link::wire::OpenReply& from) {
  for (const link::wire::Port& port : from.ports.items) {
    const std::string name(port.name.view());
    std::array<int64_t, 16> shape{};
    for (uint16_t d = 0; d < port.shape.n; ++d) shape[d] = port.shape.items[d].size;
    frt_runtime_port_desc like{};
    like.name = name.c_str();
    like.modality = port.modality;
    like.dtype = port.dtype;
    like.layout = port.layout;
    like.direction = port.direction;
    like.update = port.update;
    like.required = port.required;
    like.shape = shape.data();
    like.rank = port.shape.n;
    like.cadence_hint_hz = port.cadence_hint_hz;
    b.port_like(like);
  }
}

void add_stages(abi::MetadataBuilder& b, const link::wire::OpenReply& from, Published* self) {
  if (!self->send_receive && from.stages.items.empty()) return;  // step only
  if (self->send_receive) {
    add_send_receive(b);
  } else {
    for (const link::wire::Stage& stage : from.stages.items) {
      std::array<uint32_t, 64> after{};
      for (uint16_t i = 0; i < stage.after.n; ++i) after[i] = stage.after.items[i].index;
      b.stage(std::string(stage.name.view()).c_str(), stage.executor_ref,
              std::span(after).first(stage.after.n));
    }
  }
  b.runner(run_opaque, self);
}

void describe(abi::MetadataBuilder& b, const link::wire::OpenReply& from, Published* self) {
  b.identities(identity_pairs(from.identity.view()));
  if (self->send_receive) b.identity("link_plan", "send_receive");
  if (from.has_manifest != 0) b.manifest(std::string(from.manifest.view()));
  add_ports(b, from);
  add_stages(b, from, self);
}

// Names the first line in which the host's identity and ours differ.
Error cannot_mirror(std::string_view host, std::string_view here) {
  const auto next_line = [](std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
  constexpr size_t kMostLine = 100;
  for (size_t number = 1;; ++number) {
    const std::string_view theirs = next_line(host), ours = next_line(here);
    if (theirs == ours && !(host.empty() && here.empty())) continue;
    return make_error(Code::kUnsupported,
                      "link: the identity of the host's model cannot be mirrored: line %zu is "
                      "\"%s\" there, \"%s\" here (graphs and regions do not travel); run it on "
                      "the device itself",
                      number, printable(theirs, kMostLine).c_str(),
                      printable(ours, kMostLine).c_str());
  }
}

}  // namespace

Result<frt_model_runtime_v1*> publish_remote_runtime(std::unique_ptr<Device> device,
                                                     const RemoteConfig& config) {
  auto published = std::make_unique<Published>();
  published->device = std::move(device);
  published->send_receive = config.send_receive;
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  published->liveness = liveness_table<device_of>(published.get());
  published->borrow = {1,        sizeof(outrider_borrow_v1), published.get(), lend_input, is_free,
                       wait_free};
  const link::wire::OpenReply& from = published->device->runtime();
  published->description =
      "{\"family\":\"remote\",\"endpoint\":" + json_quoted(printable(config.endpoint, kMostText)) +
      ",\"model\":" + json_quoted(printable(config.model, kMostText)) +
      ",\"host\":" + json_quoted(printable(published->device->host_text(), kMostText)) +
      ",\"plan\":\"" + (config.send_receive ? "send_receive" : "mirror") +
      "\",\"deadline_ms\":" + std::to_string(config.deadline_ms) + "}";
  if (config.send_receive && from.has_step == 0)
    return make_error(Code::kUnsupported,
                      "link: plan send_receive needs a step, which the host's model has not; use "
                      "\"mirror\"");
  abi::MetadataBuilder builder;
  describe(builder, from, published.get());
  if (!builder.ok()) return builder.refusal(Code::kInvalid, kNoRuntime);
  const frt_model_runtime_verbs verbs = {sizeof(frt_model_runtime_verbs),
                                         0,
                                         Verbs::set_input,
                                         Verbs::get_output,
                                         prepare,
                                         from.has_step != 0 ? Verbs::step : nullptr,
                                         Verbs::last_error};
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_LIVENESS, 1, &published->liveness},
                                            {OUTRIDER_EXT_BORROW, 1, &published->borrow}};
  Published* self = published.get();
  auto made = abi::publish(builder, std::move(published), verbs, extensions);
  if (!made) return made.error();
  const frt_model_runtime_v1* runtime = made.value();
  if (!config.send_receive && from.identity.view() != runtime->exp->identity) {
    const Error why = cannot_mirror(from.identity.view(), runtime->exp->identity);
    runtime->release(runtime->owner);
    return why;
  }
  self->upkeep.begin([device = self->device.get()] { device->upkeep(); });
  return made;
}

}  // namespace outrider
