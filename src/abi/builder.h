// What Outrider's own providers use beside the C builder of frt_v1.h.
#pragma once
#include <cstdint>
#include <span>

#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::abi {

// Our extension ids carry these top 16 bits; all other ids belong to the ABI's core.
inline constexpr uint64_t kExtensionIdBase = UINT64_C(0x4F55000000000000);
inline constexpr uint64_t kExtensionIdMask = UINT64_C(0xFFFF000000000000);

// A table found by query_extension(id, v) for every 1 <= v <= version. `table` belongs to the
// runtime's owner and must stay at its address until release_owner ran.
struct ExtensionTable {
  uint64_t id = 0;
  uint32_t version = 0;
  const void* table = nullptr;
};

// frt_runtime_builder_finish_model, plus extension tables. Same contract: an error retains nothing
// and keeps the builder; success consumes it.
// Errors: kInvalid (contract; bad, repeated or foreign extension id), kNoMemory.
Result<frt_model_runtime_v1*> finish_model(frt_runtime_builder builder,
                                           const frt_model_runtime_verbs* verbs, void* verbs_self,
                                           void* owner, frt_owner_fn retain_owner,
                                           frt_owner_fn release_owner,
                                           std::span<const ExtensionTable> extensions = {});

// frt_model_runtime_wrap and frt_model_runtime_override_verbs with the reason of a refusal.
struct WrapParts {
  const frt_runtime_export_v1* exp = nullptr;
  const frt_runtime_port_desc* ports = nullptr;
  uint64_t n_ports = 0;
  const frt_runtime_stage_desc* stages = nullptr;
  uint64_t n_stages = 0;
  const frt_model_runtime_verbs* verbs = nullptr;
  void* self = nullptr;
  void* wrapper_owner = nullptr;
  frt_owner_fn wrapper_release = nullptr;
};
Result<frt_model_runtime_v1*> wrap(const WrapParts& parts);

struct OverrideParts {
  const frt_model_runtime_v1* base = nullptr;
  const frt_model_runtime_verbs* verbs = nullptr;
  void* self = nullptr;
  void* owner = nullptr;
  frt_owner_fn retain_owner = nullptr;
  frt_owner_fn release_owner = nullptr;
};
Result<frt_model_runtime_v1*> override_verbs(const OverrideParts& parts);

// Why the last call on this builder was refused; "" after a success. Valid until the next call.
const char* builder_error(frt_runtime_builder builder);

}  // namespace outrider::abi
