// A USB cable made of SEQPACKET socket pairs, with the packet rules of a bulk pair and the faults
// that were seen in the field. A gadget port hangs on one end, a host port on the other; both obey
// the contracts of gadget_port.h and host_port.h, so the real streams run over it.
//
// Every packet carries one leading byte, because an empty SEQPACKET message reads like an end.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "link/transport/usb/gadget_port.h"
#include "link/transport/usb/host_port.h"

namespace outrider::link::usb {

// One stay of the device on the bus: nothing of it survives the next one.
struct Turn {
  Turn();
  ~Turn();
  // [device, host]
  int out[2] = {-1, -1}, in[2] = {-1, -1};
  std::atomic<bool> alive{true};
};

// Sends one packet; false when the turn ended or `until_ns` passed (kForever: no limit).
bool put_packet(const Turn& turn, int fd, std::span<const std::byte> packet, int64_t until_ns);
// The length of the next packet, or kNoPacket at until_ns or when the turn ended.
inline constexpr long kNoPacket = -1;
long get_packet(const Turn& turn, int fd, std::span<std::byte> into, int64_t until_ns);

class SocketBus {
 public:
  explicit SocketBus(uint32_t packet_bytes) : max_packet(packet_bytes) {}

  void plug();             // a host is there: a bound gadget is configured
  void unplug();           // ... is gone
  void configure_again();  // the host sets the configuration once more, without a goodbye
  bool host_opens();       // what the host's session request does; false: nobody answers
  void host_closes();
  void push(HostEvent event);
  bool configured();
  std::shared_ptr<Turn> turn();

  // ---- the gadget's side
  int bind();
  int unbind();
  HostEvent next_event(int64_t until_ns);
  void wake_events();

  const uint32_t max_packet;

  // ---- faults, and what was seen
  std::atomic<uint32_t> n_opens_too_early{0}, n_reads_too_early{0}, n_binds{0};
  std::atomic<bool> late_state{false};    // "configured" shows later than ep0 says
  std::atomic<bool> stuck_writes{false};  // the device's writes never complete
  std::atomic<bool> keeps_writes{false};  // ... not even when it leaves the bus
  std::atomic<bool> keeps_read{false};    // the device's read does not end either
  std::atomic<bool> no_answer{false};     // session requests get none
  std::mutex script_mutex;
  std::deque<int> open_errors, read_errors, submit_errors;  // answered first, one each (errno)
  int scripted(std::deque<int>& errors);

 private:
  void configure_locked();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<HostEvent> events_;
  bool plugged_ = false, bound_ = false, configured_ = false, woken_ = false;
  std::shared_ptr<Turn> turn_;
};

std::unique_ptr<GadgetPort> make_socket_gadget(std::shared_ptr<SocketBus> bus);

struct HostSeen {
  std::atomic<int> n_power_off{0}, n_power_on{0};
  std::atomic<bool> closed_session{false};
};
// The host has found the device: the port lives as long as this stay on the bus.
std::unique_ptr<HostPort> make_socket_host(std::shared_ptr<SocketBus> bus,
                                           std::shared_ptr<HostSeen> seen);

}  // namespace outrider::link::usb
