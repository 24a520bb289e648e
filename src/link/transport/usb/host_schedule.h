// When the host opens a device again. Pure: time is handed in.
#pragma once
#include <algorithm>
#include <cstdint>

#include "link/transport/usb/limits.h"

namespace outrider::link::usb {

// A link is connected when its first byte came, not when it was opened: an open that never heard
// one is repeated kSilentRetries times soon, then seldom, and nobody is told. A session that did
// hear something is opened again at once.
class HostSchedule {
 public:
  int64_t next_open_ns() const noexcept { return next_ns_; }
  void nothing_there(int64_t at_ns) noexcept {
    n_silent_ = 0;
    next_ns_ = at_ns + kPresencePollNs;
  }
  void open_failed(int64_t at_ns) noexcept { next_ns_ = at_ns + kOpenRetryNs; }
  void ended_silent(int64_t at_ns) noexcept {
    next_ns_ = at_ns + (n_silent_ < kSilentRetries ? kSilentRetryNs : kSilentRetryLongNs);
    n_silent_ = std::min(n_silent_ + 1, kSilentRetries);
  }
  void ended_heard(int64_t at_ns) noexcept {
    n_silent_ = 0;
    next_ns_ = at_ns;
  }

 private:
  int64_t next_ns_ = INT64_MIN;
  uint32_t n_silent_ = 0;
};

}  // namespace outrider::link::usb
