// The lead on its host, and what stands for it on the device: a runtime over a link::Device. (What
// provider_link.so makes, without its thread.)
#pragma once
#include "link/sim.h"
#include "tandem/scripted.h"

namespace outrider::sim {

using tandem::test::Scripted;

// What the host serves: a scripted model with a reset stage, so that its history can be put back
// from the other end of the cable. It takes no time of its own: the reply comes later instead.
class HostModel final : public link::Runtime {
 public:
  HostModel(link::sim::World& world, const int64_t& run_ns, const bool& nan, float who)
      : world_(world),
        run_ns_(run_ns),
        nan_(nan),
        model_(nullptr, {.who = who, .reset_stage = true}) {
    plan_.abi_version = 1;
    plan_.struct_size = sizeof plan_;
    plan_.stages = kStages;
    plan_.n_stages = std::size(kStages);
  }
  const frt_model_runtime_v1& face() const noexcept override { return model_.runtime(); }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return &plan_; }
  bool has_step() const noexcept override { return true; }
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    return model_.core().set_input(port, data, bytes);
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    return model_.core().get_output(port, out, capacity, written);
  }
  int run(uint32_t ref) noexcept override {
    model_.now.nan = nan_;
    if (ref == kStages[1].executor_ref) world_.work_ns += run_ns_;
    for (uint64_t i = 0; i < std::size(kStages); ++i)
      if (kStages[i].executor_ref == ref) return model_.core().run_stage(i);
    return FRT_ERR_NOT_FOUND;
  }
  int step() noexcept override { return run(kStages[1].executor_ref); }
  int prepare(uint32_t, uint64_t) noexcept override { return FRT_ERR_UNSUPPORTED; }
  const char* last_error() noexcept override { return "scripted"; }

 private:
  static constexpr frt_generic_stage_desc_v1 kStages[] = {
      {"reset", FRT_EXECUTOR_OPAQUE, 40, 0, 0, nullptr},
      {"infer", FRT_EXECUTOR_OPAQUE, 7, 0, 0, nullptr}};
  link::sim::World& world_;
  const int64_t& run_ns_;
  const bool& nan_;
  Scripted model_;
  frt_generic_stage_plan_ext_v1 plan_{};
};

// The device's side as a runtime of the ABI. Release frees it.
class RemoteModel {
 public:
  // `current` is set to the open device while there is one.
  static Result<std::unique_ptr<host::SessionCore>> open(std::unique_ptr<link::Device> device,
                                                         link::Device** current,
                                                         const Clock& clock) {
    auto* self = new RemoteModel(std::move(device), current);
    frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
    const link::wire::OpenReply& from = self->device_->runtime();
    for (const link::wire::Port& port : from.ports.items) {
      int64_t shape[8] = {};
      for (uint16_t d = 0; d < port.shape.n; ++d) shape[d] = port.shape.items[d].size;
      frt_runtime_builder_add_port(b, std::string(port.name.view()).c_str(), port.modality,
                                   port.dtype, port.layout, port.direction, port.update,
                                   port.required, shape, port.shape.n, port.cadence_hint_hz,
                                   nullptr, 0, 0);
    }
    for (const link::wire::Stage& stage : from.stages.items)
      frt_runtime_builder_add_generic_stage(b, std::string(stage.name.view()).c_str(),
                                            FRT_EXECUTOR_OPAQUE, stage.executor_ref, nullptr, 0);
    frt_runtime_builder_set_generic_stage_runner(
        b, self, [](void* s, uint32_t ref) { return to_abi(of(s).run(ref)); });
    const frt_model_runtime_verbs verbs = {
        sizeof verbs,
        0,
        [](void* s, uint32_t port, const void* data, uint64_t bytes, int) {
          return to_abi(of(s).set_input(port, data, bytes));
        },
        [](void* s, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int) {
          return to_abi(of(s).get_output(port, out, capacity, written));
        },
        nullptr,
        nullptr,
        [](void* s) { return of(s).last_error(); }};
    const abi::ExtensionTable tables[] = {{OUTRIDER_EXT_LIVENESS, 1, &self->liveness_}};
    auto made = abi::finish_model(
        b, &verbs, self, self, nullptr, [](void* s) { delete static_cast<RemoteModel*>(s); },
        tables);
    if (!made) return made.error();
    auto core = host::SessionCore::adopt(made.value(), clock);
    made.value()->release(made.value()->owner);
    return core;
  }

 private:
  RemoteModel(std::unique_ptr<link::Device> device, link::Device** current)
      : device_(std::move(device)), current_(current) {
    *current_ = device_.get();
    liveness_ = {1, sizeof liveness_, this, [](void* s) { return of(s).connected() ? 1 : 0; },
                 [](void* s) { return static_cast<uint64_t>(of(s).counters().reconnects.load()); }};
  }
  ~RemoteModel() { *current_ = nullptr; }
  static link::Device& of(void* self) { return *static_cast<RemoteModel*>(self)->device_; }

  std::unique_ptr<link::Device> device_;
  link::Device** current_;
  outrider_liveness_v1 liveness_{};
};

}  // namespace outrider::sim
