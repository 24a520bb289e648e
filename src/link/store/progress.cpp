#include "link/store/progress.h"

#include <algorithm>
#include <cmath>

namespace outrider::store {
namespace {
constexpr double kForgetS = 5;
constexpr double kStalled = 1;  // bytes per second below which no time left is told
}  // namespace

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::kCheck:
      return "check";
    case Stage::kReceive:
      return "receive";
    case Stage::kVerify:
      return "verify";
  }
  return "?";
}

void Estimate::add(const Progress& progress, int64_t now_ns) noexcept {
  const bool anew = !started_ || progress.stage != last_.stage || progress.n_done < last_.n_done;
  const double passed_s = static_cast<double>(now_ns - last_ns_) * 1e-9;
  if (!anew && passed_s <= 0) return;  // counted with the next one
  if (anew) {
    rate_ = 0;
    first_ns_ = now_ns;
  } else {
    const double speed = static_cast<double>(progress.n_done - last_.n_done) / passed_s;
    const double since_s = static_cast<double>(now_ns - first_ns_) * 1e-9;
    // The plain average at first, so that the first sample is not diluted by the zero start.
    const double share = std::max(1 - std::exp(-passed_s / kForgetS), passed_s / since_s);
    rate_ += std::min(share, 1.0) * (speed - rate_);
  }
  started_ = true;
  last_ = progress;
  last_ns_ = now_ns;
}

double Estimate::left_s() const noexcept {
  if (started_ && last_.n_done >= last_.n_total) return 0;
  if (rate_ < kStalled) return -1;
  return static_cast<double>(last_.n_total - last_.n_done) / rate_;
}

}  // namespace outrider::store
