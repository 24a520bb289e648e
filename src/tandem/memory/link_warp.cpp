#include "tandem/memory/link_warp.h"

#include <cstring>
#include <new>

namespace outrider::memory {
namespace {

constexpr std::align_val_t kAlign{64};
void free_staging(std::byte* data) {
  ::operator delete(data, kAlign);
}

}  // namespace

Result<std::unique_ptr<LinkWarp>> LinkWarp::make(WarpState& state, const Route& route,
                                                 const Clock& clock) {
  std::unique_ptr<LinkWarp> warp(new LinkWarp(state, route, clock));
  warp->program_ = state.program;
  warp->view_ = state.program->output()->data();
  if (route.route == SendRoute::kDirect) return warp;
  auto* staging = static_cast<std::byte*>(::operator new(route.bytes, kAlign, std::nothrow));
  if (staging == nullptr)
    return make_error(Code::kNoMemory, "warp output: %zu bytes for copying out refused",
                      route.bytes);
  std::memset(staging, 0, route.bytes);  // touched now, not in the first frame
  warp->staging_ = {staging, &free_staging};
  warp->view_ = staging;
  return warp;
}

Code LinkWarp::start(const CameraFrame& road, const CameraFrame& wide) noexcept {
  if (turn_ == Turn::kRunning || turn_ == Turn::kSending) return Code::kInvalid;
  if (state_->program != program_) return Code::kInvalid;  // another one's output is elsewhere
  turn_ = Turn::kIdle;
  times_ = {};
  times_.start_ns = clock_->now_ns();
  const Code code = warp_frames(*state_, road, wide);
  if (code == Code::kOk) turn_ = Turn::kRunning;
  return code;
}

Code LinkWarp::wait() noexcept {
  if (turn_ != Turn::kRunning) return Code::kInvalid;
  turn_ = Turn::kIdle;
  if (program_->wait() != Code::kOk) return Code::kDevice;
  const int64_t done_ns = clock_->now_ns();
  times_.warp_ns = done_ns - times_.start_ns;
  if (route_.route == SendRoute::kStaged) {
    const FrameBuffer& output = *program_->output();
    const Code code = output.device().copy_out(output, {staging_.get(), route_.bytes});
    if (code != Code::kOk) return Code::kDevice;
    copied_bytes_ += static_cast<int64_t>(route_.bytes);
    times_.copy_ns = clock_->now_ns() - done_ns;
  }
  turn_ = Turn::kReady;
  return Code::kOk;
}

bool LinkWarp::begin_send() noexcept {
  if (turn_ != Turn::kReady) return false;
  turn_ = Turn::kSending;
  send_begin_ns_ = clock_->now_ns();
  return true;
}

bool LinkWarp::released() noexcept {
  if (turn_ != Turn::kSending) return false;
  turn_ = Turn::kIdle;
  times_.send_ns = clock_->now_ns() - send_begin_ns_;
  return true;
}

}  // namespace outrider::memory
