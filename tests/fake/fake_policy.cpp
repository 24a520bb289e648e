#include "fake_policy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

namespace outrider::fake {

// The C functions behind the two extension tables.
struct FakeTables {
  static FakePolicy& of(void* self) { return *static_cast<FakePolicy*>(self); }
  static uint64_t read_counters(void* self, outrider_counter_v1* out, uint64_t capacity) {
    static constexpr const char* kNames[] = {"runs", "refused_inputs", "failed_runs",
                                             "nonfinite_outputs"};
    for (uint64_t i = 0; i < 4 && i < capacity && out != nullptr; ++i)
      out[i] = {kNames[i], of(self).counters_[i]};
    return 4;
  }
  static const char* describe(void* self) { return of(self).description_.c_str(); }
  static int enable(void*, int) { return 0; }
  static uint64_t count(void*) { return 1; }
  static const char* name(void*, uint64_t index) { return index == 0 ? "state" : nullptr; }
  static int read_tap(void* self, const char* name, float* out, uint64_t capacity, uint64_t* n,
                      int64_t shape[4], uint32_t* rank) {
    const auto& values = of(self).state_;
    if (name == nullptr || std::strcmp(name, "state") != 0) return FRT_ERR_NOT_FOUND;
    if (values.empty()) return FRT_ERR_NOT_READY;
    *n = values.size();
    if (out == nullptr || capacity < values.size()) return FRT_ERR_STORAGE;
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    shape[0] = static_cast<int64_t>(values.size());
    *rank = 1;
    return FRT_OK;
  }
};

FakePolicy::FakePolicy(const FakeConfig& config) : config_(config) {
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<size_t>(a) * static_cast<size_t>(b);
  };
  pixels_.resize(product(config.n_views * 3, product(config.image_height, config.image_width)));
  actions_.resize(product(config.action_steps, config.action_dim));
  state_.reserve(kMaxStateValues);
  for (std::string* text : {&prompt_, &echo_, &trace_}) text->reserve(kMaxTextBytes);
  if (config.write_in_tick > 0) null_fd_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
  long_text_.assign(100000, 'x');
  description_ = "{\"family\":\"fake\",\"plan\":\"" + config.plan + "\"}";
  status = {1, sizeof status, this, &FakeTables::read_counters, &FakeTables::describe};
  taps = {1,
          sizeof taps,
          this,
          &FakeTables::enable,
          &FakeTables::count,
          &FakeTables::name,
          &FakeTables::read_tap};
}

FakePolicy::~FakePolicy() {
  if (null_fd_ >= 0) close(null_fd_);
  if (config_.release_fd >= 0) {
    const ssize_t ignored = write(static_cast<int>(config_.release_fd), "r", 1);
    (void)ignored;
  }
}

