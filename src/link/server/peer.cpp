// Connection, hello, open. Texts of an open: peer_texts.cpp, inputs: peer_inputs.cpp, runs:
// peer_frames.cpp, telemetry: peer_telemetry.cpp.
#include "link/server/peer.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;

namespace {

constexpr uint64_t kUnknownPortBytes = 64 << 10;

uint64_t dtype_bytes(uint32_t dtype) {
  static constexpr uint64_t kBytes[] = {1, 4, 2, 2, 4, 8};
  return dtype < 6 ? kBytes[dtype] : 8;
}

bool is_picture(const frt_runtime_port_desc& port) {
  return port.modality == FRT_MODALITY_IMAGE || port.modality == FRT_MODALITY_DEPTH;
}

// 0: variable.
uint64_t fixed_bytes(const frt_runtime_port_desc& port) {
  uint64_t bytes = is_picture(port) ? 1 : dtype_bytes(port.dtype);
  if (port.rank == 0) return 0;
  for (uint32_t d = 0; d < port.rank; ++d) {
    const bool channels = is_picture(port) && d + 1 == port.rank && d == 3;
    const int64_t size = channels ? 4 : port.shape[d];  // RGBA is the widest a view may be
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) ||
        bytes > wire::kMaxPayloadBytes)
      return 0;
  }
  return bytes;
}

// What one message may carry for this port. Beyond the port's own size there is room for what a
// caller gets wrong: the runtime refuses it, not the wire.
uint64_t most_bytes(const frt_runtime_port_desc& port) {
  const uint64_t fixed = fixed_bytes(port);
  if (port.direction == FRT_PORT_OUT) return fixed == 0 ? kMaxVariableBytes : fixed;
  if (fixed == 0) return is_picture(port) ? kMaxPictureBytes : kMaxVariableBytes;
  return std::min<uint64_t>(fixed + kUnknownPortBytes, wire::kMaxPayloadBytes);
}

}  // namespace

Peer::Peer(std::unique_ptr<Transport> transport, const ServerCore& core)
    : core_(&core), channel_(std::move(transport), core.clock), begun_ns_(core.clock.now_ns()) {
  ++core_->counters.peers;
  ++core_->counters.connections;
  // A page in a browser can make it send a request here, with anything in its body (FC-45).
  if (channel_.facts().kind == TransportKind::kTcp) channel_.begin_with_header();
  if (core.store != nullptr) store_.emplace(*core.store, channel_, core.clock, kPeerSendNs);
}

Peer::~Peer() {
  if (lease_.instance) core_->models.release(lease_);
  --core_->counters.peers;
}

// ---- the pump ----------------------------------------------------------------------------------

bool Peer::pump(int64_t deadline_ns) {
  std::unique_lock lock(io_);
  if (over_) return false;
  wire::Incoming in;
  if (later_.waits()) deadline_ns = std::min(deadline_ns, core_->clock.now_ns() + kTelemetryNs);
  const Got got = channel_.receive(in, this, deadline_ns);
  const int64_t now = core_->clock.now_ns();
  if (got == Got::kLate) {
    if (channel_.has_rest()) channel_.flush(now);
    note_progress();
    if (!serve_telemetry()) over_ = true;
    if (!said_hello_ && now - begun_ns_ > kHelloNs) return end(Cause::kDeadline, "no hello came");
    // A device that waits for a run, or for the store to read a file, sends nothing meanwhile.
    if (now - std::max(channel_.last_received_ns(), work_ended_ns_) > kPeerSilenceNs) {
      ++core_->counters.silent_peers;
      return end(Cause::kDeadline, "nothing was heard of you");
    }
    return !over_;
  }
  if (!take(in, got) || !take_newer()) over_ = true;
  if (!over_ && !drain()) over_ = true;
  show();
  return !over_;
}

// What is here already is taken before an input is handed to the runtime: of two for one port only
// the newer one is. A run ends that, the inputs before it are its own.
bool Peer::take_newer() {
  for (int i = 0; i < kMostGathered && waits_for_drain() && !over_; ++i) {
    wire::Incoming in;
    const Got got = channel_.receive(in, this, 0);
    if (got == Got::kLate) break;
    if (!take(in, got)) return false;
  }
  return !over_;
}

