#include "host/contract.h"

#include <cinttypes>
#include <span>
#include <utility>

#include "abi/probe.h"

namespace outrider::host {
namespace {

Result<void> check_ports(const frt_model_runtime_v1& rt) {
  if (rt.n_ports > abi::kMaxPorts || (rt.n_ports > 0 && rt.ports == nullptr))
    return make_error(Code::kInvalid,
                      "runtime: %" PRIu64 " ports, array %s; this host allows %" PRIu64, rt.n_ports,
                      rt.ports == nullptr ? "NULL" : "not NULL", abi::kMaxPorts);
  for (uint64_t i = 0; i < rt.n_ports; ++i) {
    OUTRIDER_TRY(abi::check_port(rt.ports[i], i));
    if (rt.ports[i].rank > abi::kMaxRank)
      return make_error(Code::kInvalid, "port %" PRIu64 " (%.96s): rank %u, this host allows %u", i,
                        rt.ports[i].name, rt.ports[i].rank, abi::kMaxRank);
  }
  return {};
}

Contract step_contract(const frt_model_runtime_verbs& verbs) {
  return Contract{Drive::kStep, {Stage{"step", 0, {}}}, nullptr, verbs};
}

Error no_launch(uint64_t n_stages) {
  return make_error(Code::kUnsupported,
                    "runtime: %" PRIu64
                    " graph stages and no step verb; this host launches no graphs, it needs OPAQUE "
                    "stages or step",
                    n_stages);
}

// No generic plan: graphs replayed by the producer's own step, or a step-only black box.
Result<Contract> without_plan(const frt_model_runtime_v1& rt,
                              const frt_model_runtime_verbs& verbs) {
  if (verbs.step != nullptr) return step_contract(verbs);
  if (rt.n_stages > 0) return no_launch(rt.n_stages);
  auto nothing = abi::decide_authority({});
  return nothing.error();
}

Result<Contract> with_plan(const frt_model_runtime_v1& rt,
                           const frt_generic_stage_plan_ext_v1& plan,
                           const frt_model_runtime_verbs& verbs) {
  OUTRIDER_TRY(abi::check_plan(&plan, &rt));
  const std::span stages(plan.stages, static_cast<size_t>(plan.n_stages));
  const uint64_t n_opaque = abi::count_opaque(stages);
  const auto authority = abi::decide_authority({.n_legacy_stages = rt.n_stages,
                                                .plan_present = true,
                                                .n_generic_stages = plan.n_stages,
                                                .n_opaque_stages = n_opaque,
                                                .has_runner = plan.run_opaque != nullptr,
                                                .has_last_error = verbs.last_error != nullptr,
                                                .has_step = verbs.step != nullptr});
  if (!authority) return authority.error();
  if (n_opaque < plan.n_stages) {
    if (verbs.step != nullptr) return step_contract(verbs);
    return no_launch(plan.n_stages - n_opaque);
  }
  Contract contract{Drive::kPlan, {}, &plan, verbs};
  for (const auto& stage : stages)
    contract.stages.push_back(
        {stage.name, stage.executor_ref, {stage.after, stage.after + stage.n_after}});
  return contract;
}

}  // namespace

Result<Contract> check_runtime(const frt_model_runtime_v1* runtime) {
  OUTRIDER_TRY(abi::check_runtime_prefix(runtime));
  if (runtime->retain == nullptr || runtime->release == nullptr)
    return make_error(Code::kInvalid, "runtime: retain or release is NULL");
  OUTRIDER_TRY(abi::check_export_prefix(runtime->exp));
  if (runtime->exp->identity == nullptr)
    return make_error(Code::kInvalid, "export: identity is NULL");
  if (runtime->n_stages > abi::kMaxStages || (runtime->n_stages > 0 && runtime->stages == nullptr))
    return make_error(Code::kInvalid, "runtime: %" PRIu64 " legacy stages, array %s",
                      runtime->n_stages, runtime->stages == nullptr ? "NULL" : "not NULL");
  OUTRIDER_TRY(check_ports(*runtime));
  const frt_model_runtime_verbs verbs = abi::effective_verbs(&runtime->verbs);
  const auto plan = abi::query_plan(runtime);
  if (!plan) return plan.error();
  return plan.value() == nullptr ? without_plan(*runtime, verbs)
                                 : with_plan(*runtime, *plan.value(), verbs);
}

}  // namespace outrider::host
