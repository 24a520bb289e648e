#include "vision/nv12.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

constexpr int64_t round_up(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

Result<void> check_side(const char* name, int32_t side) {
  if (side >= 4 && side <= kMostNv12Side && side % 2 == 0) return {};
  return make_error(Code::kInvalid, "camera frame: %s %d, must be even, 4 to %d", name, side,
                    kMostNv12Side);
}

// [row][column], double until the end.
struct Mat {
  double m[3][3];
};
Mat operator*(const Mat& a, const Mat& b) {
  Mat out{};
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      for (int k = 0; k < 3; ++k) out.m[r][c] += a.m[r][k] * b.m[k][c];
  return out;
}

// The camera looks along the car's x axis; its picture's x is the car's y.
constexpr Mat kViewFromDevice = {{{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}};
constexpr Mat kDeviceFromView = {{{0, 0, 1}, {1, 0, 0}, {0, 1, 0}}};

Mat rotation(double roll, double pitch, double yaw) {
  const double sr = std::sin(roll), cr = std::cos(roll), sp = std::sin(pitch), cp = std::cos(pitch),
               sy = std::sin(yaw), cy = std::cos(yaw);
  const Mat rz = {{{cy, -sy, 0}, {sy, cy, 0}, {0, 0, 1}}};
  const Mat ry = {{{cp, 0, sp}, {0, 1, 0}, {-sp, 0, cp}}};
  const Mat rx = {{{1, 0, 0}, {0, cr, -sr}, {0, sr, cr}}};
  return rz * ry * rx;
}

Mat intrinsics(double f, double cx, double cy) {
  return {{{f, 0, cx}, {0, f, cy}, {0, 0, 1}}};
}
Mat inverse_intrinsics(double f, double cx, double cy) {
  return {{{1 / f, 0, -cx / f}, {0, 1 / f, -cy / f}, {0, 0, 1}}};
}

// Of the model frame (512x256): the wide one sees twice as far to all sides, with the same horizon.
Mat inverse_model_intrinsics(CameraView view) {
  return view == CameraView::kNarrow ? inverse_intrinsics(910, 256, 47.6)
                                     : inverse_intrinsics(455, 256, 0.5 * (256 + 47.6));
}

}  // namespace

Result<void> check_nv12(const Nv12Layout& layout) {
  OUTRIDER_TRY(check_side("width", layout.width));
  OUTRIDER_TRY(check_side("height", layout.height));
  if (layout.stride < layout.width)
    return make_error(
        Code::kInvalid,
        "camera frame: stride %d, must be at least the width %d; it counts bytes from "
        "one row to the next",
        layout.stride, layout.width);
  const int64_t luma_bytes = int64_t{layout.stride} * layout.height;
  if (layout.uv_offset < luma_bytes)
    return make_error(
        Code::kInvalid,
        "camera frame: chroma begins at byte %lld, must be behind %d rows of %d bytes: "
        "%lld or more",
        static_cast<long long>(layout.uv_offset), layout.height, layout.stride,
        static_cast<long long>(luma_bytes));
  // Every offset is a 32-bit number.
  if (layout.uv_offset > INT32_MAX || layout.uv_offset + luma_bytes / 2 > INT32_MAX)
    return make_error(Code::kShape,
                      "camera frame: chroma at byte %lld, %d rows of %d bytes: a frame "
                      "must stay below 2^31 bytes",
                      static_cast<long long>(layout.uv_offset), layout.height / 2, layout.stride);
  return {};
}

Result<DeviceFrame> device_frame(int32_t width, int32_t height) {
  OUTRIDER_TRY(check_side("width", width));
  OUTRIDER_TRY(check_side("height", height));
  const int64_t stride = round_up(width, 128), y_rows = round_up(height, 32),
                uv_rows = round_up(height / 2, 16);
  DeviceFrame frame;
  frame.layout = {width, height, static_cast<int32_t>(stride), stride * y_rows};
  frame.picture_bytes = static_cast<size_t>(stride * (y_rows + uv_rows));
  const int64_t planes = stride * y_rows + (stride * uv_rows + 4096);
  const int64_t with_tail = round_up(planes + std::max<int64_t>(16384, 8 * stride), 4096);
  frame.allocation_bytes =
      static_cast<size_t>(round_up(with_tail + round_up(width, 512) * 512, 4096));
  return frame;
}

Result<double> device_focal_length(int32_t width, int32_t height, CameraView view) {
  const bool narrow = view == CameraView::kNarrow;
  if (width == 1928 && height == 1208) return narrow ? 2648.0 : 567.0;
  if (width == 1344 && height == 760) return narrow ? 1141.5 : 425.25;
  return make_error(Code::kNotFound,
                    "camera %dx%d: its focal length is not known, only those of 1928x1208 and "
                    "1344x760; give it",
                    width, height);
}

Result<Matrix3> model_transform(const Nv12Layout& camera, const Calibration& calibration) {
  const Calibration& c = calibration;
  if (!(c.focal_length > 0) || !std::isfinite(c.focal_length))
    return make_error(Code::kInvalid, "calibration: focal length %g, must be above 0 pixels",
                      c.focal_length);
  const struct {
    const char* name;
    double value;
  } angles[] = {{"roll", c.roll}, {"pitch", c.pitch}, {"yaw", c.yaw}};
  for (const auto& angle : angles)
    if (!std::isfinite(angle.value))
      return make_error(Code::kInvalid, "calibration: %s %g, must be a finite number of radians",
                        angle.name, angle.value);
  const Mat m = intrinsics(c.focal_length, camera.width / 2.0, camera.height / 2.0) *
                kViewFromDevice * rotation(c.roll, c.pitch, c.yaw) * kDeviceFromView *
                inverse_model_intrinsics(c.view);
  Matrix3 out;
  for (size_t i = 0; i < 9; ++i) out[i] = static_cast<float>(m.m[i / 3][i % 3]);
  return out;
}

}  // namespace outrider
