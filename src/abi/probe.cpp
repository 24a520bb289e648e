#include "abi/probe.h"

#include <cinttypes>

#include "abi/guard.h"

namespace outrider::abi {
namespace {

struct Count {
  const char* what;
  const void* array;
  uint64_t n;
};

// A provider has nothing to execute: every array is NULL, an empty one too.
Result<void> check_absent(const Count& c) {
  if (c.array == nullptr && c.n == 0) return {};
  return make_error(Code::kInvalid,
                    "%s: %" PRIu64 " entries, array %s; a provider publishes 0 and NULL", c.what,
                    c.n, c.array == nullptr ? "NULL" : "not NULL");
}

Result<void> check_metadata_export(const frt_runtime_export_v1* exp) {
  OUTRIDER_TRY(check_export_prefix(exp));
  if (exp->retain == nullptr || exp->release == nullptr)
    return make_error(Code::kInvalid, "export: retain or release is NULL");
  if (exp->identity == nullptr) return make_error(Code::kInvalid, "export: identity is NULL");
  if (exp->ctx != nullptr)
    return make_error(Code::kInvalid, "export: ctx is not NULL; only a provider can be adopted");
  for (const Count& c :
       {Count{"export streams", exp->streams, exp->n_streams},
        Count{"export graphs", exp->graphs, exp->n_graphs},
        Count{"export buffers", exp->buffers, exp->n_buffers},
        Count{"export capsule_regions", exp->capsule_regions, exp->n_capsule_regions}})
    OUTRIDER_TRY(check_absent(c));
  return {};
}

Result<void> check_provider_port(const frt_runtime_port_desc& port, uint64_t index) {
  OUTRIDER_TRY(check_port(port, index));
  if (port.rank > kMaxRank)
    return make_error(Code::kInvalid, "port %" PRIu64 " (%.96s): rank %u, this host allows %u",
                      index, port.name, port.rank, kMaxRank);
  if (port.update == FRT_UPDATE_SWAP)
    return make_error(Code::kInvalid,
                      "port %" PRIu64 " (%.96s): SWAP; a provider has no device window", index,
                      port.name);
  if (port.buffer != nullptr || port.offset != 0 || port.bytes != 0)
    return make_error(Code::kInvalid,
                      "port %" PRIu64 " (%.96s): bound to a window (buffer %s, offset %" PRIu64
                      ", bytes %" PRIu64 "); a provider's ports are not bound",
                      index, port.name, port.buffer == nullptr ? "NULL" : "set", port.offset,
                      port.bytes);
  return {};
}

}  // namespace

Result<void> check_runtime_prefix(const frt_model_runtime_v1* runtime) {
  if (runtime == nullptr) return make_error(Code::kInvalid, "runtime: NULL");
  if (runtime->abi_version != FRT_MODEL_RUNTIME_ABI_VERSION)
    return make_error(Code::kInvalid, "runtime: abi_version %u, allowed %u", runtime->abi_version,
                      FRT_MODEL_RUNTIME_ABI_VERSION);
  if (runtime->struct_size < FRT_MODEL_RUNTIME_V1_BASE_SIZE)
    return make_error(Code::kInvalid, "runtime: struct_size %u, at least %u", runtime->struct_size,
                      FRT_MODEL_RUNTIME_V1_BASE_SIZE);
  return {};
}

Result<void> check_export_prefix(const frt_runtime_export_v1* exp) {
  if (exp == nullptr) return make_error(Code::kInvalid, "export: NULL");
  if (exp->abi_version != FRT_RUNTIME_ABI_VERSION)
    return make_error(Code::kInvalid, "export: abi_version %u, allowed %u", exp->abi_version,
                      FRT_RUNTIME_ABI_VERSION);
  if (exp->struct_size < sizeof *exp)
    return make_error(Code::kInvalid, "export: struct_size %u, at least %zu", exp->struct_size,
                      sizeof *exp);
  return {};
}

bool has_query_extension(const frt_model_runtime_v1* runtime) {
  return runtime->struct_size >= FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE &&
         runtime->query_extension != nullptr;
}

int query_extension(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                    const void** out) noexcept {
  if (out == nullptr) return FRT_ERR_INVALID;
  *out = nullptr;
  if (runtime == nullptr || min_version == 0) return FRT_ERR_INVALID;
  if (!has_query_extension(runtime)) return FRT_ERR_UNSUPPORTED;
  const int code = guard([&] { return runtime->query_extension(runtime, id, min_version, out); });
  if (code != FRT_OK) *out = nullptr;
  return code == FRT_OK && *out == nullptr ? FRT_ERR_FAILED : code;
}

Result<const frt_generic_stage_plan_ext_v1*> query_plan(const frt_model_runtime_v1* runtime) {
  using Plan = const frt_generic_stage_plan_ext_v1*;
  if (!has_query_extension(runtime)) return Plan{nullptr};
  const void* table = nullptr;
  const int code = guard([&] {
    return runtime->query_extension(runtime, FRT_EXT_GENERIC_STAGE_PLAN_V1,
                                    FRT_GENERIC_STAGE_PLAN_ABI_VERSION, &table);
  });
  if (code != FRT_OK && code != FRT_ERR_UNSUPPORTED)
    return make_error(Code::kInvalid, "query_extension(1, 1): answered %d, allowed 0 or -3", code);
  if (code == FRT_OK && table == nullptr)
    return make_error(Code::kInvalid, "query_extension(1, 1): answered 0 with a NULL table");
  if (code != FRT_OK && table != nullptr)
    return make_error(Code::kInvalid, "query_extension(1, 1): answered %d beside a table", code);
  return static_cast<Plan>(table);
}

Result<void> check_plan(const frt_generic_stage_plan_ext_v1* plan,
                        const frt_model_runtime_v1* runtime) {
  if (plan == nullptr) return make_error(Code::kInvalid, "plan: NULL table");
  if (plan->abi_version < FRT_GENERIC_STAGE_PLAN_ABI_VERSION)
    return make_error(Code::kInvalid, "plan: abi_version %u, at least %u", plan->abi_version,
                      FRT_GENERIC_STAGE_PLAN_ABI_VERSION);
  if (plan->struct_size < FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE)
    return make_error(Code::kInvalid, "plan: struct_size %u, at least %u", plan->struct_size,
                      FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE);
  if (plan->n_stages == 0 || plan->stages == nullptr)
    return make_error(Code::kInvalid, "plan: %" PRIu64 " stages, array %s", plan->n_stages,
                      plan->stages == nullptr ? "NULL" : "not NULL");
  if (plan->n_stages > kMaxStages)
    return make_error(Code::kInvalid, "plan: %" PRIu64 " stages, this host allows %" PRIu64,
                      plan->n_stages, kMaxStages);
  if (plan->run_opaque == nullptr) return make_error(Code::kInvalid, "plan: run_opaque is NULL");
  if (runtime->verbs.last_error == nullptr)
    return make_error(Code::kInvalid, "plan: verbs.last_error is NULL; a plan needs one");
  const uint64_t n_graphs = runtime->exp == nullptr ? 0 : runtime->exp->n_graphs;
  const std::span stages(plan->stages, static_cast<size_t>(plan->n_stages));
  for (size_t i = 0; i < stages.size(); ++i)
    OUTRIDER_TRY(check_generic_stage(stages.first(i), stages[i], n_graphs));
  if (count_opaque(stages) == 0)
    return make_error(Code::kInvalid, "plan: all %" PRIu64 " stages are GRAPH; one must be OPAQUE",
                      plan->n_stages);
  return {};
}

Result<ProviderFacts> check_provider(const frt_model_runtime_v1* runtime) {
  OUTRIDER_TRY(check_runtime_prefix(runtime));
  if (runtime->retain == nullptr || runtime->release == nullptr)
    return make_error(Code::kInvalid, "runtime: retain or release is NULL");
  OUTRIDER_TRY(check_metadata_export(runtime->exp));
  OUTRIDER_TRY(check_absent({"runtime legacy stages", runtime->stages, runtime->n_stages}));
  if (runtime->n_ports > kMaxPorts || (runtime->n_ports > 0 && runtime->ports == nullptr))
    return make_error(Code::kInvalid,
                      "runtime: %" PRIu64 " ports, array %s; this host allows %" PRIu64,
                      runtime->n_ports, runtime->ports == nullptr ? "NULL" : "not NULL", kMaxPorts);
  const std::span ports(runtime->ports, static_cast<size_t>(runtime->n_ports));
  for (size_t i = 0; i < ports.size(); ++i) OUTRIDER_TRY(check_provider_port(ports[i], i));
  // Not effective_verbs: the embedded table is 48 bytes in every layout, whatever its struct_size.
  const frt_model_runtime_verbs& verbs = runtime->verbs;
  OUTRIDER_TRY(check_staged_verbs(ports, verbs));

  auto plan = query_plan(runtime);
  if (!plan) return plan.error();
  ProviderFacts facts{.plan = plan.value()};
  AuthorityFacts known{.plan_present = facts.plan != nullptr,
                       .has_last_error = verbs.last_error != nullptr,
                       .has_step = verbs.step != nullptr};
  if (facts.plan != nullptr) {
    OUTRIDER_TRY(check_plan(facts.plan, runtime));
    known.n_generic_stages = facts.plan->n_stages;
    known.n_opaque_stages = count_opaque({facts.plan->stages, facts.plan->n_stages});
    known.has_runner = true;
  }
  auto authority = decide_authority(known);
  if (!authority) return authority.error();
  facts.authority = authority.value();
  return facts;
}

}  // namespace outrider::abi
