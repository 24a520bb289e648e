// A runtime as the server needs it: the raw verbs, so that a device gets the codes that a local
// caller would get. One thread at a time per runtime.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::link {

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const frt_model_runtime_v1& face() const noexcept = 0;
  virtual const frt_generic_stage_plan_ext_v1* plan() const noexcept = 0;  // nullptr: step only
  virtual bool has_step() const noexcept = 0;

  // Codes of the runtime; a verb that is missing answers -3, one that throws or answers a positive
  // number -8.
  virtual int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept = 0;
  virtual int get_output(uint32_t port, void* out, uint64_t capacity,
                         uint64_t* written) noexcept = 0;
  virtual int run(uint32_t executor_ref) noexcept = 0;
  virtual int step() noexcept = 0;
  virtual int prepare(uint32_t graph, uint64_t key) noexcept = 0;
  // Never nullptr; valid until the next verb.
  virtual const char* last_error() noexcept = 0;
};

// How a model is opened, as often as there are instances.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual Result<std::unique_ptr<Runtime>> open() = 0;
};

// [setup] Through host: the provider's library, its open, its contract.
class ProviderSource final : public ModelSource {
 public:
  ProviderSource(std::string provider_path, std::string config_json)
      : path_(std::move(provider_path)), config_(std::move(config_json)) {}
  Result<std::unique_ptr<Runtime>> open() override;

 private:
  std::string path_, config_;
};

}  // namespace outrider::link
