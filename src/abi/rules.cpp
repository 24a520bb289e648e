#include "abi/rules.h"

#include <cinttypes>
#include <cstring>

#include "base/utf8.h"

namespace outrider::abi {
Result<Authority> decide_authority(const AuthorityFacts& f) {
  if (f.n_legacy_stages > 0) {
    if (f.plan_present)
      return make_error(Code::kInvalid,
                        "plan: %" PRIu64
                        " legacy stages and a generic plan; a runtime has exactly one",
                        f.n_legacy_stages);
    return Authority::kLegacyPlan;
  }
  if (f.plan_present) {
    if (f.n_generic_stages == 0)
      return make_error(Code::kInvalid, "plan: the generic plan has no stage; add one");
    if (f.n_opaque_stages == 0)
      return make_error(Code::kInvalid,
                        "plan: all %" PRIu64 " generic stages are GRAPH; one must be OPAQUE",
                        f.n_generic_stages);
    if (!f.has_runner)
      return make_error(Code::kInvalid, "plan: OPAQUE stages without a run_opaque callback");
    if (!f.has_last_error)
      return make_error(Code::kInvalid, "plan: a generic plan needs a real verbs.last_error");
    return Authority::kGenericPlan;
  }
  if (!f.has_step)
    return make_error(Code::kInvalid,
                      "plan: no legacy stages, no generic plan and no verbs.step; nothing can run");
  return Authority::kStepOnly;
}

Result<void> check_stage_name(const char* name, uint64_t index) {
  if (name == nullptr) return make_error(Code::kInvalid, "stage %" PRIu64 ": name is NULL", index);
  const size_t n_bytes = strnlen(name, FRT_GENERIC_STAGE_NAME_MAX_BYTES + 1);
  if (n_bytes == 0) return make_error(Code::kInvalid, "stage %" PRIu64 ": name is empty", index);
  if (n_bytes > FRT_GENERIC_STAGE_NAME_MAX_BYTES)
    return make_error(Code::kInvalid, "stage %" PRIu64 ": name is longer than %u bytes", index,
                      FRT_GENERIC_STAGE_NAME_MAX_BYTES);
  const auto* bytes = reinterpret_cast<const unsigned char*>(name);
  for (size_t i = 0; i < n_bytes;) {
    if (bytes[i] < 0x20 || bytes[i] == 0x7f)
      return make_error(Code::kInvalid,
                        "stage %" PRIu64 ": name has the control byte 0x%02x at %zu", index,
                        bytes[i], i);
    const size_t n = utf8_sequence_bytes({name + i, n_bytes - i});
    if (n == 0)
      return make_error(Code::kInvalid, "stage %" PRIu64 ": name is not UTF-8 at byte %zu (0x%02x)",
                        index, i, bytes[i]);
    i += n;
  }
  return {};
}

Result<void> check_port(const frt_runtime_port_desc& port, uint64_t index) {
  if (port.name == nullptr || port.name[0] == 0)
    return make_error(Code::kInvalid, "port %" PRIu64 ": name is NULL or empty", index);
  if (port.direction > FRT_PORT_OUT)
    return make_error(Code::kInvalid,
                      "port %" PRIu64 " (%.96s): direction %u, allowed 0 (in) or 1 (out)", index,
                      port.name, port.direction);
  if (port.update > FRT_UPDATE_SETUP)
    return make_error(Code::kInvalid,
                      "port %" PRIu64
                      " (%.96s): update %u, allowed 0 (SWAP), 1 (STAGED), 2 (SETUP)",
                      index, port.name, port.update);
  if (port.rank > 0 && port.shape == nullptr)
    return make_error(Code::kInvalid, "port %" PRIu64 " (%.96s): rank %u with a NULL shape", index,
                      port.name, port.rank);
  return {};
}

Result<void> check_staged_verbs(std::span<const frt_runtime_port_desc> ports,
                                const frt_model_runtime_verbs& verbs) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].update != FRT_UPDATE_STAGED) continue;
    if (ports[i].direction == FRT_PORT_IN && verbs.set_input == nullptr)
      return make_error(Code::kInvalid, "port %zu (%.96s): STAGED input without verbs.set_input", i,
                        ports[i].name);
    if (ports[i].direction == FRT_PORT_OUT && verbs.get_output == nullptr)
      return make_error(Code::kInvalid, "port %zu (%.96s): STAGED output without verbs.get_output",
                        i, ports[i].name);
  }
  return {};
}

