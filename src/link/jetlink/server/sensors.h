// Telemetry: what the machine's sensors say, as the dialect's JSON object (temp_c, power_w,
// power_limit_w, supply_mv, supply_ma, gpu_load_pct, gpu_clock_mhz, fan_rpm; a key that nothing
// measures is absent). Read from Linux's /sys: thermal zones, hwmon chips, devfreq.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"

namespace outrider::link::jetlink {

// [setup] One look at the sensors below `sys` ("/sys"). "{}": there are none. What is no number, or
// none that such a sensor can have, is left out.
std::string read_sensors(const std::string& sys);

// A worker looks at the sensors; who asks never waits for one.
class Sensors {
 public:
  static constexpr int64_t kPauseNs = 250'000'000;     // between two looks
  static constexpr int64_t kTooOldNs = 1'000'000'000;  // an older look says nothing

  // [setup] Starts the worker. The clock must outlive it.
  Sensors(std::string sys, const Clock& clock);
  ~Sensors();
  Sensors(const Sensors&) = delete;
  Sensors& operator=(const Sensors&) = delete;

  // [any] The last look, or "{}" when it is older than kTooOldNs.
  std::string telemetry() const;

 private:
  void work();

  const std::string sys_;
  const Clock* clock_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::string last_ = "{}";
  int64_t looked_ns_ = 0;
  std::thread worker_;
};

}  // namespace outrider::link::jetlink
