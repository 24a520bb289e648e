// The one exported symbol of provider_camera.so, and the ABI object of cameras before a runtime.
#include "abi/provider.h"

#include <cinttypes>
#include <cstdio>

#include "abi/probe.h"
#include "outrider/ext/history.h"
#include "outrider/ext/tandem.h"
#include "providers/camera/camera_runtime.h"

namespace outrider::camera {
namespace {

struct Published {
  std::unique_ptr<CameraRuntime> runtime;
  std::string description;
  outrider_status_v1 status{};
};

CameraRuntime& runtime_of(void* self) {
  return *static_cast<Published*>(self)->runtime;
}
using Verbs = abi::ModelVerbs<runtime_of>;

const void* table_behind(const CameraRuntime& runtime, uint64_t id) {
  const void* table = nullptr;
  return abi::query_extension(&runtime.behind(), id, 1, &table) == 0 ? table : nullptr;
}

// ---- status: the cameras' own counters, then those of what stands behind
// -------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const CameraRuntime& runtime = runtime_of(self);
  const CameraRuntime::Counters& c = runtime.counters();
  const abi::Counter rows[] = {{"warps", &c.warps},
                               {"refused_frames", &c.refused_frames},
                               {"dropped_frames", &c.dropped_frames},
                               {"transforms_computed", &c.computed},
                               {"ns_warp", &c.ns_warp}};
  const uint64_t own = abi::read_counters(rows, out, capacity);
  const auto* behind =
      static_cast<const outrider_status_v1*>(table_behind(runtime, OUTRIDER_EXT_STATUS));
  if (behind == nullptr) return own;
  const bool room = out != nullptr && capacity > own;
  return own + behind->read(behind->self, room ? out + own : nullptr, room ? capacity - own : 0);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

// ---- building
// ------------------------------------------------------------------------------------

void add_ports(abi::MetadataBuilder& b, const CameraRuntime& runtime) {
  const frt_model_runtime_v1& rt = runtime.behind();
  const auto own = [&b](const char* name, uint32_t dtype, std::vector<int64_t> shape) {
    b.port({name, FRT_MODALITY_TENSOR, dtype, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, std::move(shape)});
  };
  for (uint32_t i = 0; i < rt.n_ports; ++i)
    if (i == runtime.transforms_port())
      own("transforms", FRT_DTYPE_F32, {2, 3, 3});
    else
      b.port_like(rt.ports[i]);
  const auto frame_bytes = static_cast<int64_t>(runtime.config().frame_bytes);
  own("frame_narrow", FRT_DTYPE_U8, {frame_bytes});
  own("frame_wide", FRT_DTYPE_U8, {frame_bytes});
}

void add_stages(abi::MetadataBuilder& b, const CameraRuntime& runtime, void* self) {
  const auto plan = abi::query_plan(&runtime.behind());
  if (!plan || plan.value() == nullptr) return;  // step only
  for (const host::Stage& s : runtime.stages().stages())
    b.stage(s.name.c_str(), s.executor_ref, s.after);
  b.runner(Verbs::run_stage, self);
}

// What can change a result: what stands behind, the layout, the sampling. Not the kernels: all give
// the same bytes.
void add_identity(abi::MetadataBuilder& b, const CameraRuntime& runtime) {
  char hex[32], layout[96];
  const Nv12Layout& c = runtime.config().layout;
  std::snprintf(hex, sizeof hex, "%016" PRIx64, runtime.behind().exp->fingerprint);
  std::snprintf(layout, sizeof layout, "%dx%d stride %d uv %lld", c.width, c.height, c.stride,
                static_cast<long long>(c.uv_offset));
  const std::pair<const char*, std::string> pairs[] = {
      {"provider", "outrider_camera"},
      {"model_family", "camera"},
      {"runtime_config_sha256", runtime.file().digest},
      {"runtime_fingerprint", hex},
      {"port", runtime.config().port},
      {"camera", layout},
      {"sampling", warp_sampling_name(runtime.config().sampling)}};
  b.identities(pairs);
}

Result<frt_model_runtime_v1*> open_camera(const Json& json) {
  auto config = read_camera_config(json);
  if (!config) return config.error();
  auto runtime = CameraRuntime::open(config.value());
  if (!runtime) return runtime.error();
  auto published = std::make_unique<Published>();
  published->runtime = std::move(runtime.value());
  published->description = published->runtime->describe();
  published->status = {1, sizeof published->status, published.get(), status_read, status_describe};
  abi::MetadataBuilder builder;
  add_identity(builder, *published->runtime);
  builder.manifest(published->description);
  add_ports(builder, *published->runtime);
  add_stages(builder, *published->runtime, published.get());
  if (!builder.ok()) return builder.refusal(Code::kInvalid, "camera");
  std::vector<abi::ExtensionTable> tables = {{OUTRIDER_EXT_STATUS, 1, &published->status}};
  for (const uint64_t id : {OUTRIDER_EXT_HISTORY, OUTRIDER_EXT_TANDEM})
    if (const void* table = table_behind(*published->runtime, id); table != nullptr)
      tables.push_back({id, 1, table});
  return abi::publish(builder, std::move(published), Verbs::kTable, tables);
}

}  // namespace
}  // namespace outrider::camera

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config_json, frt_model_runtime_v1** out) {
  constexpr outrider::abi::Family kFamilies[] = {{"camera", outrider::camera::open_camera}};
  return outrider::abi::open_provider(config_json, out, kFamilies);
}
