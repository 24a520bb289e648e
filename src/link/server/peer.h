// The host's end of one connection: what each message does. One thread pumps it; while that one is
// inside a run, another may look after the connection (pump_while_busy), so that heartbeats are
// answered and newer inputs replace older ones. Without threads it is a deterministic machine: that
// is how the simulator runs it.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "link/server/models.h"
#include "link/server/peer_store.h"
#include "link/wire/channel.h"

namespace outrider::link {

inline constexpr int64_t kHelloNs = 5'000'000'000;         // HELLO must be here by then
inline constexpr int64_t kPeerSilenceNs = 10'000'000'000;  // nothing for so long: the peer is gone
inline constexpr int64_t kPeerSendNs = 2'000'000'000;      // a peer that does not read is dropped
inline constexpr int64_t kPeerTakesNs = 250'000'000;       // how often it is seen whether it does
inline constexpr int64_t kTelemetryNs = 2'000'000;  // how soon a piece that waits is tried again
inline constexpr int kMostGathered =
    64;  // messages that are looked at before what waits is applied
inline constexpr uint64_t kMaxVariableBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxPictureBytes = uint64_t{64} << 20;

struct ServerCounters {
  std::atomic<int64_t> peers{0}, refused_peers{0}, connections{0}, inputs{0}, replaced_inputs{0},
      refused_inputs{0}, runs{0}, failed_runs{0}, late_runs{0}, lost_inputs{0}, corrupted{0},
      protocol_errors{0}, slow_peers{0}, silent_peers{0}, pushed_bytes{0}, stale{0};
};

// Who may push files into the store and remove them. Everyone who is served may list them.
enum class Manage : uint8_t {
  kAuto,  // peers on this machine, those that proved the key, and the other end of a USB cable
  kYes,   // every peer
  kNo,    // no peer
};
bool may_manage(Manage manage, const TransportFacts& facts);

// What all peers of one server share.
struct ServerCore {
  Models& models;
  const Clock& clock;
  ServerCounters& counters;
  std::string name = "host";
  uint64_t host_id = 0;
  uint16_t oldest_version = wire::kOldestVersion, newest_version = wire::kVersion;
  uint64_t features = wire::kFeatures;
  // The JSON document of a STATUS_REPLY.
  std::string (*status)(const void* user) = nullptr;
  const void* user = nullptr;
  // What a device's wish to power this host off does; nullptr: it is refused.
  const std::function<Result<void>(std::string_view device, std::string_view reason)>* power_off =
      nullptr;
  store::Store* store = nullptr;  // of models that devices push; the STORE messages need it
  Manage manage = Manage::kAuto;
};

class Peer final : private wire::PayloadPlace {
 public:
  Peer(std::unique_ptr<Transport> transport, const ServerCore& core);
  ~Peer();  // gives the runtime up

  // One message at most; waits for it until the deadline. False: the connection is over.
  bool pump(int64_t deadline_ns);
  // From another thread, any time: does nothing unless the pumping thread is inside a run.
  void pump_while_busy();
  // [any]
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  uint32_t busy_ms() const;
  void shut() { channel_.transport().shut(); }
  std::string json() const;

 private:
  struct Pending {
    wire::Input input;
    uint64_t request_id = 0;
    bool waits = false, wants_answer = false;
  };
  struct PortBuffer {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t capacity = 0, size = 0;
  };
  struct QueuedRun {
    bool waits = false;
    wire::Run run;
    uint64_t request_id = 0;
    int64_t received_ns = 0;
  };
  struct Telemetry {  // waits until no frame does; a newer one of its kind replaces it
    bool status = false, probe = false;
    uint64_t status_id = 0, probe_id = 0;
    uint32_t received_bytes = 0, left_bytes = 0;
    bool waits() const { return status || probe; }
  };
  struct Refusal {  // of an input nobody waited for; fails the next run
    int32_t code = 0;
    wire::Line text;
  };

  bool take(const wire::Incoming& in, wire::Got got);
  bool take_newer();
  bool corrupted(const wire::Incoming& in);
  bool is_of_another_epoch(const wire::Header& header) const;
  bool drop_of_another_epoch(const wire::Header& header);
  bool on_hello(const wire::Incoming& in);
  bool on_open(const wire::Incoming& in);
  bool on_input(const wire::Incoming& in);
  bool on_run(const wire::Incoming& in);
  bool on_read(const wire::Incoming& in);
  bool on_prepare(const wire::Incoming& in);
  bool on_store(const wire::Incoming& in);
  bool refuse_to_manage(const wire::Incoming& in);
  void prune_idle();
  bool on_telemetry(const wire::Incoming& in);
  bool serve_telemetry();
  bool send_probe_piece();
  bool send_status();
  bool on_bye();
  bool on_power_off(const wire::Incoming& in);

