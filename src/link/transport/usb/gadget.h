// A gadget that is on the bus, and what the host does with it: follows ep0 in a thread of its own.
//
// One session at a time. wait_session() returns when a host opened one; the session ends when the
// host closes it, opens another, goes away, or end_session() takes the device off the bus. A new
// session starts with a new turn on the bus: nothing of an old one can reach it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "link/transport/usb/gadget_port.h"

namespace outrider::link::usb {

// Pure: how events become the state of a session.
class GadgetState {
 public:
  // What the running session (if one is open) ends with because of this event; kDone: nothing.
  Io on(HostEvent event) noexcept;
  void left_bus() noexcept { enabled_ = open_ = false; }  // after unbind()
  bool enabled() const noexcept { return enabled_; }
  bool open() const noexcept { return open_; }
  bool dead() const noexcept { return dead_; }
  uint32_t n_enabled() const noexcept { return n_enabled_; }

 private:
  bool enabled_ = false, open_ = false, dead_ = false;
  uint32_t n_enabled_ = 0;
};

struct GadgetTimers {
  int64_t off_bus_ns;
  int64_t enable_grace_ns;
  int64_t close_flush_ns, close_abort_ns, close_join_ns;
  static GadgetTimers standard() noexcept;
};

// Gets the end of a session. Called from the event thread; must not call back into the gadget.
class SessionEnd {
 public:
  virtual ~SessionEnd() = default;
  virtual void session_ended(Io io) noexcept = 0;
};

class Gadget {
 public:
  // [setup] `port` is not bound yet; it is bound by the first wait_session().
  Gadget(std::unique_ptr<GadgetPort> port, std::string serial, const GadgetTimers& timers);
  ~Gadget();  // unbinds

  // Puts the device on the bus (not before it was off for off_bus_ns) and waits until a host opens
  // a session and the endpoints are open. Errors: kNotReady (the deadline passed; the device stays
  // on the bus and may be asked again), kDevice.
  Result<void> wait_session(int64_t deadline_ns);
  // The session's listener. If the session has already ended it is told at once.
  void follow(SessionEnd* end) noexcept;
  // Takes the device off the bus; no call to the listener is running on return. This ends every
  // read and write that hangs.
  void leave_bus() noexcept;
  // leave_bus(), and the endpoints are closed: no read may be running.
  void end_session() noexcept;

  // Gives the port up as it is, on the bus and all. Only while no session was followed; nothing may
  // be asked of this object afterwards.
  std::unique_ptr<GadgetPort> release() noexcept;

  bool dead() const noexcept;
  GadgetPort& port() noexcept { return *port_; }
  const std::string& serial() const noexcept { return serial_; }
  const GadgetTimers& timers() const noexcept { return timers_; }

 private:
  void follow_events() noexcept;
  Result<void> get_on_bus(int64_t deadline_ns);

  std::unique_ptr<GadgetPort> port_;
  const std::string serial_;
  const GadgetTimers timers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  GadgetState state_;
  SessionEnd* follower_ = nullptr;
  Io early_end_ = Io::kDone;  // the session ended before follow()
  bool on_bus_ = false, endpoints_open_ = false;
  int64_t left_bus_ns_ = INT64_MIN;
  std::atomic<bool> stop_{false};
  std::thread events_;
};

}  // namespace outrider::link::usb
