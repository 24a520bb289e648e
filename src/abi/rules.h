// What a descriptor, a plan and a verbs table must satisfy: shared by the builder, by wrap and
// override, and by a host that looks at a table it did not make.
// Source: model-runtime ABI v1, sections 8, 10 and 11.
#pragma once
#include <cstdint>
#include <span>

#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::abi {

// Longer port and region names would be cut by peers that format identity lines into 192 bytes.
inline constexpr size_t kMaxIdentityNameBytes = 96;

// Which of the three ways makes a runtime tick. Exactly one holds.
enum class Authority : uint8_t { kLegacyPlan, kGenericPlan, kStepOnly };

struct AuthorityFacts {
  uint64_t n_legacy_stages = 0;
  bool plan_present = false;  // also true for a plan that was begun and left empty
  uint64_t n_generic_stages = 0;
  uint64_t n_opaque_stages = 0;
  bool has_runner = false;
  bool has_last_error = false;
  bool has_step = false;
};

// All of these return kInvalid with a line that names the field, the value found and the values
// allowed. `index` is only for the line.
Result<Authority> decide_authority(const AuthorityFacts& facts);
// NULL, empty, above 255 bytes, a byte below 0x20 or 0x7f, or broken UTF-8 is refused.
Result<void> check_stage_name(const char* name, uint64_t index);
// Name, direction, update class and shape. Modality, dtype, layout and repeated names are free.
Result<void> check_port(const frt_runtime_port_desc& port, uint64_t index);
// A STAGED input needs set_input, a STAGED output needs get_output.
Result<void> check_staged_verbs(std::span<const frt_runtime_port_desc> ports,
                                const frt_model_runtime_verbs& verbs);
Result<void> check_legacy_stage(const frt_runtime_stage_desc& stage, uint64_t index,
                                uint64_t n_graphs);
// `earlier` are the stages before this one: its index is their number.
Result<void> check_generic_stage(std::span<const frt_generic_stage_desc_v1> earlier,
                                 const frt_generic_stage_desc_v1& stage, uint64_t n_graphs);
uint64_t count_opaque(std::span<const frt_generic_stage_desc_v1> stages);

// The verbs that count: none of them when the table is absent or shorter than 48 bytes.
frt_model_runtime_verbs effective_verbs(const frt_model_runtime_verbs* verbs);

}  // namespace outrider::abi
