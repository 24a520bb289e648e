// Models made from what already exists: an export with verbs around it, or other verbs for a model.
#include <cinttypes>
#include <memory>

#include "abi/guard.h"
#include "abi/object.h"
#include "abi/probe.h"
#include "abi/rules.h"

namespace outrider::abi {
namespace {

Result<void> check_wrap(const WrapParts& p, const frt_model_runtime_verbs& verbs) {
  OUTRIDER_TRY(check_export_prefix(p.exp));
  if (p.exp->ctx == nullptr)
    return make_error(Code::kInvalid,
                      "wrap: the export has no context; only graphs can be wrapped");
  if (p.exp->retain == nullptr || p.exp->release == nullptr)
    return make_error(Code::kInvalid, "wrap: export retain or release is NULL");
  if (p.n_ports > 0 && p.ports == nullptr)
    return make_error(Code::kInvalid, "wrap: %" PRIu64 " ports with a NULL array", p.n_ports);
  if (p.n_stages == 0 || p.stages == nullptr)
    return make_error(Code::kInvalid, "wrap: %" PRIu64 " legacy stages%s; needs at least one",
                      p.n_stages, p.stages == nullptr ? " in a NULL array" : "");
  for (uint64_t i = 0; i < p.n_ports; ++i) OUTRIDER_TRY(check_port(p.ports[i], i));
  for (uint64_t i = 0; i < p.n_stages; ++i)
    OUTRIDER_TRY(check_legacy_stage(p.stages[i], i, p.exp->n_graphs));
  return check_staged_verbs({p.ports, static_cast<size_t>(p.n_ports)}, verbs);
}

void copy_descriptors(const WrapParts& p, Descriptors* d) {
  for (uint64_t i = 0; i < p.n_ports; ++i) {
    frt_runtime_port_desc port = p.ports[i];
    port.name = d->keep(port.name);
    port.shape = d->keep(port.shape, port.rank);
    d->ports.push_back(port);
  }
  for (uint64_t i = 0; i < p.n_stages; ++i) {
    frt_runtime_stage_desc stage = p.stages[i];
    stage.after = d->keep(stage.after, stage.n_after);
    d->stages.push_back(stage);
  }
}

Result<frt_model_runtime_v1*> build_wrap(const WrapParts& p) {
  frt_model_runtime_verbs verbs = effective_verbs(p.verbs);
  OUTRIDER_TRY(check_wrap(p, verbs));
  auto object = std::make_unique<Object>();
  copy_descriptors(p, &object->descriptors);
  if (!call_owner(p.exp->retain, p.exp->owner))
    return make_error(Code::kFailed, "wrap: the export's retain threw an exception");

  Object* o = object.release();
  publish_model(o);
  o->model.exp = p.exp;
  o->model.ports = data_or_null(o->descriptors.ports);
  o->model.n_ports = o->descriptors.ports.size();
  o->model.stages = data_or_null(o->descriptors.stages);
  o->model.n_stages = o->descriptors.stages.size();
  o->model.self = p.self;
  fill_stubs(&verbs);
  o->model.verbs = verbs;
  o->model.query_extension = query_own_extension;
  o->user_owner = p.wrapper_owner;
  o->release_user = p.wrapper_release;
  o->base_owner = p.exp->owner;
  o->release_base = p.exp->release;
  return &o->model;
}

// With a generic plan the runner stays the base's, and so must the text it leaves: last_error is
// asked of the base, with the base's self. Hence these go-betweens; their self is the Object.
Object* object_of(void* self) {
  return static_cast<Object*>(self);
}

int forward_set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream) {
  Object* o = object_of(self);
  return o->user_verbs.set_input(o->user_self, port, data, bytes, stream);
}

int forward_get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                       int stream) {
  Object* o = object_of(self);
  return o->user_verbs.get_output(o->user_self, port, out, capacity, written, stream);
}

int forward_prepare(void* self, uint32_t graph, uint64_t key) {
  Object* o = object_of(self);
  return o->user_verbs.prepare(o->user_self, graph, key);
}

int forward_step(void* self) {
  Object* o = object_of(self);
  return o->user_verbs.step(o->user_self);
}

const char* base_last_error(void* self) {
  Object* o = object_of(self);
  return o->base->verbs.last_error(o->base->self);
}

int query_base_extension(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                         const void** out) noexcept {
  if (out != nullptr) *out = nullptr;
  if (runtime == nullptr || out == nullptr || min_version == 0) return FRT_ERR_INVALID;
  const frt_model_runtime_v1* base = object_of(runtime->owner)->base;
  if (!has_query_extension(base)) return FRT_ERR_UNSUPPORTED;
  return guard([&] { return base->query_extension(base, id, min_version, out); });
}

