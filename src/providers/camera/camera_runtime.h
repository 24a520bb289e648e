// Cameras before a runtime that reads model frames: its input of frames becomes the transforms, and
// two inputs of NV12 frames are added behind its ports. Everything else is passed on.
//
// A frame is warped when it is handed in, with the transforms staged at that moment, so nothing of
// a frame's megabytes is copied. Transforms that differ from those drop the frames: a tick never
// mixes two calibrations.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "host/config_file.h"
#include "host/session_core.h"
#include "outrider/ext/status.h"
#include "providers/camera/camera_config.h"

namespace outrider::camera {

class CameraRuntime {
 public:
  // [setup] Opens what stands behind. Errors: of the configuration and of its open; kShape: the
  // input is no U8 {2,6,h,w}; kUnsupported: a camera before a camera, a port that is swapped.
  static Result<std::unique_ptr<CameraRuntime>> open(const CameraConfig& config);

  // Port numbers: those of the runtime behind, `transforms` in the place of its frames; then
  // frame_narrow and frame_wide.
  uint32_t transforms_port() const { return transforms_; }
  uint32_t frame_port(uint32_t view) const { return n_behind_ + view; }
  const frt_model_runtime_v1& behind() const { return core_->runtime(); }
  const host::StageOrder& stages() const { return core_->order(); }
  bool has_step() const { return core_->has_step(); }
  const CameraConfig& config() const { return config_; }
  const host::ConfigFile& file() const { return file_; }
  const CameraWarp& warp(uint32_t view) const {
    return view == 0 ? pair_->narrow() : pair_->wide();
  }
  std::string describe() const;

  // ---- verbs, [hot]
  Code set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  Code get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  Code run_stage(uint32_t executor_ref) noexcept;
  Code step() noexcept;
  Code prepare_graph() noexcept;  // no graph variants: kUnsupported
  const char* last_error() noexcept;

  struct Counters {
    std::atomic<int64_t> warps{0}, refused_frames{0}, dropped_frames{0}, computed{0}, ns_warp{0};
  };
  const Counters& counters() const { return counters_; }

 private:
  CameraRuntime() = default;
  Result<void> prepare();
  Code set_transforms(const void* data, uint64_t bytes) noexcept;
  Code set_frame(uint32_t view, const void* data, uint64_t bytes) noexcept;
  Code hand_over() noexcept;
  Code pass(int code) noexcept;
  Code refuse(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));

  CameraConfig config_;
  host::ConfigFile file_;
  MonotonicClock clock_;
  std::unique_ptr<host::SessionCore> core_;
  std::unique_ptr<WarpPair> pair_;
  uint32_t n_behind_ = 0, transforms_ = 0;
  std::vector<std::byte> planes_;
  Matrix3 matrices_[2] = {};
  std::vector<uint8_t> staged_;  // inputs of the runtime behind
  bool have_transforms_ = false;
  bool have_frame_[2] = {};
  bool handed_over_ = false;  // planes_ are what the runtime behind has
  bool outputs_stale_ = true;
  bool own_error_ = false;  // error_ is the last word, not the runtime's behind
  Counters counters_;
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider::camera
