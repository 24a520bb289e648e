// How owners ended before this one: one that dies again and again holds nothing for a while, so
// that the host is not unplugged every few seconds. Ends that were meant do not count, nor do those
// of another boot, nor one after a long life.
#pragma once
#include <cstdint>
#include <string>

#include "owner/system.h"

namespace outrider::owner {

inline constexpr int64_t kShortLifeNs = 600'000'000'000;
inline constexpr int kFreeCrashes = 2;  // the next start waits
inline constexpr int64_t kFirstCalmNs = 10'000'000'000, kLongestCalmNs = 300'000'000'000;

class CrashGuard {
 public:
  CrashGuard(System& system, std::string path) : system_(system), path_(std::move(path)) {}
  // [setup] Once, at the start: until when to hold nothing (0: no wait).
  int64_t begin();
  void ended_well();
  int64_t crashes() const { return crashes_; }  // one after another, each after a short life

 private:
  void save(bool running, int64_t started_ns);
  System& system_;
  const std::string path_;
  int64_t crashes_ = 0;
};

}  // namespace outrider::owner