// A peer whose large input comes, or that takes a large output, is none that is silent.
void Peer::note_progress() noexcept {
  const int64_t received_ns = channel_.last_received_ns();
  const bool leaving = channel_.is_leaving();
  if (leaving) work_ended_ns_ = core_->clock.now_ns();
  if ((leaving || received_ns > arrived_ns_) && lease_.instance && lease_.holds())
    core_->models.heard(lease_);
  arrived_ns_ = received_ns;
}

// How long the run at work has been at it; 0: none is.
uint32_t Peer::busy_ms() const {
  if (!busy()) return 0;
  return static_cast<uint32_t>((core_->clock.now_ns() - busy_since_ns_) / 1'000'000 + 1);
}

void Peer::show() {
  std::scoped_lock lock(shown_lock_);
  if (shown_.name.empty()) shown_.name = hello_.name.view();
  if (shown_.model != model_) shown_.model = model_;
  shown_.epoch = lease_.epoch;
  shown_.owner = lease_.instance && lease_.holds();
  shown_.uploading = store_ && store_->is_uploading();
  shown_.heard_ns = channel_.last_received_ns();
  shown_.counters = channel_.counters();
}

void Peer::pump_while_busy() {
  std::unique_lock lock(io_, std::try_to_lock);
  if (!lock.owns_lock() || !busy_.load(std::memory_order_acquire) || over_) return;
  constexpr int kMostMessages = 16;
  for (int i = 0; i < kMostMessages && !over_; ++i) {
    wire::Incoming in;
    const Got got = channel_.receive(in, this, 0);
    if (got == Got::kLate) break;
    if (!take(in, got)) over_ = true;
  }
}

bool Peer::take(const wire::Incoming& in, Got got) {
  if (got == Got::kLost) return false;
  if (got == Got::kRules) {
    ++core_->counters.protocol_errors;
    return end(Cause::kProtocol, "no message of this link, or one longer than its type allows");
  }
  if (lease_.instance && lease_.holds()) core_->models.heard(lease_);
  if (got == Got::kCorrupted) return corrupted(in);
  const uint16_t type = in.header.type;
  if (type == wire::type_of<wire::Hello>()) return on_hello(in);
  if (!said_hello_) return end(Cause::kProtocol, "the first message must be HELLO");
  if (type == wire::type_of<wire::Ping>()) {
    wire::Pong pong;
    pong.busy_ms = busy_ms();
    return answer(pong, in.header.request_id);
  }
  if (type == wire::type_of<wire::Pong>()) return true;
  if (type == wire::type_of<wire::Bye>()) return on_bye();
  if (type == wire::type_of<wire::PowerOff>()) return on_power_off(in);
  if (is_of_another_epoch(in.header)) return drop_of_another_epoch(in.header);
  if (type == wire::type_of<wire::Input>()) return on_input(in);
  if (type == wire::type_of<wire::Run>()) return on_run(in);
  if (type == wire::type_of<wire::Status>() || type == wire::type_of<wire::Probe>())
    return on_telemetry(in);
  if (busy())
    return fault(Cause::kBusy, Code::kNotReady, type, 0, in.header.request_id,
                 "a run is at work; ask again after it");
  if (type == wire::type_of<wire::Open>()) return on_open(in);
  if (type == wire::type_of<wire::Read>()) return on_read(in);
  if (type == wire::type_of<wire::Prepare>()) return on_prepare(in);
  if (StoreSession::takes(type)) return on_store(in);
  ++core_->counters.protocol_errors;
  return end(Cause::kProtocol, "a message that only a host sends");
}

// What was sent by an owner that is not this one drives nothing and shows nothing.
bool Peer::is_of_another_epoch(const wire::Header& header) const {
  const bool of_runtime =
      header.type == wire::type_of<wire::Input>() || header.type == wire::type_of<wire::Run>() ||
      header.type == wire::type_of<wire::Read>() || header.type == wire::type_of<wire::Prepare>();
  return of_runtime && lease_.instance && header.epoch != lease_.epoch;
}

bool Peer::drop_of_another_epoch(const wire::Header& header) {
  ++core_->counters.stale;
  if ((header.flags & wire::kWantAnswer) == 0) return true;
  return fault(Cause::kProtocol, Code::kDevice, header.type, 0, header.request_id,
               "link: protocol: the message belongs to another owner epoch");
}

