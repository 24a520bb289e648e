// What our providers have in common: opening by family, the verbs of a model, its counters, and the
// way from an object to a frt_model_runtime_v1. What differs stays with each of them.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "abi/builder.h"
#include "base/json.h"
#include "outrider/ext/status.h"

namespace outrider::abi {

// One value of "model_family" and what opens it.
struct Family {
  const char* name;
  Result<frt_model_runtime_v1*> (*open)(const Json& config);
};

// [setup] All that frt_model_runtime_open_v1 does: parses the flat configuration, finds the family,
// opens it. No exception leaves it. After an error *out is NULL and the reason was left where the
// host or the operator asked for it: our host offers a sink (only one symbol may be exported, so a
// reason cannot be asked for), any other can have one line on standard error by
// OUTRIDER_OPEN_ERRORS=stderr.
int open_provider(const char* config_json, frt_model_runtime_v1** out,
                  std::span<const Family> families) noexcept;

// A port as our providers have them: staged, without a window of its own.
struct PortRow {
  std::string name;
  uint32_t modality = FRT_MODALITY_TENSOR, dtype = FRT_DTYPE_F32, layout = FRT_LAYOUT_FLAT;
  uint32_t direction = FRT_PORT_IN, required = 0;
  std::vector<int64_t> shape = {};
};

// A metadata builder that is discarded unless it was consumed. The first refusal is kept: what
// comes after it does nothing, and publish() tells it.
class MetadataBuilder {
 public:
  MetadataBuilder() : handle_(frt_model_runtime_builder_create_metadata()) {}
  ~MetadataBuilder() {
    if (handle_ != nullptr) frt_runtime_builder_finish(handle_, nullptr, nullptr, nullptr);
  }
  MetadataBuilder(const MetadataBuilder&) = delete;
  MetadataBuilder& operator=(const MetadataBuilder&) = delete;
  frt_runtime_builder get() const { return handle_; }
  void consumed() { handle_ = nullptr; }

  // In their order, as the identity has them.
  void identity(const char* key, const std::string& value);
  void identity(const std::string& key, const std::string& value) { identity(key.c_str(), value); }
  template <class Pairs>
  void identities(const Pairs& pairs) {
    for (const auto& [key, value] : pairs) identity(key, value);
  }
  void manifest(const std::string& json);
  void port(const PortRow& row);
  void port_like(const frt_runtime_port_desc& other);  // as another runtime has it
  // An opaque stage that runs behind those stages.
  void stage(const char* name, uint32_t executor_ref, std::span<const uint32_t> after = {});
  void runner(int (*run_stage)(void* self, uint32_t executor_ref), void* self);

  bool ok() const { return ok_; }
  // "WHO: the builder's reason"; only when it is not ok().
  Error refusal(Code code, const char* who) const;

 private:
  frt_runtime_builder handle_;
  bool ok_ = handle_ != nullptr;
};

// finish_model() with `published` as verbs' self and as owner: the last release deletes it.
// Errors: as finish_model(), kNoMemory (the builder refused something: our mistake); `published`
// and the builder are then discarded.
template <class Published>
Result<frt_model_runtime_v1*> publish(MetadataBuilder& builder,
                                      std::unique_ptr<Published> published,
                                      const frt_model_runtime_verbs& verbs,
                                      std::span<const ExtensionTable> extensions) {
  if (!builder.ok())
    return builder.refusal(Code::kNoMemory, "open: the runtime description was refused");
  auto made = finish_model(
      builder.get(), &verbs, published.get(), published.get(), nullptr,
      [](void* owner) { delete static_cast<Published*>(owner); }, extensions);
  if (!made) return made.error();
  builder.consumed();
  (void)published.release();  // the model's now
  return made;
}

// The verbs of a model: kOf finds, in the verbs' self, the object that answers them with Code.
template <auto kOf>
struct ModelVerbs {
  static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
    return self == nullptr ? FRT_ERR_INVALID : to_abi(kOf(self).set_input(port, data, bytes));
  }
  static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                        int) {
    if (self == nullptr) return FRT_ERR_INVALID;
    return to_abi(kOf(self).get_output(port, out, capacity, written));
  }
  static int prepare(void* self, uint32_t, uint64_t) {
    return self == nullptr ? FRT_ERR_INVALID : to_abi(kOf(self).prepare_graph());
  }
  static int step(void* self) {
    return self == nullptr ? FRT_ERR_INVALID : to_abi(kOf(self).step());
  }
  static int run_stage(void* self, uint32_t executor_ref) {
    return self == nullptr ? FRT_ERR_INVALID : to_abi(kOf(self).run_stage(executor_ref));
  }
  static const char* last_error(void* self) {
    return self == nullptr ? "self is NULL" : kOf(self).last_error();
  }
  static constexpr frt_model_runtime_verbs kTable = {
      sizeof(frt_model_runtime_verbs), 0, set_input, get_output, prepare, step, last_error};
};

// Rows of the status extension.
struct Counter {
  const char* name;
  const std::atomic<int64_t>* value;
};
// [hot] Writes up to capacity rows to out (may be NULL) and returns how many there are.
uint64_t read_counters(std::span<const Counter> rows, outrider_counter_v1* out,
                       uint64_t capacity) noexcept;

}  // namespace outrider::abi
