#include "vision/warp.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "vision/warp_dispatch.h"

namespace outrider {
namespace {

// Rows of the plan belonging to one pair of model rows: planes 0 to 3, then U and V together.
constexpr size_t kSegments = 5;
constexpr size_t kChroma = 4;

Matrix3 product(const Matrix3& a, const Matrix3& b) {
  Matrix3 out;
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 3; ++c) {
      float sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += a[r * 3 + k] * b[k * 3 + c];
      out[r * 3 + c] = sum;
    }
  return out;
}

// From chroma pixels of the model to chroma pixels of the camera.
Matrix3 chroma_transform(WarpSampling sampling, const Matrix3& m) {
  if (sampling == WarpSampling::kBilinear)
    return product({0.5f, 0, -0.25f, 0, 0.5f, -0.25f, 0, 0, 1},
                   product(m, {2, 0, 0.5f, 0, 2, 0.5f, 0, 0, 1}));
  Matrix3 out = m;
  out[2] *= 0.5f, out[5] *= 0.5f, out[6] *= 2, out[7] *= 2;  // powers of two: exact
  return out;
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

Result<void> check_model_side(const char* name, int32_t side) {
  if (side >= 2 && side <= kMostModelSide && side % 2 == 0) return {};
  return make_error(Code::kInvalid, "model frame: %s %d, must be even, 2 to %d", name, side,
                    kMostModelSide);
}

}  // namespace

struct CameraWarp::Plan {
  Nv12Layout camera;
  WarpSampling sampling = WarpSampling::kNearest;
  const WarpKernels* kernels = nullptr;
  size_t rows = 0, columns = 0;  // of a plane
  size_t pitch = 0;              // columns, up to a multiple of kWarpLanes
  Matrix3 transform{};
  bool is_computed = false;  // `byte` and `fraction` are those of `transform`
  int64_t n_computed = 0;
  WarpLine luma{}, chroma{};
  std::vector<uint32_t> byte;          // [rows][kSegments][pitch]
  std::vector<WarpFraction> fraction;  // the same, bilinear only