bool Peer::corrupted(const wire::Incoming& in) {
  ++core_->counters.corrupted;
  if (is_of_another_epoch(in.header)) return true;
  if (in.header.type == wire::type_of<wire::Input>()) {
    ++n_inputs_;
    void_inputs("link: corrupted: an input was damaged on its way; stage all inputs again");
  }
  // A chunk is missing from here on: a new connection goes on where the store is.
  if (StoreSession::takes(in.header.type))
    return end(Cause::kCorrupted, "a message for the store was damaged on its way; connect again");
  if ((in.header.flags & wire::kWantAnswer) == 0) return true;
  return fault(Cause::kCorrupted, Code::kDevice, in.header.type, 0, in.header.request_id,
               "link: corrupted: the message was damaged on its way");
}

bool Peer::fault(Cause cause, Code code, uint16_t about, uint32_t port, uint64_t request_id,
                 const char* text) {
  wire::Fault fault;
  fault.cause = static_cast<uint8_t>(cause);
  fault.code = to_abi(code);
  fault.about = about;
  fault.port = port;
  fault.text.assign(text);
  return answer(fault, request_id);
}

// A large answer over a slow link: it is waited for as long as the peer takes it. A trickle is not.
Io Peer::send_on(uint64_t took_bytes, int64_t took_ns) noexcept {
  for (;;) {
    const int64_t now = core_->clock.now_ns();
    const uint64_t sent_bytes = channel_.counters().sent_bytes;
    if (sent_bytes - took_bytes >= wire::Channel::kLifeBytes) {
      took_bytes = sent_bytes, took_ns = now;
      if (lease_.instance && lease_.holds()) core_->models.heard(lease_);
    } else if (now - took_ns >= kPeerSendNs) {
      return Io::kLate;
    }
    if (const Io io = channel_.flush(now + kPeerTakesNs); io != Io::kLate) return io;
  }
}

// Says why, as far as the peer still listens.
bool Peer::end(Cause cause, const char* text) {
  wire::Bye bye;
  bye.cause = static_cast<uint8_t>(cause);
  bye.text.assign(text);
  channel_.send(bye, {0, lease_.epoch, 0, 0}, {}, core_->clock.now_ns());
  over_ = true;
  return false;
}

bool Peer::on_bye() {
  if (lease_.instance) core_->models.release(lease_);
  return false;
}

bool Peer::on_power_off(const wire::Incoming& in) {
  wire::PowerOff wish;
  if (!wire::decode(in.body, wish)) return end(Cause::kProtocol, "a broken POWER_OFF");
  wire::Answer reply;
  Result<void> done =
      core_->power_off != nullptr
          ? (*core_->power_off)(hello_.name.view(), wish.reason.view())
          : make_error(Code::kUnsupported, "this host does not power off when it is asked");
  reply.code = to_abi(done.code());
  reply.text.assign(done.error().message());
  return answer(reply, in.header.request_id);
}

// ---- hello and open
// ------------------------------------------------------------------------------

bool Peer::on_hello(const wire::Incoming& in) {
  wire::Hello hello;
  if (said_hello_ || !wire::decode(in.body, hello))
    return end(Cause::kProtocol, "a second or broken HELLO");
  wire::HelloReply reply;
  reply.version = std::min(hello.newest_version, core_->newest_version);
  reply.features = hello.features & core_->features;
  reply.host_id = core_->host_id;
  reply.name.assign(core_->name);
  reply.software.assign("outrider");
  if (reply.version < hello.oldest_version || reply.version < core_->oldest_version) {
    const Error error = make_error(
        Code::kUnsupported,
        "no common wire version: the device speaks %u to %u, this host %u to %u; update the older",
        hello.oldest_version, hello.newest_version, core_->oldest_version, core_->newest_version);
    reply.code = to_abi(error.code);
    reply.text.assign(error.message());
    answer(reply, in.header.request_id);
    return false;
  }
  hello_ = hello;
  said_hello_ = true;
  const bool good = answer(reply, in.header.request_id);
  channel_.set_version(reply.version);
  return good;
}

