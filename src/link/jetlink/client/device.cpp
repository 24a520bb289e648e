#include "link/jetlink/client/device.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/sha256.h"

namespace outrider::link::jetlink {
namespace {

enum Port : uint32_t { kImage, kDesire, kTraffic, kAction, kOutputs, kNumPorts };

uint64_t elements(const Shape& shape) {
  uint64_t n = 1;
  for (const int64_t size : shape) n *= static_cast<uint64_t>(size);
  return n;
}

}  // namespace

Device::Device(const DeviceConfig& config, Dial dial, const Clock& clock)
    : config_(config), dial_(std::move(dial)), clock_(&clock) {}

Device::~Device() {
  if (client_ != nullptr && connected()) client_->leave(reason_json("stopped"));
}

Result<std::unique_ptr<Device>> Device::open(const DeviceConfig& config, Dial dial,
                                             const Clock& clock) {
  std::unique_ptr<Device> device(new Device(config, std::move(dial), clock));
  auto client = device->connect(true);
  if (!client) return client.error();
  OUTRIDER_TRY(device->describe());
  device->client_ = std::move(client.value());
  device->state_.store(kConnected, std::memory_order_release);
  ++device->counters_.connects;
  return device;
}

// ---- connecting -------------------------------------------------------------------------------

Result<std::unique_ptr<Client>> Device::say_hello(uint16_t version, int64_t deadline_ns,
                                                  HelloResp& hello) {
  auto transport = dial_(deadline_ns);
  if (!transport) return transport.error();
  ClientOptions options;
  options.name = config_.name;
  options.version = version;
  options.datagrams = config_.datagrams;
  auto client = std::make_unique<Client>(std::move(transport.value()), options, *clock_);
  auto answer = client->hello(std::max<int64_t>(deadline_ns - clock_->now_ns(), 1));
  if (!answer) return answer.error();
  hello = std::move(answer.value());
  return client;
}

// A host of version 2 takes a hello of version 3 for noise: it never answers, or hangs up.
Result<std::unique_ptr<Client>> Device::connect(bool first) {
  const int64_t now_ns = clock_->now_ns(), deadline_ns = now_ns + config_.connect_ns;
  HelloResp hello;
  const int64_t half_ns = first ? now_ns + config_.connect_ns / 2 : deadline_ns;
  auto client = say_hello(version_, half_ns, hello);
  if (!client && first && client.code() == Code::kDevice) {
    auto other = say_hello(kVersion2, deadline_ns, hello);
    if (!other) return client.error();
    version_ = kVersion2;
    client = std::move(other);
  }
  if (!client) return client.error();
  if (first) {
    auto id = choose(hello, path_);
    if (!id) return id.error();
    id_ = id.value();
    host_text_ = printable(hello.backend, 32) + " " + printable(hello.runtime_version, 32) +
                 " on " + printable(hello.device, 48);
  }
  ReadyWait wait;
  wait.ready_ns = first ? config_.ready_ns : config_.connect_ns;
  wait.progress = [this](const Progress& progress) {
    if (progress.stage == "upload" && progress.frac >= 1.0) ++counters_.uploads;
  };
  auto spec = client.value()->make_ready(id_, first ? path_ : "", wait);
  if (!spec) return spec.error();
  if (first) {
    spec_ = std::move(spec.value());
  } else if (to_json(spec.value()) != to_json(spec_)) {
    return make_error(Code::kDevice,
                      "link: protocol: the host describes the model differently now");
  }
  return client;
}

Result<ModelId> Device::choose(const HelloResp& hello, std::string& path) {
  ModelId id;
  id.frame_skip = config_.frame_skip;
  if (is_sha256(config_.model)) {
    id.sha256 = config_.model;
    return id;
  }
  if (config_.model == "default") {
    if (hello.loaded)
      id.sha256 = *hello.loaded;
    else if (hello.cached_models.size() == 1)
      id.sha256 = hello.cached_models[0];
    else
      return make_error(Code::kNotFound,
                        "model \"default\": the host has loaded none and has %zu; name one by its "
                        "SHA-256 or its file",
                        hello.cached_models.size());
    return id;
  }
  auto file = MappedFile::open(config_.model.c_str());
  if (!file)
    return make_error(Code::kNotFound,
                      "model \"%s\": allowed: \"default\", a SHA-256, or the path of a model file",
                      short_path(config_.model).c_str());
  auto digest = sha256_hex(file.value().bytes());
  if (!digest) return digest.error();
  id.sha256 = digest.value();
  id.nbytes = static_cast<int64_t>(file.value().size());
  path = config_.model;
  return id;
}

// All memory of the verbs.
Result<void> Device::describe() {
  auto sizes = sizes_of(spec_);
  if (!sizes) return sizes.error();
  sizes_ = sizes.value();
  const auto shape = [this](const char* name) { return spec_.inputs.at(name); };
  ports_ = {{"new_img", true, true, {2, 6, sizes_.height, sizes_.width}},
            {"desire", true, false, {sizes_.desire}},
            {"traffic_convention", true, false, shape("traffic_convention")},
            {"action_t", true, false, shape("action_t")},
            {"outputs", false, false, spec_.outputs.at("outputs")}};
  for (DevicePort& port : ports_) port.n_bytes = elements(port.shape) * (port.is_bytes ? 1 : 4);
  staged_.assign(kNumPorts, false);
  warped_.resize(sizes_.warped_bytes);
  packed_.resize(sizes_.packed());
  desire_.resize(sizes_.desire);
  outputs_.resize(sizes_.output);
  pulse_ = std::make_unique<driving::DesirePulse>(sizes_.desire);
  return {};
}

// ---- the token and the link -------------------------------------------------------------------

bool Device::take_token(int64_t deadline_ns) noexcept {
  for (;;) {
    uint32_t free = 0;
    if (token_.compare_exchange_weak(free, 1, std::memory_order_acquire)) return true;
    if (clock_->now_ns() >= deadline_ns) return false;
    const timespec pause = {0, 50'000};
    ::nanosleep(&pause, nullptr);
  }
}

Code Device::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

// The client died: later verbs say why until the link is found again.
void Device::note_loss() noexcept {
  ++counters_.lost[static_cast<size_t>(client_->loss())];
  std::snprintf(lost_text_, sizeof lost_text_, "%s: %s", loss_name(client_->loss()),
                client_->reason());
  lost_to_host_ = client_->loss() == Loss::kHost;
  state_.store(kLost, std::memory_order_release);
}

Code Device::lost() noexcept {
  note_loss();
  open_seq_ = 0;
  return fail(Code::kDevice, "link: %s", lost_text_);
}

// Token and connection; a code other than kOk: give up, the token is not held.
Code Device::begin(int64_t deadline_ns) noexcept {
  held_ = false;
  if (!connected()) return fail(Code::kDevice, "link: %s; it is dialled again", lost_text_);
  if (!take_token(deadline_ns)) return fail(Code::kDevice, "link: deadline: the link is busy");
  if (connected()) return Code::kOk;
  give_token();
  return fail(Code::kDevice, "link: %s; it is dialled again", lost_text_);
}

void Device::redial() {
  const int64_t now_ns = clock_->now_ns();
  if (now_ns < next_dial_ns_) return;
  auto client = connect(false);
  if (!client) {
    ++counters_.dial_failures;
    next_dial_ns_ = clock_->now_ns() + backoff_ns_;
    backoff_ns_ = std::min(backoff_ns_ * 2, kLastBackoffNs);
    return;
  }
  backoff_ns_ = kFirstBackoffNs;
  client_ = std::move(client.value());
  reset_next_ = true;
  answered_ = false;
  used_ns_ = clock_->now_ns();
  ++counters_.reconnects;
  state_.store(kConnected, std::memory_order_release);
}

void Device::upkeep() {
  if (connected() && clock_->now_ns() - used_ns_ < kKeepaliveNs) return;
  if (!take_token(clock_->now_ns())) return;
  if (!connected()) {
    redial();
  } else if (open_seq_ == 0 && clock_->now_ns() - used_ns_ >= kKeepaliveNs) {
    used_ns_ = clock_->now_ns();
    if (!client_->ping(kKeepaliveWaitNs)) note_loss();
  }
  give_token();
}

// ---- verbs ------------------------------------------------------------------------------------

Code Device::set_input(uint32_t index, const void* data, uint64_t bytes) noexcept {
  outputs_ready_ = false;
  const auto refuse = [this](auto... args) {
    ++counters_.refused_inputs;
    return fail(Code::kInvalid, args...);
  };
  if (index >= ports_.size())
    return refuse("set_input: port %u does not exist; there are %u", index, unsigned{kNumPorts});
  const DevicePort& port = ports_[index];
  if (!port.is_input)
    return refuse("set_input: port %u (%s) is an output", index, port.name.c_str());
  staged_[index] = false;
  if (data == nullptr || bytes != port.n_bytes)
    return refuse("%s: %llu bytes%s, wanted %zu", port.name.c_str(),
                  static_cast<unsigned long long>(bytes), data == nullptr ? " at NULL" : "",
                  port.n_bytes);
  if (index == kImage) {
    std::memcpy(warped_.data(), data, bytes);
  } else {
    float* to = index == kDesire    ? desire_.data()
                : index == kTraffic ? packed_.data() + sizes_.desire
                                    : packed_.data() + sizes_.desire + sizes_.traffic;
    for (size_t i = 0; i < bytes / 4; ++i) {
      float value;
      std::memcpy(&value, static_cast<const std::byte*>(data) + 4 * i, sizeof value);
      if (!std::isfinite(value))
        return refuse("%s: value %zu is %g, allowed are finite numbers", port.name.c_str(), i,
                      static_cast<double>(value));
    }
    std::memcpy(to, data, bytes);
  }
  staged_[index] = true;
  error_[0] = '\0';
  return Code::kOk;
}

Code Device::get_output(uint32_t index, void* out, uint64_t capacity, uint64_t* written) noexcept {
  if (written == nullptr) return fail(Code::kInvalid, "get_output: written is NULL");
  *written = 0;
  if (index >= ports_.size())
    return fail(Code::kInvalid, "get_output: port %u does not exist; there are %u", index,
                unsigned{kNumPorts});
  const DevicePort& port = ports_[index];
  if (port.is_input)
    return fail(Code::kInvalid, "get_output: port %u (%s) is an input", index, port.name.c_str());
  *written = port.n_bytes;
  if (out == nullptr || capacity < port.n_bytes)
    return fail(Code::kNoMemory, "%s: %zu bytes are needed, room for %llu", port.name.c_str(),
                port.n_bytes, static_cast<unsigned long long>(out == nullptr ? 0 : capacity));
  if (!outputs_ready_) {
    *written = 0;
    return fail(Code::kNotReady, "%s: run infer first", port.name.c_str());
  }
  std::memcpy(out, outputs_.data(), port.n_bytes);
  error_[0] = '\0';
  return Code::kOk;
}

// Costs nothing: the host clears its history before the next frame.
Code Device::reset() noexcept {
  reset_next_ = true;
  pulse_->reset();
  ++counters_.resets;
  error_[0] = '\0';
  return Code::kOk;
}

Code Device::send_frame(int64_t deadline_ns) noexcept {
  for (uint32_t i = 0; i < kOutputs; ++i)
    if (!staged_[i])
      return fail(Code::kInvalid, "infer: port %s is not staged; set every input first",
                  ports_[i].name.c_str());
  if (client_->waiting_ns() > config_.deadline_ns) {
    client_->transport().shut();
    ++counters_.lost[static_cast<size_t>(Loss::kDeadline)];
    std::snprintf(lost_text_, sizeof lost_text_, "deadline: a frame was never answered");
    lost_to_host_ = false;
    state_.store(kLost, std::memory_order_release);
    return fail(Code::kDevice, "link: %s", lost_text_);
  }
  const std::span<float> pulse = std::span(packed_).first(sizes_.desire);
  if (config_.pulse)
    std::copy(desire_.begin(), desire_.end(), pulse.begin());
  else
    pulse_->step(desire_, pulse);
  sent_ns_ = clock_->now_ns();
  const FrameHead head{++frame_id_, reset_next_ ? kResetQueues : 0};
  may_be_lost_ = answered_ && !reset_next_ && client_->has_datagrams();
  open_seq_ = client_->begin(head, warped_, packed_, deadline_ns, may_be_lost_);
  if (open_seq_ == 0 && client_->dead()) return lost();
  if (open_seq_ == 0)
    return fail(Code::kNotReady, "infer: %zu frames are unanswered; receive one first",
                client_->n_in_flight());
  reset_next_ = false;
  if (may_be_lost_) ++counters_.frames_by_datagram;
  return Code::kOk;
}

Code Device::receive_frame(int64_t deadline_ns) noexcept {
  const int64_t until_ns =
      may_be_lost_ ? std::min(deadline_ns, sent_ns_ + config_.hold_ns) : deadline_ns;
  const Client::Ended ended = client_->end(open_seq_, until_ns, may_be_lost_);
  open_seq_ = 0;
  used_ns_ = clock_->now_ns();
  counters_.frames_lost.store(static_cast<int64_t>(client_->frames_lost()),
                              std::memory_order_relaxed);
  held_ = ended == Client::Ended::kHeld;
  if (held_) {
    ++counters_.frames_held;
    return fail(Code::kNotReady,
                "link: frame %u has no answer after %lld ms: lost on its way, or late; the link is "
                "well",
                frame_id_, static_cast<long long>((until_ns - sent_ns_) / 1'000'000));
  }
  if (ended != Client::Ended::kReply) {
    client_->transport().shut();
    return lost();
  }
  const std::span<const float> all = client_->outputs();
  std::copy(all.begin(), all.end(), outputs_.begin());
  const ReplyHead& reply = client_->reply();
  counters_.ns_total.store(used_ns_ - sent_ns_, std::memory_order_relaxed);
  counters_.ns_host.store(int64_t{reply.total_us} * 1000, std::memory_order_relaxed);
  counters_.ns_run.store(int64_t{reply.gpu_us} * 1000, std::memory_order_relaxed);
  counters_.ns_queue.store(int64_t{reply.queue_us} * 1000, std::memory_order_relaxed);
  outputs_ready_ = true;
  answered_ = true;
  error_[0] = '\0';
  return Code::kOk;
}

// A frame without an answer is none that failed.
void Device::count(Code code) noexcept {
  if (code == Code::kOk)
    ++counters_.frames;
  else if (code != Code::kNotReady || !held_)
    ++counters_.failed_frames;
}

Code Device::try_frame(int64_t deadline_ns) noexcept {
  Code code = begin(deadline_ns);
  if (code != Code::kOk) return code;
  code = send_frame(deadline_ns);
  if (code == Code::kOk) code = receive_frame(deadline_ns);
  give_token();
  return code;
}

// Another client, or a host that was started anew, ended the connection. A frame that begins a
// history loses nothing by that: it waits for the next connection, within its deadline.
Code Device::infer() noexcept {
  outputs_ready_ = false;
  const int64_t deadline_ns = clock_->now_ns() + config_.deadline_ns;
  const bool fresh = reset_next_;
  Code code = try_frame(deadline_ns);
  if (code == Code::kDevice && fresh && !connected() && lost_to_host_) {
    while (!connected() && clock_->now_ns() < deadline_ns) {
      const timespec pause = {0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
    pulse_->reset();
    if (connected()) code = try_frame(deadline_ns);
  }
  count(code);
  return code;
}

Code Device::send() noexcept {
  outputs_ready_ = false;
  const int64_t deadline_ns = clock_->now_ns() + config_.deadline_ns;
  if (const Code code = begin(deadline_ns); code != Code::kOk) return code;
  const Code code = send_frame(deadline_ns);
  give_token();
  return code;
}

Code Device::receive() noexcept {
  const int64_t deadline_ns = clock_->now_ns() + config_.deadline_ns;
  Code code = begin(deadline_ns);
  if (code == Code::kOk) {
    if (open_seq_ == 0)
      code = fail(Code::kNotReady, "link: receive: nothing was sent since the last run");
    else
      code = receive_frame(deadline_ns);
    give_token();
  }
  count(code);
  return code;
}

}  // namespace outrider::link::jetlink
