// Words to a service manager: one datagram to NOTIFY_SOCKET, and the beat of its watchdog. The
// protocol is five lines of sd_notify(3); no library is linked for it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace outrider::owner {

class Notify {
 public:
  // `socket`: a path, or "@name" in the abstract space; "": nobody listens and nothing is sent.
  // `watchdog_us`: 0: none. `watchdog_pid`: the process that is watched; 0: whoever asks.
  Notify(std::string socket, int64_t watchdog_us, int64_t watchdog_pid, int64_t pid);
  static Notify from_environment();
  ~Notify();
  Notify(const Notify&) = delete;
  Notify& operator=(const Notify&) = delete;

  // "READY=1", "STOPPING=1", "STATUS=...". Never waits. False: nobody heard it.
  bool say(std::string_view state) const noexcept;
  // Half of what the manager allows; 0: no watchdog.
  int64_t beat_ns() const noexcept { return beat_ns_; }

 private:
  std::string socket_;
  int fd_ = -1;
  int64_t beat_ns_ = 0;
};

}  // namespace outrider::owner
