// How far a long piece of work is and how long it still takes.
#pragma once
#include <cstdint>
#include <functional>

#include "base/clock.h"

namespace outrider::store {

enum class Stage : uint8_t { kCheck, kReceive, kVerify };  // of a resume, of bytes, of the whole
const char* stage_name(Stage stage);                       // "check" "receive" "verify"

struct Progress {
  Stage stage = Stage::kReceive;
  uint64_t n_done = 0, n_total = 0;  // bytes
};

// Called now and then during long work; false gives the work up (what is safe stays).
using OnProgress = std::function<bool(const Progress&)>;

// Speed and time left from the amounts seen; forgets with a time constant of 5 s, so that a
// stalled cable shows. Starts anew when the amount falls or the stage changes.
class Estimate {
 public:
  void add(const Progress& progress, int64_t now_ns) noexcept;
  double bytes_per_s() const noexcept { return rate_; }  // 0 when unknown
  // < 0 when unknown: nothing moved yet, or nothing moves any more.
  double left_s() const noexcept;

 private:
  Progress last_;
  int64_t first_ns_ = 0, last_ns_ = 0;
  bool started_ = false;
  double rate_ = 0;
};

}  // namespace outrider::store
