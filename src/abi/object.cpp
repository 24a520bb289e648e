#include "abi/object.h"

#include "abi/guard.h"

namespace outrider::abi {
namespace {

int stub_set_input(void*, uint32_t, const void*, uint64_t, int) {
  return FRT_ERR_UNSUPPORTED;
}

int stub_get_output(void*, uint32_t, void*, uint64_t, uint64_t* written, int) {
  if (written != nullptr) *written = 0;
  return FRT_ERR_UNSUPPORTED;
}

int stub_prepare(void*, uint32_t, uint64_t) {
  return FRT_ERR_UNSUPPORTED;
}

int stub_step(void*) {
  return FRT_ERR_UNSUPPORTED;
}

const char* stub_last_error(void*) {
  return "this runtime does not provide that verb";
}

}  // namespace

void retain_object(void* owner) noexcept {
  if (owner == nullptr) return;
  static_cast<Object*>(owner)->references.fetch_add(1, std::memory_order_relaxed);
}

void release_object(void* owner) noexcept {
  if (owner == nullptr) return;
  auto* object = static_cast<Object*>(owner);
  if (object->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  call_owner(object->release_user, object->user_owner);
  call_owner(object->release_base, object->base_owner);
  delete object;
}

bool call_owner(frt_owner_fn fn, void* owner) noexcept {
  return fn == nullptr || guard_void([&] { fn(owner); });
}

int query_own_extension(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                        const void** out) noexcept {
  if (out != nullptr) *out = nullptr;
  if (runtime == nullptr || out == nullptr || min_version == 0) return FRT_ERR_INVALID;
  const auto* object = static_cast<const Object*>(runtime->owner);
  if (id == FRT_EXT_GENERIC_STAGE_PLAN_V1) {
    if (object->plan.n_stages == 0 || min_version > FRT_GENERIC_STAGE_PLAN_ABI_VERSION)
      return FRT_ERR_UNSUPPORTED;
    *out = &object->plan;
    return FRT_OK;
  }
  for (const ExtensionTable& extension : object->extensions) {
    if (extension.id != id) continue;
    if (min_version > extension.version) return FRT_ERR_UNSUPPORTED;
    *out = extension.table;
    return FRT_OK;
  }
  return FRT_ERR_UNSUPPORTED;
}

void fill_stubs(frt_model_runtime_verbs* verbs) {
  if (verbs->set_input == nullptr) verbs->set_input = stub_set_input;
  if (verbs->get_output == nullptr) verbs->get_output = stub_get_output;
  if (verbs->prepare == nullptr) verbs->prepare = stub_prepare;
  if (verbs->step == nullptr) verbs->step = stub_step;
  if (verbs->last_error == nullptr) verbs->last_error = stub_last_error;
}

void publish_model(Object* object) {
  object->model.abi_version = FRT_MODEL_RUNTIME_ABI_VERSION;
  object->model.struct_size = sizeof(frt_model_runtime_v1);
  object->model.owner = object;
  object->model.retain = retain_object;
  object->model.release = release_object;
}

}  // namespace outrider::abi
