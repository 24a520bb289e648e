// Opening, mirroring, losing and finding again.
#include "link/client/device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include "base/printable.h"
#include "link/client/open_texts.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;

namespace {

constexpr size_t kVariableOutputBytes = 64 << 10;
constexpr size_t kFreePieces = 4096;
constexpr uint64_t kMaxTailBytes = uint64_t{8} << 20;

uint64_t dtype_bytes(uint32_t dtype) {
  static constexpr uint64_t kBytes[] = {1, 4, 2, 2, 4, 8};
  return dtype < 6 ? kBytes[dtype] : 0;
}

// -1: variable, or beyond what travels.
int64_t fixed_bytes(const wire::Port& port) {
  uint64_t bytes = dtype_bytes(port.dtype);
  if (bytes == 0 || port.shape.n == 0) return -1;
  for (const wire::Dim& dim : port.shape.records()) {
    if (dim.size < 0) return -1;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim.size), &bytes) ||
        bytes > wire::kMaxPayloadBytes)
      return -1;
  }
  return static_cast<int64_t>(bytes);
}

size_t n_pieces(const wire::Port& port) {
  if (port.modality != FRT_MODALITY_IMAGE && port.modality != FRT_MODALITY_DEPTH) return 1;
  if (port.shape.n != 4 || port.shape.items[0].size < 1 || port.shape.items[1].size < 1)
    return kFreePieces;
  const int64_t rows = std::min<int64_t>(port.shape.items[0].size, wire::kMaxViews) *
                       std::min<int64_t>(port.shape.items[1].size, 8192);
  return static_cast<size_t>(std::min<int64_t>(rows, 65536));
}

bool same_runtime(const wire::OpenReply& a, const wire::OpenReply& b) {
  return a.identity == b.identity && a.fingerprint == b.fingerprint && a.ports == b.ports &&
         a.stages == b.stages && a.has_step == b.has_step;
}

}  // namespace

Device::Device(const DeviceConfig& config, std::unique_ptr<Dialer> dialer, const Clock& clock)
    : config_(config), dialer_(std::move(dialer)), clock_(&clock) {}

Device::~Device() {
  if (connection_ == nullptr || !connected()) return;
  constexpr int64_t kByeNs = 20'000'000;
  connection_->channel().send(wire::Bye(), {0, epoch_, 0, 0}, {}, clock_->now_ns() + kByeNs);
}

Result<std::unique_ptr<Device>> Device::open(const DeviceConfig& config,
                                             std::unique_ptr<Dialer> dialer, const Clock& clock) {
  std::unique_ptr<Device> device(new Device(config, std::move(dialer), clock));
  wire::OpenReply reply;
  Code code = Code::kDevice;
  LinkError why;
  auto connection = device->connect(clock.now_ns() + config.connect_ns, reply, code, why);
  if (connection == nullptr) return why.error;
  const uint32_t epoch = reply.epoch;
  OUTRIDER_TRY(device->keep_runtime(std::move(reply)));
  device->host_text_ = printable(connection->host().name.view()) + " at " +
                       printable(connection->channel().facts().peer);
  device->adopt(std::move(connection), epoch);
  return device;
}

