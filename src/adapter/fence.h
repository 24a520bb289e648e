// The fence around an adapter: calls its hooks, or the stock behaviour where it has none, and turns
// every failure into the safe default of include/outrider/adapter.h.
//
// A failure is told once: again only when it is another one, or after a success in between. Hot
// hooks count only; the next cold call tells. One thread at a time, except in_control and
// frame_drop_ratio, which belong to the thread of the loop.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "adapter/stock.h"
#include "base/result.h"

namespace outrider::adapter {

// Stock behaviours that need somebody else: the owner daemon.
struct StockSide {
  std::function<bool(const char* reason)> request_shutdown;
  std::function<bool()> shutdown_pending;
  std::function<std::string()> status, reason;
};

struct MoveOutput {
  outrider_move_output_fn move = nullptr;  // nullptr: do not move
  void* context = nullptr;
};

class Fence {
 public:
  // [setup] The struct is copied; what it points to must outlive the fence. Errors: kInvalid:
  // another version or size ("adapter: version 2, this build speaks 1 ...").
  static Result<Fence> make(const outrider_adapter_v1* adapter, StockSide stock = {});

  const outrider_adapter_keys& keys() const noexcept;
  // "" and none are the safe defaults.
  std::string params_dir() noexcept;
  std::optional<std::string> get(const char* key) noexcept;
  bool accelerator_present() noexcept;
  std::optional<outrider_camera_v1> camera() noexcept;
  std::optional<std::string> warp_path(const outrider_camera_v1& camera) noexcept;
  Result<void> put(const char* key, std::string_view value, bool block) noexcept;
  Result<void> remove(const char* key) noexcept;
  // `<model_root>/outrider`: all that we ever write there lies below it.
  std::optional<std::string> model_folder() noexcept;
  std::optional<outrider_model_face_v1> model_face() noexcept;
  // false: the adapter failed, keep the small model. true and nullptr: the stock warp.
  bool model_warp(void** warp) noexcept;
  MoveOutput coherent_warp() noexcept;
  void event(const char* name, const char* fields) noexcept;
  bool request_shutdown(const char* reason) noexcept;
  bool shutdown_pending() noexcept;
  std::optional<std::string> status() noexcept;
  std::optional<std::string> reason() noexcept;

  // [hot]
  bool in_control(const outrider_engagement_v1& now) noexcept;
  double frame_drop_ratio() noexcept;
  bool history_reset() noexcept;

  uint64_t failures(Hook hook) const noexcept { return state_[index(hook)].n_failed; }
  void tell_hot() noexcept;  // [any] the lines of hot failures

 private:
  struct State {
    uint64_t n_failed = 0;
    std::string told;  // the failure that was told last; cleared by a success
    int hot_code = 0;  // of a hot failure that is not told yet
    bool hot_told = false;
  };
  static constexpr size_t index(Hook hook) { return static_cast<size_t>(hook); }
  Fence() = default;
  template <class Call>
  int call(Hook hook, Call&& work) noexcept;
  template <class Call>
  int call_hot(Hook hook, Call&& work) noexcept;
  int fail(Hook hook, int code, const char* words) noexcept;
  void good(Hook hook) noexcept;
  template <class Call>
  std::optional<std::string> text(Hook hook, Call&& work) noexcept;

  outrider_adapter_v1 adapter_{};
  StockSide stock_;
  std::array<State, kHookCount> state_;
};

}  // namespace outrider::adapter
