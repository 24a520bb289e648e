// The verbs of a driving runtime that runs on a Jetlink host: one frame is one request. The ports
// are those of a local driving graph: new_img, desire, traffic_convention, action_t; outputs, of
// which the range that the host keeps (hidden_state) reads as zeros.
//
// Verbs never dial: a lost link is found again by upkeep(), which one thread of the provider calls.
// The first frame of every connection resets the host's history. Verbs and upkeep pass the
// connection to each other by a token.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driving/desire_pulse.h"
#include "link/jetlink/client/client.h"

namespace outrider::link::jetlink {

struct DeviceConfig {
  // "default": what the host has loaded, else the only one it has; a SHA-256; or the path of a
  // model file, which is uploaded when the host has it not.
  std::string model = "default";
  int64_t deadline_ns = 200'000'000;   // of one frame
  int64_t connect_ns = 5'000'000'000;  // until hello is answered
  int64_t ready_ns = 900'000'000'000;  // until the model is ready: upload and build
  uint32_t frame_skip = kDefaultFrameSkip;
  bool pulse = false;  // "desire" is a pulse already; else a level of which the pulse is made
  // Frames as datagrams where the host offers them: all but the first of a connection and those
  // that reset. Such a frame is given up after `hold_ns`, and the link stays.
  bool datagrams = true;
  int64_t hold_ns = 46'000'000;
  std::string name = "outrider";
};
inline constexpr int64_t kKeepaliveNs = 10'000'000'000, kKeepaliveWaitNs = 2'000'000'000;
inline constexpr int64_t kFirstBackoffNs = 50'000'000, kLastBackoffNs = 2'000'000'000;

struct DevicePort {
  std::string name;
  bool is_input = true, is_bytes = false;  // else f32
  Shape shape;
  size_t n_bytes = 0;
};

struct DeviceCounters {
  std::atomic<int64_t> frames{0}, failed_frames{0}, refused_inputs{0}, resets{0}, connects{0},
      reconnects{0}, dial_failures{0}, uploads{0};
  std::atomic<int64_t> frames_by_datagram{0}, frames_held{0}, frames_lost{0};
  std::atomic<int64_t> lost[8] = {};                                     // by Loss
  std::atomic<int64_t> ns_total{0}, ns_host{0}, ns_run{0}, ns_queue{0};  // of the last frame
};

class Device {
 public:
  using Dial = std::function<Result<std::unique_ptr<Transport>>(int64_t deadline_ns)>;

  // [setup] Connects, says hello (version 3, then 2 to a host that does not answer), waits until
  // the model is ready. Errors: kDevice (the link), those of Client::make_ready.
  static Result<std::unique_ptr<Device>> open(const DeviceConfig& config, Dial dial,
                                              const Clock& clock);
  ~Device();  // says why it leaves

  const std::vector<DevicePort>& ports() const { return ports_; }
  const ModelSpec& spec() const { return spec_; }
  const std::string& host_text() const { return host_text_; }
  uint16_t version() const { return version_; }

  // [hot] Verbs. kDevice: the link failed or the deadline passed, last_error says which. An infer
  // that follows a reset waits for a new connection when the host ended the old one. kNotReady of
  // infer and receive: this frame has no answer (lost on its way, or late), the link is well.
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code reset() noexcept;
  Code infer() noexcept;
  // The two halves of infer.
  Code send() noexcept;
  Code receive() noexcept;
  const char* last_error() const noexcept { return error_; }

  // [setup] Keepalive, redial; call every 50 ms or so from one other thread.
  void upkeep();
  bool connected() const { return state_.load(std::memory_order_acquire) == kConnected; }
  const DeviceCounters& counters() const { return counters_; }

 private:
  enum State : uint32_t { kConnected, kLost };

  Device(const DeviceConfig& config, Dial dial, const Clock& clock);
  Result<std::unique_ptr<Client>> connect(bool first);
  Result<std::unique_ptr<Client>> say_hello(uint16_t version, int64_t deadline_ns,
                                            HelloResp& hello);
  Result<ModelId> choose(const HelloResp& hello, std::string& path);
  Result<void> describe();
  bool take_token(int64_t deadline_ns) noexcept;
  void give_token() noexcept { token_.store(0, std::memory_order_release); }
  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  void note_loss() noexcept;
  Code lost() noexcept;
  Code begin(int64_t deadline_ns) noexcept;
  Code send_frame(int64_t deadline_ns) noexcept;
  Code receive_frame(int64_t deadline_ns) noexcept;
  Code try_frame(int64_t deadline_ns) noexcept;
  void count(Code code) noexcept;
  void redial();

  DeviceConfig config_;
  Dial dial_;
  const Clock* clock_;
  std::unique_ptr<Client> client_;
  ModelId id_;  // settled by the first open
  ModelSpec spec_;
  Sizes sizes_;
  uint16_t version_ = kVersion3;
  std::string host_text_, path_;

  std::vector<DevicePort> ports_;
  std::vector<std::byte> warped_;
  std::vector<float> packed_, desire_, outputs_;
  std::vector<bool> staged_;
  std::unique_ptr<driving::DesirePulse> pulse_;
  uint32_t frame_id_ = 0, open_seq_ = 0;
  int64_t sent_ns_ = 0;
  bool reset_next_ = true, outputs_ready_ = false;
  bool answered_ = false;     // a frame of this connection was
  bool may_be_lost_ = false;  // the frame that is open
  bool held_ = false;         // the last one had no answer

  std::atomic<uint32_t> state_{kLost}, token_{0};
  int64_t used_ns_ = 0, next_dial_ns_ = 0, backoff_ns_ = kFirstBackoffNs;
  DeviceCounters counters_;
  bool lost_to_host_ = false;  // it ended the connection; written before state_
  char lost_text_[300] = {};
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider::link::jetlink
