#include "abi/builder.h"

#include <cinttypes>
#include <cstring>
#include <new>

#include "abi/builder_state.h"
#include "abi/guard.h"
#include "abi/rules.h"

namespace outrider::abi {
namespace {

// Runs one add or set. Every refusal is -1 in this ABI; the reason stays in the builder. fn checks
// first and changes the descriptors last, so a refusal or a lack of memory leaves them as they
// were.
template <class Fn>
int change(frt_runtime_builder b, Fn&& fn) noexcept {
  if (b == nullptr) return FRT_ERR_INVALID;
  b->reason = Error{};
  try {
    if (Result<void> done = fn(); !done) b->reason = done.error();
  } catch (...) {
    b->reason = make_error(Code::kNoMemory, "builder: out of memory");
  }
  return b->reason.code == Code::kOk ? FRT_OK : FRT_ERR_INVALID;
}

Error refuse(const char* text) {
  return make_error(Code::kInvalid, "%s", text);
}

Result<void> needs_context(frt_runtime_builder b, const char* what) {
  if (b->metadata_only())
    return make_error(Code::kInvalid, "%s: a metadata-only builder takes none", what);
  return {};
}

Result<void> check_identity_name(const char* what, const char* name) {
  if (strnlen(name, kMaxIdentityNameBytes + 1) > kMaxIdentityNameBytes)
    return make_error(Code::kInvalid, "%s: the name %.96s... is longer than %zu bytes", what, name,
                      kMaxIdentityNameBytes);
  return {};
}

Result<void> check_unbound(const frt_runtime_port_desc& port) {
  if (port.update == FRT_UPDATE_SWAP)
    return make_error(Code::kInvalid, "port %s: SWAP needs a window; this builder is metadata only",
                      port.name);
  if (port.buffer != nullptr || port.offset != 0 || port.bytes != 0)
    return make_error(Code::kInvalid,
                      "port %s: window at %" PRIu64 " of %" PRIu64
                      " bytes; a metadata-only port has no buffer, offset or bytes",
                      port.name, port.offset, port.bytes);
  return {};
}

frt_runtime_builder create(frt_ctx ctx) noexcept {
  auto* builder = new (std::nothrow) frt_runtime_builder_s;
  if (builder != nullptr) builder->ctx = ctx;
  return builder;
}

}  // namespace

const char* builder_error(frt_runtime_builder b) {
  return b == nullptr ? "builder: NULL" : b->reason.text;
}

}  // namespace outrider::abi

using namespace outrider;
using namespace outrider::abi;

extern "C" frt_runtime_builder frt_runtime_builder_create(frt_ctx ctx) {
  return ctx == nullptr ? nullptr : create(ctx);
}

extern "C" frt_runtime_builder frt_model_runtime_builder_create_metadata(void) {
  return create(nullptr);
}

extern "C" int frt_runtime_builder_add_stream(frt_runtime_builder b, const char* name,
                                              int stream_id, int priority, void* native_handle) {
  return change(b, [&]() -> Result<void> {
    OUTRIDER_TRY(needs_context(b, "stream"));
    if (name == nullptr) return refuse("stream: name is NULL");
    if (stream_id < 0)
      return make_error(Code::kInvalid, "stream %s: id %d, must be >= 0", name, stream_id);
    Descriptors& d = b->descriptors;
    d.streams.push_back({d.keep(name), stream_id, priority, native_handle});
    return {};
  });
}

extern "C" int frt_runtime_builder_add_graph(frt_runtime_builder b, const char* name,
                                             frt_graph graph, uint64_t default_key,
                                             const uint64_t* keys, uint64_t n_keys, int stream_id) {
  return change(b, [&]() -> Result<void> {
    OUTRIDER_TRY(needs_context(b, "graph"));
    if (name == nullptr) return refuse("graph: name is NULL");
    if (graph == nullptr) return make_error(Code::kInvalid, "graph %s: handle is NULL", name);
    if (n_keys > 0 && keys == nullptr)
      return make_error(Code::kInvalid, "graph %s: %" PRIu64 " keys with a NULL array", name,
                        n_keys);
    Descriptors& d = b->descriptors;
    d.graphs.push_back({d.keep(name), graph, default_key, d.keep(keys, n_keys), n_keys, stream_id});
    return {};
  });
}

extern "C" int frt_runtime_builder_add_buffer(frt_runtime_builder b, const char* name,
                                              frt_buffer buffer, uint64_t bytes, uint32_t role) {
  return change(b, [&]() -> Result<void> {
    OUTRIDER_TRY(needs_context(b, "buffer"));
    if (name == nullptr) return refuse("buffer: name is NULL");
    if (buffer == nullptr) return make_error(Code::kInvalid, "buffer %s: handle is NULL", name);
    Descriptors& d = b->descriptors;
    d.buffers.push_back({d.keep(name), buffer, bytes, role, 0});
    return {};
  });
}

