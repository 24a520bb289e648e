#include "link/jetlink/client/client.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/input_file.h"
#include "base/log.h"
#include "base/printable.h"

namespace outrider::link::jetlink {
namespace {

Loss loss_of(Io io) {
  switch (io) {
    case Io::kGone:
      return Loss::kCable;
    case Io::kLate:
      return Loss::kDeadline;
    case Io::kShut:
      return Loss::kStopped;
    case Io::kBroken:
      return Loss::kProtocol;
    default:
      return Loss::kHost;
  }
}

std::string nonce(const Clock& clock) {
  char out[9];
  std::snprintf(out, sizeof out, "%08x", static_cast<uint32_t>(clock.now_ns() * 2654435761u));
  return out;
}

}  // namespace

const char* loss_name(Loss loss) {
  static constexpr const char* kNames[] = {"none",     "cable",    "host",   "busy",
                                           "protocol", "deadline", "status", "stopped"};
  return kNames[static_cast<size_t>(loss)];
}

Client::Client(std::unique_ptr<Transport> transport, const ClientOptions& options,
               const Clock& clock)
    : options_(options), clock_(&clock), stream_(std::move(transport), options.version) {}

void Client::die(Loss loss, const char* format, ...) noexcept {
  if (dead()) return;
  loss_ = loss;
  va_list args;
  va_start(args, format);
  std::vsnprintf(reason_, sizeof reason_, format, args);
  va_end(args);
}

Error Client::dead_error() const {
  return make_error(Code::kDevice, "link: %s: %s", loss_name(loss_), reason_);
}

// ---- asking and answers -----------------------------------------------------------------------

Result<uint32_t> Client::ask(Type type, const std::string& json, int64_t deadline_ns) {
  if (dead()) return dead_error();
  const uint32_t seq = next_seq();
  const Piece pieces[] = {std::as_bytes(std::span(json))};
  const Io io = stream_.send(type, seq, pieces, deadline_ns);
  if (io == Io::kDone) return seq;
  die(loss_of(io), "the host does not take %s (%s)",
      find_row(static_cast<uint16_t>(type), kVersion3)->name, io_name(io));
  return dead_error();
}

// What may come at any time. False: dead.
bool Client::serve(const Message& message) noexcept {
  if (message.type() == Type::kInferResp) {
    for (size_t i = 0; i < n_flight_; ++i)
      if (flight_[i].seq == message.header.seq) return take_reply(message);
    return true;  // of a session before
  }
  const bool known = message.type() == Type::kProgress || message.type() == Type::kEngineResp ||
                     message.type() == Type::kError;
  if (!known) return true;  // an answer that somebody gave up on
  auto json = parse_payload(message.payload);
  if (!json) {
    die(Loss::kProtocol, "message %u of the host: %s", message.header.type, json.error().text);
    return false;
  }
  if (message.type() == Type::kProgress) {
    auto progress = read_progress(json.value());
    if (progress && progress_ != nullptr && *progress_) (*progress_)(progress.value());
    return true;
  }
  if (message.type() == Type::kEngineResp) {
    auto state = read_engine_resp(json.value());
    const bool ours =
        state && (wanted_.empty() || !state.value().sha256 || *state.value().sha256 == wanted_);
    if (ours) engine_ = std::move(state.value());
    return true;
  }
  if (unanswered_ != 0 && message.header.seq == unanswered_) {
    unanswered_ = 0;  // an older host answers a LEAVE it does not know
    return true;
  }
  auto error = read_error(json.value());
  die(Loss::kProtocol, "the host answers %s: %s",
      error ? printable(error.value().error, 40).c_str() : "an error",
      error ? printable(error.value().detail, 120).c_str() : "");
  return false;
}

Got Client::read(Message& out, int64_t deadline_ns) noexcept {
  const Got got = stream_.read(out, deadline_ns);
  if (got == Got::kDesynced) die(Loss::kProtocol, "%s", stream_.complaint());
  if (got == Got::kEnded)
    die(loss_of(stream_.ended()), "the connection ended (%s)", io_name(stream_.ended()));
  return got;
}

bool Client::expect(Type type, uint32_t seq, int64_t deadline_ns, Message& out,
                    bool& late) noexcept {
  late = false;
  while (!dead()) {
    const Got got = read(out, deadline_ns);
    late = got == Got::kLate;
    if (got != Got::kMessage) return false;
    if (out.type() == type && out.header.seq == seq) return true;
    if (!serve(out)) return false;
    // A host that talks without end moves no deadline.
    if (clock_->now_ns() >= deadline_ns) {
      late = true;
      return false;
    }
  }
  return false;
}

Result<Json> Client::answer(Type type, uint32_t seq, int64_t deadline_ns, const char* what) {
  Message message;
  bool late = false;
  if (!expect(type, seq, deadline_ns, message, late)) {
    if (late) die(Loss::kDeadline, "no answer to %s in time", what);
    return dead_error();
  }
  auto json = parse_payload(message.payload);
  if (!json) {
    die(Loss::kProtocol, "the answer to %s: %s", what, json.error().text);
    return dead_error();
  }
  return json;
}

Result<HelloResp> Client::hello(int64_t wait_ns) {
  const int64_t deadline_ns = clock_->now_ns() + wait_ns;
  forget_frames();
  auto seq = ask(Type::kHelloReq,
                 to_json(HelloReq{options_.name, nonce(*clock_), options_.kind, ""}), deadline_ns);
  if (!seq) return seq.error();
  auto json = answer(Type::kHelloResp, seq.value(), deadline_ns, "hello");
  if (!json) return json.error();
  auto hello = read_hello_resp(json.value());
  if (!hello) {
    die(Loss::kProtocol, "HELLO_RESP: %s", hello.error().text);
    return dead_error();
  }
  take_offer(hello.value());
  return hello;
}

// A host whose datagrams cannot be reached gets its frames by the stream, as any other.
void Client::take_offer(const HelloResp& hello) {
  sender_.reset();
  if (!options_.datagrams || options_.version != kVersion3 || hello.frame_port == 0) return;
  auto sender =
      FrameSender::open(stream_.transport().facts().peer, hello.frame_port, hello.frame_token);
  if (sender)
    sender_.emplace(std::move(sender.value()));
  else
    log_line(LogLevel::kWarn, "jetlink: %s; frames go by the stream", sender.error().text);
}

Result<void> Client::ping(int64_t wait_ns) {
  const int64_t deadline_ns = clock_->now_ns() + wait_ns;
  auto seq = ask(Type::kPing, "", deadline_ns);
  if (!seq) return seq.error();
  Message message;
  bool late = false;
  if (expect(Type::kPong, seq.value(), deadline_ns, message, late)) {
    frames_lost_ += n_flight_;
    n_flight_ = 0;
    return {};
  }
  if (late) die(Loss::kDeadline, "no answer to a ping in time");
  return dead_error();
}

Result<std::string> Client::state(int64_t wait_ns) {
  const int64_t deadline_ns = clock_->now_ns() + wait_ns;
  auto seq = ask(Type::kStateReq, "{}", deadline_ns);
  if (!seq) return seq.error();
  Message message;
  bool late = false;
  if (expect(Type::kStateResp, seq.value(), deadline_ns, message, late))
    return std::string(reinterpret_cast<const char*>(message.payload.data()),
                       message.payload.size());
  if (late) die(Loss::kDeadline, "no answer to a state request in time");
  return dead_error();
}

Result<ShutdownResp> Client::shutdown(const std::string& reason, int64_t wait_ns) {
  const int64_t deadline_ns = clock_->now_ns() + wait_ns;
  auto seq = ask(Type::kShutdownReq, reason_json(reason), deadline_ns);
  if (!seq) return seq.error();
  auto json = answer(Type::kShutdownResp, seq.value(), deadline_ns, "a shutdown request");
  if (!json) return json.error();
  return read_shutdown_resp(json.value());
}

void Client::leave(const std::string& json) {
  if (dead()) return;
  auto seq = ask(Type::kLeave, json, clock_->now_ns() + kLeaveNs);
  if (seq) unanswered_ = seq.value();
}

// ---- models -----------------------------------------------------------------------------------

Result<void> Client::upload(const ModelId& id, const std::string& path, const ReadyWait& wait) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  std::vector<std::byte> piece(8 + size_t{engine_.chunk});
  uint64_t sent = 0;
  for (;;) {
    if (wait.stop && wait.stop()) return make_error(Code::kNotReady, "stopped while uploading");
    auto got = file.value().read_at(sent, std::span(piece).subspan(8));
    if (!got) return got.error();
    const size_t n = got.value();
    if (n == 0) break;
    write_u64(piece.data(), sent);
    const Piece pieces[] = {std::span(piece).first(8 + n)};
    const Io io =
        stream_.send(Type::kUploadChunk, next_seq(), pieces, clock_->now_ns() + kEngineNs);
    if (io != Io::kDone) {
      die(loss_of(io), "the host does not take the upload (%s)", io_name(io));
      return dead_error();
    }
    sent += n;
    if (wait.progress)
      wait.progress({"upload", static_cast<double>(sent) / static_cast<double>(id.nbytes), ""});
  }
  const int64_t deadline_ns = clock_->now_ns() + kVerifyNs;
  auto seq = ask(Type::kUploadDone, "{}", deadline_ns);
  if (!seq) return seq.error();
  auto json = answer(Type::kEngineResp, seq.value(), deadline_ns, "the upload");
  if (!json) return json.error();
  auto state = read_engine_resp(json.value());
  if (!state) return state.error();
  engine_ = std::move(state.value());
  return {};
}

