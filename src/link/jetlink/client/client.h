// The device's end of one Jetlink connection. Dead is final: a client that lost its link is thrown
// away. One thread at a time.
//
// Every wait has one absolute deadline; what arrives unasked is served on the way and extends
// nothing. Frames in flight are a queue: a reply for a later one retires the earlier ones as lost.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "link/jetlink/client/frame_sender.h"
#include "link/jetlink/payloads.h"
#include "link/jetlink/stream.h"

namespace outrider::link::jetlink {

inline constexpr int64_t kHelloNs = 5'000'000'000, kEngineNs = 60'000'000'000,
                         kVerifyNs = 300'000'000'000, kReadyNs = 900'000'000'000,
                         kStateNs = 2'000'000'000, kPingNs = 1'000'000'000,
                         kShutdownNs = 5'000'000'000, kLeaveNs = 500'000'000;
inline constexpr size_t kMaxInFlight = 8;

// Why a link is dead.
enum class Loss : uint8_t { kNone, kCable, kHost, kBusy, kProtocol, kDeadline, kStatus, kStopped };
const char* loss_name(Loss loss);

struct ClientOptions {
  std::string name = "outrider", kind = "tcp";
  uint16_t version = kVersion3;
  bool datagrams = true;  // an offer of frame datagrams is taken
};

// How long make_ready() waits, and who hears of it.
struct ReadyWait {
  int64_t ready_ns = kReadyNs;
  std::function<bool()> stop;  // polled at least once a second
  std::function<void(const Progress&)> progress;
};

class Client {
 public:
  Client(std::unique_ptr<Transport> transport, const ClientOptions& options, const Clock& clock);

  // [setup] Errors: kDevice (the link is dead: loss() and the line say why), else what the host
  // answered. Waits are those of the protocol unless given. A host that answers a ping has answered
  // every frame it got: what is in flight then was lost.
  Result<HelloResp> hello(int64_t wait_ns = kHelloNs);
  Result<void> ping(int64_t wait_ns = kPingNs);
  Result<std::string> state(int64_t wait_ns = kStateNs);  // the JSON of STATE_RESP
  Result<ShutdownResp> shutdown(const std::string& reason, int64_t wait_ns = kShutdownNs);
  // Says why this client stops, `json` with a "reason"; waits for no answer and never fails.
  void leave(const std::string& json);

  // [setup] Until the host has this model ready; uploads the file at `path` when the host asks for
  // it ("": cannot). Errors: kNotFound (the host has no such model and there is no file), kFailed
  // (its build failed), kNotReady (not ready in time, or stopped), kShape (what it describes is no
  // driving model), kDevice.
  Result<ModelSpec> make_ready(const ModelId& id, const std::string& path, const ReadyWait& wait);
  const Sizes& sizes() const { return sizes_; }  // of the model that is ready

  // [hot] One frame on its way. `packed` is Sizes::packed() floats. The number of the message, or
  // 0: the link is dead, or kMaxInFlight frames are unanswered. `may_be_lost`: the caller can do
  // without an answer, so it goes as datagrams where the host offered them; end() it with a hold.
  uint32_t begin(const FrameHead& head, std::span<const std::byte> warped,
                 std::span<const float> packed, int64_t deadline_ns,
                 bool may_be_lost = false) noexcept;
  bool has_datagrams() const { return sender_.has_value(); }
  enum class Ended : uint8_t { kReply, kHeld, kDead };
  // [hot] Waits for its reply. At `until_ns` the link is dead, or, with `hold`, kHeld: the reply is
  // then read by a later call.
  Ended end(uint32_t seq, int64_t until_ns, bool hold) noexcept;
  // [hot] Takes replies that have arrived, waits for nothing. False: dead.
  bool drain() noexcept;

  // The newest outputs that were read: the whole vector, zeros where the host kept the hidden
  // state.
  std::span<const float> outputs() const { return outputs_; }
  const ReplyHead& reply() const { return reply_; }
  const std::string& telemetry() const { return telemetry_; }
  // How long the oldest frame in flight has been without an answer; 0: none is.
  int64_t waiting_ns() const noexcept;
  size_t n_in_flight() const { return n_flight_; }
  uint64_t frames_lost() const { return frames_lost_; }

  bool dead() const { return loss_ != Loss::kNone; }
  Loss loss() const { return loss_; }
  const char* reason() const { return reason_; }  // one line; "" while alive
  uint16_t version() const { return options_.version; }
  Transport& transport() { return stream_.transport(); }

 private:
  struct Sent {
    uint32_t seq = 0, frame_id = 0, flags = 0;
    int64_t sent_ns = 0;
  };

  void die(Loss loss, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  Error dead_error() const;
  uint32_t next_seq() { return ++seq_ == 0 ? ++seq_ : seq_; }
  Result<uint32_t> ask(Type type, const std::string& json, int64_t deadline_ns);
  Got read(Message& out, int64_t deadline_ns) noexcept;
  // The reply of this type and number; false: dead, or late (`late` is then true).
  bool expect(Type type, uint32_t seq, int64_t deadline_ns, Message& out, bool& late) noexcept;
  Result<Json> answer(Type type, uint32_t seq, int64_t deadline_ns, const char* what);
  bool serve(const Message& message) noexcept;
  bool take_reply(const Message& message) noexcept;
  void take_offer(const HelloResp& hello);
  void forget_frames() noexcept;
  Result<void> upload(const ModelId& id, const std::string& path, const ReadyWait& wait);
  Result<void> await_ready(const ModelId& id, bool can_upload, int64_t deadline_ns,
                           const ReadyWait& wait);

  ClientOptions options_;
  const Clock* clock_;
  Stream stream_;
  std::optional<FrameSender> sender_;
  uint32_t seq_ = 0, unanswered_ = 0;  // the LEAVE that an older host may answer with ERROR
  EngineResp engine_;
  std::string wanted_;
  const std::function<void(const Progress&)>* progress_ = nullptr;

  Sizes sizes_;
  std::array<Sent, kMaxInFlight> flight_;
  size_t n_flight_ = 0;
  uint64_t frames_lost_ = 0;
  ReplyHead reply_;
  std::vector<float> outputs_, prev_feat_;
  std::string telemetry_;
  Loss loss_ = Loss::kNone;
  char reason_[256] = {};
};

}  // namespace outrider::link::jetlink