  bool waits_for_drain() const { return !order_.empty() && !queued_.waits; }
  void note_progress() noexcept;
  void replace_by_newer(size_t slot);

  void show();
  void take_buffers();
  void describe(wire::OpenReply& reply) const;
  Result<void> check_texts(const Runtime& runtime) const;
  void describe_texts(wire::OpenReply& reply) const;
  bool send_texts(uint64_t request_id);
  bool drain();
  void apply(Pending& pending);
  int call_set_input(const Pending& pending);
  bool execute(const QueuedRun& queued);
  const char* refuse_run(const QueuedRun& queued, wire::RunReply& reply);
  void run_model(const wire::Run& run, wire::RunReply& reply);
  bool waits_for_stage(uint32_t executor_ref, wire::RunReply& reply) const;
  void note_stage(const wire::Run& run, int code);
  size_t collect(uint64_t push, wire::RunReply& reply);
  void void_inputs(const char* why);

  Io send_on(uint64_t took_bytes, int64_t took_ns) noexcept;
  template <class M>
  bool tell(const M& message, uint64_t request_id, std::span<const Piece> payload);
  template <class M>
  bool answer(const M& message, uint64_t request_id, std::span<const Piece> payload = {});
  bool fault(wire::Cause cause, Code code, uint16_t about, uint32_t port, uint64_t request_id,
             const char* text);
  bool end(wire::Cause cause, const char* text);

  std::span<std::byte> place(const wire::Header& header, std::span<const std::byte> body) override;

  const ServerCore* core_;
  wire::Channel channel_;
  std::mutex io_;  // channel, queues; not held inside a run
  struct Shown {   // what others may look at while the pump waits
    std::string name, model;
    uint32_t epoch = 0;
    bool owner = false, uploading = false;
    int64_t heard_ns = 0;
    wire::ChannelCounters counters;
  } shown_;
  mutable std::mutex shown_lock_;
  std::atomic<bool> busy_{false};
  bool over_ = false, said_hello_ = false;
  int64_t begun_ns_ = 0, work_ended_ns_ = 0, arrived_ns_ = 0;
  std::atomic<int64_t> busy_since_ns_{0};

  std::optional<PeerStore> store_;
  wire::Hello hello_;
  std::string model_;
  Lease lease_;
  std::vector<Pending> pending_;     // per port, and one for ports that do not exist
  std::vector<PortBuffer> buffers_;  // likewise
  std::vector<uint32_t> order_;      // pending ports in order of arrival
  std::vector<bool> stage_done_;
  QueuedRun queued_;
  Telemetry later_;
  Refusal refusal_;
  uint32_t n_inputs_ = 0, n_replaced_ = 0;
  std::unique_ptr<std::byte[]> out_;
  uint64_t out_bytes_ = 0;
  wire::RunReply reply_;
  wire::Input input_;
};

// A line of a runtime as it travels: cut, without control characters.
void set_text(wire::Line& line, const char* text);

template <class M>
bool Peer::answer(const M& message, uint64_t request_id, std::span<const Piece> payload) {
  // A run goes on meanwhile: what looks after it does not wait for a slow peer.
  const int64_t now = core_->clock.now_ns();
  const int64_t due = busy() ? now : now + kPeerSendNs;
  const uint64_t sent_bytes = channel_.counters().sent_bytes;
  const wire::Outgoing facts{request_id, lease_.epoch, 0, 0};
  Io io = channel_.send(message, facts, payload, due);
  if (io == Io::kLate && !busy()) {
    const bool begun = channel_.begun();
    io = send_on(sent_bytes, now);
    if (io == Io::kDone && !begun)
      io = channel_.send(message, facts, payload, core_->clock.now_ns() + kPeerSendNs);
  }
  if (io == Io::kDone || (busy() && io == Io::kLate)) return true;
  if (io == Io::kLate) ++core_->counters.slow_peers;
  return false;
}

// Telemetry: without a runtime a slow peer is waited for, with one nobody is (see Channel).
template <class M>
bool Peer::tell(const M& message, uint64_t request_id, std::span<const Piece> payload) {
  const int64_t due = core_->clock.now_ns() + (lease_.instance ? 0 : kPeerSendNs);
  const Io io = channel_.send(message, {request_id, lease_.epoch, 0, 0}, payload, due);
  if (io == Io::kDone || (lease_.instance && io == Io::kLate)) return true;
  if (io == Io::kLate) ++core_->counters.slow_peers;
  return false;
}

}  // namespace outrider::link
