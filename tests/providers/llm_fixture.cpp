#include "providers/llm_fixture.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <tuple>

#include "outrider/ext/status.h"
#include "support/shared_data.h"

namespace outrider::test {

std::string llm_provider_path() {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_gguf.so";
}

const std::string& tiny_llm(const SyntheticLlm& what) {
  static const TempDir dir;
  static std::map<std::tuple<LlmArch, DType, uint64_t, int32_t>, std::string> paths;
  std::string& path = paths[{what.arch, what.dtype, what.seed, what.end_of_turn}];
  if (path.empty()) {
    path = dir.file("llm" + std::to_string(paths.size()) + ".gguf");
    const auto written = write_synthetic_llm(what, path.c_str());
    EXPECT_TRUE(written) << written.error().text;
  }
  return path;
}

std::string config_json(const LlmSpec& spec) {
  const auto number = [](const char* key, auto value) {
    return std::string(",\"") + key + "\":" + std::to_string(value);
  };
  std::string json = R"({"model_family":"llm","model_path":")" + spec.model +
                     R"(","backend":"cpu")" + number("n_ctx", spec.n_ctx) +
                     number("n_threads", spec.n_threads) + number("temp", spec.temp) +
                     number("top_k", spec.top_k) + number("top_p", spec.top_p) +
                     number("seed", spec.seed) + number("max_tokens", spec.max_tokens);
  if (!spec.extra.empty()) json += "," + spec.extra;
  return json + "}";
}

LlmProvider::LlmProvider(const std::string& config, uint32_t first_port) : first_port_(first_port) {
  library_ = dlopen(llm_provider_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library_, nullptr) << dlerror();
  if (library_ == nullptr) return;
  const auto open = reinterpret_cast<frt_model_runtime_open_v1_fn>(
      dlsym(library_, FRT_MODEL_RUNTIME_OPEN_SYMBOL));
  EXPECT_NE(open, nullptr);
  open_code_ = open(config.c_str(), &runtime_);
}

LlmProvider::~LlmProvider() {
  if (runtime_ != nullptr) runtime_->release(runtime_->owner);
  if (library_ != nullptr) dlclose(library_);
}

const frt_generic_stage_plan_ext_v1* LlmProvider::plan() const {
  const void* table = nullptr;
  if (runtime_->query_extension(runtime_, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table) != 0)
    return nullptr;
  return static_cast<const frt_generic_stage_plan_ext_v1*>(table);
}

int LlmProvider::stage(const std::string& name) const {
  const auto* stages = plan();
  for (uint64_t i = 0; i < stages->n_stages; ++i)
    if (name == stages->stages[i].name)
      return stages->run_opaque(stages->stage_self, stages->stages[i].executor_ref);
  ADD_FAILURE() << "no stage " << name;
  return -1;
}

int LlmProvider::read(uint32_t port, std::string* out) const {
  const auto& get = runtime_->verbs.get_output;
  uint64_t bytes = 0;
  int code = get(runtime_->self, port, nullptr, 0, &bytes, -1);
  if (code != FRT_ERR_STORAGE) return code;
  std::string value(bytes, 0);
  code = get(runtime_->self, port, value.data(), value.size(), &bytes, -1);
  EXPECT_EQ(bytes, value.size());
  if (out != nullptr) *out = value;
  return code;
}

int32_t LlmProvider::integer(uint32_t port) const {
  std::string bytes;
  int32_t value = -1;
  if (read(port, &bytes) != 0 || bytes.size() != sizeof value) return -1;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<float> LlmProvider::logits() const {
  std::string bytes;
  if (read(first_port_ + kLogits, &bytes) != 0) return {};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string LlmProvider::text() const {
  std::string value;
  read(first_port_ + kText, &value);
  return value;
}

int64_t LlmProvider::counter(const std::string& name) const {
  const void* table = nullptr;
  EXPECT_EQ(runtime_->query_extension(runtime_, OUTRIDER_EXT_STATUS, 1, &table), 0);
  const auto* status = static_cast<const outrider_status_v1*>(table);
  std::vector<outrider_counter_v1> counters(status->read(status->self, nullptr, 0));
  status->read(status->self, counters.data(), counters.size());
  for (const auto& counter : counters)
    if (name == counter.name) return counter.value;
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

const outrider_cancel_v1& LlmProvider::cancel() const {
  const void* table = nullptr;
  EXPECT_EQ(runtime_->query_extension(runtime_, OUTRIDER_EXT_CANCEL, 1, &table), 0);
  return *static_cast<const outrider_cancel_v1*>(table);
}

std::vector<int32_t> LlmProvider::generate(size_t n) const {
  std::vector<int32_t> ids;
  EXPECT_EQ(prefill(), 0) << error();
  while (ids.size() < n) {
    const int code = decode();
    EXPECT_EQ(code, 0) << error();
    if (code != 0) break;
    ids.push_back(integer(first_port_ + kNextToken));
    if (integer(first_port_ + kIsEog) != 0) break;
  }
  return ids;
}

std::vector<int32_t> some_ids(size_t n, uint32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>((i * i * 31 + 7 * i + 300 + 57 * seed) % 640));
  return ids;
}

}  // namespace outrider::test