Result<void> Client::await_ready(const ModelId& id, bool can_upload, int64_t deadline_ns,
                                 const ReadyWait& wait) {
  constexpr int64_t kPollNs = 1'000'000'000;
  for (;;) {
    if (engine_.state == EngineState::kReady) return {};
    if (engine_.state == EngineState::kFailed)
      return make_error(Code::kFailed, "the host cannot run model %.16s: %s", id.sha256.c_str(),
                        printable(engine_.detail, 200).c_str());
    if (engine_.state == EngineState::kNeedUpload) {
      if (can_upload) return {};
      return make_error(Code::kNotFound,
                        "the host has no model %.16s (%s): give the file as \"model\", or upload "
                        "it from elsewhere",
                        id.sha256.c_str(), printable(engine_.detail, 80).c_str());
    }
    if (wait.stop && wait.stop())
      return make_error(Code::kNotReady, "stopped while waiting for the host's model");
    const int64_t now_ns = clock_->now_ns();
    if (now_ns >= deadline_ns)
      return make_error(Code::kNotReady, "the host's model is not ready in time (%s: %s)",
                        state_name(engine_.state), printable(engine_.detail, 80).c_str());
    Message message;
    if (read(message, std::min(deadline_ns, now_ns + kPollNs)) == Got::kMessage) serve(message);
    if (dead()) return dead_error();
  }
}

