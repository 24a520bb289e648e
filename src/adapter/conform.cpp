#include "adapter/conform.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "adapter/params.h"
#include "adapter/stock.h"
#include "outrider/frt_v1.h"

namespace outrider::adapter {
namespace {

// A buffer with a fence behind it.
class Guarded {
 public:
  explicit Guarded(size_t n_bytes) : n_(n_bytes) { std::memset(bytes_, kFill, sizeof bytes_); }
  char* data() { return bytes_; }
  size_t size() const { return n_; }
  bool whole() const {
    for (size_t i = n_; i < sizeof bytes_; ++i)
      if (bytes_[i] != kFill) return false;
    return true;
  }
  bool ends() const { return std::memchr(bytes_, 0, n_) != nullptr; }
  const char* text() const { return bytes_; }

 private:
  static constexpr char kFill = 0x5A;
  static constexpr size_t kMost = 4096, kBehind = 64;
  size_t n_;
  char bytes_[kMost + kBehind];
};

class Suite {
 public:
  explicit Suite(const outrider_adapter_v1& adapter) : a_(adapter) {}
  std::vector<Check> run();

 private:
  void add(const char* name, bool passed, std::string detail = {}) {
    checks_.push_back({name, std::move(detail), passed});
  }
  // The hook's number, or false when it threw.
  bool safely(const char* name, int& code, const std::function<int()>& call) {
    try {
      code = call();
      return true;
    } catch (...) {
      add(name, false, "an exception left the hook: a C function throws nothing");
      return false;
    }
  }
  void keys();
  void text(const char* name, const std::function<int(char*, size_t)>& call, bool may_be_none,
            bool absolute);
  void number(const char* name, const std::function<int()>& call);
  void params();
  void camera();
  void face();
  void control();
  void ratio();

