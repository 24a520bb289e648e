#include "providers/camera/camera_runtime.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace outrider::camera {
namespace {

constexpr const char* kFrameNames[] = {"frame_narrow", "frame_wide"};
constexpr uint64_t kTransformBytes = 2 * sizeof(Matrix3);

unsigned long long number(uint64_t n) {
  return n;
}

// Sides of the model's picture from the port that takes its planes.
Result<void> check_planes_port(const frt_runtime_port_desc& port) {
  const bool fits = port.direction == FRT_PORT_IN && port.dtype == FRT_DTYPE_U8 && port.rank == 4 &&
                    port.shape[0] == 2 && port.shape[1] == 6;
  if (fits && port.shape[2] >= 1 && port.shape[2] <= kMostModelSide / 2 && port.shape[3] >= 1 &&
      port.shape[3] <= kMostModelSide / 2)
    return {};
  return make_error(Code::kShape,
                    "runtime: port %s must be an input U8 {2,6,h,w}, h and w 1 to %d: two views of "
                    "six planes; it has dtype %u, rank %u",
                    port.name, kMostModelSide / 2, port.dtype, port.rank);
}

}  // namespace

Result<std::unique_ptr<CameraRuntime>> CameraRuntime::open(const CameraConfig& config) {
  auto file = host::read_config_file(config.runtime, config.runtime_provider);
  if (!file) return make_error(file.error().code, "runtime: %s", file.error().text);
  if (file.value().family == "camera")
    return make_error(Code::kUnsupported,
                      "runtime: %.200s: a camera before a camera; allowed are the other families",
                      config.runtime.c_str());
  std::unique_ptr<CameraRuntime> runtime(new CameraRuntime);
  runtime->config_ = config;
  runtime->file_ = std::move(file.value());
  OUTRIDER_TRY(runtime->prepare());
  return runtime;
}

Result<void> CameraRuntime::prepare() {
  auto core = host::SessionCore::open(file_.provider.c_str(), file_.json.c_str(), clock_);
  if (!core) return make_error(core.error().code, "runtime: %s", core.error().text);
  core_ = std::move(core.value());
  const frt_model_runtime_v1& rt = core_->runtime();
  const int planes = core_->find_port(config_.port.c_str());
  if (planes < 0)
    return make_error(Code::kInvalid,
                      "runtime: has no port %.80s; name its input of model frames "
                      "by the key \"port\"",
                      config_.port.c_str());
  for (const char* own : {"transforms", kFrameNames[0], kFrameNames[1]})
    if (core_->find_port(own) >= 0)
      return make_error(
          Code::kInvalid,
          "runtime: has a port %s, a name that a camera adds; put the camera before a "
          "runtime that has no camera of its own",
          own);
  for (uint64_t i = 0; i < rt.n_ports; ++i)
    if (rt.ports[i].update != FRT_UPDATE_STAGED)
      return make_error(Code::kUnsupported,
                        "runtime: port %s is not staged, which every port behind a camera is; "
                        "choose another runtime",
                        rt.ports[i].name);
  transforms_ = static_cast<uint32_t>(planes);
  n_behind_ = static_cast<uint32_t>(rt.n_ports);
  const frt_runtime_port_desc& port = rt.ports[transforms_];
  OUTRIDER_TRY(check_planes_port(port));
  auto pair = WarpPair::make({.camera = config_.layout,
                              .model_width = static_cast<int32_t>(2 * port.shape[3]),
                              .model_height = static_cast<int32_t>(2 * port.shape[2]),
                              .sampling = config_.sampling,
                              .kernels = config_.kernels.c_str()});
  if (!pair) return pair.error();
  pair_ = std::make_unique<WarpPair>(std::move(pair.value()));
  planes_.resize(pair_->plane_bytes());
  staged_.resize(n_behind_);
  return {};
}

// ---- verbs --------------------------------------------------------------------------------------

Code CameraRuntime::refuse(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  own_error_ = true;
  return code;
}

Code CameraRuntime::pass(int code) noexcept {
  own_error_ = false;
  return static_cast<Code>(code);
}

Code CameraRuntime::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  if (port == transforms_) return set_transforms(data, bytes);
  if (port == frame_port(0) || port == frame_port(1))
    return set_frame(port - n_behind_, data, bytes);
  if (port > frame_port(1))
    return refuse(Code::kInvalid, "set_input: port %u does not exist; there are %u", port,
                  n_behind_ + 2);
  const Code code = pass(core_->set_input(port, data, bytes));
  if (port < n_behind_) staged_[port] = code == Code::kOk;
  return code;
}

Code CameraRuntime::set_transforms(const void* data, uint64_t bytes) noexcept {
  outputs_stale_ = true;
  have_transforms_ = false;
  if (data == nullptr || bytes != kTransformBytes)
    return refuse(Code::kInvalid,
                  "transforms: %llu bytes%s, wanted %llu: two 3x3 F32, narrow, wide", number(bytes),
                  data == nullptr ? " at NULL" : "", number(kTransformBytes));
  Matrix3 now[2];
  std::memcpy(now, data, sizeof now);
  for (const Matrix3& m : now)
    for (const float value : m)
      if (!std::isfinite(value))
        return refuse(Code::kInvalid, "transforms: %g; every value must be finite",
                      static_cast<double>(value));
  have_transforms_ = true;
  for (size_t view = 0; view < 2; ++view) {
    if (std::memcmp(&now[view], &matrices_[view], sizeof(Matrix3)) == 0) continue;
    matrices_[view] = now[view];
    if (have_frame_[view]) counters_.dropped_frames.fetch_add(1, std::memory_order_relaxed);
    have_frame_[view] = false;
  }
  own_error_ = true;
  error_[0] = 0;
  return Code::kOk;
}

