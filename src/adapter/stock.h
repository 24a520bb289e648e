// What an adapter does that sets nothing.
#pragma once
#include "outrider/adapter.h"

namespace outrider::adapter {

const outrider_adapter_keys& stock_keys() noexcept;

// Names of the hooks in the order of the struct; kHookCount of them.
enum class Hook : uint8_t {
  kParamsDir,
  kGet,
  kAcceleratorPresent,
  kCamera,
  kWarpPath,
  kPut,
  kRemove,
  kModelRoot,
  kModelFace,
  kInControl,
  kFrameDropRatio,
  kModelWarp,
  kCoherentWarp,
  kHistoryReset,
  kEvent,
  kRequestShutdown,
  kShutdownPending,
  kStatus,
  kReason,
  kCount
};
inline constexpr size_t kHookCount = static_cast<size_t>(Hook::kCount);
const char* hook_name(Hook hook) noexcept;
// The adapter sets this one itself.
bool overrides(const outrider_adapter_v1& adapter, Hook hook) noexcept;

outrider_camera_v1 stock_camera() noexcept;
inline constexpr const char* kStockModelRoot = "/var/lib/outrider/models";
inline constexpr const char* kModelFolder = "outrider";  // below the model root

// Bytes of an NV12 frame of this size as the cameras allocate it. 0: a side is 0 or above 16384.
// Source: driving.md b.1.
uint64_t frame_bytes(uint32_t width, uint32_t height) noexcept;

}  // namespace outrider::adapter