int FakePolicy::fail(int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

const char* FakePolicy::last_error() const {
  if (config_.last_error == "null") return nullptr;
  if (config_.last_error == "long") return long_text_.c_str();
  if (config_.last_error == "garbage") return "\x01 torn\n\n line \xff\xc0\xaf end\t";
  return error_;
}

// ---- inputs ------------------------------------------------------------------------------------

int FakePolicy::set_input(uint32_t port, const void* data, uint64_t bytes) {
  ready_ = context_pending_ = false;
  if (config_.input_sleep_ms > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(config_.input_sleep_ms));
  if (port > kState) return ++counters_[1], fail(FRT_ERR_INVALID, "port %u is no input", port);
  has_[port] = false;
  int code = FRT_OK;
  if (port == kImages) {
    code = set_images(data, bytes);
  } else if (port == kPrompt) {
    if (bytes == 0 || bytes > kMaxTextBytes)
      code = fail(FRT_ERR_INVALID, "prompt: %llu bytes, allowed are 1 to %zu",
                  static_cast<unsigned long long>(bytes), kMaxTextBytes);
    else
      prompt_.assign(static_cast<const char*>(data), bytes);
  } else {
    if (bytes == 0 || bytes % sizeof(float) != 0 || bytes / sizeof(float) > kMaxStateValues)
      return ++counters_[1],
             fail(FRT_ERR_SHAPE, "state: %llu bytes, allowed are 1 to %zu f32 values",
                  static_cast<unsigned long long>(bytes), kMaxStateValues);
    state_.resize(bytes / sizeof(float));
    std::memcpy(state_.data(), data, bytes);
    for (size_t i = 0; i < state_.size(); ++i)
      if (!std::isfinite(state_[i])) code = fail(FRT_ERR_INVALID, "state[%zu] is not finite", i);
  }
  if (code != FRT_OK) return ++counters_[1], code;
  has_[port] = true;
  error_[0] = '\0';
  return FRT_OK;
}

int FakePolicy::set_images(const void* data, uint64_t bytes) {
  const auto n_views = static_cast<uint64_t>(config_.n_views);
  if (bytes != n_views * sizeof(frt_image_view))
    return fail(FRT_ERR_INVALID, "images: %llu bytes, wanted %llu views of 48",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(n_views));
  const auto n_columns = static_cast<uint64_t>(config_.image_width);
  const auto n_rows = static_cast<uint64_t>(config_.image_height);
  const auto* views = static_cast<const frt_image_view*>(data);
  for (uint64_t i = 0; i < n_views; ++i) {
    const frt_image_view& view = views[i];
    static constexpr uint64_t kChannels[] = {3, 3, 4, 4, 1};  // by pixel format
    const uint64_t channels =
        kChannels[view.pixel_format > FRT_PIXEL_GRAY8 ? 0 : view.pixel_format];
    const uint64_t row_bytes = n_columns * channels;
    const uint64_t stride =
        view.stride_bytes == 0 ? row_bytes : static_cast<uint64_t>(view.stride_bytes);
    if (view.struct_size < sizeof view || view.data == nullptr ||
        view.pixel_format > FRT_PIXEL_GRAY8 || view.width != config_.image_width ||
        view.height != config_.image_height || view.stride_bytes < 0 || stride < row_bytes ||
        view.bytes < (n_rows - 1) * stride + row_bytes)
      return fail(FRT_ERR_INVALID, "images: view %llu does not fit %lldx%lld",
                  static_cast<unsigned long long>(i), static_cast<long long>(config_.image_width),
                  static_cast<long long>(config_.image_height));
    const bool blue_first =
        view.pixel_format == FRT_PIXEL_BGR8 || view.pixel_format == FRT_PIXEL_BGRA8;
    uint8_t* to = pixels_.data() + i * n_rows * n_columns * 3;
    for (uint64_t y = 0; y < n_rows; ++y) {
      const uint8_t* from = static_cast<const uint8_t*>(view.data) + y * stride;
      for (uint64_t x = 0; x < n_columns; ++x, from += channels)
        for (uint64_t c = 0; c < 3; ++c) *to++ = from[channels == 1 ? 0 : blue_first ? 2 - c : c];
    }
  }
  return FRT_OK;
}

bool FakePolicy::staged() const {
  return config_.require_inputs == 0 || (has_[0] && has_[1] && has_[2]);
}

// ---- running -----------------------------------------------------------------------------------

int FakePolicy::run(uint32_t executor_ref) {
  static constexpr uint32_t kFirst[] = {kInfer, kContext, kTop},
                            kLast[] = {kInfer, kAction, kBottom};
  const auto among = [executor_ref](std::span<const uint32_t> refs) {
    for (uint32_t ref : refs)
      if (ref == executor_ref) return true;
    return false;
  };
  const bool first = among(kFirst), last = among(kLast);
  if (!first && !last && executor_ref != kLeft && executor_ref != kRight)
    return fail(FRT_ERR_NOT_FOUND, "executor %u is unknown", executor_ref);
  if (first) {
    if (!staged()) return ++counters_[2], fail(FRT_ERR_INVALID, "an input is not staged");
    ++tick_;
    ready_ = false;
    context_pending_ = true;
  } else if (!context_pending_) {
    return ++counters_[2],
           fail(FRT_ERR_NOT_READY, "executor %u needs a fresh first stage", executor_ref);
  }
  const int code = run_stage(executor_ref, first ? 0 : last ? 1 : 2);
  if (code != FRT_OK) return context_pending_ = false, ++counters_[2], code;
  if (last) {
    context_pending_ = false;
    compute();
  }
  error_[0] = '\0';
  return FRT_OK;
}

int FakePolicy::run_stage(uint32_t executor_ref, int stage_index) {
  if (trace_.size() + 12 <= kMaxTextBytes) {
    char digits[12];
    std::snprintf(digits, sizeof digits, "%u ", executor_ref);
    trace_ += digits;
  }
  if (config_.sleep_ms > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(config_.sleep_ms));
  if (tick_ == config_.stall_at)
    std::this_thread::sleep_for(std::chrono::milliseconds(config_.stall_ms));
  misbehave();
  if (tick_ == config_.fail_at && stage_index == config_.fail_stage)
    return fail(static_cast<int>(config_.fail_code), "scripted failure in tick %lld",
                static_cast<long long>(tick_));
  if (tick_ == config_.throw_at || tick_ == config_.raw_throw_at)
    throw std::runtime_error("scripted exception");
  return FRT_OK;
}

// Everything a tick must not do, as often as the script says.
void FakePolicy::misbehave() {
  for (int64_t i = 0; i < config_.alloc_in_tick; ++i) {
    void* volatile block = std::malloc(32);
    std::free(block);
  }
  for (int64_t i = 0; i < config_.lock_in_tick; ++i) std::scoped_lock lock(mutex_);
  for (int64_t i = 0; i < config_.write_in_tick; ++i) {
    const ssize_t ignored = write(null_fd_, "w", 1);
    (void)ignored;
  }
  for (int64_t i = 0; i < config_.print_in_tick; ++i) std::puts("the fake prints in a tick");
  if (tick_ == config_.crash_at) std::abort();
  if (tick_ == config_.exit_at) _exit(0);
  if (config_.leak_bytes > 0) {
    auto* volatile lost =
        static_cast<volatile char*>(std::malloc(static_cast<size_t>(config_.leak_bytes)));
    for (int64_t i = 0; i < config_.leak_bytes; ++i) lost[i] = 1;  // a memset may be left out
  }
}

void FakePolicy::compute() {
  uint32_t hash = 2166136261u;
  const auto mix = [&hash](uint8_t byte) { hash = (hash ^ byte) * 16777619u; };
  for (char c : prompt_) mix(static_cast<uint8_t>(c));
  for (uint8_t p : pixels_) mix(p);
  const float offset = static_cast<float>(hash >> 22) / 1024.0f;
  for (size_t i = 0; i < actions_.size(); ++i)
    actions_[i] =
        (state_.empty() ? 0.0f : state_[i % state_.size()]) + static_cast<float>(i) + offset;
  if (tick_ == config_.nan_at && static_cast<size_t>(config_.nan_index) < actions_.size()) {
    actions_[static_cast<size_t>(config_.nan_index)] = std::numeric_limits<float>::quiet_NaN();
    ++counters_[3];
  }
  echo_ = prompt_;
  ++counters_[0];
  ready_ = true;
}

int FakePolicy::step() {
  if (config_.plan == "split") {
    const int code = run(kContext);
    return code == FRT_OK ? run(kAction) : code;
  }
  return run(kInfer);
}

// ---- outputs -----------------------------------------------------------------------------------

int FakePolicy::copy_out(const void* data, uint64_t n_bytes, void* out, uint64_t capacity,
                         uint64_t* written) {
  *written = n_bytes;
  if (capacity < n_bytes || (out == nullptr && n_bytes > 0))
    return fail(FRT_ERR_STORAGE, "output: %llu bytes of storage, wanted %llu",
                static_cast<unsigned long long>(capacity),
                static_cast<unsigned long long>(n_bytes));
  if (n_bytes > 0) std::memcpy(out, data, n_bytes);
  *written += static_cast<uint64_t>(config_.overrun_bytes);
  error_[0] = '\0';
  return FRT_OK;
}

int FakePolicy::get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) {
  if (written == nullptr) return fail(FRT_ERR_INVALID, "written is NULL");
  *written = 0;
  if (port < kActions || port >= n_ports(config_))
    return fail(FRT_ERR_INVALID, "port %u is no output", port);
  if (port == kTrace) return copy_out(trace_.data(), trace_.size(), out, capacity, written);
  const uint64_t action_bytes = actions_.size() * sizeof(float);
  if (port == kActions && (out == nullptr || capacity < action_bytes)) {
    *written = action_bytes;
    return fail(out == nullptr ? FRT_ERR_INVALID : FRT_ERR_STORAGE,
                "actions: wanted %llu bytes of storage",
                static_cast<unsigned long long>(action_bytes));
  }
  if (!ready_) return fail(FRT_ERR_NOT_READY, "nothing was run since the inputs changed");
  if (port == kActions) return copy_out(actions_.data(), action_bytes, out, capacity, written);
  if (port == kEcho) return copy_out(echo_.data(), echo_.size(), out, capacity, written);
  return copy_out(pixels_.data(), pixels_.size(), out, capacity, written);
}

}  // namespace outrider::fake
