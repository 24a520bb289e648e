// A tiny text model on disk and provider_gguf.so opened through the plain C ABI.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/synthetic_llm.h"
#include "outrider/ext/cancel.h"
#include "outrider/frt_v1.h"

namespace outrider::test {

std::string llm_provider_path();

// Path of a synthetic model, written once per program.
const std::string& tiny_llm(const SyntheticLlm& what = {});

// Builds the open configuration. `extra` is appended: R"("precision":"f32")".
struct LlmSpec {
  std::string model;
  int64_t n_ctx = 128, n_threads = 1, max_tokens = 16, seed = 1, top_k = 0;
  double temp = 0, top_p = 0;
  std::string extra = {};
};
std::string config_json(const LlmSpec& spec);

// One opened runtime; releases it, then unloads the library.
class LlmProvider {
 public:
  enum Port : uint32_t { kPrompt, kText, kNextToken, kLogits, kIsEog, kTokens };

  // `first_port`: how many ports of a larger face stand before those of a text model.
  explicit LlmProvider(const std::string& config, uint32_t first_port = 0);
  explicit LlmProvider(const LlmSpec& spec) : LlmProvider(config_json(spec)) {}
  ~LlmProvider();
  LlmProvider(const LlmProvider&) = delete;
  LlmProvider& operator=(const LlmProvider&) = delete;

  bool ok() const { return runtime_ != nullptr; }
  int open_code() const { return open_code_; }
  const frt_model_runtime_v1* operator->() const { return runtime_; }
  const frt_model_runtime_v1* get() const { return runtime_; }

  int set(uint32_t port, const void* data, uint64_t bytes) const {
    return runtime_->verbs.set_input(runtime_->self, port, data, bytes, -1);
  }
  int prompt(const std::string& text) const {
    return set(first_port_ + kPrompt, text.data(), text.size());
  }
  int tokens(std::span<const int32_t> ids) const {
    return set(first_port_ + kTokens, ids.data(), ids.size_bytes());
  }
  int step() const { return runtime_->verbs.step(runtime_->self); }
  int reset() const { return stage("reset"); }
  int prefill() const { return stage("prefill"); }
  int decode() const { return stage("decode"); }
  int stage(const std::string& name) const;

  // Code of a read; the bytes go to `out` when it is 0.
  int read(uint32_t port, std::string* out = nullptr) const;
  int32_t integer(uint32_t port) const;  // -1 when not ready
  std::vector<float> logits() const;     // empty when not ready
  std::string text() const;              // empty when not ready
  std::string error() const { return runtime_->verbs.last_error(runtime_->self); }
  int64_t counter(const std::string& name) const;
  const outrider_cancel_v1& cancel() const;
  const frt_generic_stage_plan_ext_v1* plan() const;

  // Prefill and decode to the end or to n ids; the ids. Expects every verb to succeed.
  std::vector<int32_t> generate(size_t n) const;

 private:
  void* library_ = nullptr;
  frt_model_runtime_v1* runtime_ = nullptr;
  int open_code_ = 0;
  uint32_t first_port_ = 0;
};

// n ids that any tiny model has, different for every seed.
std::vector<int32_t> some_ids(size_t n, uint32_t seed = 0);

}  // namespace outrider::test
