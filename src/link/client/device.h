// The device's side of a runtime that lives on a host: the verbs of the ABI over a Connection.
//
// A verb takes one deadline and keeps it. It never dials: a lost link is found again by upkeep(),
// which a thread of the provider calls (link client: one thread, architecture 5). Verbs and upkeep
// pass the connection to each other by a token; a verb waits for it at most its deadline.
//
// Inputs. An input of a kind the host has taken before (same size range, same picture geometry,
// well-formed text, finite numbers) is sent without waiting; every other one waits for the host's
// answer, so that a refusal comes from set_input with the runtime's own code. A refusal that comes
// later fails the next run.
// Memory. Pictures and data are sent from where they lie. What a deadline leaves unsent is copied,
// unless it is lent: then it goes on its way from there with the next verbs.
// Outputs. Ports that were read after the last run ride with the next reply.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "link/client/connection.h"
#include "outrider/frt_v1.h"

namespace outrider::link {

struct DeviceConfig {
  std::string model = "default";
  int64_t deadline_ns = 200'000'000;   // of every verb
  int64_t connect_ns = 5'000'000'000;  // of open, and at most 1 s of a later attempt
  wire::TakeOver take_over = wire::TakeOver::kWhenSilent;
  DeviceName name;
};

inline constexpr int64_t kHeartbeatNs = 250'000'000;  // idle: PING so often
inline constexpr int64_t kSilenceNs = 1'500'000'000;  // nothing came for so long: the link is lost
inline constexpr int64_t kFirstBackoffNs = 50'000'000, kLastBackoffNs = 2'000'000'000;
inline constexpr int64_t kRedialNs = 1'000'000'000;
// What this device keeps for outputs, whatever a host describes.
inline constexpr uint64_t kMaxOutputBytes = uint64_t{64} << 20;

struct DeviceCounters {
  std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, late_refusals{0};
  std::atomic<int64_t> inputs_sent{0}, inputs_waited{0}, inputs_lent{0}, pushed_outputs{0},
      read_outputs{0};
  std::atomic<int64_t> late_answers{0}, stale_answers{0};
  std::atomic<int64_t> replaced_inputs{0};  // a newer one took their place in the host's queue
  std::atomic<int64_t> connects{0}, reconnects{0}, dial_failures{0};
  std::atomic<int64_t> lost[wire::kLastCause + 1] = {};  // by cause
  // Of the last run, ns: until RUN was sent, to the host, waiting there, running, back, all of it;
  // and how old the newest picture was when the answer came.
  std::atomic<int64_t> ns_send{0}, ns_forth{0}, ns_queue{0}, ns_run{0}, ns_back{0}, ns_total{0},
      ns_age{0};
};

class Device final : private wire::PayloadPlace, private Connection::Others {
 public:
  // [setup] Connects and opens within connect_ns. Errors: kDevice (link: cause and reason), else
  // the host's own code (kNotFound: no such model).
  static Result<std::unique_ptr<Device>> open(const DeviceConfig& config,
                                              std::unique_ptr<Dialer> dialer, const Clock& clock);
  ~Device();  // says BYE

  const wire::OpenReply& runtime() const { return runtime_; }
  std::string host_text() const { return host_text_; }

  // [hot] Verbs. kDevice: the link failed or the deadline passed, last_error says which.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  // As set_input, but what the system does not take at once is sent later, from where it lies.
  // *loan: 0, or a number: the bytes behind `data` are left alone until is_free(*loan).
  Code lend_input(uint32_t port, const void* data, uint64_t bytes, uint64_t* loan) noexcept;
  bool is_free(uint64_t loan) noexcept;                        // sends what the system takes now
  Code wait_free(uint64_t loan, int64_t timeout_ns) noexcept;  // kOk, kNotReady
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run(uint32_t executor_ref) noexcept { return run_whole(0, executor_ref); }
  Code step() noexcept { return run_whole(1, 0); }
  // The two halves of step, for a host that has work of its own in between.
  Code send_step() noexcept;
  Code receive_step() noexcept;
  Code prepare(uint32_t graph, uint64_t key) noexcept;
  const char* last_error() const noexcept { return error_; }

  // [setup] Heartbeat, redial; call every 50 ms or so from one other thread (or the same).
  void upkeep();

  // [any]
  bool connected() const { return state_.load(std::memory_order_acquire) == kConnected; }
  const DeviceCounters& counters() const { return counters_; }
  struct Snapshot {
    wire::ChannelCounters channel;
    int64_t offset_ns = 0, bound_ns = 0, trip_ns = 0, clock_steps = 0;
    bool clock_known = false, connected = false;
    uint32_t epoch = 0;
  };
  // [setup] Waits for the token.
  Snapshot snapshot();