Code CameraRuntime::set_frame(uint32_t view, const void* data, uint64_t bytes) noexcept {
  outputs_stale_ = true;
  handed_over_ = have_frame_[view] = false;
  const auto refused = [&] { counters_.refused_frames.fetch_add(1, std::memory_order_relaxed); };
  if (data == nullptr || bytes != config_.frame_bytes) {
    refused();
    return refuse(Code::kInvalid, "%s: %llu bytes%s, wanted %llu", kFrameNames[view], number(bytes),
                  data == nullptr ? " at NULL" : "", number(config_.frame_bytes));
  }
  const int64_t begin_ns = clock_.now_ns();
  const int64_t before = warp(0).n_computed() + warp(1).n_computed();
  if (view == 0)
    pair_->set_transforms(matrices_[0], warp(1).transform());
  else
    pair_->set_transforms(warp(0).transform(), matrices_[1]);
  const size_t half = planes_.size() / 2;
  const Code code = warp(view).run({static_cast<const std::byte*>(data), bytes},
                                   std::span(planes_).subspan(view * half, half));
  if (code != Code::kOk) {
    refused();
    return refuse(code, "%s: could not be warped", kFrameNames[view]);
  }
  have_frame_[view] = true;
  counters_.warps.fetch_add(1, std::memory_order_relaxed);
  counters_.computed.fetch_add(warp(0).n_computed() + warp(1).n_computed() - before,
                               std::memory_order_relaxed);
  counters_.ns_warp.fetch_add(clock_.now_ns() - begin_ns, std::memory_order_relaxed);
  own_error_ = true;
  error_[0] = 0;
  return Code::kOk;
}

// Both views go behind when a run asks for them, once for each pair.
Code CameraRuntime::hand_over() noexcept {
  for (uint32_t i = 0; i < n_behind_; ++i) {  // the first that is missing, as its number says
    if (i == transforms_ && !have_transforms_)
      return refuse(Code::kInvalid,
                    "transforms: not staged; stage them, zeros before the first calibration");
    const frt_runtime_port_desc& p = behind().ports[i];
    if (i != transforms_ && p.direction == FRT_PORT_IN && p.required == 1 && !staged_[i])
      return refuse(Code::kInvalid, "%s: not staged; stage every required input first", p.name);
  }
  for (size_t view = 0; view < 2; ++view)
    if (!have_frame_[view])
      return refuse(Code::kInvalid,
                    "%s: not staged with these transforms; stage transforms, then "
                    "frames",
                    kFrameNames[view]);
  outputs_stale_ = false;  // from here on the runtime behind knows
  if (handed_over_) return Code::kOk;
  const int code = core_->set_input(transforms_, planes_.data(), planes_.size());
  if (code != 0) return pass(code);
  handed_over_ = true;
  return Code::kOk;
}

Code CameraRuntime::get_output(uint32_t port, void* out, uint64_t capacity,
                               uint64_t* written) noexcept {
  if (written != nullptr) *written = 0;
  const bool output = port < n_behind_ && behind().ports[port].direction == FRT_PORT_OUT;
  if (!output || written == nullptr)
    return refuse(Code::kInvalid,
                  output ? "get_output: written is NULL" : "get_output: port %u is no output",
                  port);
  if (outputs_stale_)
    return refuse(Code::kNotReady, "%s: no output since the inputs changed; run a tick",
                  behind().ports[port].name);
  return pass(core_->get_output(port, out, capacity, written));
}

Code CameraRuntime::run_stage(uint32_t executor_ref) noexcept {
  const auto all = core_->order().stages();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].executor_ref != executor_ref) continue;
    if (all[i].name != "reset")  // a history is reset whatever the cameras show
      if (const Code code = hand_over(); code != Code::kOk) return code;
    return pass(core_->run_stage(i));
  }
  return refuse(Code::kNotFound, "executor %u is unknown", executor_ref);
}

Code CameraRuntime::step() noexcept {
  if (const Code code = hand_over(); code != Code::kOk) return code;
  return pass(core_->has_step() ? core_->step() : core_->tick());
}

Code CameraRuntime::prepare_graph() noexcept {
  return refuse(Code::kUnsupported, "prepare: a camera has no graph variants");
}

const char* CameraRuntime::last_error() noexcept {
  return own_error_ ? error_ : core_->error();
}

std::string CameraRuntime::describe() const {
  const Nv12Layout& c = config_.layout;
  char text[400];
  std::snprintf(
      text, sizeof text,
      "{\"family\":\"camera\",\"width\":%d,\"height\":%d,\"stride\":%d,\"uv_offset\":%lld,"
      "\"frame_bytes\":%llu,\"sampling\":\"%s\",\"kernels\":\"%s\",\"runtime\":{\"family\":"
      "\"%.32s\",\"config_sha256\":\"%s\"}}",
      c.width, c.height, c.stride, static_cast<long long>(c.uv_offset), number(config_.frame_bytes),
      warp_sampling_name(config_.sampling), pair_->narrow().kernels(), file_.family.c_str(),
      file_.digest.c_str());
  return text;
}

}  // namespace outrider::camera
