// In which order a driving stack calls us, and what an order that is wrong is answered: nothing is
// attached, with the reason. Never an exception, never the end of the process.
//
//   prepare (before the process turns real-time) -> real-time -> camera, small model ready
//     -> attach -> before_run before each frame -> close
//
// Source: driving.md a.9; R37.
#pragma once
#include <string>

#include "adapter/fence.h"

namespace outrider::adapter {

// What the process knows of the device it runs on.
struct DeviceFacts {
  bool supported = true, recovery = false;
};

class Lifecycle {
 public:
  Lifecycle(Fence& fence, DeviceFacts facts) : fence_(fence), facts_(facts) {}
  ~Lifecycle() { close(); }

  // [setup] Reads mode, accelerator and geometry; `make_ready` makes threads and devices. Whoever
  // asks again and hears no has lost an earlier yes. Refused once the process is real-time: threads
  // made then would inherit its priority and core.
  bool prepare(const std::function<bool(const outrider_camera_v1&)>& make_ready) noexcept;
  void turned_realtime() noexcept { realtime_ = true; }
  void camera_ready() noexcept { camera_ = true; }
  void standby_ready() noexcept { standby_ = true; }
  // [setup] After all of these. false: the small model drives alone.
  bool attach(const std::function<bool()>& join) noexcept;

  struct Frame {
    bool in_control = true;
    double drop_ratio = 1;
    bool attached = false;
  };
  // [hot] Before each run; in control until asked.
  Frame before_run(const outrider_engagement_v1& now) noexcept;
  void close() noexcept;  // [any] once, and for good

  bool attached() const noexcept { return attached_; }
  const char* reason() const noexcept { return reason_; }  // why it is not attached

 private:
  bool refuse(const char* reason) noexcept;
  Fence& fence_;
  const DeviceFacts facts_;
  bool prepared_ = false, realtime_ = false, camera_ = false, standby_ = false, attached_ = false,
       closed_ = false;
  const char* reason_ = "prepare was not called";
};

}  // namespace outrider::adapter