bool Peer::on_open(const wire::Incoming& in) {
  wire::Open open;
  if (auto read = wire::decode(in.body, open); !read || lease_.instance)
    return end(Cause::kProtocol, read ? "a second OPEN" : read.error().text);
  auto reply = std::make_unique<wire::OpenReply>();
  if (open.role == static_cast<uint8_t>(wire::Role::kObserver)) {
    reply->code = to_abi(Code::kUnsupported);
    reply->text.assign("an observer needs no OPEN: STATUS is answered without");
    return answer(*reply, in.header.request_id);
  }
  if (store_ && store_->is_uploading()) {
    reply->code = to_abi(Code::kInvalid);
    reply->text.assign("this connection is uploading; open the model on one of its own");
    return answer(*reply, in.header.request_id);
  }
  const Applicant who{hello_.client_id, std::string(hello_.name.view()),
                      static_cast<wire::TakeOver>(open.take_over)};
  auto lease = core_->models.acquire(open.model.view(), who);
  if (!lease) {
    reply->code = to_abi(lease.code());
    reply->text.assign(lease.error().message());
    return answer(*reply, in.header.request_id);
  }
  if (auto fits = check_texts(*lease.value().instance->runtime); !fits) {
    core_->models.release(lease.value());
    reply->code = to_abi(fits.code());
    reply->text.assign(fits.error().message());
    return answer(*reply, in.header.request_id);
  }
  const uint64_t request_id = in.header.request_id;
  lease_ = std::move(lease.value());
  model_ = open.model.view();
  take_buffers();
  describe(*reply);
  return answer(*reply, request_id) && send_texts(request_id);
}

void Peer::take_buffers() {
  const frt_model_runtime_v1& face = lease_.instance->runtime->face();
  pending_.resize(face.n_ports + 1);
  buffers_.resize(face.n_ports + 1);
  order_.reserve(face.n_ports + 1);
  // Pages that nothing is ever written to cost nothing.
  for (uint64_t i = 0; i <= face.n_ports; ++i) {
    const bool known = i < face.n_ports;
    if (known && face.ports[i].direction != FRT_PORT_IN) continue;
    buffers_[i].capacity = known ? most_bytes(face.ports[i]) : kUnknownPortBytes;
    buffers_[i].bytes.reset(new std::byte[buffers_[i].capacity]);
  }
  uint64_t most_in = kUnknownPortBytes, all_out = 0;
  for (uint64_t i = 0; i < face.n_ports; ++i) {
    const uint64_t bytes = most_bytes(face.ports[i]);
    if (face.ports[i].direction == FRT_PORT_IN)
      most_in = std::max(most_in, bytes);
    else
      all_out += bytes;
  }
  out_bytes_ = std::min<uint64_t>(all_out, wire::kMaxPayloadBytes);
  out_.reset(new std::byte[std::max<uint64_t>(out_bytes_, 1)]);
  const auto* plan = lease_.instance->runtime->plan();
  stage_done_.assign(plan == nullptr ? 0 : plan->n_stages, false);
  constexpr uint64_t kMaxTail = 1 << 20;
  channel_.set_limits(most_in, std::min<uint64_t>(out_bytes_ + 4096, kMaxTail));
  channel_.set_carries_frames();
  channel_.transport().set_urgency(Urgency::kUrgent);
}

void Peer::describe(wire::OpenReply& reply) const {
  const Runtime& runtime = *lease_.instance->runtime;
  const frt_model_runtime_v1& face = runtime.face();
  reply.epoch = lease_.epoch;
  reply.has_step = runtime.has_step();
  reply.silence_ms = static_cast<uint32_t>(core_->models.silence_ns() / 1'000'000);
  describe_texts(reply);
  for (uint64_t i = 0; i < std::min<uint64_t>(face.n_ports, wire::kMaxPorts); ++i) {
    const frt_runtime_port_desc& from = face.ports[i];
    wire::Port& to = reply.ports.add();
    to.name.assign(from.name);
    to.modality = from.modality, to.dtype = from.dtype, to.layout = from.layout;
    to.direction = from.direction, to.update = from.update, to.required = from.required;
    to.cadence_hint_hz = from.cadence_hint_hz;
    for (uint32_t d = 0; d < std::min<uint32_t>(from.rank, 16); ++d)
      to.shape.add().size = from.shape[d];
    to.max_bytes = most_bytes(from);
  }
  const auto* plan = runtime.plan();
  for (uint64_t i = 0; plan != nullptr && i < std::min<uint64_t>(plan->n_stages, wire::kMaxStages);
       ++i) {
    wire::Stage& to = reply.stages.add();
    to.name.assign(plan->stages[i].name);
    to.executor_ref = plan->stages[i].executor_ref;
    for (uint32_t a = 0; a < std::min<uint32_t>(plan->stages[i].n_after, 64); ++a)
      to.after.add().index = plan->stages[i].after[a];
  }
}

