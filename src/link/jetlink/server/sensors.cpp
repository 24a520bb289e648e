#include "link/jetlink/server/sensors.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/input_file.h"

namespace outrider::link::jetlink {
namespace {

constexpr size_t kMaxText = 64;
constexpr size_t kMaxEntries = 256;  // of a folder; a machine has some dozen

using Value = std::optional<double>;

// Entries of a folder whose names begin so, in the order of their names.
std::vector<std::string> entries(const std::string& folder, std::string_view begin) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error), end;
  for (size_t n = 0; !error && at != end && n < kMaxEntries; at.increment(error), ++n) {
    const std::string name = at->path().filename();
    if (name.starts_with(begin)) found.push_back(folder + "/" + name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string word(const std::string& path) {
  std::string text = read_file_begin(path, kMaxText);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// A whole decimal number in the file, times `scale`, when it lies in [least, most].
Value number(const std::string& path, double scale, double least, double most) {
  const std::string text = word(path);
  if (text.empty() || text.size() > 18) return {};
  char* end = nullptr;
  const double value = static_cast<double>(std::strtoll(text.c_str(), &end, 10)) * scale;
  if (end != text.c_str() + text.size() || value < least || value > most) return {};
  return value;
}

Value larger(Value a, Value b) {
  return !a ? b : !b ? a : std::max(*a, *b);
}

Value celsius(const std::string& path) {
  return number(path, 1e-3, -60, 200);
}

// The hottest thermal zone; without zones, the hottest sensor of a chip.
Value temperature(const std::string& sys, const std::vector<std::string>& chips) {
  Value hottest;
  for (const std::string& zone : entries(sys + "/class/thermal", "thermal_zone"))
    hottest = larger(hottest, celsius(zone + "/temp"));
  if (hottest) return hottest;
  for (const std::string& chip : chips)
    for (int i = 1; i <= 8; ++i)
      hottest = larger(hottest, celsius(chip + "/temp" + std::to_string(i) + "_input"));
  return hottest;
}

struct Supply {
  Value millivolts, milliamperes, watts, limit_watts;
};

// The chip at the board's inlet (VDD_IN of a Tegra board), else the first that measures power.
Supply supply(const std::vector<std::string>& chips) {
  Supply out;
  for (const std::string& chip : chips) {
    if (word(chip + "/in1_label") != "VDD_IN") continue;
    out.millivolts = number(chip + "/in1_input", 1, 0, 1e5);
    out.milliamperes = number(chip + "/curr1_input", 1, 0, 1e6);
    if (out.millivolts && out.milliamperes) out.watts = *out.millivolts * *out.milliamperes * 1e-6;
    return out;
  }
  for (const std::string& chip : chips) {
    out.watts = number(chip + "/power1_average", 1e-6, 0, 1e5);
    if (!out.watts) out.watts = number(chip + "/power1_input", 1e-6, 0, 1e5);
    if (!out.watts) continue;
    out.limit_watts = number(chip + "/power1_cap", 1e-6, 0, 1e5);
    return out;
  }
  return out;
}

Value fan(const std::vector<std::string>& chips) {
  Value fastest;
  for (const std::string& chip : chips)
    for (int i = 1; i <= 8; ++i)
      fastest =
          larger(fastest, number(chip + "/fan" + std::to_string(i) + "_input", 1, 0, 100'000));
  return fastest;
}

Value gpu_load(const std::string& sys) {
  for (const char* path : {"/devices/gpu.0/load", "/devices/platform/gpu.0/load"})
    if (Value load = number(sys + path, 0.1, 0, 100)) return load;  // per mille
  return {};
}

Value gpu_clock(const std::string& sys) {
  for (const std::string& device : entries(sys + "/class/devfreq", ""))
    if (device.ends_with("gpu") || device.ends_with(".gp10b") || device.ends_with(".gv11b") ||
        device.ends_with(".ga10b"))
      if (Value clock = number(device + "/cur_freq", 1e-6, 0, 1e5)) return clock;
  return {};
}

void add(std::string& json, const char* key, Value value) {
  if (!value) return;
  char text[64];
  std::snprintf(
      text, sizeof text, "%s\"%s\":%.10g", json.size() > 1 ? "," : "", key,
      static_cast<double>(static_cast<int64_t>(*value * 10 + (*value < 0 ? -0.5 : 0.5))) / 10);
  json += text;
}

}  // namespace

std::string read_sensors(const std::string& sys) {
  const std::vector<std::string> chips = entries(sys + "/class/hwmon", "hwmon");
  const Supply power = supply(chips);
  std::string json = "{";
  add(json, "temp_c", temperature(sys, chips));
  add(json, "power_w", power.watts);
  add(json, "power_limit_w", power.limit_watts);
  add(json, "supply_mv", power.millivolts);
  add(json, "supply_ma", power.milliamperes);
  add(json, "gpu_load_pct", gpu_load(sys));
  add(json, "gpu_clock_mhz", gpu_clock(sys));
  add(json, "fan_rpm", fan(chips));
  return json + "}";
}

Sensors::Sensors(std::string sys, const Clock& clock) : sys_(std::move(sys)), clock_(&clock) {
  worker_ = std::thread([this] { work(); });
}

Sensors::~Sensors() {
  {
    std::scoped_lock lock(lock_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Sensors::work() {
  std::unique_lock lock(lock_);
  while (!stop_) {
    lock.unlock();
    std::string seen = read_sensors(sys_);  // may take milliseconds
    lock.lock();
    last_ = std::move(seen);
    looked_ns_ = clock_->now_ns();
    changed_.wait_for(lock, std::chrono::nanoseconds(kPauseNs), [this] { return stop_; });
  }
}

std::string Sensors::telemetry() const {
  std::scoped_lock lock(lock_);
  return clock_->now_ns() - looked_ns_ > kTooOldNs ? "{}" : last_;
}

}  // namespace outrider::link::jetlink
