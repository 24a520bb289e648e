#include "adapter/fence.h"

#include <cmath>
#include <cstring>
#include <exception>
#include <vector>

#include "adapter/params.h"
#include "base/log.h"
#include "base/printable.h"
#include "outrider/frt_v1.h"

namespace outrider::adapter {
namespace {

constexpr size_t kTextBytes = 4096;
constexpr int kWrongAnswer = -1000;  // a hook that says 0 and hands over nonsense

const char* code_words(int code) {
  return code == kWrongAnswer ? "an answer that its contract does not allow"
                              : code_name(static_cast<Code>(code));
}

int to_code(const Result<void>& result) {
  return to_abi(result.code());
}

}  // namespace

Result<Fence> Fence::make(const outrider_adapter_v1* adapter, StockSide stock) {
  if (adapter == nullptr) return make_error(Code::kInvalid, "adapter: NULL");
  if (adapter->version != OUTRIDER_ADAPTER_VERSION)
    return make_error(Code::kInvalid,
                      "adapter: version %u, this build speaks %u and no other; the "
                      "link stays off",
                      adapter->version, OUTRIDER_ADAPTER_VERSION);
  if (adapter->struct_size != sizeof *adapter)
    return make_error(Code::kInvalid,
                      "adapter: struct_size %u, version %u has %zu; the link stays "
                      "off",
                      adapter->struct_size, adapter->version, sizeof *adapter);
  Fence fence;
  fence.adapter_ = *adapter;
  fence.stock_ = std::move(stock);
  return fence;
}

const outrider_adapter_keys& Fence::keys() const noexcept {
  return adapter_.keys != nullptr ? *adapter_.keys : stock_keys();
}

int Fence::fail(Hook hook, int code, const char* words) noexcept {
  State& state = state_[index(hook)];
  ++state.n_failed;
  try {
    std::string line = printable(words, 200);
    if (state.told == line) return code;
    state.told = std::move(line);
    log_line(LogLevel::kWarn, "adapter: %s failed (%s); its safe default is used", hook_name(hook),
             state.told.c_str());
  } catch (...) {  // no memory for the line: the default counts, not the words
  }
  return code;
}

void Fence::good(Hook hook) noexcept {
  state_[index(hook)].told.clear();
}

// What the hook said: a number >= 0, or a failure that has been told.
template <class Call>
int Fence::call(Hook hook, Call&& work) noexcept {
  tell_hot();
  try {
    const int code = work();
    if (code < 0 && code != FRT_ERR_NOT_FOUND) return fail(hook, code, code_words(code));
    good(hook);
    return code;
  } catch (const std::exception& error) {
    return fail(hook, FRT_ERR_FAILED, error.what());
  } catch (...) {
    return fail(hook, FRT_ERR_FAILED, "an unknown exception");
  }
}

template <class Call>
int Fence::call_hot(Hook hook, Call&& work) noexcept {
  State& state = state_[index(hook)];
  int code = FRT_ERR_FAILED;
  try {
    code = work();
  } catch (...) {  // told later, without its words
  }
  if (code >= 0) {
    state.hot_told = false;
    return code;
  }
  ++state.n_failed;
  if (!state.hot_told) state.hot_code = code;
  return code;
}

void Fence::tell_hot() noexcept {
  for (size_t i = 0; i < kHookCount; ++i) {
    State& state = state_[i];
    if (state.hot_code == 0) continue;
    log_line(LogLevel::kWarn, "adapter: %s failed (%s); its safe default is used",
             hook_name(static_cast<Hook>(i)), code_words(state.hot_code));
    state.hot_code = 0;
    state.hot_told = true;
  }
}

template <class Call>
std::optional<std::string> Fence::text(Hook hook, Call&& work) noexcept {
  std::optional<std::string> found;
  call(hook, [&] {
    std::vector<char> bytes(kTextBytes);
    const int code = work(bytes.data(), bytes.size());
    if (code != 0) return code;
    if (std::memchr(bytes.data(), 0, bytes.size()) == nullptr) return kWrongAnswer;
    found = bytes.data();
    return 0;
  });
  return found;
}

std::string Fence::params_dir() noexcept {
  std::string found;
  call(Hook::kParamsDir, [&] {
    if (adapter_.params_dir == nullptr) {
      found = params_dir_here();
      return 0;
    }
    char bytes[kTextBytes] = {};
    const int code = adapter_.params_dir(adapter_.self, bytes, sizeof bytes);
    if (code != 0) return code;
    if (bytes[0] != '/' || std::memchr(bytes, 0, sizeof bytes) == nullptr) return kWrongAnswer;
    found = bytes;
    return 0;
  });
  return found;
}

std::optional<std::string> Fence::get(const char* key) noexcept {
  std::optional<std::string> found;
  if (key == nullptr || *key == '\0') return found;
  std::string dir;
  if (adapter_.get == nullptr) dir = params_dir();
  call(Hook::kGet, [&] {
    if (adapter_.get == nullptr) {
      auto value = read_param(dir, key);
      if (value) found = std::move(value.value());
      return value || value.code() == Code::kNotFound ? 0 : to_abi(value.code());
    }
    std::vector<char> bytes(kTextBytes);
    for (;;) {
      size_t written = 0;
      const int code = adapter_.get(adapter_.self, key, bytes.data(), bytes.size(), &written);
      if (code == FRT_ERR_STORAGE && bytes.size() < kMaxParamBytes) {
        bytes.resize(bytes.size() * 16);
        continue;
      }
      if (code != 0) return code;
      if (written > bytes.size()) return kWrongAnswer;
      found = std::string(bytes.data(), written);
      return 0;
    }
  });
  return found;
}

bool Fence::accelerator_present() noexcept {
  const int code = call(Hook::kAcceleratorPresent, [&] {
    const int said =
        adapter_.accelerator_present == nullptr ? 0 : adapter_.accelerator_present(adapter_.self);
    return said > 1 || said == FRT_ERR_NOT_FOUND ? kWrongAnswer : said;
  });
  return code != 0;
}

std::optional<outrider_camera_v1> Fence::camera() noexcept {
  outrider_camera_v1 camera = stock_camera();
  const int code = call(Hook::kCamera, [&] {
    if (adapter_.camera == nullptr) return 0;
    camera = {sizeof camera, 0, 0, 0, 0};
    const int said = adapter_.camera(adapter_.self, &camera);
    const bool sane = frame_bytes(camera.camera_width, camera.camera_height) > 0 &&
                      frame_bytes(camera.model_width, camera.model_height) > 0;
    return said != 0 ? said : sane ? 0 : kWrongAnswer;
  });
  return code == 0 ? std::optional(camera) : std::nullopt;
}

std::optional<std::string> Fence::warp_path(const outrider_camera_v1& camera) noexcept {
  return text(Hook::kWarpPath, [&](char* out, size_t n) -> int {
    return adapter_.warp_path == nullptr ? FRT_ERR_NOT_FOUND
                                         : adapter_.warp_path(adapter_.self, &camera, out, n);
  });
}

Result<void> Fence::put(const char* key, std::string_view value, bool block) noexcept {
  Result<void> result;
  const std::string dir = adapter_.put == nullptr ? params_dir() : std::string();
  const int code = call(Hook::kPut, [&] {
    if (adapter_.put != nullptr)
      return adapter_.put(adapter_.self, key, value.data(), value.size(), block ? 1 : 0);
    return to_code(result = write_param(dir, key, value, block));
  });
  if (code != 0 && result)
    return make_error(code == kWrongAnswer ? Code::kFailed : static_cast<Code>(code),
                      "adapter: put of %s failed", printable(key, 64).c_str());
  return result;
}

Result<void> Fence::remove(const char* key) noexcept {
  Result<void> result;
  const std::string dir = adapter_.remove == nullptr ? params_dir() : std::string();
  const int code = call(Hook::kRemove, [&] {
    if (adapter_.remove != nullptr) return adapter_.remove(adapter_.self, key);
    return to_code(result = remove_param(dir, key));
  });
  if (code != 0 && result)
    return make_error(Code::kFailed, "adapter: remove of %s failed", printable(key, 64).c_str());
  return result;
}

std::optional<std::string> Fence::model_folder() noexcept {
  auto root = text(Hook::kModelRoot, [&](char* out, size_t n) -> int {
    if (adapter_.model_root != nullptr) {
      const int code = adapter_.model_root(adapter_.self, out, n);
      return code == 0 && out[0] != '/' ? kWrongAnswer : code;
    }
    std::strncpy(out, kStockModelRoot, n);
    return 0;
  });
  if (root) *root += std::string("/") + kModelFolder;
  return root;
}

std::optional<outrider_model_face_v1> Fence::model_face() noexcept {
  const auto seen = camera();
  outrider_model_face_v1 face = {sizeof face, 8, 0, 0, 0};
  if (seen) face.frame_bytes = frame_bytes(seen->camera_width, seen->camera_height);
  const int code = call(Hook::kModelFace, [&] {
    if (adapter_.model_face == nullptr) return seen ? 0 : kWrongAnswer;
    const int said = adapter_.model_face(adapter_.self, &face);
    const auto sane = [](double seconds) { return seconds >= 0 && seconds <= 10; };  // no NaN
    const bool good = face.desire_len >= 1 && face.desire_len <= 64 && face.frame_bytes > 0 &&
                      sane(face.lateral_smooth_s) && sane(face.longitudinal_smooth_s);
    return said != 0 ? said : good ? 0 : kWrongAnswer;
  });
  return code == 0 ? std::optional(face) : std::nullopt;
}

bool Fence::model_warp(void** warp) noexcept {
  *warp = nullptr;
  const int code = call(Hook::kModelWarp, [&] {
    return adapter_.model_warp == nullptr ? 0 : adapter_.model_warp(adapter_.self, warp);
  });
  if (code != 0) *warp = nullptr;
  return code == 0;
}

MoveOutput Fence::coherent_warp() noexcept {
  MoveOutput out;
  const int code = call(Hook::kCoherentWarp, [&] {
    return adapter_.coherent_warp == nullptr
               ? 0
               : adapter_.coherent_warp(adapter_.self, &out.move, &out.context);
  });
  return code == 0 ? out : MoveOutput{};
}

void Fence::event(const char* name, const char* fields) noexcept {
  call(Hook::kEvent, [&] {
    if (adapter_.event != nullptr) return adapter_.event(adapter_.self, name, fields);
    log_line(LogLevel::kInfo, "%s %s", name, fields);
    return 0;
  });
}

bool Fence::request_shutdown(const char* reason) noexcept {
  return call(Hook::kRequestShutdown, [&] {
           if (adapter_.request_shutdown != nullptr)
             return adapter_.request_shutdown(adapter_.self, reason);
           return stock_.request_shutdown && stock_.request_shutdown(reason) ? 1 : 0;
         }) == 1;
}

bool Fence::shutdown_pending() noexcept {
  return call(Hook::kShutdownPending, [&] {
           if (adapter_.shutdown_pending != nullptr)
             return adapter_.shutdown_pending(adapter_.self);
           return stock_.shutdown_pending && stock_.shutdown_pending() ? 1 : 0;
         }) == 1;
}

std::optional<std::string> Fence::status() noexcept {
  if (adapter_.status != nullptr)
    return text(Hook::kStatus,
                [&](char* out, size_t n) { return adapter_.status(adapter_.self, out, n); });
  std::optional<std::string> found;
  call(Hook::kStatus, [&] {
    if (stock_.status) found = stock_.status();
    return 0;
  });
  return found;
}

std::optional<std::string> Fence::reason() noexcept {
  if (adapter_.reason != nullptr)
    return text(Hook::kReason,
                [&](char* out, size_t n) { return adapter_.reason(adapter_.self, out, n); });
  std::optional<std::string> found;
  call(Hook::kReason, [&] {
    if (stock_.reason) found = stock_.reason();
    return 0;
  });
  return found;
}

bool Fence::in_control(const outrider_engagement_v1& now) noexcept {
  return call_hot(Hook::kInControl, [&] {
           if (adapter_.in_control == nullptr) return outrider_stock_in_control(&now);
           const int said = adapter_.in_control(adapter_.self, &now);
           return said > 1 ? kWrongAnswer : said;
         }) != 0;
}

double Fence::frame_drop_ratio() noexcept {
  double ratio = 0;
  const int code = call_hot(Hook::kFrameDropRatio, [&] {
    if (adapter_.frame_drop_ratio == nullptr) return 0;
    const int said = adapter_.frame_drop_ratio(adapter_.self, &ratio);
    return said != 0                  ? (said < 0 ? said : kWrongAnswer)
           : ratio >= 0 && ratio <= 1 ? 0
                                      : kWrongAnswer;
  });
  return code == 0 ? ratio : 1.0;
}

bool Fence::history_reset() noexcept {
  return call_hot(Hook::kHistoryReset, [&] {
           if (adapter_.history_reset == nullptr) return 0;
           const int said = adapter_.history_reset(adapter_.self);
           return said > 0 ? kWrongAnswer : said;
         }) == 0;
}

}  // namespace outrider::adapter