Result<ModelSpec> Client::make_ready(const ModelId& id, const std::string& path,
                                     const ReadyWait& wait) {
  wanted_ = id.sha256;
  progress_ = &wait.progress;
  struct Quiet {
    const std::function<void(const Progress&)>*& at;
    ~Quiet() { at = nullptr; }
  } quiet{progress_};
  const int64_t deadline_ns = clock_->now_ns() + wait.ready_ns;
  const int64_t asked_until_ns = std::min(deadline_ns, clock_->now_ns() + kEngineNs);
  auto seq = ask(Type::kEngineReq, to_json(id), asked_until_ns);
  if (!seq) return seq.error();
  auto json = answer(Type::kEngineResp, seq.value(), asked_until_ns, "an engine request");
  if (!json) return json.error();
  auto state = read_engine_resp(json.value());
  if (!state) {
    die(Loss::kProtocol, "ENGINE_RESP: %s", state.error().text);
    return dead_error();
  }
  engine_ = std::move(state.value());
  bool can_upload = !path.empty();
  for (;;) {
    OUTRIDER_TRY(await_ready(id, can_upload, deadline_ns, wait));
    if (engine_.state != EngineState::kNeedUpload) break;
    OUTRIDER_TRY(upload(id, path, wait));
    can_upload = false;  // once
  }
  if (!engine_.spec || engine_.spec->id.sha256 != id.sha256 ||
      engine_.spec->id.frame_skip != id.frame_skip) {
    die(Loss::kProtocol, "the host is ready with another model than was asked for");
    return dead_error();
  }
  auto sizes = sizes_of(*engine_.spec);
  if (!sizes) return sizes.error();
  sizes_ = sizes.value();
  forget_frames();
  outputs_.assign(sizes_.output, 0.0f);
  prev_feat_.assign(options_.version == kVersion2 ? sizes_.prev_feat : 0, 0.0f);
  return *engine_.spec;
}

// ---- frames -----------------------------------------------------------------------------------

void Client::forget_frames() noexcept {
  n_flight_ = 0;
  frames_lost_ = 0;
  reply_ = {};
  std::fill(outputs_.begin(), outputs_.end(), 0.0f);
  std::fill(prev_feat_.begin(), prev_feat_.end(), 0.0f);
}

int64_t Client::waiting_ns() const noexcept {
  return n_flight_ == 0 ? 0 : clock_->now_ns() - flight_[0].sent_ns;
}

