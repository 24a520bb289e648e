// A network in simulated time: one device, one host, two pipes of bytes between them, and what can
// go wrong with each. One thread; the same seed gives the same run to the last byte.
//
// The device's verbs run as they are. While one waits, the world goes on: bytes arrive, the host's
// peer is pumped, faults happen, the clock moves.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "link/client/device.h"
#include "link/server/peer.h"
#include "link/wire/codec.h"

namespace outrider::link::sim {

inline constexpr int64_t kUs = 1000, kMs = 1'000'000, kSecond = 1'000'000'000;

class SimClock final : public Clock {
 public:
  explicit SimClock(const int64_t& now) : now_(&now) {}
  int64_t now_ns() const noexcept override { return *now_ + step_ns; }
  int64_t step_ns = 0;

 private:
  const int64_t* now_;
};

// One direction of one connection.
struct Pipe {
  struct Chunk {
    int64_t at_ns;
    std::vector<std::byte> bytes;
  };
  std::deque<Chunk> chunks;
  size_t in_flight = 0;
  int64_t last_at_ns = 0;
  uint64_t n_sent = 0;
};

struct Connection {
  Pipe pipe[2];  // 0: device to host
  bool open = true;
  bool broken = false;  // not ended in order: what is still on its way is lost
};

// What happens to bytes of one direction, over all connections.
struct Weather {
  int64_t delay_ns = 50 * kUs, jitter_ns = 0;
  uint64_t bytes_per_s = 0;  // 0: no limit
  size_t window = 1 << 20;
  size_t most_chunk = 1 << 16;    // larger sends arrive in pieces
  bool silent = false;            // bytes vanish into a buffer, nobody says anything
  uint64_t cut_at = UINT64_MAX;   // the connection breaks when this byte would be sent
  std::set<uint64_t> corrupt_at;  // these bytes arrive with a bit flipped
  uint64_t n_bytes = 0;           // sent so far
};

// Ports: picture u8 {2, 4, 4, 3}, prompt, state; out: sums f32 {4}, trace text. Stale rules of pi0.
class SimRuntime final : public Runtime {
 public:
  explicit SimRuntime(struct World& world);
  ~SimRuntime() override;
  const frt_model_runtime_v1& face() const noexcept override { return face_; }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return &plan_; }
  bool has_step() const noexcept override { return true; }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override;
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override;
  int run(uint32_t executor_ref) noexcept override;
  int step() noexcept override { return run(kRef); }
  int prepare(uint32_t, uint64_t) noexcept override { return FRT_ERR_UNSUPPORTED; }
  const char* last_error() noexcept override { return error_.c_str(); }

  static constexpr uint32_t kRef = 37;
  static constexpr size_t kPictureBytes = 4 * 4 * 3;
  // What the model computes: the truth for every check.
  static std::vector<float> compute(const std::vector<std::byte>& picture,
                                    const std::string& prompt, const std::vector<float>& state);

 private:
  World* world_;
  frt_model_runtime_v1 face_{};
  frt_runtime_export_v1 exp_{};
  frt_generic_stage_plan_ext_v1 plan_{};
  std::string error_ = "";
  std::vector<std::byte> picture_;
  std::string prompt_;
  std::vector<float> state_, out_;
  bool has_[3] = {}, ready_ = false;
};

struct World : Dialer {
  explicit World(uint64_t seed);
  ~World();

  // ---- the device's side
  // -------------------------------------------------------------------------
  Result<std::unique_ptr<Device>> open_device(DeviceConfig config = {});
  // Lets time pass; the host works meanwhile.
  void run_until(int64_t at_ns);
  // One thing happens. False: nothing did before the deadline, which it is now.
  bool step(int64_t deadline_ns);

  // ---- the host's side
  // ---------------------------------------------------------------------------
  void stop_host();
  void start_host();
  bool host_up = true;
  bool network_up = true;  // dialling: nobody answers while it is down
  int64_t run_ns = 2 * kMs;
  uint16_t host_newest = wire::kVersion;
  uint64_t host_features = wire::kFeatures;
  uint32_t max_instances = 1;
  // What is served; empty: SimRuntime.
  std::function<std::unique_ptr<Runtime>()> make_runtime;
  // A run that is made in no time adds here what it should have taken: the reply comes that much
  // later.
  int64_t work_ns = 0;

  int64_t now_ns = 100 * kSecond;
  SimClock device_clock{now_ns}, host_clock{now_ns};
  Weather weather[2];  // 0: device to host
  wire::Draw draw;

  std::vector<float> runs;    // first state value of each run, in order
  std::vector<float> staged;  // likewise of each state the runtime was given
  int n_runtimes = 0, n_transports = 0;
  ServerCounters counters;
  std::function<void()> on_event;  // after every step of time
  // Time passes by this; empty: it simply does. Others may act until it returns, also stop or start
  // the host, cut and mend; then it may return before `at_ns`.
  std::function<void(int64_t at_ns)> on_time;

  // Used by the transports.
  Moved send(Connection& c, int from, std::span<const Piece> pieces, int64_t deadline_ns);
  Moved receive(Connection& c, int at, std::span<std::byte> into, int64_t deadline_ns);
  void break_all();

 private:
  class End;
  Result<std::unique_ptr<Transport>> dial(int64_t deadline_ns) override;
  void pass_to(int64_t at_ns);
  bool pump_host();
  int64_t next_event() const;
  void put(Connection& c, int from, std::vector<std::byte> bytes);

  struct Served {
    std::shared_ptr<Connection> connection;
    std::unique_ptr<Peer> peer;
  };
  std::unique_ptr<Models> models_;
  std::unique_ptr<ServerCore> core_;
  std::vector<Served> served_;
  std::vector<std::weak_ptr<Connection>> connections_;
  int64_t next_tick_ns_ = 0;
  bool in_host_ = false;
};

}  // namespace outrider::link::sim