  size_t segment(size_t r, size_t s) const { return (r * kSegments + s) * pitch; }
  uint8_t* row_of(uint8_t* planes, size_t plane, size_t r) const {
    return planes + (plane * rows + r) * columns;
  }
  void turn(const Matrix3& to) noexcept;
  void run_line(const WarpLine& line, size_t at) noexcept;
  void compute_row(size_t r) noexcept;
  void ask_for(const uint8_t* frame, size_t r) const noexcept;
  void collect_row(const uint8_t* frame, uint8_t* planes, size_t r) const noexcept;
  void blend_row(const uint8_t* frame, uint8_t* planes, size_t r) const noexcept;
  void run(const uint8_t* frame, uint8_t* planes) noexcept;
};

void CameraWarp::Plan::run_line(const WarpLine& line, size_t at) noexcept {
  if (sampling == WarpSampling::kNearest)
    kernels->nearest(&line, byte.data() + at);
  else
    kernels->bilinear(&line, byte.data() + at, fraction.data() + at);
}

void CameraWarp::Plan::turn(const Matrix3& to) noexcept {
  ++n_computed;
  transform = to;
  is_computed = false;
  luma.n = chroma.n = static_cast<int32_t>(columns);
  luma.stride = chroma.stride = camera.stride;
  luma.width = camera.width, luma.height = camera.height;
  luma.x_step = 2, luma.pixel_bytes = 1;
  chroma.width = camera.width / 2, chroma.height = camera.height / 2;
  chroma.x_step = 1, chroma.pixel_bytes = 2;
  chroma.first_byte = static_cast<int32_t>(camera.uv_offset);
  std::memcpy(luma.m, transform.data(), sizeof luma.m);
  const Matrix3 of_chroma = chroma_transform(sampling, transform);
  std::memcpy(chroma.m, of_chroma.data(), sizeof chroma.m);
}

void CameraWarp::Plan::compute_row(size_t r) noexcept {
  for (size_t plane = 0; plane < kChroma; ++plane) {
    luma.y = static_cast<float>(2 * r + (plane & 1));
    luma.x_first = static_cast<float>(plane >> 1);
    run_line(luma, segment(r, plane));
  }
  chroma.y = static_cast<float>(r);
  run_line(chroma, segment(r, kChroma));
}

// The lines of the picture that a row will need come while the next rows are computed.
void CameraWarp::Plan::ask_for(const uint8_t* frame, size_t r) const noexcept {
  constexpr size_t kEvery = 8;  // columns that mostly share a line
  for (const size_t s : {size_t{0}, size_t{1}, kChroma}) {
    const uint32_t* at = byte.data() + segment(r, s);
    for (size_t i = 0; i < columns; i += kEvery) __builtin_prefetch(frame + at[i]);
  }
}

void CameraWarp::Plan::collect_row(const uint8_t* frame, uint8_t* planes, size_t r) const noexcept {
  const auto n = static_cast<int64_t>(columns);
  for (size_t plane = 0; plane < kChroma; ++plane)
    warp_take(frame, byte.data() + segment(r, plane), n, row_of(planes, plane, r));
  warp_take_uv(frame, byte.data() + segment(r, kChroma), n, row_of(planes, 4, r),
               row_of(planes, 5, r));
}

void CameraWarp::Plan::blend_row(const uint8_t* frame, uint8_t* planes, size_t r) const noexcept {
  const auto n = static_cast<int64_t>(columns);
  for (size_t plane = 0; plane < kChroma; ++plane) {
    const size_t at = segment(r, plane);
    kernels->blend(frame, camera.stride, byte.data() + at, fraction.data() + at, n,
                   row_of(planes, plane, r));
  }
  const size_t at = segment(r, kChroma);
  kernels->blend_uv(frame, camera.stride, byte.data() + at, fraction.data() + at, n,
                    row_of(planes, 4, r), row_of(planes, 5, r));
}

void CameraWarp::Plan::run(const uint8_t* frame, uint8_t* planes) noexcept {
  constexpr size_t kAhead = 6;  // rows
  const auto finish = [&](size_t r) {
    if (sampling == WarpSampling::kNearest)
      collect_row(frame, planes, r);
    else
      blend_row(frame, planes, r);
  };
  for (size_t r = 0; r < rows; ++r) {
    if (is_computed) {
      finish(r);
      continue;
    }
    compute_row(r);
    ask_for(frame, r);
    if (r >= kAhead) finish(r - kAhead);
  }
  if (!is_computed)
    for (size_t r = rows - std::min(rows, kAhead); r < rows; ++r) finish(r);
  is_computed = true;
}

CameraWarp::CameraWarp(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
CameraWarp::CameraWarp(CameraWarp&&) noexcept = default;
CameraWarp& CameraWarp::operator=(CameraWarp&&) noexcept = default;
CameraWarp::~CameraWarp() = default;

Result<CameraWarp> CameraWarp::make(const WarpOptions& options) {
  OUTRIDER_TRY(check_nv12(options.camera));
  OUTRIDER_TRY(check_model_side("width", options.model_width));
  OUTRIDER_TRY(check_model_side("height", options.model_height));
  if (options.sampling != WarpSampling::kNearest && options.sampling != WarpSampling::kBilinear)
    return make_error(Code::kInvalid,
                      "warp sampling: number %u, must be 0 (nearest) or 1 (bilinear)",
                      static_cast<unsigned>(options.sampling));
  const auto kernels = find_warp_kernels(options.kernels);
  if (!kernels) return kernels.error();
  try {
    auto plan = std::make_unique<Plan>();
    plan->camera = options.camera;
    plan->sampling = options.sampling;
    plan->kernels = kernels.value();
    plan->rows = static_cast<size_t>(options.model_height / 2);
    plan->columns = static_cast<size_t>(options.model_width / 2);
    plan->pitch = (plan->columns + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
    const size_t n = plan->rows * kSegments * plan->pitch;
    plan->byte.resize(n);
    if (options.sampling == WarpSampling::kBilinear) plan->fraction.resize(n);
    plan->turn(plan->transform);
    return CameraWarp(std::move(plan));
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "camera warp: no memory for the coordinates of %dx%d",
                      options.model_width, options.model_height);
  }
}

void CameraWarp::set_transform(const Matrix3& transform) noexcept {
  // Bits, not values: NaN equals itself, and -0 may give another infinity than 0.
  if (std::memcmp(transform.data(), plan_->transform.data(), sizeof transform) == 0) return;
  plan_->turn(transform);
}

Code CameraWarp::run(std::span<const std::byte> frame, std::span<std::byte> planes) const noexcept {
  if (frame.size() < plan_->camera.least_bytes() || planes.size() != plane_bytes())
    return Code::kShape;
  if (overlap(frame, planes)) return Code::kInvalid;
  const auto* from = reinterpret_cast<const uint8_t*>(frame.data());
  auto* to = reinterpret_cast<uint8_t*>(planes.data());
  plan_->run(from, to);
  return Code::kOk;
}

Result<void> CameraWarp::check(std::span<const std::byte> frame,
                               std::span<const std::byte> planes) const {
  const Nv12Layout& c = plan_->camera;
  if (frame.size() < c.least_bytes())
    return make_error(Code::kShape,
                      "camera frame: %zu bytes, %dx%d in rows of %d with chroma at byte %lld takes "
                      "%zu; hand over the whole buffer",
                      frame.size(), c.width, c.height, c.stride,
                      static_cast<long long>(c.uv_offset), c.least_bytes());
  if (planes.size() != plane_bytes())
    return make_error(Code::kShape, "model frame: room for %zu bytes, 6 planes of %zux%zu are %zu",
                      planes.size(), plan_->columns, plan_->rows, plane_bytes());
  if (overlap(frame, planes))
    return make_error(Code::kInvalid, "model frame: lies inside the camera frame it is made of");
  return {};
}

size_t CameraWarp::plane_bytes() const {
  return 6 * plan_->rows * plan_->columns;
}
const Nv12Layout& CameraWarp::camera() const {
  return plan_->camera;
}
const Matrix3& CameraWarp::transform() const {
  return plan_->transform;
}
const char* CameraWarp::kernels() const {
  return plan_->kernels->name;
}
int64_t CameraWarp::n_computed() const {
  return plan_->n_computed;
}

const char* warp_sampling_name(WarpSampling sampling) {
  return sampling == WarpSampling::kNearest ? "nearest" : "bilinear";
}

Result<WarpSampling> parse_warp_sampling(const char* name) {
  for (const WarpSampling s : {WarpSampling::kNearest, WarpSampling::kBilinear})
    if (std::strcmp(name, warp_sampling_name(s)) == 0) return s;
  return make_error(Code::kInvalid, "warp sampling '%.32s', must be nearest or bilinear", name);
}

Result<WarpPair> WarpPair::make(const WarpOptions& options) {
  auto narrow = CameraWarp::make(options);
  if (!narrow) return narrow.error();
  auto wide = CameraWarp::make(options);
  if (!wide) return wide.error();
  return WarpPair(std::move(narrow.value()), std::move(wide.value()));
}

void WarpPair::set_transforms(const Matrix3& narrow, const Matrix3& wide) noexcept {
  narrow_.set_transform(narrow);
  wide_.set_transform(wide);
}

Code WarpPair::run(std::span<const std::byte> narrow, std::span<const std::byte> wide,
                   std::span<std::byte> planes) const noexcept {
  if (planes.size() != plane_bytes() || wide.size() < wide_.camera().least_bytes())
    return Code::kShape;
  if (overlap(narrow, planes) || overlap(wide, planes)) return Code::kInvalid;
  const size_t half = narrow_.plane_bytes();
  const Code code = narrow_.run(narrow, planes.first(half));
  return code == Code::kOk ? wide_.run(wide, planes.subspan(half)) : code;
}

Result<void> WarpPair::check(std::span<const std::byte> narrow, std::span<const std::byte> wide,
                             std::span<const std::byte> planes) const {
  if (planes.size() != plane_bytes())
    return make_error(Code::kShape, "model frames: room for %zu bytes, two views are %zu",
                      planes.size(), plane_bytes());
  const size_t half = narrow_.plane_bytes();
  OUTRIDER_TRY(narrow_.check(narrow, planes.first(half)));
  OUTRIDER_TRY(wide_.check(wide, planes.subspan(half)));
  if (overlap(narrow, planes) || overlap(wide, planes))
    return make_error(Code::kInvalid, "model frames: lie inside a camera frame they are made of");
  return {};
}

}  // namespace outrider