uint32_t Client::begin(const FrameHead& head, std::span<const std::byte> warped,
                       std::span<const float> packed, int64_t deadline_ns,
                       bool may_be_lost) noexcept {
  if (dead() || n_flight_ == kMaxInFlight) return 0;
  std::array<std::byte, kFrameHeadBytes> bytes;
  encode(head, bytes);
  const uint32_t seq = next_seq();
  const Piece pieces[] = {bytes, warped, std::as_bytes(packed),
                          std::as_bytes(std::span(prev_feat_))};
  const int64_t sent_ns = clock_->now_ns();
  if (may_be_lost && sender_) {
    Stream::Framed message;
    stream_.frame(Type::kInferReq, seq, pieces, message);
    if (!sender_->send(seq, message.all())) {
      die(Loss::kHost, "nobody takes frame datagrams (%s)", std::strerror(errno));
      return 0;
    }
  } else if (const Io io = stream_.send(Type::kInferReq, seq, pieces, deadline_ns);
             io != Io::kDone) {
    die(loss_of(io), "the host does not take the frame (%s)", io_name(io));
    return 0;
  }
  flight_[n_flight_++] = {seq, head.frame_id, head.flags, sent_ns};
  return seq;
}

// Of a frame in flight; those before it will not be answered any more.
bool Client::take_reply(const Message& message) noexcept {
  size_t at = 0;
  while (flight_[at].seq != message.header.seq) ++at;
  frames_lost_ += at;
  const Sent sent = flight_[at];
  std::move(flight_.begin() + static_cast<long>(at) + 1,
            flight_.begin() + static_cast<long>(n_flight_), flight_.begin());
  n_flight_ -= at + 1;
  if (message.payload.size() < kReplyHeadBytes) {
    die(Loss::kProtocol, "a reply of %zu bytes has no head", message.payload.size());
    return false;
  }
  reply_ = decode_reply_head(message.payload);
  if (reply_.status != 0) {
    die(Loss::kStatus, "frame %u: the host answers %s", sent.frame_id, status_name(reply_.status));
    return false;
  }
  if (reply_.frame_id != sent.frame_id) {
    die(Loss::kProtocol, "the reply is of frame %u, not %u", reply_.frame_id, sent.frame_id);
    return false;
  }
  const bool whole = options_.version == kVersion2 || (sent.flags & kWantHidden) != 0;
  const uint64_t wanted = sizes_.reply_bytes(options_.version, whole);
  const bool may_have_more = (sent.flags & kWantState) != 0;
  if (message.payload.size() < wanted || (message.payload.size() > wanted && !may_have_more)) {
    die(Loss::kProtocol, "a reply of %zu bytes, wanted %llu", message.payload.size(),
        static_cast<unsigned long long>(wanted));
    return false;
  }
  const std::byte* floats = message.payload.data() + kReplyHeadBytes;
  const size_t before = whole ? sizes_.output : sizes_.hidden_start;
  const size_t after = whole ? 0 : sizes_.output - sizes_.hidden_stop;
  std::memcpy(outputs_.data(), floats, before * 4);
  if (!whole)
    std::fill(outputs_.begin() + static_cast<long>(before),
              outputs_.begin() + static_cast<long>(sizes_.hidden_stop), 0.0f);
  std::memcpy(outputs_.data() + sizes_.output - after, floats + before * 4, after * 4);
  if (!prev_feat_.empty() && sizes_.hidden_stop - sizes_.hidden_start == prev_feat_.size())
    std::copy_n(outputs_.begin() + static_cast<long>(sizes_.hidden_start), prev_feat_.size(),
                prev_feat_.begin());
  if (message.payload.size() == wanted) return true;
  const auto rest = message.payload.subspan(wanted);
  auto json = parse_payload(rest);
  if (!json) {
    die(Loss::kProtocol, "what follows the outputs is no telemetry: %s", json.error().text);
    return false;
  }
  telemetry_.assign(reinterpret_cast<const char*>(rest.data()), rest.size());
  return true;
}

Client::Ended Client::end(uint32_t seq, int64_t until_ns, bool hold) noexcept {
  Message message;
  bool late = false;
  if (!expect(Type::kInferResp, seq, until_ns, message, late)) {
    if (!late) return Ended::kDead;
    if (hold) return Ended::kHeld;
    die(Loss::kDeadline, "no answer to frame in time");
    return Ended::kDead;
  }
  for (size_t i = 0; i < n_flight_; ++i)
    if (flight_[i].seq == seq) return take_reply(message) ? Ended::kReply : Ended::kDead;
  die(Loss::kProtocol, "a reply to a frame that is not in flight");
  return Ended::kDead;
}

bool Client::drain() noexcept {
  Message message;
  constexpr int kMostAtOnce = 64;  // a host that talks without end keeps nobody here
  for (int i = 0; i < kMostAtOnce && !dead(); ++i)
    if (read(message, 0) != Got::kMessage || !serve(message)) break;
  return !dead();
}

}  // namespace outrider::link::jetlink
