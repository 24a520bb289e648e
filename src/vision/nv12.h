// Camera frames as driving devices lay them out: luma rows, then rows of interleaved chroma U V U V
// at half the width and height, all in one buffer (NV12); and where a model looks into them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace outrider {

// 3x3, row by row: model pixel (x, y, 1) -> camera pixel, homogeneous.
using Matrix3 = std::array<float, 9>;

struct Nv12Layout {
  int32_t width = 0, height = 0;  // luma pixels; even, 4 to kMostNv12Side
  int32_t stride = 0;             // bytes from one row to the next, luma and chroma; >= width
  int64_t uv_offset = 0;          // byte of the first chroma row; >= stride * height

  // What a frame must have at least: up to the last pixel, not the last row's padding. Of a layout
  // that was checked.
  size_t least_bytes() const {
    return static_cast<size_t>(uv_offset) +
           static_cast<size_t>(stride) * static_cast<size_t>(height / 2 - 1) +
           static_cast<size_t>(width);
  }
};
inline constexpr int32_t kMostNv12Side = 8192;

// Errors: kInvalid (sides, stride, offset: the value, what is allowed), kShape (a frame of 2^31
// bytes and more).
Result<void> check_nv12(const Nv12Layout& layout);

// What the camera driver of a driving device gives for a picture of this size: rows of 128 bytes,
// luma rows padded to 32, chroma rows to 16. driving.md b.1.
struct DeviceFrame {
  Nv12Layout layout;
  size_t picture_bytes = 0;     // luma and chroma with their padding
  size_t allocation_bytes = 0;  // what the driver takes for one frame
};
Result<DeviceFrame> device_frame(int32_t width, int32_t height);

enum class CameraView : uint32_t { kNarrow, kWide };

// How the road camera looks out of the car, and which model is to see it.
struct Calibration {
  double focal_length = 0;                // of this camera, in its pixels; > 0
  double roll = 0, pitch = 0, yaw = 0;    // rad, finite: of the camera against the road
  CameraView view = CameraView::kNarrow;  // whose model frame is asked for
};
// Focal length of the device's cameras: 1928x1208 narrow 2648, wide 567; 1344x760 narrow 1141.5,
// wide 425.25. kNotFound: another size.
Result<double> device_focal_length(int32_t width, int32_t height, CameraView view);

// The transform of the 512x256 model frame, made in double and rounded once. driving.md b.2.
// Errors: kInvalid: a number out of range.
Result<Matrix3> model_transform(const Nv12Layout& camera, const Calibration& calibration);

}  // namespace outrider
