#include "adapter/lifecycle.h"

#include "base/log.h"

namespace outrider::adapter {

bool Lifecycle::refuse(const char* reason) noexcept {
  reason_ = reason;
  return false;
}

bool Lifecycle::prepare(const std::function<bool(const outrider_camera_v1&)>& make_ready) noexcept {
  prepared_ = false;
  if (closed_) return refuse("closed");
  if (realtime_)
    return refuse(
        "prepare came after the process turned real-time: its threads would inherit that");
  if (!facts_.supported) return refuse("this device is not supported");
  if (facts_.recovery) return refuse("the device is in recovery mode");
  const auto mode = fence_.get(fence_.keys().mode);
  if (!mode || (*mode != "1" && *mode != "2")) return refuse("the link is off");
  if (fence_.accelerator_present()) return refuse("a native accelerator is fitted");
  const auto camera = fence_.camera();
  if (!camera) return refuse("the camera is unknown");
  try {
    if (!make_ready(*camera)) return refuse("the device side could not be made ready");
  } catch (...) {
    return refuse("making the device side ready failed");
  }
  reason_ = "attach was not called";
  return prepared_ = true;
}

bool Lifecycle::attach(const std::function<bool()>& join) noexcept {
  if (attached_ || closed_) return attached_;
  if (!prepared_) return false;  // the reason of prepare stands
  if (!camera_) return refuse("attach came before the camera");
  if (!standby_) return refuse("attach came before the small model");
  if (!fence_.model_face()) return refuse("the model's face is unknown");
  try {
    attached_ = join();
  } catch (...) {
    attached_ = false;
  }
  if (!attached_) return refuse("joining failed");
  reason_ = "";
  return true;
}

Lifecycle::Frame Lifecycle::before_run(const outrider_engagement_v1& now) noexcept {
  Frame frame;
  frame.in_control = fence_.in_control(now);
  frame.drop_ratio = fence_.frame_drop_ratio();
  frame.attached = attached_;
  return frame;
}

void Lifecycle::close() noexcept {
  if (closed_) return;
  closed_ = true;
  const bool was = attached_;
  attached_ = prepared_ = false;
  reason_ = "closed";
  fence_.tell_hot();
  if (was) fence_.event("outrider_closed", "{}");
}

}  // namespace outrider::adapter
