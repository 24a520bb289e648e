// A cable of packets between two network namespaces: a device and a host, each with its own
// kernel interface (TUN) and TCP stack, and a thread between them that delays, loses, doubles,
// reorders, slows, changes and cuts packets by a seed. Needs CAP_NET_ADMIN and /dev/net/tun;
// nothing of the machine's own network is touched.
//
//   auto cable = PacketCable::make(why_not);
//   cable->at_host([&] { server = ...listen on tcp://10.77.0.1:0... });
//   cable->at_device([&] { runtime = ...connect... });
//   cable->set({.loss = 0.03});
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "link/transport/socket_stream.h"
#include "link/wire/codec.h"

namespace outrider::link::faults {

inline constexpr const char* kCableHost = "10.77.0.1";

struct PacketRules {
  int64_t delay_ns = 0, jitter_ns = 0;  // each packet by itself: jitter reorders
  double loss = 0, doubled = 0;         // share of the packets
  // Share of the packets with payload in which two 16-bit words change places: a fault that the
  // checksum of TCP cannot see.
  double swapped = 0;
  uint64_t bytes_per_s = 0;  // 0: as fast as they come; a queue of 64 KiB, then packets are lost
  bool cut = false;          // nothing arrives
};

class PacketCable {
 public:
  // nullptr and the reason when this machine does not permit it.
  static std::unique_ptr<PacketCable> make(std::string& why_not, uint64_t seed = 1);
  ~PacketCable();
  PacketCable(const PacketCable&) = delete;
  PacketCable& operator=(const PacketCable&) = delete;

  // Runs a job in a thread of that namespace, and waits for it. Threads made there, and sockets of
  // theirs, belong to it too.
  void at_host(const std::function<void()>& job) { host_->run(job); }
  void at_device(const std::function<void()>& job) { device_->run(job); }
  // Both ways, or each by itself.
  void set(const PacketRules& rules) { set(rules, rules); }
  void set(const PacketRules& forth, const PacketRules& back);
  // Takes the device's interface down and up again.
  void pull(bool out);
  uint64_t n_passed() const { return n_passed_; }
  uint64_t n_lost() const { return n_lost_; }
  uint64_t n_swapped() const { return n_swapped_; }

 private:
  // A thread in a namespace of its own.
  class Place {
   public:
    explicit Place(const char* address);
    ~Place();
    void run(const std::function<void()>& job);
    bool set_up(bool up);
    int tun() const { return tun_.get(); }
    std::string why_not;

   private:
    void begin(const char* address);
    Fd tun_;
    std::mutex lock_;
    std::condition_variable wake_;
    const std::function<void()>* job_ = nullptr;
    bool stop_ = false;
    std::thread thread_;
  };
  struct Packet {
    int64_t due_ns;
    uint64_t order;
    int to;
    std::vector<unsigned char> bytes;
    bool operator<(const Packet& other) const {
      return due_ns != other.due_ns ? due_ns > other.due_ns : order > other.order;
    }
  };

  explicit PacketCable(uint64_t seed) : draw_(seed) {}
  void pass();
  void take(int from, int to, const PacketRules& rules, int64_t& free_ns);
  bool happens(double share) { return share > 0 && draw_.below(1 << 20) < share * (1 << 20); }

  std::unique_ptr<Place> host_, device_;
  std::mutex lock_;
  PacketRules forth_, back_;
  int64_t forth_free_ns_ = 0, back_free_ns_ = 0;
  std::priority_queue<Packet> queue_;
  uint64_t next_order_ = 0;
  wire::Draw draw_;
  std::atomic<uint64_t> n_passed_{0}, n_lost_{0}, n_swapped_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace outrider::link::faults
