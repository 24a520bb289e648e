// The camera warp: an NV12 frame as the six planes a driving model reads.
//
//   auto warp = CameraWarp::make({.camera = device_frame(1928, 1208).value().layout});
//   warp.value().set_transform(matrix);          // when a calibration arrives
//   warp.value().run(frame, planes);             // every frame
//
// Where a model pixel lies in the camera's picture depends on the transform alone, so it is
// computed once for each transform and kept; a frame only collects bytes. driving.md b.3 to b.7.
#pragma once
#include <memory>
#include <span>

#include "vision/nv12.h"

namespace outrider {

enum class WarpSampling : uint8_t {
  kNearest,   // the nearest pixel, halves to even; chroma transform M * [1 1 .5; 1 1 .5; 2 2 1]
  kBilinear,  // older: four pixels in steps of 1/32, chroma transform aware of the half pixel
};
// "nearest", "bilinear". Errors: kInvalid naming both.
const char* warp_sampling_name(WarpSampling sampling);
Result<WarpSampling> parse_warp_sampling(const char* name);

struct WarpOptions {
  Nv12Layout camera;
  int32_t model_width = 512, model_height = 256;  // luma of the model frame; even, 2 to 4096
  WarpSampling sampling = WarpSampling::kNearest;
  const char* kernels = "";  // a name of warp_kernel_names(); "": the best
};
inline constexpr int32_t kMostModelSide = 4096;

// Kernels this processor runs, best first, null terminated. All give the same bytes; "scalar" is
// the truth.
const char* const* warp_kernel_names();

// One view. Frames [least_bytes()] u8 in, planes (6, model_height / 2, model_width / 2) u8 out:
//   0 Y[2r][2c]   1 Y[2r+1][2c]   2 Y[2r][2c+1]   3 Y[2r+1][2c+1]   4 U[r][c]   5 V[r][c]
// Coordinates outside the picture repeat its edge; one that is not a number is 0.
// An object belongs to one thread at a time.
class CameraWarp {
 public:
  // [setup] Takes all memory. The transform is all zeros until one is set: pixel (0, 0) everywhere,
  // as before the first calibration. Errors: kInvalid, kShape (check_nv12, model size, sampling),
  // kUnsupported (no such kernels here, the names there are), kNoMemory.
  static Result<CameraWarp> make(const WarpOptions& options);
  CameraWarp(CameraWarp&&) noexcept;
  CameraWarp& operator=(CameraWarp&&) noexcept;
  ~CameraWarp();

  // [hot] Any nine numbers, also infinite ones and NaN. Where no bit differs from the transform
  // before, nothing happens; else the next run computes all coordinates anew, row by row, while
  // the picture's lines for them come from memory (see docs/performance.md).
  void set_transform(const Matrix3& transform) noexcept;
  // [hot] kShape: the frame has fewer than camera().least_bytes(), or planes is not exactly
  // plane_bytes(); kInvalid: they overlap. Then nothing is read or written. No heap, no lock.
  // Reads no byte behind least_bytes().
  Code run(std::span<const std::byte> frame, std::span<std::byte> planes) const noexcept;
  // [setup] The same refusals in words.
  Result<void> check(std::span<const std::byte> frame, std::span<const std::byte> planes) const;

  size_t plane_bytes() const;  // 6 * (model_height / 2) * (model_width / 2)
  const Nv12Layout& camera() const;
  const Matrix3& transform() const;
  const char* kernels() const;  // the name of those in use
  int64_t n_computed() const;   // how often coordinates were computed, the zeros of make included

 private:
  struct Plan;
  explicit CameraWarp(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

// Both views of a driving model, one behind the other: (2, 6, h, w), the narrow road camera first.
class WarpPair {
 public:
  // [setup] Both cameras have the same layout. Errors: those of CameraWarp::make.
  static Result<WarpPair> make(const WarpOptions& options);

  // [hot] As CameraWarp's. Cars with one camera give the same frame twice.
  void set_transforms(const Matrix3& narrow, const Matrix3& wide) noexcept;
  Code run(std::span<const std::byte> narrow, std::span<const std::byte> wide,
           std::span<std::byte> planes) const noexcept;
  Result<void> check(std::span<const std::byte> narrow, std::span<const std::byte> wide,
                     std::span<const std::byte> planes) const;

  size_t plane_bytes() const { return 2 * narrow_.plane_bytes(); }
  const CameraWarp& narrow() const { return narrow_; }
  const CameraWarp& wide() const { return wide_; }

 private:
  WarpPair(CameraWarp narrow, CameraWarp wide)
      : narrow_(std::move(narrow)), wide_(std::move(wide)) {}
  CameraWarp narrow_, wide_;
};

}  // namespace outrider