Result<void> check_legacy_stage(const frt_runtime_stage_desc& stage, uint64_t index,
                                uint64_t n_graphs) {
  if (stage.graph >= n_graphs)
    return make_error(Code::kInvalid,
                      "legacy stage %" PRIu64 ": graph %u, the export has %" PRIu64 " graphs",
                      index, stage.graph, n_graphs);
  if (stage.n_after > 0 && stage.after == nullptr)
    return make_error(Code::kInvalid, "legacy stage %" PRIu64 ": n_after %u with a NULL array",
                      index, stage.n_after);
  for (uint32_t i = 0; i < stage.n_after; ++i)
    if (stage.after[i] >= index)
      return make_error(Code::kInvalid,
                        "legacy stage %" PRIu64 ": waits for stage %u, which is not earlier", index,
                        stage.after[i]);
  return {};
}

Result<void> check_generic_stage(std::span<const frt_generic_stage_desc_v1> earlier,
                                 const frt_generic_stage_desc_v1& stage, uint64_t n_graphs) {
  const uint64_t index = earlier.size();
  OUTRIDER_TRY(check_stage_name(stage.name, index));
  if (stage.executor_kind > FRT_EXECUTOR_OPAQUE)
    return make_error(Code::kInvalid,
                      "stage %" PRIu64 " (%s): executor kind %u, allowed 0 (GRAPH) or 1 (OPAQUE)",
                      index, stage.name, stage.executor_kind);
  if (stage.executor_kind == FRT_EXECUTOR_GRAPH && stage.executor_ref >= n_graphs)
    return make_error(Code::kInvalid,
                      "stage %" PRIu64 " (%s): graph %u, the export has %" PRIu64 " graphs", index,
                      stage.name, stage.executor_ref, n_graphs);
  if (stage.n_after > 0 && stage.after == nullptr)
    return make_error(Code::kInvalid, "stage %" PRIu64 " (%s): n_after %u with a NULL array", index,
                      stage.name, stage.n_after);
  for (uint32_t i = 0; i < stage.n_after; ++i) {
    if (stage.after[i] >= index)
      return make_error(Code::kInvalid,
                        "stage %" PRIu64 " (%s): waits for stage %u, which is not earlier", index,
                        stage.name, stage.after[i]);
    if (i > 0 && stage.after[i] <= stage.after[i - 1])
      return make_error(Code::kInvalid,
                        "stage %" PRIu64 " (%s): after[%u] is %u behind %u; must increase", index,
                        stage.name, i, stage.after[i], stage.after[i - 1]);
  }
  for (const auto& other : earlier)
    if (std::strcmp(other.name, stage.name) == 0)
      return make_error(Code::kInvalid, "stage %" PRIu64 " (%s): this name is already used", index,
                        stage.name);
  return {};
}

uint64_t count_opaque(std::span<const frt_generic_stage_desc_v1> stages) {
  uint64_t n = 0;
  for (const auto& stage : stages) n += stage.executor_kind == FRT_EXECUTOR_OPAQUE;
  return n;
}

frt_model_runtime_verbs effective_verbs(const frt_model_runtime_verbs* verbs) {
  frt_model_runtime_verbs table{};
  if (verbs != nullptr && verbs->struct_size >= sizeof table) table = *verbs;
  table.struct_size = sizeof table;
  table.reserved = 0;
  return table;
}

}  // namespace outrider::abi