extern "C" int frt_runtime_builder_add_region(frt_runtime_builder b, const char* name,
                                              frt_buffer buffer, uint64_t offset, uint64_t bytes,
                                              uint32_t flags) {
  return change(b, [&]() -> Result<void> {
    OUTRIDER_TRY(needs_context(b, "region"));
    if (name == nullptr) return refuse("region: name is NULL");
    OUTRIDER_TRY(check_identity_name("region", name));
    if (buffer == nullptr) return make_error(Code::kInvalid, "region %s: buffer is NULL", name);
    if (bytes == 0) return make_error(Code::kInvalid, "region %s: 0 bytes", name);
    Descriptors& d = b->descriptors;
    d.regions.push_back({d.keep(name), buffer, offset, bytes, flags, 0});
    return {};
  });
}

extern "C" int frt_runtime_builder_add_identity(frt_runtime_builder b, const char* key,
                                                const char* value) {
  return change(b, [&]() -> Result<void> {
    if (key == nullptr || value == nullptr) return refuse("identity: key or value is NULL");
    b->pairs.emplace_back(key, value);
    return {};
  });
}

extern "C" int frt_runtime_builder_set_manifest(frt_runtime_builder b, const char* json) {
  return change(b, [&]() -> Result<void> {
    if (json == nullptr) return refuse("manifest: NULL");
    b->manifest = std::string(json);
    b->has_manifest = true;
    return {};
  });
}

extern "C" int frt_runtime_builder_add_port(frt_runtime_builder b, const char* name,
                                            uint32_t modality, uint32_t dtype, uint32_t layout,
                                            uint32_t direction, uint32_t update, uint32_t required,
                                            const int64_t* shape, uint32_t rank,
                                            uint32_t cadence_hint_hz, frt_buffer buffer,
                                            uint64_t offset, uint64_t bytes) {
  return change(b, [&]() -> Result<void> {
    Descriptors& d = b->descriptors;
    frt_runtime_port_desc port{name,   modality, dtype, layout, direction,
                               update, required, shape, rank,   cadence_hint_hz,
                               buffer, offset,   bytes};
    OUTRIDER_TRY(check_port(port, d.ports.size()));
    OUTRIDER_TRY(check_identity_name("port", name));
    if (b->metadata_only()) OUTRIDER_TRY(check_unbound(port));
    port.name = d.keep(name);
    port.shape = d.keep(shape, rank);
    d.ports.push_back(port);
    return {};
  });
}

extern "C" int frt_runtime_builder_add_stage(frt_runtime_builder b, uint32_t graph,
                                             const uint32_t* after, uint32_t n_after) {
  return change(b, [&]() -> Result<void> {
    OUTRIDER_TRY(needs_context(b, "legacy stage"));
    if (b->plan_present) return refuse("legacy stage: a generic plan is already present");
    Descriptors& d = b->descriptors;
    frt_runtime_stage_desc stage{graph, n_after, after};
    OUTRIDER_TRY(check_legacy_stage(stage, d.stages.size(), d.graphs.size()));
    stage.after = d.keep(after, n_after);
    d.stages.push_back(stage);
    return {};
  });
}

extern "C" int frt_runtime_builder_add_generic_stage(frt_runtime_builder b, const char* name,
                                                     uint32_t kind, uint32_t ref,
                                                     const uint32_t* after, uint32_t n_after) {
  return change(b, [&]() -> Result<void> {
    Descriptors& d = b->descriptors;
    if (!d.stages.empty()) return refuse("generic stage: legacy stages are already present");
    frt_generic_stage_desc_v1 stage{name, kind, ref, n_after, 0, after};
    if (kind == FRT_EXECUTOR_GRAPH) OUTRIDER_TRY(needs_context(b, "GRAPH stage"));
    OUTRIDER_TRY(check_generic_stage(d.generic_stages, stage, d.graphs.size()));
    stage.name = d.keep(name);
    stage.after = d.keep(after, n_after);
    d.generic_stages.push_back(stage);
    b->plan_present = true;
    return {};
  });
}

extern "C" int frt_runtime_builder_set_generic_stage_runner(frt_runtime_builder b, void* stage_self,
                                                            int (*run_opaque)(void* stage_self,
                                                                              uint32_t ref)) {
  return change(b, [&]() -> Result<void> {
    if (run_opaque == nullptr) return refuse("stage runner: NULL");
    if (!b->descriptors.stages.empty())
      return refuse("stage runner: legacy stages are already present");
    if (b->run_opaque != nullptr) return refuse("stage runner: already set");
    b->stage_self = stage_self;
    b->run_opaque = run_opaque;
    b->plan_present = true;
    return {};
  });
}

extern "C" uint64_t frt_runtime_fingerprint(const void* data, size_t len) {
  return fingerprint(data, data == nullptr ? 0 : len);
}
