#include "owner/crash_guard.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "owner/borrow/protocol.h"

namespace outrider::owner {

int64_t CrashGuard::begin() {
  constexpr int64_t kMostCrashes = 1000;
  const int64_t now_ns = system_.now_ns();
  std::string text;
  crashes_ = 0;
  if (system_.read(path_, text) == 0) {
    auto json = Json::parse(text, Json::Dialect::kStandard,
                            {.max_bytes = 4096, .max_depth = 2, .max_values = 16});
    const auto number = [&](const char* key) {
      const Json* value = json ? json.value().find(key) : nullptr;
      return value != nullptr && value->is_integer() && value->integer() >= 0 ? value->integer()
                                                                              : int64_t{-1};
    };
    const Json *boot = json ? json.value().find("boot_id") : nullptr,
               *running = json ? json.value().find("running") : nullptr;
    const int64_t started_ns = number("started_ns"), before = number("crashes");
    const bool died = boot != nullptr && boot->is_string() && boot->text() == system_.boot_id() &&
                      running != nullptr && running->is_bool() && running->boolean() &&
                      started_ns >= 0 && before >= 0 && before <= kMostCrashes;
    if (died && now_ns - started_ns < kShortLifeNs) crashes_ = std::min(before + 1, kMostCrashes);
  }
  int64_t calm_ns = 0;
  if (crashes_ > kFreeCrashes) {
    const int64_t doublings = std::min<int64_t>(crashes_ - kFreeCrashes - 1, 8);
    calm_ns = std::min(kFirstCalmNs << doublings, kLongestCalmNs);
    log_line(LogLevel::kError,
             "owner: %lld owners died one after another: nothing is held for %lld s",
             static_cast<long long>(crashes_), static_cast<long long>(calm_ns / 1'000'000'000));
  }
  save(true, now_ns + calm_ns);  // a life begins after the wait
  return calm_ns == 0 ? 0 : now_ns + calm_ns;
}

void CrashGuard::save(bool running, int64_t started_ns) {
  const int error = system_.replace(path_,
                                    "{\"version\":1,\"boot_id\":" + quoted(system_.boot_id()) +
                                        ",\"running\":" + (running ? "true" : "false") +
                                        ",\"started_ns\":" + std::to_string(started_ns) +
                                        ",\"crashes\":" + std::to_string(crashes_) + "}\n",
                                    false);
  if (error != 0)
    log_line(LogLevel::kWarn, "owner: %s: %s", short_path(path_).c_str(), std::strerror(-error));
}

void CrashGuard::ended_well() {
  crashes_ = 0;
  save(false, 0);
}

}  // namespace outrider::owner
