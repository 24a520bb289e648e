// The ends of a builder: a model, or a plain export.
#include <cinttypes>
#include <memory>

#include "abi/builder_state.h"
#include "abi/guard.h"
#include "abi/rules.h"

namespace outrider::abi {
namespace {

// The export over descriptors that the object owns. NULL arrays, never empty ones.
void publish_export(Object* o, frt_ctx ctx, bool has_manifest) {
  const Descriptors& d = o->descriptors;
  frt_runtime_export_v1& e = o->exp;
  e.abi_version = FRT_RUNTIME_ABI_VERSION;
  e.struct_size = sizeof e;
  e.ctx = ctx;
  e.streams = data_or_null(d.streams);
  e.n_streams = d.streams.size();
  e.graphs = data_or_null(d.graphs);
  e.n_graphs = d.graphs.size();
  e.buffers = data_or_null(d.buffers);
  e.n_buffers = d.buffers.size();
  e.capsule_regions = data_or_null(d.regions);
  e.n_capsule_regions = d.regions.size();
  e.fingerprint = fingerprint(o->identity.data(), o->identity.size());
  e.identity = o->identity.c_str();
  e.manifest_json = has_manifest ? o->manifest.c_str() : nullptr;
  e.owner = o;
  e.retain = retain_object;
  e.release = release_object;
}

// Everything that may fail comes first; then the owner is retained; then the descriptors move over,
// which cannot fail. So a refusal leaves the builder complete.
Result<std::unique_ptr<Object>> take_over(frt_runtime_builder b, void* owner,
                                          frt_owner_fn retain_owner, frt_owner_fn release_owner) {
  auto object = std::make_unique<Object>();
  object->identity = identity_text(b->pairs, b->descriptors);
  object->user_owner = owner;
  object->release_user = release_owner;
  if (!call_owner(retain_owner, owner))
    return make_error(Code::kFailed, "builder: retain_owner threw an exception");
  object->descriptors = std::move(b->descriptors);
  object->manifest = std::move(b->manifest);
  publish_export(object.get(), b->ctx, b->has_manifest);
  return object;
}

Result<void> check_extensions(std::span<const ExtensionTable> extensions) {
  for (size_t i = 0; i < extensions.size(); ++i) {
    const ExtensionTable& e = extensions[i];
    if ((e.id & kExtensionIdMask) != kExtensionIdBase)
      return make_error(Code::kInvalid,
                        "extension %zu: id 0x%016" PRIx64 " is outside our range 0x4F55...", i,
                        e.id);
    if (e.version == 0 || e.table == nullptr)
      return make_error(Code::kInvalid,
                        "extension %zu (0x%016" PRIx64 "): version 0 or a NULL table", i, e.id);
    for (size_t j = 0; j < i; ++j)
      if (extensions[j].id == e.id)
        return make_error(Code::kInvalid, "extension %zu: id 0x%016" PRIx64 " is given twice", i,
                          e.id);
  }
  return {};
}

Result<Authority> check_contract(frt_runtime_builder b, const frt_model_runtime_verbs& verbs) {
  const Descriptors& d = b->descriptors;
  OUTRIDER_TRY(check_staged_verbs(d.ports, verbs));
  return decide_authority({.n_legacy_stages = d.stages.size(),
                           .plan_present = b->plan_present,
                           .n_generic_stages = d.generic_stages.size(),
                           .n_opaque_stages = count_opaque(d.generic_stages),
                           .has_runner = b->run_opaque != nullptr,
                           .has_last_error = verbs.last_error != nullptr,
                           .has_step = verbs.step != nullptr});
}

void publish_plan(Object* o, void* stage_self, int (*run_opaque)(void*, uint32_t)) {
  const auto& stages = o->descriptors.generic_stages;
  o->plan = {FRT_GENERIC_STAGE_PLAN_ABI_VERSION,
             sizeof(frt_generic_stage_plan_ext_v1),
             data_or_null(stages),
             stages.size(),
             stage_self,
             run_opaque};
}

Result<frt_model_runtime_v1*> build_model(frt_runtime_builder b,
                                          const frt_model_runtime_verbs* given, void* verbs_self,
                                          void* owner, frt_owner_fn retain_owner,
                                          frt_owner_fn release_owner,
                                          std::span<const ExtensionTable> extensions) {
  frt_model_runtime_verbs verbs = effective_verbs(given);
  auto authority = check_contract(b, verbs);
  if (!authority) return authority.error();
  OUTRIDER_TRY(check_extensions(extensions));
  std::vector<ExtensionTable> tables(extensions.begin(), extensions.end());
  auto taken = take_over(b, owner, retain_owner, release_owner);
  if (!taken) return taken.error();

  Object* o = taken.value().release();
  o->extensions = std::move(tables);
  publish_model(o);
  o->model.exp = &o->exp;
  o->model.ports = data_or_null(o->descriptors.ports);
  o->model.n_ports = o->descriptors.ports.size();
  o->model.stages = data_or_null(o->descriptors.stages);
  o->model.n_stages = o->descriptors.stages.size();
  o->model.self = verbs_self;
  fill_stubs(&verbs);
  o->model.verbs = verbs;
  o->model.query_extension = query_own_extension;
  if (authority.value() == Authority::kGenericPlan) publish_plan(o, b->stage_self, b->run_opaque);
  delete b;
  return &o->model;
}

Result<frt_runtime_export_v1*> build_export(frt_runtime_builder b, void* owner,
                                            frt_owner_fn retain_owner, frt_owner_fn release_owner) {
  if (!b->descriptors.ports.empty() || !b->descriptors.stages.empty() || b->plan_present)
    return make_error(Code::kInvalid,
                      "export: %zu ports, %zu legacy stages, generic plan %s; a plain export has "
                      "none: use finish_model",
                      b->descriptors.ports.size(), b->descriptors.stages.size(),
                      b->plan_present ? "present" : "absent");
  auto taken = take_over(b, owner, retain_owner, release_owner);
  if (!taken) return taken.error();
  delete b;
  return &taken.value().release()->exp;
}

}  // namespace

Result<frt_model_runtime_v1*> finish_model(frt_runtime_builder b,
                                           const frt_model_runtime_verbs* verbs, void* verbs_self,
                                           void* owner, frt_owner_fn retain_owner,
                                           frt_owner_fn release_owner,
                                           std::span<const ExtensionTable> extensions) {
  if (b == nullptr) return make_error(Code::kInvalid, "builder: NULL");
  Error reason;
  try {
    auto model = build_model(b, verbs, verbs_self, owner, retain_owner, release_owner, extensions);
    if (model) return model;
    reason = model.error();
  } catch (...) {
    reason = make_error(Code::kNoMemory, "builder: out of memory");
  }
  b->reason = reason;
  return reason;
}

}  // namespace outrider::abi

using namespace outrider;
using namespace outrider::abi;

extern "C" frt_model_runtime_v1* frt_runtime_builder_finish_model(
    frt_runtime_builder b, const frt_model_runtime_verbs* verbs, void* verbs_self, void* owner,
    frt_owner_fn retain_owner, frt_owner_fn release_owner) {
  auto model = finish_model(b, verbs, verbs_self, owner, retain_owner, release_owner);
  return model ? model.value() : nullptr;
}

extern "C" frt_runtime_export_v1* frt_runtime_builder_finish(frt_runtime_builder b, void* owner,
                                                             frt_owner_fn retain_owner,
                                                             frt_owner_fn release_owner) {
  if (b == nullptr) return nullptr;
  if (b->metadata_only()) {
    delete b;
    return nullptr;
  }
  frt_runtime_export_v1* exp = nullptr;
  const bool ran = guard_void([&] {
    auto made = build_export(b, owner, retain_owner, release_owner);
    if (made)
      exp = made.value();
    else
      b->reason = made.error();
  });
  if (!ran) b->reason = make_error(Code::kNoMemory, "builder: out of memory");
  return exp;
}
