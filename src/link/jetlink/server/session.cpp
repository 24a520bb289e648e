#include "link/jetlink/server/session.h"

#include <array>

#include "base/log.h"
#include "base/printable.h"

namespace outrider::link::jetlink {

Session::Session(std::unique_ptr<Stream> stream, Host& host, const SessionOptions& options,
                 const Clock& clock)
    : stream_(std::move(stream)), host_(&host), options_(&options), clock_(&clock) {
  client_ = stream_->transport().facts().peer;
  host_->attach(this);
}

Session::~Session() {
  stop();
  host_->attach(nullptr);
}

void Session::stop() {
  stop_ = true;
  stream_->transport().shut();
}

// ---- dispatch ---------------------------------------------------------------------------------

bool Session::handle(const Message& message) {
  const bool hello = message.type() == Type::kHelloReq;
  // A controller may send a request twice. A hello begins anew, whatever its number.
  if (!hello && !is_newer(message.header.seq, last_seq_)) return true;
  last_seq_ = message.header.seq;
  const Row* row = find_row(message.header.type, stream_->version());
  if (row == nullptr || !row->from_client)
    return fail(message, "unknown_message", "type " + std::to_string(message.header.type));
  const bool sized = row->body != Body::kUpload && row->body != Body::kFrame;
  if (sized && (message.payload.size() < row->min_bytes || message.payload.size() > row->max_bytes))
    return fail(message, "bad_request",
                std::string(row->name) + " of " + std::to_string(message.payload.size()) +
                    " bytes, allowed: " + std::to_string(row->min_bytes) + " to " +
                    std::to_string(row->max_bytes));
  switch (message.type()) {
    case Type::kHelloReq:
      return on_hello(message);
    case Type::kEngineReq:
      return on_engine(message);
    case Type::kUploadChunk:
      return on_chunk(message);
    case Type::kUploadDone:
      return on_upload_done(message);
    case Type::kInferReq:
      return on_frame(message);
    case Type::kStateReq:
      return on_state(message);
    case Type::kPing:
      return on_ping(message);
    case Type::kShutdownReq:
      return on_shutdown(message);
    default:
      return on_leave(message);
  }
}

bool Session::send_locked(Type type, uint32_t seq, std::span<const Piece> pieces) {
  return stream_->send(type, seq, pieces, clock_->now_ns() + kSendNs) == Io::kDone;
}

bool Session::send(Type type, uint32_t seq, std::span<const Piece> pieces) {
  std::scoped_lock hold(send_lock_);
  return send_locked(type, seq, pieces);
}

bool Session::send(Type type, uint32_t seq, const std::string& json) {
  const Piece pieces[] = {std::as_bytes(std::span(json))};
  return send(type, seq, pieces);
}

bool Session::fail(const Message& message, const char* error, const std::string& detail) {
  log_line(LogLevel::kInfo, "jetlink: %s: %s: %s", client_.c_str(), error, detail.c_str());
  return send(Type::kError, message.header.seq, to_json(ErrorResp{error, detail}));
}

std::string Session::telemetry() const {
  return options_->telemetry ? options_->telemetry() : "{}";
}

// ---- session ----------------------------------------------------------------------------------

bool Session::on_hello(const Message& message) {
  auto json = parse_payload(message.payload);
  if (!json) return fail(message, "bad_request", json.error().text);
  auto hello = read_hello_req(json.value());
  if (!hello) return fail(message, "bad_request", hello.error().text);
  known_ = true;
  frames_ = 0;
  host_->forget_hidden();
  client_ = printable(hello.value().name, 48) + " " + printable(hello.value().nonce, 16);
  log_line(LogLevel::kInfo, "jetlink: %s (%s %s %s) says hello, version %u", client_.c_str(),
           stream_->transport().facts().peer, printable(hello.value().kind, 16).c_str(),
           printable(hello.value().usb_speed, 24).c_str(), stream_->version());
  HelloResp out;
  out.protocol = stream_->version();
  const BackendFacts& facts = host_->facts();
  out.backend = facts.name;
  out.runtime_version = facts.runtime_version;
  out.device = facts.device;
  out.loaded = host_->loaded();
  out.cached_models = host_->cached_models();
  out.telemetry = telemetry();
  out.sleep_after = options_->sleep_after;
  if (options_->offer && stream_->version() >= kVersion3)
    std::tie(out.frame_port, out.frame_token) = options_->offer();
  std::scoped_lock hold(send_lock_);
  request_.reset();
  const std::string text = to_json(out);
  const Piece pieces[] = {std::as_bytes(std::span(text))};
  return send_locked(Type::kHelloResp, message.header.seq, pieces);
}

bool Session::on_ping(const Message& message) {
  if (!known_ && stream_->version() >= kVersion3)
    return fail(message, "no_hello", "this host does not know you: say hello again");
  return send(Type::kPong, message.header.seq, std::span<const Piece>());
}

bool Session::on_state(const Message& message) {
  std::optional<ModelId> asked;
  {
    std::scoped_lock hold(send_lock_);
    asked = request_;
  }
  const EngineResp engine = host_->status(asked);
  StateResp out;
  out.telemetry = telemetry();
  out.state = engine.state;
  out.detail = engine.detail;
  out.loaded = host_->loaded();
  out.frames_served = frames_;
  return send(Type::kStateResp, message.header.seq, to_json(out));
}

bool Session::on_shutdown(const Message& message) {
  auto json = parse_payload(message.payload);
  const std::string reason = json ? read_reason(json.value()) : "";
  log_line(LogLevel::kWarn, "jetlink: %s asks this host to power off: %s", client_.c_str(),
           reason.c_str());
  ShutdownResp out;
  out.ok = true;
  out.detail = options_->power_off ? "powering off" : "started without --poweroff: staying up";
  const bool sent = send(Type::kShutdownResp, message.header.seq, to_json(out));
  if (options_->power_off) options_->power_off(client_, reason);
  return sent;
}

bool Session::on_leave(const Message& message) {
  auto json = parse_payload(message.payload);
  if (!json) return fail(message, "bad_request", json.error().text);
  log_line(LogLevel::kInfo, "jetlink: %s leaves: %s", client_.c_str(),
           leave_text(json.value()).c_str());
  return true;
}

// ---- models -----------------------------------------------------------------------------------

bool Session::on_engine(const Message& message) {
  auto json = parse_payload(message.payload);
  if (!json) return fail(message, "bad_request", json.error().text);
  auto id = read_engine_req(json.value());
  if (!id) return fail(message, "bad_request", id.error().text);
  known_ = true;
  // The job that this may start tells its end only after the answer below went out.
  upload_error_.clear();
  std::scoped_lock hold(send_lock_);
  request_ = id.value();
  const std::string text = to_json(host_->request(id.value()));
  const Piece pieces[] = {std::as_bytes(std::span(text))};
  return send_locked(Type::kEngineResp, message.header.seq, pieces);
}

bool Session::on_chunk(const Message& message) {
  if (!request_) return fail(message, "no_model", "ENGINE_REQ comes before UPLOAD_CHUNK");
  if (message.payload.size() < 8)
    return fail(message, "bad_upload", "a chunk begins with its offset of 8 bytes");
  const uint64_t offset = read_u64(message.payload.data());
  const auto bytes = message.payload.subspan(8);
  const auto nbytes = static_cast<uint64_t>(request_->nbytes);
  if (offset > nbytes || bytes.size() > nbytes - offset)
    return fail(message, "bad_upload",
                std::to_string(bytes.size()) + " bytes at " + std::to_string(offset) +
                    ", allowed: up to " + std::to_string(nbytes) + ", the declared size");
  if (offset == 0) upload_error_.clear();
  if (!upload_error_.empty())  // told and logged; the rest of it may be on its way
    return send(Type::kError, message.header.seq,
                to_json(ErrorResp{"upload_failed", upload_error_}));
  auto written = host_->write_model(*request_, offset, bytes);
  if (written) return true;
  if (written.code() == Code::kInvalid) return fail(message, "bad_upload", written.error().text);
  upload_error_ = written.error().text;
  log_line(LogLevel::kWarn, "jetlink: %s: the upload of %.16s failed: %s", client_.c_str(),
           request_->sha256.c_str(), written.error().text);
  return send(Type::kError, message.header.seq, to_json(ErrorResp{"upload_failed", upload_error_}));
}

bool Session::on_upload_done(const Message& message) {
  if (!request_) return fail(message, "no_model", "ENGINE_REQ comes before UPLOAD_DONE");
  int64_t told_ns = clock_->now_ns();
  auto same = host_->verify_model(*request_, stop_, [this, &told_ns](double frac) {
    const int64_t now_ns = clock_->now_ns();
    if (now_ns - told_ns < kProgressNs) return;
    told_ns = now_ns;
    send(Type::kProgress, 0, to_json(Progress{"upload", frac, "verifying"}));
  });
  if (!same) return !stop_;
  if (!same.value()) {
    log_line(LogLevel::kWarn, "jetlink: %s: the upload of %.16s failed: sha256 mismatch",
             client_.c_str(), request_->sha256.c_str());
    EngineResp out;
    out.state = EngineState::kFailed;
    out.detail = "sha256 mismatch after upload";
    out.sha256 = request_->sha256;
    return send(Type::kEngineResp, message.header.seq, to_json(out));
  }
  if (!send(Type::kProgress, 0, to_json(Progress{"upload", 1.0, "verified"}))) return false;
  std::scoped_lock hold(send_lock_);
  const std::string text = to_json(host_->request(*request_));
  const Piece pieces[] = {std::as_bytes(std::span(text))};
  return send_locked(Type::kEngineResp, message.header.seq, pieces);
}

// ---- frames -----------------------------------------------------------------------------------

bool Session::on_frame(const Message& message) {
  const FrameHead head =
      message.payload.size() >= kFrameHeadBytes ? decode_frame_head(message.payload) : FrameHead{};
  const int64_t begin_ns = clock_->now_ns();
  const FrameResult done = host_->infer(request_, stream_->version(), message.payload, reply_);
  fatal_ = fatal_ || done.fatal;
  if (done.status == Status::kInferFailed && stream_->version() == kVersion2)
    return fail(message, "RuntimeError", done.why) && !fatal_;
  const bool ran = done.status != Status::kNotReady && done.status != Status::kBadShape;
  const ReplyHead reply{ran ? head.frame_id : 0, static_cast<uint32_t>(done.status), done.gpu_us,
                        done.queue_us, done.total_us};
  std::array<std::byte, kReplyHeadBytes> reply_head;
  encode(reply, reply_head);
  const bool state = ran && (head.flags & kWantState) != 0;
  if (state) telemetry_text_ = telemetry();
  const Piece pieces[] = {
      reply_head, std::as_bytes(std::span(reply_).first(done.n_floats)),
      state ? std::as_bytes(std::span(telemetry_text_)) : std::span<const std::byte>()};
  const int64_t run_ns = clock_->now_ns();
  const bool sent = send(Type::kInferResp, message.header.seq, pieces);
  if (ran) ++frames_;
  const int64_t end_ns = clock_->now_ns();
  if (done.status == Status::kInferFailed)
    log_line(LogLevel::kWarn, "jetlink: frame %u failed: %s", head.frame_id, done.why);
  if (end_ns - begin_ns > kSlowFrameNs || end_ns - run_ns > kSlowSendNs)
    log_line(LogLevel::kInfo, "jetlink: slow frame %u: run %.1f ms, send %.1f ms", head.frame_id,
             static_cast<double>(run_ns - begin_ns) * 1e-6,
             static_cast<double>(end_ns - run_ns) * 1e-6);
  return sent && !fatal_;
}

// ---- the job's thread -------------------------------------------------------------------------

std::optional<ModelId> Session::wanted() {
  std::scoped_lock hold(send_lock_);
  return request_;
}

void Session::on_progress(const Progress& progress) {
  std::scoped_lock hold(send_lock_);
  if (stop_ || !request_) return;
  const std::string text = to_json(progress);
  const Piece pieces[] = {std::as_bytes(std::span(text))};
  if (!send_locked(Type::kProgress, 0, pieces)) stream_->transport().shut();
}

void Session::on_job_end() {
  std::scoped_lock hold(send_lock_);
  if (stop_ || !request_) return;
  const std::string text = to_json(host_->status(request_));
  const Piece pieces[] = {std::as_bytes(std::span(text))};
  if (!send_locked(Type::kEngineResp, 0, pieces)) stream_->transport().shut();
}

}  // namespace outrider::link::jetlink
