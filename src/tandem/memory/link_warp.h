// A model's own warp as the link uses it: the same program, scalars, queues and imports; its output
// as bytes to send, frame by frame.
//
//   start(frames) -> wait() -> send_view() -> begin_send() -> ... the transport ... -> released()
#pragma once
#include <memory>

#include "base/clock.h"
#include "tandem/memory/route.h"
#include "tandem/memory/warp.h"

namespace outrider::memory {

struct FrameTimes {
  int64_t start_ns = 0;  // when the warp was started: the hold clock of the frame starts here
  int64_t warp_ns = 0;   // until it was finished
  int64_t copy_ns = 0;   // copying out; 0 on the direct route
  int64_t send_ns = 0;   // from begin_send to released
};

class LinkWarp {
 public:
  // [setup] Takes the staging memory now when the route needs it. `state` is the model's and
  // outlives this. Errors: kNoMemory.
  static Result<std::unique_ptr<LinkWarp>> make(WarpState& state, const Route& route,
                                                const Clock& clock);

  // [hot] kInvalid: the frame before is still being sent, or was not waited for, or the model has
  // another program now. Else those of warp_frames.
  Code start(const CameraFrame& road, const CameraFrame& wide) noexcept;
  // [hot] Until the frame is in send_view(). kDevice: it is not; kInvalid: none was started.
  Code wait() noexcept;
  // The bytes of the frame that was waited for. The same address for the life of the object.
  std::span<const std::byte> send_view() const { return {view_, route_.bytes}; }
  // [hot] A transport has the view now / may not touch it any more. A transport that copies gives
  // it back when its send returns, one that does not when the peer has it. False: out of order.
  bool begin_send() noexcept;
  bool released() noexcept;

  const Route& route() const { return route_; }
  const WarpState& state() const { return *state_; }
  const FrameTimes& times() const { return times_; }
  int64_t copied_bytes() const { return copied_bytes_; }  // in user space, since make

 private:
  enum class Turn : uint8_t { kIdle, kRunning, kReady, kSending };
  LinkWarp(WarpState& state, const Route& route, const Clock& clock)
      : state_(&state), route_(route), clock_(&clock) {}

  WarpState* state_;
  const Route route_;
  const Clock* clock_;
  std::shared_ptr<Program> program_;  // keeps the output alive as long as a view of it is out
  std::unique_ptr<std::byte[], void (*)(std::byte*)> staging_{nullptr, nullptr};
  const std::byte* view_ = nullptr;
  Turn turn_ = Turn::kIdle;
  FrameTimes times_;
  int64_t send_begin_ns_ = 0, copied_bytes_ = 0;
};

}  // namespace outrider::memory
