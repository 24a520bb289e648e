// What the calling thread computed since this was made, ns: a bound on work that other work of the
// machine does not move.
#pragma once
#include <time.h>

#include <cstdint>

namespace outrider::test {

class CpuTime {
 public:
  int64_t ns() const { return now_ns() - begin_ns_; }

 private:
  static int64_t now_ns() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
  int64_t begin_ns_ = now_ns();
};

}  // namespace outrider::test
