// One connection: what each message does. One thread handles messages; the job's thread pushes
// progress in between.
#pragma once
#include <atomic>
#include <mutex>

#include "link/jetlink/server/host.h"
#include "link/jetlink/stream.h"

namespace outrider::link::jetlink {

inline constexpr int64_t kSendNs = 10'000'000'000;  // a peer that does not read is dropped
inline constexpr int64_t kSlowFrameNs = 60'000'000, kSlowSendNs = 10'000'000;

// What all connections of one server share. Set once.
struct SessionOptions {
  // Asked after the reply to a SHUTDOWN_REQ went out; empty: the host stays up.
  std::function<void(const std::string& client, const std::string& reason)> power_off;
  // One JSON object; {} when the host has no sensors. Never waits.
  std::function<std::string()> telemetry;
  double sleep_after = 0;
  // A port and a fresh token for frame datagrams of this connection, or {0, 0}. Called at HELLO.
  std::function<std::pair<uint16_t, uint32_t>()> offer;
};

class Session final : private HostListener {
 public:
  Session(std::unique_ptr<Stream> stream, Host& host, const SessionOptions& options,
          const Clock& clock);
  ~Session() override;

  // Handles one message, from the stream or put together from datagrams. False: the connection is
  // over.
  bool handle(const Message& message);
  Stream& stream() { return *stream_; }
  // A frame hit an accelerator that is gone: the process must end.
  bool fatal() const { return fatal_; }
  const std::string& client() const { return client_; }
  int64_t frames() const { return frames_; }

  // [any] Ends the connection soon.
  void stop();

 private:
  bool on_hello(const Message& message);
  bool on_engine(const Message& message);
  bool on_chunk(const Message& message);
  bool on_upload_done(const Message& message);
  bool on_frame(const Message& message);
  bool on_state(const Message& message);
  bool on_ping(const Message& message);
  bool on_shutdown(const Message& message);
  bool on_leave(const Message& message);

  bool send(Type type, uint32_t seq, std::span<const Piece> pieces);
  bool send(Type type, uint32_t seq, const std::string& json);
  bool send_locked(Type type, uint32_t seq, std::span<const Piece> pieces);
  bool fail(const Message& message, const char* error, const std::string& detail);
  std::string telemetry() const;

  // HostListener
  void on_progress(const Progress& progress) override;
  void on_job_end() override;
  std::optional<ModelId> wanted() override;

  std::unique_ptr<Stream> stream_;
  Host* host_;
  const SessionOptions* options_;
  const Clock* clock_;
  std::mutex send_lock_;  // of the stream's sending, and of request_
  std::optional<ModelId> request_;
  std::atomic<bool> stop_{false};
  uint32_t last_seq_ = 0;
  bool known_ = false;  // it said hello or asked for an engine
  bool fatal_ = false;
  int64_t frames_ = 0;        // since the last hello
  std::string upload_error_;  // of this model's upload, until it begins anew
  std::string client_;
  std::vector<float> reply_;
  std::string telemetry_text_;
};

}  // namespace outrider::link::jetlink
