// The open configuration of family "camera": a runtime that reads model frames, and the cameras
// whose frames are warped into them.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "vision/warp.h"

namespace outrider::camera {

struct CameraConfig {
  std::string runtime, runtime_provider;  // path of an open configuration; "": by its model_family
  std::string port = "new_img";           // its input that the frames are warped into
  Nv12Layout layout;                      // both cameras
  uint64_t frame_bytes = 0;               // of one frame as it is handed in
  WarpSampling sampling = WarpSampling::kNearest;
  std::string kernels;
};

struct CameraKey {
  const char* name;
  const char* by_default;  // as the reference prints it; nullptr: required
};
std::span<const CameraKey> camera_keys();

// Where stride, uv_offset and frame_bytes are left out they are those of a driving device.
// Errors: kInvalid, one line: unknown key with the keys there are, missing key, wrong type, range,
// a layout that cannot be (check_nv12); kUnsupported: no such kernels.
Result<CameraConfig> read_camera_config(const Json& json);

}  // namespace outrider::camera
