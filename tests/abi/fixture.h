// A small model that notes what happens to it, and shorthand for builders of one.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "abi/builder.h"
#include "outrider/frt_v1.h"

namespace outrider::abi::test {

// `self` and `owner` of every runtime in these tests.
struct Model {
  std::vector<std::string> calls;
  std::string error = "the model's own text";
  int retained = 0, released = 0;
};

inline Model* model_of(void* self) {
  return static_cast<Model*>(self);
}

inline int set_input(void* self, uint32_t port, const void*, uint64_t bytes, int stream) {
  model_of(self)->calls.push_back("set_input " + std::to_string(port) + " " +
                                  std::to_string(bytes) + " " + std::to_string(stream));
  return 11;
}
inline int get_output(void* self, uint32_t port, void*, uint64_t capacity, uint64_t* written, int) {
  model_of(self)->calls.push_back("get_output " + std::to_string(port));
  *written = capacity;
  return 12;
}
inline int prepare(void* self, uint32_t graph, uint64_t key) {
  model_of(self)->calls.push_back("prepare " + std::to_string(graph) + " " + std::to_string(key));
  return 13;
}
inline int step(void* self) {
  model_of(self)->calls.push_back("step");
  return 14;
}
inline const char* last_error(void* self) {
  return model_of(self)->error.c_str();
}
inline int run_opaque(void* self, uint32_t ref) {
  model_of(self)->calls.push_back("run " + std::to_string(ref));
  return 0;
}
inline void retain_owner(void* owner) {
  ++model_of(owner)->retained;
}
inline void release_owner(void* owner) {
  ++model_of(owner)->released;
}

inline frt_model_runtime_verbs all_verbs() {
  return {sizeof(frt_model_runtime_verbs), 0, set_input, get_output, prepare, step, last_error};
}

template <class Handle>
Handle fake_handle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}
inline frt_ctx some_ctx() {
  return fake_handle<frt_ctx>(0x1000);
}
inline frt_graph some_graph(int i = 0) {
  return fake_handle<frt_graph>(0x2000 + 16 * i);
}
inline frt_buffer some_buffer(int i = 0) {
  return fake_handle<frt_buffer>(0x3000 + 16 * i);
}

// A builder that is discarded when a test leaves it unfinished.
class Builder {
 public:
  explicit Builder(frt_runtime_builder b) : b_(b) {}
  static Builder metadata() { return Builder(frt_model_runtime_builder_create_metadata()); }
  static Builder with_ctx() { return Builder(frt_runtime_builder_create(some_ctx())); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder();

  operator frt_runtime_builder() const { return b_; }
  const char* reason() const { return builder_error(b_); }

  int port(const char* name, uint32_t direction = FRT_PORT_IN,
           uint32_t update = FRT_UPDATE_STAGED) {
    return frt_runtime_builder_add_port(b_, name, FRT_MODALITY_TENSOR, FRT_DTYPE_F32,
                                        FRT_LAYOUT_FLAT, direction, update, 1, nullptr, 0, 0,
                                        nullptr, 0, 0);
  }
  int stage(const char* name, uint32_t ref = 37, std::vector<uint32_t> after = {},
            uint32_t kind = FRT_EXECUTOR_OPAQUE) {
    return frt_runtime_builder_add_generic_stage(b_, name, kind, ref, after.data(),
                                                 static_cast<uint32_t>(after.size()));
  }
  int graph(const char* name, int i = 0, int stream = 0) {
    return frt_runtime_builder_add_graph(b_, name, some_graph(i), 0, nullptr, 0, stream);
  }
  int runner(Model* m) { return frt_runtime_builder_set_generic_stage_runner(b_, m, run_opaque); }

  frt_model_runtime_v1* finish(Model* m, const frt_model_runtime_verbs& verbs) {
    auto* model = frt_runtime_builder_finish_model(b_, &verbs, m, m, retain_owner, release_owner);
    if (model != nullptr) b_ = nullptr;
    return model;
  }
  frt_model_runtime_v1* finish(Model* m) { return finish(m, all_verbs()); }
  frt_runtime_export_v1* finish_export(Model* m) {
    auto* exp = frt_runtime_builder_finish(b_, m, retain_owner, release_owner);
    if (exp != nullptr) b_ = nullptr;
    return exp;
  }
  void forget() { b_ = nullptr; }

 private:
  frt_runtime_builder b_;
};

// There is no call that destroys a builder with a context: it ends by a successful finish.
inline Builder::~Builder() {
  if (b_ == nullptr) return;
  frt_runtime_builder_finish(b_, nullptr, nullptr, nullptr);  // frees a metadata builder
}

// Runtimes of the three authorities. The caller releases them.
inline frt_model_runtime_v1* plan_model(Model* m) {
  Builder b = Builder::metadata();
  b.port("in"), b.port("out", FRT_PORT_OUT), b.stage("infer"), b.runner(m);
  return b.finish(m);
}
inline frt_model_runtime_v1* step_model(Model* m) {
  Builder b = Builder::metadata();
  b.port("in"), b.port("out", FRT_PORT_OUT);
  return b.finish(m);
}
inline frt_model_runtime_v1* graph_model(Model* m) {
  Builder b = Builder::with_ctx();
  b.graph("g"), b.port("in");
  frt_runtime_builder_add_stage(b, 0, nullptr, 0);
  return b.finish(m);
}

// Releases at the end of a scope.
struct Held {
  explicit Held(frt_model_runtime_v1* runtime) : r(runtime) {}
  Held(const Held&) = delete;
  ~Held() {
    if (r != nullptr) r->release(r->owner);
  }
  frt_model_runtime_v1* operator->() const { return r; }
  frt_model_runtime_v1* r;
};

}  // namespace outrider::abi::test
