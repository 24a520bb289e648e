#include "owner/power_off.h"

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "owner/borrow/protocol.h"

namespace outrider::owner {
namespace {

constexpr size_t kMaxReasonBytes = 200;

Result<PowerOffRequest> read_request_file(System& system, const std::string& path) {
  std::string text;
  const int error = system.read(path, text);
  if (error == -ENOENT) return make_error(Code::kNotFound, "none");
  if (error != 0) return make_error(Code::kInvalid, "%s", std::strerror(-error));
  return read_power_off(text, system.boot_id(), system.now_ns());
}

}  // namespace

bool wants_power_off(const ShutdownFlags& flags, const PowerOffView& view) noexcept {
  return flags.shutdown && !flags.reboot && !flags.uninstall && view.link_on && !view.accelerator &&
         view.far_end_here;
}

Result<PowerOffRequest> read_power_off(std::string_view text, const std::string& boot_id,
                                       int64_t now_ns) {
  auto json = Json::parse(text, Json::Dialect::kStandard,
                          {.max_bytes = 4096, .max_depth = 2, .max_values = 16});
  if (!json) return make_error(Code::kInvalid, "%s", json.error().text);
  const Json *version = json.value().find("version"), *boot = json.value().find("boot_id"),
             *asked = json.value().find("asked_ns"), *until = json.value().find("deadline_ns"),
             *reason = json.value().find("reason");
  for (const Json* number : {version, asked, until})
    if (number == nullptr || !number->is_integer())
      return make_error(Code::kInvalid, "a field is missing or no whole number");
  if (version->integer() != 1) return make_error(Code::kInvalid, "of another version");
  if (boot == nullptr || !boot->is_string() || boot->text() != boot_id)
    return make_error(Code::kInvalid, "of another boot");
  PowerOffRequest out{asked->integer(), until->integer(), ""};
  if (out.asked_ns < 0 || out.asked_ns > now_ns || out.deadline_ns < out.asked_ns ||
      out.deadline_ns - out.asked_ns > kPowerOffNs)
    return make_error(Code::kInvalid, "its times are none");
  if (reason != nullptr && reason->is_string())
    out.reason = printable(reason->text(), kMaxReasonBytes);
  return out;
}

bool request_power_off(System& system, const std::string& path, const ShutdownFlags& flags,
                       const PowerOffView& view, const std::string& reason) noexcept {
  try {
    if (!wants_power_off(flags, view)) return false;
    if (power_off_pending(system, path)) return true;
    const int64_t now_ns = system.now_ns();
    const std::string text = "{\"version\":1,\"boot_id\":" + quoted(system.boot_id()) +
                             ",\"asked_ns\":" + std::to_string(now_ns) +
                             ",\"deadline_ns\":" + std::to_string(now_ns + kPowerOffNs) +
                             ",\"reason\":" + quoted(reason, kMaxReasonBytes) + "}\n";
    const int error = system.replace(path, text, false);
    if (error != 0)
      log_line(LogLevel::kWarn, "owner: power-off cannot be asked: %s: %s",
               short_path(path).c_str(), std::strerror(-error));
    return error == 0;
  } catch (...) {
    return false;
  }
}

void withdraw_power_off(System& system, const std::string& path) noexcept {
  try {
    const int error = system.remove(path);
    if (error != 0 && error != -ENOENT)
      log_line(LogLevel::kError, "owner: power-off request %s cannot be withdrawn: %s",
               short_path(path).c_str(), std::strerror(-error));
  } catch (...) {
  }
}

bool power_off_pending(System& system, const std::string& path) noexcept {
  try {
    auto request = read_request_file(system, path);
    if (request && system.now_ns() < request.value().deadline_ns) return true;
    if (!request && request.code() == Code::kNotFound) return false;
    log_line(LogLevel::kWarn, "owner: power-off request withdrawn: %s",
             request ? "the far end was not asked in time" : request.error().text);
    withdraw_power_off(system, path);
  } catch (...) {
  }
  return false;
}

PowerOff::Do PowerOff::step(const Input& in) noexcept {
  if (!in.asked) {
    const bool was = busy_ || in.running;
    busy_ = false;
    next_ns_ = INT64_MIN;
    return was && in.running ? Do::kWithdraw : Do::kNothing;
  }
  busy_ = true;
  if (in.exit_status == 0 || in.now_ns >= in.deadline_ns) {
    busy_ = false;
    next_ns_ = INT64_MIN;
    return in.exit_status == 0 ? Do::kFinish : Do::kWithdraw;
  }
  if (in.running) return Do::kNothing;
  if (!in.far_end_here && in.exit_status < 0 && next_ns_ == INT64_MIN) {
    busy_ = false;
    return Do::kFinish;  // it went away before it could be asked
  }
  if (in.exit_status > 0) next_ns_ = in.now_ns + kPowerOffRetryNs;
  if (in.now_ns < next_ns_) return Do::kNothing;
  next_ns_ = in.now_ns;
  return Do::kStart;
}

}  // namespace outrider::owner