std::unique_ptr<Connection> Device::connect(int64_t deadline_ns, wire::OpenReply& out, Code& code,
                                            LinkError& why) {
  code = Code::kDevice;
  auto connection = Connection::make(*dialer_, *clock_, config_.name, deadline_ns, why);
  if (connection == nullptr) return nullptr;
  wire::Channel& channel = connection->channel();
  wire::Open open;
  open.model.assign(config_.model);
  open.take_over = static_cast<uint8_t>(config_.take_over);
  const uint64_t id = connection->next_request();
  const Io io = channel.send(open, {id, 0, 0, wire::kWantAnswer}, {}, deadline_ns);
  wire::Incoming in;
  const Got got = io == Io::kDone ? connection->wait(id, in, nullptr, nullptr, deadline_ns)
                                  : (io == Io::kLate ? Got::kLate : Got::kLost);
  if (got == Got::kLate) {
    why = link_error(Cause::kDeadline,
                     "the host did not open the model in time (connect_ms may be too short)");
    return nullptr;
  }
  if (got == Got::kLost) {
    const Io ended = io == Io::kDone ? in.io : io;
    why = link_error(wire::cause_of(ended), "the connection ended while the model was opened");
    return nullptr;
  }
  if (got != Got::kMessage || in.header.type != wire::type_of<wire::OpenReply>()) {
    why = link_error(Cause::kProtocol, "the answer to OPEN is none of this protocol");
    return nullptr;
  }
  if (auto read = wire::decode(in.body, out); !read) {
    why = link_error(Cause::kProtocol, read.error().text);
    return nullptr;
  }
  if (out.code == 0)
    return receive_texts(*connection, id, out, deadline_ns, why) ? std::move(connection) : nullptr;
  const std::string text = printable(out.text.view(), 400);
  why.cause = out.code == to_abi(Code::kNotReady) ? Cause::kBusy : Cause::kProtocol;
  if (why.cause == Cause::kBusy) {
    why = link_error(Cause::kBusy, text.c_str());
  } else {
    code = out.code >= -8 && out.code < 0 ? static_cast<Code>(out.code) : Code::kDevice;
    why.error = make_error(code, "host %.60s: %s", channel.facts().peer, text.c_str());
  }
  return nullptr;
}

Result<void> Device::keep_runtime(wire::OpenReply reply) {
  runtime_ = std::move(reply);
  ports_.resize(runtime_.ports.items.size());
  uint64_t cache_bytes = 0;
  size_t most_pieces = 16;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const wire::Port& port = runtime_.ports.items[i];
    most_pieces = std::max(most_pieces, n_pieces(port));
    if (port.direction != FRT_PORT_OUT) continue;
    ports_[i].fixed_bytes = fixed_bytes(port);
    cache_bytes += ports_[i].fixed_bytes < 0 ? kVariableOutputBytes
                                             : static_cast<uint64_t>(ports_[i].fixed_bytes);
    if (cache_bytes > kMaxOutputBytes)
      return make_error(Code::kNoMemory,
                        "link: the outputs of the host's model have more than %" PRIu64
                        " bytes, allowed here are %" PRIu64,
                        cache_bytes, kMaxOutputBytes);
  }
  cache_.resize(cache_bytes);
  cached_.reserve(wire::kMaxPushPorts);
  pieces_.reserve(most_pieces);
  return {};
}

void Device::adopt(std::unique_ptr<Connection> connection, uint32_t epoch) {
  connection_ = std::move(connection);
  uint64_t tail = 64 << 10;
  for (const wire::Port& port : runtime_.ports.items)
    if (port.direction == FRT_PORT_IN)
      tail = std::max<uint64_t>(
          tail, static_cast<uint64_t>(std::max<int64_t>(fixed_bytes(port), 0)) + (16 << 10));
  connection_->channel().set_limits(kMaxOutputBytes, std::min(tail, kMaxTailBytes));
  connection_->channel().set_carries_frames();
  connection_->channel().transport().set_urgency(Urgency::kUrgent);
  epoch_ = epoch;
  connection_->set_epoch(epoch);
  n_inputs_ = n_replaced_ = 0;
  run_open_ = false;
  outputs_ready_ = false;
  for (PortState& port : ports_) port.failed = port.taken = false;
  backoff_ns_ = kFirstBackoffNs;
  last_ping_ns_ = clock_->now_ns();
  first_ping_ns_ = 0;
  ++counters_.connects;
  state_.store(kConnected, std::memory_order_release);
}

// ---- failures ----------------------------------------------------------------------------------

Code Device::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

