#include "adapter/stock.h"

#include <algorithm>

namespace outrider::adapter {

const outrider_adapter_keys& stock_keys() noexcept {
  static constexpr outrider_adapter_keys kKeys = {"OutriderMode",
                                                  "IsOffroad",
                                                  "OutriderProgress",
                                                  "OutriderSpec",
                                                  "OutriderPointers",
                                                  "OutriderChargePhone",
                                                  "",
                                                  "",  // no slot and no catalog: the pinned default
                                                  "DoShutdown",
                                                  "DoReboot",
                                                  "DoUninstall"};
  return kKeys;
}

const char* hook_name(Hook hook) noexcept {
  static constexpr const char* kNames[] = {"params_dir",
                                           "get",
                                           "accelerator_present",
                                           "camera",
                                           "warp_path",
                                           "put",
                                           "remove",
                                           "model_root",
                                           "model_face",
                                           "in_control",
                                           "frame_drop_ratio",
                                           "model_warp",
                                           "coherent_warp",
                                           "history_reset",
                                           "event",
                                           "request_shutdown",
                                           "shutdown_pending",
                                           "status",
                                           "reason"};
  static_assert(sizeof kNames / sizeof *kNames == kHookCount);
  return hook < Hook::kCount ? kNames[static_cast<size_t>(hook)] : "?";
}

bool overrides(const outrider_adapter_v1& a, Hook hook) noexcept {
  switch (hook) {
    case Hook::kParamsDir:
      return a.params_dir != nullptr;
    case Hook::kGet:
      return a.get != nullptr;
    case Hook::kAcceleratorPresent:
      return a.accelerator_present != nullptr;
    case Hook::kCamera:
      return a.camera != nullptr;
    case Hook::kWarpPath:
      return a.warp_path != nullptr;
    case Hook::kPut:
      return a.put != nullptr;
    case Hook::kRemove:
      return a.remove != nullptr;
    case Hook::kModelRoot:
      return a.model_root != nullptr;
    case Hook::kModelFace:
      return a.model_face != nullptr;
    case Hook::kInControl:
      return a.in_control != nullptr;
    case Hook::kFrameDropRatio:
      return a.frame_drop_ratio != nullptr;
    case Hook::kModelWarp:
      return a.model_warp != nullptr;
    case Hook::kCoherentWarp:
      return a.coherent_warp != nullptr;
    case Hook::kHistoryReset:
      return a.history_reset != nullptr;
    case Hook::kEvent:
      return a.event != nullptr;
    case Hook::kRequestShutdown:
      return a.request_shutdown != nullptr;
    case Hook::kShutdownPending:
      return a.shutdown_pending != nullptr;
    case Hook::kStatus:
      return a.status != nullptr;
    case Hook::kReason:
      return a.reason != nullptr;
    case Hook::kCount:
      break;
  }
  return false;
}

outrider_camera_v1 stock_camera() noexcept {
  return {sizeof(outrider_camera_v1), 1928, 1208, 512, 256};
}

uint64_t frame_bytes(uint32_t width, uint32_t height) noexcept {
  constexpr uint32_t kMaxSide = 16384;
  if (width == 0 || height == 0 || width > kMaxSide || height > kMaxSide) return 0;
  const auto align = [](uint64_t value, uint64_t to) { return (value + to - 1) / to * to; };
  const uint64_t stride = align(width, 128), rows = align(height, 32),
                 chroma_rows = align(height / 2, 16);
  const uint64_t size =
      stride * rows + (stride * chroma_rows + 4096) + std::max<uint64_t>(16384, 8 * stride);
  return align(align(size, 4096) + align(width, 512) * 512, 4096);
}

}  // namespace outrider::adapter
