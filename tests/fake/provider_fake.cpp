// A provider that does what its configuration scripts: for tests of everything above the ABI.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "abi/builder.h"
#include "abi/guard.h"
#include "broken.h"
#include "fake_policy.h"
#include "outrider/frt_v1.h"

namespace outrider::fake {
namespace {

FakePolicy& policy(void* self) {
  return *static_cast<FakePolicy*>(self);
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
  return abi::guard([&] { return policy(self).set_input(port, data, bytes); });
}
int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int) {
  return abi::guard([&] { return policy(self).get_output(port, out, capacity, written); });
}
int prepare(void*, uint32_t, uint64_t) {
  return FRT_ERR_UNSUPPORTED;
}
int step(void* self) {
  if (policy(self).config().raw_throw_at > 0) return policy(self).step();
  return abi::guard([&] { return policy(self).step(); });
}
const char* last_error(void* self) {
  return policy(self).last_error();
}
int run_opaque(void* self, uint32_t ref) {
  if (policy(self).config().raw_throw_at > 0) return policy(self).run(ref);
  return abi::guard([&] { return policy(self).run(ref); });
}
void release_owner(void* owner) {
  delete static_cast<FakePolicy*>(owner);
}

Error refused(frt_runtime_builder builder) {
  Error error = make_error(Code::kInvalid, "fake: %s", abi::builder_error(builder));
  frt_runtime_builder_finish(builder, nullptr, nullptr, nullptr);  // discards it
  return error;
}

bool add_ports(frt_runtime_builder b, const FakeConfig& c) {
  const int64_t images[] = {c.n_views, c.image_height, c.image_width, 3}, any[] = {-1};
  const int64_t actions[] = {c.action_steps, c.action_dim};
  const auto required = static_cast<uint32_t>(c.require_inputs);
  struct Row {
    const char* name;
    uint32_t modality, dtype, layout, direction, required;
    const int64_t* shape;
    uint32_t rank;
  };
  const Row rows[kPortCount] = {
      {"images", FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC, FRT_PORT_IN, required, images,
       4},
      {"prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, required, any, 1},
      {"state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, required, any, 1},
      {"actions", FRT_MODALITY_ACTION, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0, actions, 2},
      {"echo", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0, any, 1},
      {"pixels", FRT_MODALITY_TENSOR, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0, any, 1},
      {"trace", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0, any, 1}};
  for (const Row& r : std::span(rows).first(n_ports(c)))
    if (frt_runtime_builder_add_port(b, r.name, r.modality, r.dtype, r.layout, r.direction,
                                     FRT_UPDATE_STAGED, r.required, r.shape, r.rank, 0, nullptr, 0,
                                     0) != 0)
      return false;
  return true;
}

bool add_plan(frt_runtime_builder b, FakePolicy* self) {
  struct Row {
    const char *plan, *name;
    uint32_t ref;
    std::vector<uint32_t> after;
  };
  const Row rows[] = {{"infer", "infer", kInfer, {}},        {"split", "context", kContext, {}},
                      {"split", "action", kAction, {0}},     {"diamond", "top", kTop, {}},
                      {"diamond", "left", kLeft, {0}},       {"diamond", "right", kRight, {0}},
                      {"diamond", "bottom", kBottom, {1, 2}}};
  bool any = false;
  for (const Row& r : rows) {
    if (self->config().plan != r.plan) continue;
    any = true;
    if (frt_runtime_builder_add_generic_stage(b, r.name, FRT_EXECUTOR_OPAQUE, r.ref, r.after.data(),
                                              static_cast<uint32_t>(r.after.size())) != 0)
      return false;
  }
  return !any || frt_runtime_builder_set_generic_stage_runner(b, self, &run_opaque) == 0;
}

std::string long_text(int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + (i ^ i / 997) % 26);
  return text;
}

Result<frt_model_runtime_v1*> build(std::unique_ptr<FakePolicy> owned) {
  const FakeConfig& c = owned->config();
  frt_runtime_builder builder = frt_model_runtime_builder_create_metadata();
  if (builder == nullptr) return make_error(Code::kNoMemory, "fake: out of memory");
  frt_runtime_builder_add_identity(builder, "provider", "fake");
  frt_runtime_builder_add_identity(builder, "plan", c.plan.c_str());
  if (c.identity_pad >= 0)
    frt_runtime_builder_add_identity(builder, "pad", long_text(c.identity_pad).c_str());
  if (c.manifest_bytes > 1)
    frt_runtime_builder_set_manifest(builder,
                                     ('"' + long_text(c.manifest_bytes - 2) + '"').c_str());
  if (!add_ports(builder, c) || !add_plan(builder, owned.get())) return refused(builder);
  const frt_model_runtime_verbs verbs = {sizeof verbs, 0,     &set_input, &get_output,
                                         &prepare,     &step, &last_error};
  const abi::ExtensionTable tables[] = {{OUTRIDER_EXT_STATUS, 1, &owned->status},
                                        {OUTRIDER_EXT_TAPS, 1, &owned->taps}};
  auto runtime =
      abi::finish_model(builder, &verbs, owned.get(), owned.get(), nullptr, &release_owner, tables);
  if (!runtime) return refused(builder);
  (void)owned.release();  // the runtime's now
  return runtime;
}

// The builder puts stubs where a verb is NULL; other producers leave them NULL.
void clear_verbs(frt_model_runtime_v1* rt, const std::string& list) {
  const auto named = [&list](const char* verb) {
    return ("," + list + ",").find(std::string(",") + verb + ",") != std::string::npos;
  };
  if (named("set_input")) rt->verbs.set_input = nullptr;
  if (named("get_output")) rt->verbs.get_output = nullptr;
  if (named("prepare")) rt->verbs.prepare = nullptr;
  if (named("step")) rt->verbs.step = nullptr;
  if (named("last_error")) rt->verbs.last_error = nullptr;
}

void leave_reason(const char* text) {
  if (auto sink =
          reinterpret_cast<void (*)(const char*)>(dlsym(RTLD_DEFAULT, "outrider_open_reason_sink")))
    sink(text);
}

Result<void> act_at_open(const FakeConfig& c) {
  if (c.open_print != 0) std::puts("the fake prints"), std::fflush(stdout);
  if (c.open_sleep_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(c.open_sleep_ms));
  if (c.fault == "open_throws") throw std::runtime_error("scripted");
  if (c.open_alloc_mb > 0) {
    std::vector<char> block(static_cast<size_t>(c.open_alloc_mb) << 20);
    for (size_t i = 0; i < block.size(); i += 4096) block[i] = 1;
  }
  if (c.open_code != 0)
    return make_error(static_cast<Code>(c.open_code), "%s", c.open_reason.c_str());
  return {};
}

Result<frt_model_runtime_v1*> open(const char* json) {
  auto config = parse_config(json);
  if (!config) return config.error();
  const FakeConfig& c = config.value();
  OUTRIDER_TRY(act_at_open(c));
  if (c.fault == "open_null_out") return static_cast<frt_model_runtime_v1*>(nullptr);
  if (!c.fault.empty() && !is_fault(c.fault.c_str()))
    return make_error(Code::kInvalid, "fake: unknown fault %.64s", c.fault.c_str());
  auto runtime = build(std::make_unique<FakePolicy>(c));
  if (!runtime) return runtime;
  if (!c.fault.empty()) runtime = bend(runtime.value(), c.fault.c_str());
  if (runtime) clear_verbs(runtime.value(), c.null_verbs);
  return runtime;
}

int open_into(const char* json, frt_model_runtime_v1** out) {
  auto runtime = open(json);
  if (!runtime) {
    auto config = parse_config(json);
    if (!config || config.value().open_silent == 0) leave_reason(runtime.error().text);
    return to_abi(runtime.code());
  }
  *out = runtime.value();
  return FRT_OK;
}

}  // namespace
}  // namespace outrider::fake

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  using namespace outrider;
  if (out == nullptr) return FRT_ERR_INVALID;
  *out = nullptr;
  if (config_json != nullptr && std::strstr(config_json, "open_throws") != nullptr)
    return fake::open_into(config_json, out);
  return abi::guard([&] { return fake::open_into(config_json, out); });
}