// Returns the base's generic plan, or NULL when it has a legacy plan.
Result<const frt_generic_stage_plan_ext_v1*> check_override(const OverrideParts& p,
                                                            const frt_model_runtime_verbs& verbs) {
  OUTRIDER_TRY(check_runtime_prefix(p.base));
  const frt_model_runtime_v1& base = *p.base;
  if (base.exp == nullptr || base.retain == nullptr || base.release == nullptr)
    return make_error(Code::kInvalid, "override: base exp, retain or release is NULL");
  OUTRIDER_TRY(check_export_prefix(base.exp));
  if (base.n_ports > 0 && base.ports == nullptr)
    return make_error(Code::kInvalid, "override: %" PRIu64 " ports with a NULL array",
                      base.n_ports);
  if (base.n_stages > 0 && base.stages == nullptr)
    return make_error(Code::kInvalid, "override: %" PRIu64 " legacy stages with a NULL array",
                      base.n_stages);
  for (uint64_t i = 0; i < base.n_ports; ++i) OUTRIDER_TRY(check_port(base.ports[i], i));
  OUTRIDER_TRY(check_staged_verbs({base.ports, static_cast<size_t>(base.n_ports)}, verbs));
  auto found = query_plan(p.base);
  if (!found) return found;
  const frt_generic_stage_plan_ext_v1* plan = found.value();
  if (plan == nullptr) {
    if (base.n_stages == 0)
      return make_error(Code::kInvalid, "override: the base has only `step`; nothing to keep");
    return found;
  }
  if (base.n_stages > 0)
    return make_error(Code::kInvalid,
                      "override: the base has %" PRIu64 " legacy stages and a generic plan",
                      base.n_stages);
  OUTRIDER_TRY(check_plan(plan, p.base));
  const std::span stages(plan->stages, static_cast<size_t>(plan->n_stages));
  if (count_opaque(stages) != plan->n_stages)
    return make_error(Code::kInvalid, "override: %" PRIu64 " of %" PRIu64 " stages are GRAPH",
                      plan->n_stages - count_opaque(stages), plan->n_stages);
  return found;
}

Result<frt_model_runtime_v1*> build_override(const OverrideParts& p) {
  frt_model_runtime_verbs verbs = effective_verbs(p.verbs);
  auto plan = check_override(p, verbs);
  if (!plan) return plan.error();
  auto object = std::make_unique<Object>();
  if (!call_owner(p.base->retain, p.base->owner))
    return make_error(Code::kFailed, "override: the base's retain threw an exception");
  if (!call_owner(p.retain_owner, p.owner)) {
    call_owner(p.base->release, p.base->owner);
    return make_error(Code::kFailed, "override: retain_owner threw an exception");
  }

  Object* o = object.release();
  publish_model(o);
  o->model.exp = p.base->exp;
  o->model.ports = p.base->ports;
  o->model.n_ports = p.base->n_ports;
  o->model.stages = p.base->stages;
  o->model.n_stages = p.base->n_stages;
  fill_stubs(&verbs);
  if (plan.value() != nullptr) {
    o->user_verbs = verbs;
    o->user_self = p.self;
    o->model.self = o;
    o->model.verbs = {
        sizeof verbs,   0, forward_set_input, forward_get_output, forward_prepare, forward_step,
        base_last_error};
  } else {
    o->model.self = p.self;
    o->model.verbs = verbs;
  }
  o->model.query_extension = query_base_extension;
  o->base = p.base;
  o->user_owner = p.owner;
  o->release_user = p.release_owner;
  o->base_owner = p.base->owner;
  o->release_base = p.base->release;
  return &o->model;
}

template <class Fn>
Result<frt_model_runtime_v1*> without_exceptions(Fn&& fn) {
  try {
    return fn();
  } catch (...) {
    return make_error(Code::kNoMemory, "out of memory");
  }
}

}  // namespace

Result<frt_model_runtime_v1*> wrap(const WrapParts& parts) {
  return without_exceptions([&] { return build_wrap(parts); });
}

Result<frt_model_runtime_v1*> override_verbs(const OverrideParts& parts) {
  return without_exceptions([&] { return build_override(parts); });
}

}  // namespace outrider::abi

extern "C" frt_model_runtime_v1* frt_model_runtime_wrap(
    const frt_runtime_export_v1* exp, const frt_runtime_port_desc* ports, uint64_t n_ports,
    const frt_runtime_stage_desc* stages, uint64_t n_stages, const frt_model_runtime_verbs* verbs,
    void* self, void* wrapper_owner, frt_owner_fn wrapper_release) {
  auto model = outrider::abi::wrap(
      {exp, ports, n_ports, stages, n_stages, verbs, self, wrapper_owner, wrapper_release});
  return model ? model.value() : nullptr;
}

extern "C" frt_model_runtime_v1* frt_model_runtime_override_verbs(
    const frt_model_runtime_v1* base, const frt_model_runtime_verbs* verbs, void* self, void* owner,
    frt_owner_fn retain_owner, frt_owner_fn release_owner) {
  auto model =
      outrider::abi::override_verbs({base, verbs, self, owner, retain_owner, release_owner});
  return model ? model.value() : nullptr;
}
