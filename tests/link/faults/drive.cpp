#include "link/faults/drive.h"

#include <chrono>
#include <thread>

namespace outrider::link::faults {
namespace {

void pause_ns(int64_t ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

}  // namespace

std::string fake_config(int side, const std::string& more) {
  const std::string n = std::to_string(side);
  return "{\"model_family\":\"fake\",\"n_views\":2,\"image_height\":" + n +
         ",\"image_width\":" + n + ",\"action_steps\":50,\"action_dim\":32" + more + "}";
}

// ---- the device --------------------------------------------------------------------------------

Drive::Drive(const std::string& endpoint, const DriveOptions& options)
    : endpoint_(endpoint),
      options_(options),
      pixels_(2 * static_cast<size_t>(options.side) * static_cast<size_t>(options.side) * 3) {
  auto local = ProviderSource(provider("fake"), fake_config(options.side)).open();
  EXPECT_TRUE(local) << local.error().text;
  if (local) local_ = std::move(local.value());
  open();
}

bool Drive::open() {
  const std::string config =
      "{\"model_family\":\"remote\",\"endpoint\":\"" + endpoint_ +
      "\",\"model\":\"default\",\"deadline_ms\":" + std::to_string(options_.deadline_ms) +
      ",\"connect_ms\":" + std::to_string(options_.connect_ms) + options_.more + "}";
  own_.restart();
  auto remote = ProviderSource(provider("link"), config).open();
  EXPECT_LT(own_.ns(), options_.connect_ms * kMs + kSlackNs);
  if (remote)
    remote_ = std::move(remote.value());
  else
    open_error_ = remote.error().text;
  return remote_ != nullptr;
}

int Drive::verb(const char* name, int code) {
  const int64_t took = own_.ns();
  worst_ns_ = std::max(worst_ns_, took);
  EXPECT_LT(took, options_.deadline_ms * kMs + kSlackNs) << name << " of tick " << n_ticks_;
  if (code == 0) return 0;
  error_ = remote_->last_error();
  EXPECT_FALSE(error_.empty());
  return code;
}

int Drive::stage(Runtime& runtime, bool timed) {
  const size_t bytes = pixels_.size() / 2;
  frt_image_view views[2];
  for (size_t v = 0; v < 2; ++v)
    views[v] = {sizeof(frt_image_view),
                FRT_PIXEL_RGB8,
                pixels_.data() + v * bytes,
                bytes,
                options_.side,
                options_.side,
                0,
                0,
                0};
  const std::pair<const void*, size_t> inputs[] = {{views, sizeof views},
                                                   {prompt_.data(), prompt_.size()},
                                                   {state_.data(), state_.size() * sizeof(float)}};
  for (uint32_t port = 0; port < 3; ++port) {
    own_.restart();
    const int code = runtime.set_input(port, inputs[port].first, inputs[port].second);
    if (timed && verb("set_input", code) != 0) return code;
    if (code != 0) return code;
  }
  return 0;
}

bool Drive::tick() {
  ++n_ticks_;
  prompt_ = "tick " + std::to_string(100000 + n_ticks_);
  state_[0] = static_cast<float>(n_ticks_);
  for (size_t i = static_cast<size_t>(n_ticks_) % 97; i < pixels_.size(); i += 97)
    pixels_[i] = static_cast<uint8_t>(pixels_[i] * 5 + n_ticks_);
  std::vector<float> want(1600), got(1600);
  uint64_t want_bytes = 0, got_bytes = 0;
  EXPECT_EQ(stage(*local_, false), 0);
  EXPECT_EQ(local_->step(), 0);
  EXPECT_EQ(local_->get_output(3, want.data(), want.size() * sizeof(float), &want_bytes), 0);
  if (stage(*remote_, true) != 0) return false;
  own_.restart();
  if (verb("step", remote_->step()) != 0) return false;
  own_.restart();
  const int read = remote_->get_output(3, got.data(), got.size() * sizeof(float), &got_bytes);
  if (verb("get_output", read) != 0) return false;
  EXPECT_EQ(got_bytes, want_bytes) << "tick " << n_ticks_;
  EXPECT_TRUE(got == want) << "the answer of tick " << n_ticks_ << " is not that of its inputs";
  ++n_answered_;
  return true;
}

int Drive::ticks(int n, int64_t period_ns) {
  int answered = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t begin = clock_here().now_ns();
    answered += tick() ? 1 : 0;
    if (const int64_t left = begin + period_ns - clock_here().now_ns(); left > 0) pause_ns(left);
  }
  return answered;
}

bool Drive::recovers(int64_t within_ns, int n) {
  test::OwnTime waited;
  for (int in_row = 0; waited.ns() < within_ns;) {
    in_row = tick() ? in_row + 1 : 0;
    if (in_row == n) return true;
    if (in_row == 0) pause_ns(20 * kMs);
  }
  return false;
}

bool Drive::fails(int64_t within_ns) {
  for (test::OwnTime waited; waited.ns() < within_ns;)
    if (!tick()) return true;
  return false;
}

}  // namespace outrider::link::faults