// ---- the store
// -----------------------------------------------------------------------------------

bool may_manage(Manage manage, const TransportFacts& facts) {
  if (manage != Manage::kAuto) return manage == Manage::kYes;
  return facts.peer_is_local || facts.encrypted;
}

// STORE_PUSH and STORE_REMOVE of a peer that may not.
bool Peer::refuse_to_manage(const wire::Incoming& in) {
  const bool push = in.header.type == wire::type_of<wire::StorePush>();
  const Error refused = make_error(
      Code::kInvalid, "store: %s may not %s: \"manage\" is %s; %s", channel_.facts().peer,
      push ? "push" : "remove",
      core_->manage == Manage::kNo
          ? "\"no\", which allows nobody on a listener"
          : "\"auto\", which allows peers on the host itself, with its key or on a USB cable",
      core_->manage == Manage::kNo
          ? "change its folder there, or start the host with --manage auto"
          : "give both ends a key (--key-file F), or start the host with --manage yes");
  log_line(LogLevel::kWarn, "serve: %s", refused.text);
  if (push) {
    wire::StoreState state;
    state.is_answer = 1;
    state.code = to_abi(refused.code);
    state.text.assign(refused.message());
    return answer(state, in.header.request_id);
  }
  wire::Answer reply;
  reply.code = to_abi(refused.code);
  reply.text.assign(refused.message());
  return answer(reply, in.header.request_id);
}

bool Peer::on_store(const wire::Incoming& in) {
  const uint16_t type = in.header.type;
  if (!store_)
    return fault(Cause::kNone, Code::kUnsupported, type, 0, in.header.request_id,
                 "this host keeps no models: its configuration has no \"store\"");
  if (type == wire::type_of<wire::StorePush>() && lease_.instance) {
    wire::StoreState state;
    state.is_answer = 1;
    state.code = to_abi(Code::kInvalid);
    state.text.assign("this connection has a model open; push on one of its own");
    return answer(state, in.header.request_id);
  }
  if (lease_.instance)  // it would hold the frames up
    return fault(Cause::kNone, Code::kInvalid, type, 0, in.header.request_id,
                 "this connection has a model open; ask the store on one of its own");
  const bool changes =
      type == wire::type_of<wire::StorePush>() || type == wire::type_of<wire::StoreRemove>();
  if (changes && !may_manage(core_->manage, channel_.facts())) return refuse_to_manage(in);
  channel_.transport().set_urgency(Urgency::kBulk);
  if (wire::StoreRemove remove;
      type == wire::type_of<wire::StoreRemove>() && wire::decode(in.body, remove))
    core_->models.close_idle(remove.sha256.view());
  const auto taken = store_->take(in);
  if (taken && type == wire::type_of<wire::StoreEnd>()) prune_idle();
  work_ended_ns_ = core_->clock.now_ns();
  if (taken || taken.code() == Code::kFailed) return static_cast<bool>(taken);
  ++core_->counters.protocol_errors;
  return end(Cause::kProtocol, taken.error().text);
}

// A model that is open and has no owner is not in use: it does not stay beyond keep_models.
void Peer::prune_idle() {
  const uint32_t keep = core_->store->limits().keep_models;
  if (keep == 0) return;
  const auto surplus = core_->store->surplus(keep);
  if (!surplus || surplus.value().empty()) return;
  for (const std::string& sha256 : surplus.value()) core_->models.close_idle(sha256);
  if (auto pruned = core_->store->prune(keep); !pruned)
    log_line(LogLevel::kWarn, "serve: %s", pruned.error().text);
}

}  // namespace outrider::link
