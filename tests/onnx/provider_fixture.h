// Small ONNX policies on disk and provider_onnx.so opened through the plain C ABI.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "host/reason.h"
#include "onnx/model_maker.h"
#include "outrider/ext/status.h"
#include "outrider/frt_v1.h"
#include "support/shared_data.h"

namespace outrider::onnx::test {

inline std::string provider_path() {
  return std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_onnx.so";
}

inline std::vector<float> wave(size_t n, float step) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 29 % 17) - 8) * step;
  return values;
}

// obs {1, 6} -> actions {1, 3}: two products and an Elu.
inline ModelMaker policy() {
  ModelMaker m;
  m.input("obs", {1, 6}).output("actions", {1, 3});
  m.floats("w0", {16, 6}, wave(96, 0.05f));
  m.floats("b0", {16}, wave(16, 0.1f));
  m.floats("w1", {3, 16}, wave(48, 0.06f));
  m.floats("b1", {3}, {0.1f, -0.2f, 0.3f});
  set_int(m.node("Gemm", {"obs", "w0", "b0"}, {"h"}), "transB", 1);
  m.node("Elu", {"h"}, {"e"});
  set_int(m.node("Gemm", {"e", "w1", "b1"}, {"actions"}), "transB", 1);
  return m;
}

// y = x + memory, next_memory = memory / 2 + x; batch is symbolic.
inline ModelMaker stateful() {
  ModelMaker m;
  m.input("x", {-1, 4}).input("memory", {-1, 4});
  m.output("y", {-1, 4}).output("next_memory", {-1, 4});
  m.floats("half", {1}, {0.5f});
  m.node("Add", {"x", "memory"}, {"y"});
  m.node("Mul", {"memory", "half"}, {"kept"});
  m.node("Add", {"kept", "x"}, {"next_memory"});
  return m;
}

class OnDisk {
 public:
  explicit OnDisk(const ModelMaker& m, const std::string& name = "policy.onnx")
      : path_(dir_.file(name)) {
    std::ofstream(path_, std::ios::binary) << m.bytes();
  }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return dir_.file(name); }
  std::string config(const std::string& extra = "") const {
    return R"({"model_family":"onnx","model_path":")" + path_ + R"(","backend":"cpu")" +
           (extra.empty() ? "" : "," + extra) + "}";
  }

 private:
  ::outrider::test::TempDir dir_;
  std::string path_;
};

// One opened runtime; releases it, then unloads the library.
class Provider {
 public:
  explicit Provider(const std::string& config) {
    library_ = dlopen(provider_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    if (library_ == nullptr) return;
    using Open = int (*)(const char*, frt_model_runtime_v1**);
    auto open = reinterpret_cast<Open>(dlsym(library_, "frt_model_runtime_open_v1"));
    code_ = open(config.c_str(), &runtime_);
    EXPECT_EQ(code_ == 0, runtime_ != nullptr);
  }
  ~Provider() {
    if (runtime_ != nullptr) runtime_->release(runtime_->owner);
    if (library_ != nullptr) dlclose(library_);
  }
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  bool ok() const { return runtime_ != nullptr; }
  int code() const { return code_; }
  const frt_model_runtime_v1* get() const { return runtime_; }
  uint32_t port(const std::string& name) const {
    for (uint64_t i = 0; i < runtime_->n_ports; ++i)
      if (name == runtime_->ports[i].name) return static_cast<uint32_t>(i);
    ADD_FAILURE() << "no port " << name;
    return 0;
  }
  int set(const std::string& name, const std::vector<float>& values) const {
    return runtime_->verbs.set_input(runtime_->self, port(name), values.data(), values.size() * 4,
                                     -1);
  }
  std::vector<float> read(const std::string& name) const {
    const auto& desc = runtime_->ports[port(name)];
    size_t n = 1;
    for (uint32_t d = 0; d < desc.rank; ++d) n *= static_cast<size_t>(desc.shape[d]);
    std::vector<float> values(n);
    uint64_t written = 0;
    last_ =
        runtime_->verbs.get_output(runtime_->self, port(name), values.data(), n * 4, &written, -1);
    if (last_ != 0) values.clear();
    return values;
  }
  int last() const { return last_; }
  int step() const { return runtime_->verbs.step(runtime_->self); }
  const frt_generic_stage_plan_ext_v1* plan() const {
    const void* table = nullptr;
    runtime_->query_extension(runtime_, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table);
    return static_cast<const frt_generic_stage_plan_ext_v1*>(table);
  }
  int stage(const std::string& name) const {
    for (uint64_t i = 0; i < plan()->n_stages; ++i)
      if (name == plan()->stages[i].name)
        return plan()->run_opaque(plan()->stage_self, plan()->stages[i].executor_ref);
    ADD_FAILURE() << "no stage " << name;
    return -99;
  }
  std::string error() const { return runtime_->verbs.last_error(runtime_->self); }
  int64_t counter(const std::string& name) const {
    const void* table = nullptr;
    runtime_->query_extension(runtime_, OUTRIDER_EXT_STATUS, 1, &table);
    const auto* status = static_cast<const outrider_status_v1*>(table);
    outrider_counter_v1 rows[32];
    const uint64_t n = status->read(status->self, rows, 32);
    for (uint64_t i = 0; i < n; ++i)
      if (name == rows[i].name) return rows[i].value;
    return -1;
  }

 private:
  void* library_ = nullptr;
  frt_model_runtime_v1* runtime_ = nullptr;
  int code_ = 0;
  mutable int last_ = 0;
};

}  // namespace outrider::onnx::test
