// The consumer's side: look at a runtime that somebody else made, before anything is retained.
// Nothing here retains, releases or runs. Memory behind a non-NULL pointer is taken to be readable
// for the size its struct_size claims, never for more.
// Source: model-runtime ABI v1, sections 5, 8 and 21.
#pragma once
#include <cstdint>

#include "abi/rules.h"
#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::abi {

// Limits of this host; a runtime beyond them is refused, not walked.
inline constexpr uint64_t kMaxPorts = 4096;
inline constexpr uint64_t kMaxStages = 4096;
inline constexpr uint32_t kMaxRank = 16;

// abi_version == 1 and struct_size >= 128; NULL is refused.
Result<void> check_runtime_prefix(const frt_model_runtime_v1* runtime);
Result<void> check_export_prefix(const frt_runtime_export_v1* exp);

// The tail is there and filled. Only a runtime that passed check_runtime_prefix may be asked.
bool has_query_extension(const frt_model_runtime_v1* runtime);

// query_extension with the rules applied: -3 when the tail is absent, *out NULL unless 0.
int query_extension(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                    const void** out) noexcept;

// The generic plan, or NULL when the runtime has none. Refused: an answer other than 0 and -3, a
// table beside a failure, success without a table. The table itself is not looked at.
Result<const frt_generic_stage_plan_ext_v1*> query_plan(const frt_model_runtime_v1* runtime);

// A table made elsewhere: version, size, stages, names, dependencies, runner, at least one OPAQUE
// stage, and the base's last_error. GRAPH stages must name a graph of the base's export.
Result<void> check_plan(const frt_generic_stage_plan_ext_v1* plan,
                        const frt_model_runtime_v1* runtime);

struct ProviderFacts {
  Authority authority = Authority::kStepOnly;
  const frt_generic_stage_plan_ext_v1* plan = nullptr;  // kGenericPlan only
};

// Everything a provider-only adoption demands (section 21): metadata-only export with NULL arrays,
// no legacy stages, unbound ports with their verbs, exactly one authority, OPAQUE stages only.
Result<ProviderFacts> check_provider(const frt_model_runtime_v1* runtime);

}  // namespace outrider::abi
