// A cable between a device and a host that does what it is told: a TCP proxy on the loopback
// interface. Real sockets, real system calls on both sides; only the bytes between are ours.
//
//   FaultProxy proxy(host_port);
//   proxy.next({.forth = {.at = 5000, .then = Then::kReset}});   // of the next connection
//   proxy.now({.back = {.delay_ns = 20'000'000}});                // of those that live, and later
//   ones
//
// One thread serves all connections; one lane is one direction of one connection.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "link/transport/socket_stream.h"
#include "link/wire/codec.h"

namespace outrider::link::faults {

// What happens at byte `Lane::at`.
enum class Then : uint8_t {
  kNothing,
  kClose,     // both ends see an orderly end
  kReset,     // both ends see a reset
  kHalfOpen,  // the sender's end stays as it is and hears nothing more; the other end sees a reset
  kSilence,   // what is sent from here on is taken and never arrives
  kStall,     // nothing is taken any more: the sender's buffers fill up
  kFlip,      // one bit of this byte is another one
  kRepeat,    // the `n` bytes before it come twice
  kSkip       // `n` bytes from it on never arrive
};

struct Lane {
  int64_t delay_ns = 0, jitter_ns = 0;  // jitter is added, up to so much; the order stays
  uint64_t bytes_per_s = 0;             // 0: as fast as they come
  uint64_t at = UINT64_MAX;             // byte of the lane, counted from when the rule came
  Then then = Then::kNothing;
  uint64_t n = 0;
};

struct Rules {
  Lane forth = {}, back = {};  // device to host, host to device
};

class FaultProxy {
 public:
  explicit FaultProxy(uint16_t host_port, uint64_t seed = 1);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const { return port_; }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  // Where devices that come from now on are led to: a restarted host.
  void lead_to(uint16_t host_port) { host_port_ = host_port; }
  // Of the next connection alone; one call for one connection, in order.
  void next(const Rules& rules);
  // Of every connection that lives, and of those that come without a rule of their own.
  void now(const Rules& rules);
  int n_connections() const { return n_connections_; }
  uint64_t n_bytes() const { return n_bytes_; }  // passed on, both ways
  uint64_t n_events() const { return n_events_; }

 private:
  struct Chunk {
    int64_t due_ns;
    std::vector<char> bytes;
    size_t sent = 0;
  };
  struct Stream {  // one direction
    Lane rule;
    uint64_t seen = 0, skip = 0;
    std::deque<Chunk> queue;
    size_t queued = 0;
    int64_t last_due_ns = 0;
    std::vector<char> tail;  // the newest bytes, for kRepeat
    bool silent = false, stalled = false, ended = false;
  };
  struct Pair {
    Fd device, host;
    Stream forth, back;
    bool over = false;
  };

  void run();
  void accept();
  void serve(Pair& pair);
  bool read(Pair& pair, Stream& stream, int from);
  bool write(Stream& stream, int to);
  void queue(Stream& stream, const char* bytes, size_t n);
  bool happen(Pair& pair, Stream& stream, char* at);
  void end(Pair& pair, bool reset_device, bool reset_host);

  std::atomic<uint16_t> host_port_;
  uint16_t port_ = 0;
  Fd listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> n_connections_{0};
  std::atomic<uint64_t> n_bytes_{0}, n_events_{0};
  std::mutex lock_;  // of rules and pairs
  std::deque<Rules> next_;
  Rules rules_;
  std::list<Pair> pairs_;
  wire::Draw draw_;
  std::thread thread_;
};

}  // namespace outrider::link::faults