  const outrider_adapter_v1& a_;
  std::vector<Check> checks_;
};

void Suite::keys() {
  if (a_.keys == nullptr) return;
  const outrider_adapter_keys& k = *a_.keys;
  const char* all[] = {k.mode,      k.parked,  k.progress, k.spec,   k.pointers, k.charge_phone,
                       k.big_model, k.catalog, k.shutdown, k.reboot, k.uninstall};
  std::set<std::string> seen;
  for (const char* key : all) {
    if (key == nullptr) return add("keys", false, "a name is NULL; \"\" is none");
    if (*key == '\0') continue;
    if (!is_key(key)) return add("keys", false, std::string(key) + ": 1 to 64 of A-Z a-z 0-9 _");
    if (!seen.insert(key).second) return add("keys", false, std::string(key) + " is used twice");
  }
  for (const char* key : {k.mode, k.parked, k.shutdown})
    if (*key == '\0') return add("keys", false, "mode, parked and shutdown need a name");
  add("keys", true);
}

// Sizes 0, 1 and plenty: what fits ends with NUL, what does not is refused, nothing lies beyond.
void Suite::text(const char* name, const std::function<int(char*, size_t)>& call, bool may_be_none,
                 bool absolute) {
  for (const size_t size : {size_t{4096}, size_t{1}, size_t{0}}) {
    Guarded out(size);
    int code = 0;
    if (!safely(name, code, [&] { return call(out.data(), out.size()); })) return;
    const std::string where = " with " + std::to_string(size) + " bytes";
    if (!out.whole()) return add(name, false, "wrote beyond its buffer" + where);
    if (code > 0) return add(name, false, "said " + std::to_string(code) + where + ", wanted 0");
    if (code == 0 && !out.ends()) return add(name, false, "no NUL at the end" + where);
    if (size == 4096 && code != 0 && !(may_be_none && code == FRT_ERR_NOT_FOUND))
      return add(name, false, "failed with " + std::to_string(code));
    if (size == 4096 && code == FRT_ERR_NOT_FOUND) break;
    if (size == 4096 && absolute && out.text()[0] != '/')
      return add(name, false, "the path is not absolute");
    if (size == 4096 && out.text()[0] == '\0') break;  // fits anywhere
    if (size < 4096 && code != FRT_ERR_STORAGE)
      return add(
          name, false,
          "said " + std::to_string(code) + where + ", wanted " + std::to_string(FRT_ERR_STORAGE));
  }
  add(name, true);
}

void Suite::number(const char* name, const std::function<int()>& call) {
  int code = 0;
  if (!safely(name, code, call)) return;
  add(name, code == 0 || code == 1,
      code == 0 || code == 1 ? "" : "said " + std::to_string(code) + ", wanted 0 or 1");
}

void Suite::params() {
  if (a_.params_dir != nullptr)
    text(
        "params_dir", [&](char* out, size_t n) { return a_.params_dir(a_.self, out, n); }, false,
        true);
  if (a_.get == nullptr) return;
  for (const char* key : {"NoSuchParameterAnywhere", "../IsOffroad", ""}) {
    Guarded out(64);
    size_t written = 0;
    int code = 0;
    if (!safely("get", code,
                [&] { return a_.get(a_.self, key, out.data(), out.size(), &written); }))
      return;
    if (!out.whole()) return add("get", false, "wrote beyond its buffer");
    if (code != FRT_ERR_NOT_FOUND)
      return add("get", false,
                 std::string("the unknown key \"") + key + "\" said " + std::to_string(code) +
                     ", wanted " + std::to_string(FRT_ERR_NOT_FOUND));
  }
  add("get", true);
}

void Suite::camera() {
  if (a_.camera == nullptr) return;
  outrider_camera_v1 seen = {sizeof seen, 0, 0, 0, 0}, again = seen;
  int code = 0;
  if (!safely("camera", code, [&] {
        const int first = a_.camera(a_.self, &seen);
        return first != 0 ? first : a_.camera(a_.self, &again);
      }))
    return;
  if (code != 0) return add("camera", false, "failed with " + std::to_string(code));
  if (std::memcmp(&seen, &again, sizeof seen) != 0)
    return add("camera", false, "two answers differ");
  const bool sane = frame_bytes(seen.camera_width, seen.camera_height) > 0 &&
                    frame_bytes(seen.model_width, seen.model_height) > 0;
  add("camera", sane, sane ? "" : "a side is 0 or above 16384");
}

void Suite::face() {
  if (a_.model_face == nullptr) return;
  outrider_model_face_v1 face = {sizeof face, 0, 0, NAN, NAN};
  int code = 0;
  if (!safely("model_face", code, [&] { return a_.model_face(a_.self, &face); })) return;
  if (code != 0) return add("model_face", false, "failed with " + std::to_string(code));
  const bool smooth = face.lateral_smooth_s >= 0 && face.longitudinal_smooth_s >= 0;
  add("model_face", face.desire_len >= 1 && face.desire_len <= 64 && face.frame_bytes > 0 && smooth,
      "desire_len 1 to 64, frame_bytes above 0, finite smoothing of 0 or more");
}

// Whatever an adapter's rule is: what is not known to be fresh is control, and so are the four
// signs that the system moves the car. Row by row of driving.md a.3.
void Suite::control() {
  if (a_.in_control == nullptr) return;
  const outrider_engagement_v1 idle = {sizeof idle, OUTRIDER_YES, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto ask = [&](const outrider_engagement_v1& now, int& code) {
    return safely("in_control", code, [&] { return a_.in_control(a_.self, &now); });
  };
  int code = 0;
  if (!ask(idle, code)) return;
  if (code != 0)
    return add("in_control", false, "an idle car said " + std::to_string(code) + ", wanted 0");
  struct Row {
    const char* what;
    uint8_t outrider_engagement_v1::*field;
    uint8_t value;
  };
  const Row rows[] = {
      {"input that is late or invalid", &outrider_engagement_v1::fresh, OUTRIDER_NO},
      {"input never seen", &outrider_engagement_v1::fresh, OUTRIDER_UNKNOWN},
      {"enabled", &outrider_engagement_v1::enabled, OUTRIDER_YES},
      {"active", &outrider_engagement_v1::active, OUTRIDER_YES},
      {"lateral_active", &outrider_engagement_v1::lateral_active, OUTRIDER_YES},
      {"longitudinal_active", &outrider_engagement_v1::longitudinal_active, OUTRIDER_YES},
      {"an unknown lateral_active", &outrider_engagement_v1::lateral_active, OUTRIDER_UNKNOWN}};
  for (const Row& row : rows) {
    outrider_engagement_v1 now = idle;
    now.*row.field = row.value;
    if (!ask(now, code)) return;
    if (code != 1)
      return add("in_control", false,
                 std::string(row.what) + " said " + std::to_string(code) + ", wanted 1");
  }
  add("in_control", true);
}

void Suite::ratio() {
  if (a_.frame_drop_ratio == nullptr) return;
  double value = NAN;
  int code = 0;
  if (!safely("frame_drop_ratio", code, [&] { return a_.frame_drop_ratio(a_.self, &value); }))
    return;
  add("frame_drop_ratio", code == 0 && value >= 0 && value <= 1, "0 and a share from 0 to 1");
}

std::vector<Check> Suite::run() {
  keys();
  params();
  if (a_.accelerator_present != nullptr)
    number("accelerator_present", [&] { return a_.accelerator_present(a_.self); });
  camera();
  if (a_.warp_path != nullptr) {
    const outrider_camera_v1 camera = stock_camera();
    text(
        "warp_path", [&](char* out, size_t n) { return a_.warp_path(a_.self, &camera, out, n); },
        true, true);
  }
  if (a_.model_root != nullptr)
    text(
        "model_root", [&](char* out, size_t n) { return a_.model_root(a_.self, out, n); }, false,
        true);
  face();
  control();
  ratio();
  if (a_.shutdown_pending != nullptr)
    number("shutdown_pending", [&] { return a_.shutdown_pending(a_.self); });
  if (a_.status != nullptr)
    text(
        "status", [&](char* out, size_t n) { return a_.status(a_.self, out, n); }, true, false);
  if (a_.reason != nullptr)
    text(
        "reason", [&](char* out, size_t n) { return a_.reason(a_.self, out, n); }, true, false);
  return std::move(checks_);
}

}  // namespace

std::vector<Check> conform(const outrider_adapter_v1* adapter) {
  if (adapter == nullptr) return {{"version", "NULL is no adapter", false}};
  std::vector<Check> checks;
  const auto same = [&](const char* name, uint64_t found, uint64_t wanted) {
    checks.push_back({name,
                      found == wanted ? ""
                                      : std::to_string(found) + ", this build speaks " +
                                            std::to_string(wanted) + " and no other",
                      found == wanted});
    return found == wanted;
  };
  if (!same("version", adapter->version, OUTRIDER_ADAPTER_VERSION)) return checks;
  if (!same("struct_size", adapter->struct_size, sizeof *adapter)) return checks;
  for (Check& check : Suite(*adapter).run()) checks.push_back(std::move(check));
  return checks;
}

std::vector<std::string> overridden(const outrider_adapter_v1& adapter) {
  std::vector<std::string> names;
  if (adapter.keys != nullptr) names.push_back("keys");
  for (size_t i = 0; i < kHookCount; ++i)
    if (overrides(adapter, static_cast<Hook>(i))) names.push_back(hook_name(static_cast<Hook>(i)));
  return names;
}

}  // namespace outrider::adapter