 private:
  enum State : uint32_t { kConnected, kLost };
  enum class Sent : uint8_t { kNo, kYes, kLate };
  struct PortState {
    bool failed = false;  // the link failed it: no run before it is staged again
    bool taken = false;   // the host took one of this kind
    uint64_t least_bytes = 0, most_bytes = 0;
    wire::FixedList<wire::View, wire::kMaxViews> views;
    int64_t fixed_bytes = -1;  // of an output
  };
  struct Cached {
    uint32_t port = 0;
    size_t at = 0, bytes = 0;
  };

  Device(const DeviceConfig& config, std::unique_ptr<Dialer> dialer, const Clock& clock);
  std::unique_ptr<Connection> connect(int64_t deadline_ns, wire::OpenReply& out, Code& code,
                                      LinkError& why);
  Result<void> keep_runtime(wire::OpenReply reply);
  void adopt(std::unique_ptr<Connection> connection, uint32_t epoch);

  bool take_token(int64_t deadline_ns) noexcept;
  void give_token() noexcept;
  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  Code refuse(int32_t code, const wire::Line& text) noexcept;
  Code lost(wire::Cause cause, const char* what) noexcept;
  Code lost_by(wire::Got got, const wire::Incoming& in, const char* what) noexcept;
  Code too_late(const char* what) noexcept;
  Code late(const char* what) noexcept;
  // Deadline, token, connection; a code other than kOk: give up, the token is not held.
  Code begin(int64_t& deadline_ns) noexcept;

  void describe_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  void add_view(const frt_image_view& view, uint64_t& budget) noexcept;
  bool is_usual(uint32_t port, const void* data) const noexcept;
  void remember(uint32_t port) noexcept;
  Code stage(uint32_t port, const void* data, uint64_t bytes, bool lent,
             int64_t deadline_ns) noexcept;
  Io send_input(const wire::Outgoing& facts, int64_t deadline_ns) noexcept;
  void flush_loan(int64_t deadline_ns) noexcept;
  Code send_run(uint8_t kind, uint32_t executor_ref, int64_t deadline_ns) noexcept;
  Code finish_run(int64_t deadline_ns) noexcept;
  Code run_whole(uint8_t kind, uint32_t executor_ref) noexcept;
  void note_times(const wire::Incoming& in) noexcept;
  Code read(uint32_t port, void* out, uint64_t capacity, uint64_t* written,
            int64_t deadline_ns) noexcept;

  std::span<std::byte> place(const wire::Header& header, std::span<const std::byte> body) override;
  void other(const wire::Incoming& message) override;

  bool drop_old();
  void redial();
  void heartbeat();
  bool host_is_silent(int64_t now_ns) noexcept;
  bool ask_for_life(int64_t now_ns) noexcept;

  DeviceConfig config_;
  std::unique_ptr<Dialer> dialer_;
  const Clock* clock_;
  wire::OpenReply runtime_;
  std::string host_text_;
  std::unique_ptr<Connection> connection_;
  std::atomic<uint32_t> state_{kLost}, token_{0};
  std::atomic<uint64_t> loan_{0};  // the open one; 0: none
  uint64_t n_loans_ = 0;
  uint32_t epoch_ = 0, n_inputs_ = 0, n_replaced_ = 0;  // of this epoch

  std::vector<PortState> ports_;
  wire::Input input_;
  std::vector<Piece> pieces_;
  wire::RunReply run_reply_;
  wire::Line line_;
  uint64_t run_request_ = 0, push_ = 0, want_ = 0;
  int64_t captured_ns_ = 0, run_begin_ns_ = 0, run_sent_ns_ = 0;
  // Written by verbs before they have the token, and by upkeep with it.
  std::atomic<bool> run_open_{false}, outputs_ready_{false};
  bool looks_after_ = false;  // with the token: by upkeep, whose reasons are not those of a verb
  std::vector<std::byte> cache_;
  std::vector<Cached> cached_;
  std::span<std::byte> read_into_;
  uint64_t wanted_request_ = 0;

  char lost_text_[160] = {};
  wire::Cause lost_cause_ = wire::Cause::kNone;
  int64_t lost_ns_ = 0, next_dial_ns_ = 0, backoff_ns_ = kFirstBackoffNs;
  int64_t last_ping_ns_ = 0, first_ping_ns_ = 0;  // first: of those nothing was heard after
  DeviceCounters counters_;
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider::link