Code Device::refuse(int32_t code, const wire::Line& text) noexcept {
  const std::string_view view = text.view();
  if (view.empty())
    std::snprintf(error_, sizeof error_, "the host's runtime answered %d without a reason", code);
  else
    std::snprintf(error_, sizeof error_, "%.*s", static_cast<int>(view.size()), view.data());
  for (char& c : error_) {  // what a host writes is shown to people
    if (c == '\0') break;
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return code < 0 ? static_cast<Code>(code) : Code::kFailed;
}

Code Device::lost(Cause cause, const char* what) noexcept {
  std::snprintf(lost_text_, sizeof lost_text_, "%s", what);
  lost_cause_ = cause;
  lost_ns_ = next_dial_ns_ = clock_->now_ns();
  ++counters_.lost[static_cast<size_t>(cause)];
  run_open_ = false;
  outputs_ready_ = false;
  connection_->channel().transport().shut();
  connection_->channel().forget_rest();
  state_.store(kLost, std::memory_order_release);
  if (looks_after_) return Code::kDevice;
  return fail(Code::kDevice, "link: %s: %s", cause_name(cause), what);
}

Code Device::lost_by(Got got, const wire::Incoming& in, const char* what) noexcept {
  if (got == Got::kRules) return lost(Cause::kProtocol, "the host sent more than it may");
  char text[120];
  std::snprintf(text, sizeof text, "the connection ended (%s) while %s", io_name(in.io), what);
  return lost(wire::cause_of(in.io), text);
}

// With the token: a device that asks without a pause leaves upkeep no moment to find out that
// nobody answers.
Code Device::too_late(const char* what) noexcept {
  const int64_t now = clock_->now_ns();
  if (host_is_silent(now)) {
    ++counters_.late_answers;
    return lost(Cause::kDeadline, "the host was silent");
  }
  if (!ask_for_life(now)) return Code::kDevice;
  return late(what);
}

Code Device::late(const char* what) noexcept {
  ++counters_.late_answers;
  return fail(Code::kDevice,
              "link: deadline: %s took longer than deadline_ms = %" PRId64
              "; a late answer will be dropped",
              what, config_.deadline_ns / 1'000'000);
}

// ---- the token ---------------------------------------------------------------------------------

bool Device::take_token(int64_t deadline_ns) noexcept {
  for (;;) {
    uint32_t free = 0;
    if (token_.compare_exchange_strong(free, 1, std::memory_order_acquire)) return true;
    if (clock_->now_ns() >= deadline_ns) return false;
    constexpr timespec kShort = {0, 20'000};
    ::nanosleep(&kShort, nullptr);
  }
}

// A loan ends when the last byte has left, or with the connection.
void Device::give_token() noexcept {
  if (loan_.load(std::memory_order_relaxed) != 0 &&
      (!connected() || connection_ == nullptr || !connection_->channel().has_lent()))
    loan_.store(0, std::memory_order_release);
  token_.store(0, std::memory_order_release);
}

Code Device::begin(int64_t& deadline_ns) noexcept {
  deadline_ns = clock_->now_ns() + config_.deadline_ns;
  if (!take_token(deadline_ns)) return late("waiting for the link");
  if (connected()) return Code::kOk;
  const int64_t ago_ms = (clock_->now_ns() - lost_ns_) / 1'000'000;
  fail(Code::kDevice, "link: %s: %s, %" PRId64 " ms ago; looking for the host again",
       cause_name(lost_cause_), lost_text_, ago_ms);
  give_token();
  return Code::kDevice;
}

// ---- upkeep ------------------------------------------------------------------------------------

void Device::upkeep() {
  if (!connected()) return redial();
  if (!take_token(clock_->now_ns())) return;  // a verb is at work: the link is looked after
  looks_after_ = true;
  if (connected()) heartbeat();
  looks_after_ = false;
  give_token();
}

void Device::heartbeat() {
  if (run_open_) return;  // the answer belongs to receive_step
  wire::Channel& channel = connection_->channel();
  const int64_t now = clock_->now_ns();
  if (channel.has_rest()) channel.flush(now);
  wire::Incoming in;
  for (;;) {
    const Got got = channel.receive(in, nullptr, 0);
    if (got == Got::kLate) break;
    if (got == Got::kLost || got == Got::kRules) {
      lost_by(got, in, "nothing was asked");
      return;
    }
    if (got == Got::kMessage) other(in);
    if (!connected()) return;
  }
  if (host_is_silent(now))
    lost(Cause::kDeadline, "the host was silent");
  else
    ask_for_life(now);
}

// It was asked for a sign of life long enough ago and gave none: not merely at work, and not still
// reading a large frame, behind which the ping waits.
bool Device::host_is_silent(int64_t now_ns) noexcept {
  wire::Channel& channel = connection_->channel();
  if (channel.is_leaving()) first_ping_ns_ = now_ns;
  return first_ping_ns_ > channel.last_received_ns() &&
         now_ns - first_ping_ns_ > kSilenceNs - kHeartbeatNs;
}

// A ping when it is time for one. False: the link is lost.
bool Device::ask_for_life(int64_t now_ns) noexcept {
  wire::Channel& channel = connection_->channel();
  if (now_ns - last_ping_ns_ < kHeartbeatNs || now_ns - channel.last_received_ns() < kHeartbeatNs)
    return true;
  last_ping_ns_ = now_ns;
  if (first_ping_ns_ <= channel.last_received_ns()) first_ping_ns_ = now_ns;
  const Io io = channel.send(wire::Ping(), {connection_->next_request(), epoch_, 0, 0}, {}, now_ns);
  if (io == Io::kDone || io == Io::kLate) return true;
  lost(wire::cause_of(io), "the heartbeat found no peer");
  return false;
}

// A medium that carries one stream (USB) is free only when the old one is gone. Ending it may take
// seconds there: not with the token.
bool Device::drop_old() {
  if (connection_ == nullptr) return true;
  if (!take_token(clock_->now_ns())) return false;  // a verb is at work
  const std::unique_ptr<Connection> old = std::move(connection_);
  give_token();
  return true;
}

void Device::redial() {
  if (clock_->now_ns() < next_dial_ns_ || !drop_old()) return;
  wire::OpenReply reply;
  Code code;
  LinkError why;
  auto connection =
      connect(clock_->now_ns() + std::min(config_.connect_ns, kRedialNs), reply, code, why);
  if (connection != nullptr && !same_runtime(reply, runtime_)) {
    why = link_error(Cause::kProtocol, "the host serves another model now; open it anew");
    connection.reset();
  }
  if (connection == nullptr) {
    ++counters_.dial_failures;
    backoff_ns_ = std::min(backoff_ns_ * 2, kLastBackoffNs);
    next_dial_ns_ = clock_->now_ns() + backoff_ns_;
    if (take_token(clock_->now_ns() + config_.deadline_ns)) {
      lost_cause_ = why.cause;
      std::snprintf(lost_text_, sizeof lost_text_, "%s", why.error.text);
      give_token();
    }
    return;
  }
  while (!take_token(clock_->now_ns() + config_.deadline_ns)) {
  }
  adopt(std::move(connection), reply.epoch);
  ++counters_.reconnects;
  give_token();
}

// What came unasked or too late.
void Device::other(const wire::Incoming& message) {
  const uint16_t type = message.header.type;
  if (type == wire::type_of<wire::Ping>()) {
    connection_->channel().send(wire::Pong(), {message.header.request_id, epoch_, 0, 0}, {},
                                clock_->now_ns());
  } else if (type == wire::type_of<wire::Fault>()) {
    wire::Fault fault;
    if (!wire::decode(message.body, fault)) return;
    if (fault.about == wire::type_of<wire::Input>() && fault.port < ports_.size()) {
      ++counters_.late_refusals;
      ports_[fault.port].taken = false;  // the next one waits for its answer again
    } else if (message.header.request_id == 0) {
      lost(static_cast<Cause>(fault.cause), printable(fault.text.view(), 150).c_str());
    }
  } else if (type == wire::type_of<wire::Bye>()) {
    wire::Bye bye;
    if (wire::decode(message.body, bye))
      lost(static_cast<Cause>(bye.cause), "the host said goodbye");
  } else if (type != wire::type_of<wire::Pong>()) {
    ++counters_.stale_answers;
  }
}

Device::Snapshot Device::snapshot() {
  Snapshot out;
  if (!take_token(clock_->now_ns() + config_.deadline_ns)) return out;
  if (connection_ != nullptr) {
    const wire::Channel& channel = connection_->channel();
    out.channel = channel.counters();
    const wire::ClockSync& sync = channel.clock_sync();
    out.clock_known = sync.known();
    out.offset_ns = sync.offset_ns();
    out.bound_ns = sync.bound_ns();
    out.trip_ns = sync.trip_ns();
    out.clock_steps = static_cast<int64_t>(sync.n_steps());
  }
  out.connected = connected();
  out.epoch = epoch_;
  give_token();
  return out;
}

}  // namespace outrider::link
