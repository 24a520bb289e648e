#include "link/server/runtime.h"

#include "host/contract.h"
#include "host/foreign.h"
#include "host/loader.h"

namespace outrider::link {
namespace {

class HostedRuntime final : public Runtime {
 public:
  HostedRuntime(host::Library library, host::RuntimeRef runtime, host::Contract contract)
      : library_(std::move(library)),
        runtime_(std::move(runtime)),
        contract_(std::move(contract)) {}

  const frt_model_runtime_v1& face() const noexcept override { return *runtime_.get(); }
  const frt_generic_stage_plan_ext_v1* plan() const noexcept override { return contract_.plan; }
  bool has_step() const noexcept override { return verbs().step != nullptr; }

  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept override {
    if (verbs().set_input == nullptr) return FRT_ERR_UNSUPPORTED;
    return settle([&] { return verbs().set_input(self(), port, data, bytes, -1); });
  }
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept override {
    if (verbs().get_output == nullptr) return FRT_ERR_UNSUPPORTED;
    return settle([&] { return verbs().get_output(self(), port, out, capacity, written, -1); });
  }
  int run(uint32_t executor_ref) noexcept override {
    if (contract_.plan == nullptr) return FRT_ERR_UNSUPPORTED;
    return settle(
        [&] { return contract_.plan->run_opaque(contract_.plan->stage_self, executor_ref); });
  }
  int step() noexcept override {
    if (verbs().step == nullptr) return FRT_ERR_UNSUPPORTED;
    return settle([&] { return verbs().step(self()); });
  }
  int prepare(uint32_t graph, uint64_t key) noexcept override {
    if (verbs().prepare == nullptr) return FRT_ERR_UNSUPPORTED;
    return settle([&] { return verbs().prepare(self(), graph, key); });
  }
  const char* last_error() noexcept override {
    if (threw_) return "the provider threw an exception through the C border";
    if (verbs().last_error == nullptr) return "";
    const char* text = nullptr;
    host::call_foreign([&] { return text = verbs().last_error(self()), 0; });
    return text == nullptr ? "" : text;
  }

 private:
  const frt_model_runtime_verbs& verbs() const noexcept { return contract_.verbs; }
  void* self() const noexcept { return runtime_->self; }
  template <class F>
  int settle(F&& call) noexcept {
    const host::ForeignCall result = host::call_foreign(std::forward<F>(call));
    threw_ = result.threw;
    return result.threw || result.code > 0 ? int{FRT_ERR_FAILED} : result.code;
  }

  // The runtime goes before the library that holds its code.
  host::Library library_;
  host::RuntimeRef runtime_;
  host::Contract contract_;
  bool threw_ = false;
};

}  // namespace

Result<std::unique_ptr<Runtime>> ProviderSource::open() {
  auto library = host::Library::open(path_.c_str());
  if (!library) return library.error();
  auto runtime = host::open_runtime(library.value(), path_.c_str(), config_.c_str());
  if (!runtime) return runtime.error();
  auto contract = host::check_runtime(runtime.value().get());
  if (!contract) return contract.error();
  return std::unique_ptr<Runtime>(std::make_unique<HostedRuntime>(
      std::move(library.value()), std::move(runtime.value()), std::move(contract.value())));
}

}  // namespace outrider::link
