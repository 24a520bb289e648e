// A model in this process that does what the test says, with a history, on a clock that stands
// still until it is told to move. Ports: state IN F32 {2}, command OUT F32 {4}, note OUT U8 {-1}.
//   command = { who, state[0], state[1] + sum of all state[1] seen before, number of runs }
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "abi/builder.h"
#include "base/clock.h"
#include "host/session_core.h"
#include "outrider/ext/history.h"
#include "outrider/ext/liveness.h"

namespace outrider::tandem::test {

class Scripted {
 public:
  struct Behaviour {
    int64_t took_ns = 10000000;  // the clock moves by this in a run
    std::atomic<int> code{0};    // of a run; tests change it while the worker runs
    int input_code = 0;
    bool nan = false, short_output = false, not_ready = false;
    bool throws = false;
    int reset_code = 0;
    int alive = 1;
    int64_t sleep_us = 0;                   // in real time
    std::function<void(int64_t ns)> spend;  // how a run takes its time; empty: the clock moves
  };
  struct Options {
    float who = 1;
    bool history = true;
    bool reset_stage = false;  // the history is a stage of the plan instead of an extension
    bool liveness = false;
    int64_t command_values = 4;
    bool extra_port = false;
  };

  explicit Scripted(ManualClock* clock, const Options& options) : clock_(clock), o_(options) {
    build();
    auto core = host::SessionCore::adopt(runtime_, host::monotonic_clock());
    EXPECT_TRUE(core) << core.error().text;
    core_ = std::move(core.value());
    runtime_->release(runtime_->owner);
  }

  host::SessionCore& core() { return *core_; }
  const frt_model_runtime_v1& runtime() const { return core_->runtime(); }
  std::unique_ptr<host::SessionCore> second_core() {
    return std::move(host::SessionCore::adopt(&core_->runtime(), host::monotonic_clock()).value());
  }

  Behaviour now;
  std::atomic<uint64_t> generation{0};  // of the far end
  int64_t n_runs = 0, n_resets = 0, n_inputs = 0, n_pings = 0;
  std::vector<float> seen;  // state[0] of every run

 private:
  static Scripted& of(void* self) { return *static_cast<Scripted*>(self); }
  static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
    Scripted& s = of(self);
    if (port != 0 || bytes != sizeof s.state_) return FRT_ERR_SHAPE;
    if (s.now.input_code != 0) return s.now.input_code;
    std::memcpy(s.state_, data, bytes);
    ++s.n_inputs;
    return 0;
  }
  static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                        int) {
    Scripted& s = of(self);
    if (port == 2) return *written = 0, FRT_ERR_NOT_READY;
    if (port != 1) return FRT_ERR_INVALID;
    if (s.now.not_ready) return FRT_ERR_NOT_READY;
    uint64_t bytes = static_cast<uint64_t>(s.o_.command_values) * sizeof(float);
    if (s.now.short_output) bytes -= sizeof(float);
    *written = bytes;
    if (capacity < bytes) return FRT_ERR_STORAGE;
    std::memcpy(out, s.command_, std::min<uint64_t>(bytes, sizeof s.command_));
    return 0;
  }
  static int run(void* self) {
    Scripted& s = of(self);
    if (s.now.spend)
      s.now.spend(s.now.took_ns);
    else if (s.clock_ != nullptr)
      s.clock_->advance_ns(s.now.took_ns);
    if (s.now.sleep_us > 0) usleep(static_cast<useconds_t>(s.now.sleep_us));
    if (s.now.throws) throw 1;
    if (const int code = s.now.code; code != 0) return code;
    ++s.n_runs;
    if (s.seen.size() < s.seen.capacity()) s.seen.push_back(s.state_[0]);
    s.command_[0] = s.o_.who;
    s.command_[1] = s.state_[0];
    s.command_[2] = s.state_[1] + s.sum_;
    s.command_[3] = static_cast<float>(s.n_runs);
    if (s.now.nan) s.command_[2] = std::nanf("");
    s.sum_ += s.state_[1];
    return 0;
  }
  static const char* last_error(void*) { return "scripted"; }
  static int alive(void* self) {
    ++of(self).n_pings;
    return of(self).now.alive;
  }
  static uint64_t read_generation(void* self) { return of(self).generation; }
  static int run_opaque(void* self, uint32_t ref) {
    return ref == kResetRef ? reset(self) : run(self);
  }
  static int reset(void* self) {
    if (of(self).now.reset_code != 0) return of(self).now.reset_code;
    of(self).sum_ = 0;
    of(self).n_runs = 0;
    ++of(self).n_resets;
    return 0;
  }

  void build() {
    seen.reserve(100000);
    frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
    const int64_t two = 2, any = -1;
    const auto add = [&](const char* name, uint32_t modality, uint32_t dtype, uint32_t direction,
                         const int64_t& n) {
      ASSERT_EQ(frt_runtime_builder_add_port(b, name, modality, dtype, FRT_LAYOUT_FLAT, direction,
                                             FRT_UPDATE_STAGED, direction == FRT_PORT_IN, &n, 1, 0,
                                             nullptr, 0, 0),
                0);
    };
    add("state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_PORT_IN, two);
    add("command", FRT_MODALITY_ACTION, FRT_DTYPE_F32, FRT_PORT_OUT, o_.command_values);
    add("note", FRT_MODALITY_TENSOR, FRT_DTYPE_U8, FRT_PORT_OUT, any);
    if (o_.extra_port) add("extra", FRT_MODALITY_TENSOR, FRT_DTYPE_U8, FRT_PORT_OUT, two);
    history_ = {1, sizeof history_, this, &reset};
    if (o_.reset_stage) {
      for (const auto& [name, ref] : {std::pair{"reset", kResetRef}, std::pair{"infer", 7u}})
        ASSERT_EQ(
            frt_runtime_builder_add_generic_stage(b, name, FRT_EXECUTOR_OPAQUE, ref, nullptr, 0),
            0);
      ASSERT_EQ(frt_runtime_builder_set_generic_stage_runner(b, this, &run_opaque), 0);
    }
    liveness_ = {1, sizeof liveness_, this, &alive, &read_generation};
    const frt_model_runtime_verbs verbs = {sizeof verbs, 0,    &set_input, &get_output,
                                           nullptr,      &run, &last_error};
    std::vector<abi::ExtensionTable> tables;
    if (o_.history && !o_.reset_stage) tables.push_back({OUTRIDER_EXT_HISTORY, 1, &history_});
    if (o_.liveness) tables.push_back({OUTRIDER_EXT_LIVENESS, 1, &liveness_});
    auto model = abi::finish_model(b, &verbs, this, nullptr, nullptr, nullptr, tables);
    ASSERT_TRUE(model) << model.error().text;
    runtime_ = model.value();
  }

  ManualClock* clock_;
  Options o_;
  frt_model_runtime_v1* runtime_ = nullptr;
  std::unique_ptr<host::SessionCore> core_;
  static constexpr uint32_t kResetRef = 40;
  outrider_history_v1 history_{};
  outrider_liveness_v1 liveness_{};
  float state_[2] = {}, command_[8] = {}, sum_ = 0;
};

}  // namespace outrider::tandem::test
