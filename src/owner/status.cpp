#include "owner/status.h"

#include "base/json.h"
#include "base/printable.h"

namespace outrider::owner {
namespace {

constexpr size_t kMaxBytes = 4096;

// One row a field: writing and reading walk the same list.
template <class Visit>
void each_field(Visit&& visit, auto& s) {
  visit("boot_id", s.boot_id);
  visit("session", s.session);
  visit("pid", s.pid);
  visit("process_start_ticks", s.start_ticks);
  visit("mono_ns", s.mono_ns);
  visit("mode", s.mode);
  visit("parked", s.parked);
  visit("medium", s.medium);
  visit("endpoint", s.endpoint);
  visit("present", s.present);
  visit("program", s.program);
  visit("speed_mbit_s", s.speed_mbit_s);
  visit("borrower", s.borrower);
  visit("borrower_pid", s.borrower_pid);
  visit("worker", s.worker);
  visit("unfinished", s.unfinished);
  visit("power_off", s.power_off);
  visit("stopping", s.stopping);
  visit("settings", s.n_settings);
  visit("sleeps", s.sleeps);
  visit("error", s.error);
}

struct Writer {
  std::string& out;
  void key(const char* name) { out += std::string(",\"") + name + "\":"; }
  void operator()(const char* name, const std::string& value) { key(name), out += quoted(value); }
  void operator()(const char* name, int64_t value) { key(name), out += std::to_string(value); }
  void operator()(const char* name, bool value) { key(name), out += value ? "true" : "false"; }
  void operator()(const char* name, Medium value) { key(name), out += quoted(medium_name(value)); }
};

struct Reader {
  const Json& json;
  bool good = true;
  // Fails on a missing field and on one of another type: a flag is no number.
  const Json* get(const char* name, bool (Json::*is)() const) {
    const Json* value = json.find(name);
    const bool fits = value != nullptr && (value->*is)();
    good = good && fits;
    return fits ? value : nullptr;
  }
  void operator()(const char* name, std::string& into) {
    if (const Json* v = get(name, &Json::is_string)) into = v->text();
    good = good && into.size() <= kMaxTextBytes && printable(into, kMaxTextBytes) == into;
  }
  void operator()(const char* name, int64_t& into) {
    const Json* v = get(name, &Json::is_number);
    good = good && v != nullptr && v->is_integer() && v->integer() >= 0;
    if (good) into = v->integer();
  }
  void operator()(const char* name, bool& into) {
    if (const Json* v = get(name, &Json::is_bool)) into = v->boolean();
  }
  void operator()(const char* name, Medium& into) {
    std::string word;
    (*this)(name, word);
    for (const Medium medium : {Medium::kNone, Medium::kUsb, Medium::kTcp}) {
      if (word != medium_name(medium)) continue;
      into = medium;
      return;
    }
    good = false;
  }
};

}  // namespace

std::string status_text(const Status& status) {
  std::string out = "{\"version\":1";
  each_field(Writer{out}, status);
  return out + "}\n";
}

OwnerView read_status(std::string_view text, const record::Place& place) {
  OwnerView view;
  auto json = Json::parse(text, Json::Dialect::kStandard,
                          {.max_bytes = 2 * kMaxBytes, .max_depth = 2, .max_values = 64});
  if (!json || !json.value().is_object()) return view;
  const Json* version = json.value().find("version");
  if (version == nullptr || !version->is_integer() || version->integer() != 1) return view;
  Status read;
  Reader reader{json.value()};
  each_field(reader, read);
  const bool known = read.mode == "off" || read.mode == "usb" || read.mode == "tcp";
  const bool proven = reader.good && known && !read.boot_id.empty() &&
                      read.boot_id == place.boot_id && record::is_hex(read.session, 32) &&
                      read.pid > 0 && read.start_ticks > 0 && read.mono_ns > 0 &&
                      read.mono_ns <= place.now_ns && place.now_ns - read.mono_ns <= kHeartbeatNs &&
                      place.start_ticks(read.pid) == read.start_ticks;
  if (!proven) return view;
  view.alive = true;
  view.status = std::move(read);
  return view;
}

const char* shown_state(const OwnerView& view) {
  const Status& s = view.status;
  return !view.alive           ? "unavailable"
         : s.power_off         ? "power off"
         : !s.error.empty()    ? "unavailable"
         : s.mode == "off"     ? "off"
         : s.worker            ? "provisioning"
         : !s.borrower.empty() ? "lent"
         : s.present           ? "connected"
                               : "waiting";
}

}  // namespace outrider::owner
