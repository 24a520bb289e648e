#include "broken.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace outrider::fake {
namespace {

// Parts are copies, so that a row may bend them; `answer_*` is what query_extension says about the
// plan.
struct Broken {
  frt_model_runtime_v1 rt{};
  frt_runtime_export_v1 exp{};
  frt_generic_stage_plan_ext_v1 plan{};
  std::vector<frt_generic_stage_desc_v1> stages;
  std::vector<frt_runtime_port_desc> ports;
  frt_runtime_stage_desc legacy{0, 0, nullptr};
  frt_runtime_graph_desc graph{"infer", reinterpret_cast<frt_graph>(&graph), 0, nullptr, 0, 0};
  std::string long_name = std::string(256, 'n');
  uint32_t edges[4] = {1, 0, 0, 0};
  bool has_plan = false, answer_throws = false, answer_table = true;
  int answer_code = 0;
  frt_model_runtime_v1* sound = nullptr;
  std::atomic<int> n_refs{1};

  ~Broken() { sound->release(sound->owner); }
};

// Those that cannot be released by a host live until the library goes.
std::unique_ptr<Broken> g_orphan;

void retain(void* owner) {
  ++static_cast<Broken*>(owner)->n_refs;
}
void release(void* owner) {
  auto* broken = static_cast<Broken*>(owner);
  if (--broken->n_refs == 0) delete broken;
}

int query(const frt_model_runtime_v1* rt, uint64_t id, uint32_t min_version, const void** out) {
  auto* broken = static_cast<Broken*>(rt->owner);
  if (id != FRT_EXT_GENERIC_STAGE_PLAN_V1)
    return broken->sound->query_extension(broken->sound, id, min_version, out);
  if (broken->answer_throws) throw std::runtime_error("scripted");
  *out = broken->has_plan && broken->answer_table ? &broken->plan : nullptr;
  return broken->has_plan           ? broken->answer_code
         : broken->answer_code != 0 ? broken->answer_code
                                    : FRT_ERR_UNSUPPORTED;
}

void two_stages(Broken& b) {
  b.stages.push_back({"second", FRT_EXECUTOR_OPAQUE, b.stages[0].executor_ref, 0, 0, nullptr});
  b.plan.stages = b.stages.data();
  b.plan.n_stages = b.stages.size();
}

void with_graph(Broken& b) {
  b.exp.graphs = &b.graph;
  b.exp.n_graphs = 1;
}

void legacy_plan(Broken& b) {
  with_graph(b);
  b.rt.stages = &b.legacy;
  b.rt.n_stages = 1;
  b.has_plan = false;
}

struct Row {
  const char* fault;
  void (*bend)(Broken& b);
};

constexpr Row kRows[] = {
    // accepted: lenient producers
    {"size_128", [](Broken& b) { b.rt.struct_size = 128, b.rt.query_extension = nullptr; }},
    {"size_200", [](Broken& b) { b.rt.struct_size = 200; }},
    {"no_query", [](Broken& b) { b.rt.query_extension = nullptr; }},
    {"empty_arrays", [](Broken& b) { b.exp.graphs = &b.graph, b.rt.stages = &b.legacy; }},
    {"graph_plan_with_step",
     [](Broken& b) {
       legacy_plan(b);
       b.ports[0].update = FRT_UPDATE_SWAP;
     }},
    {"mixed_plan_with_step",
     [](Broken& b) {
       with_graph(b), two_stages(b);
       b.stages[1].executor_kind = FRT_EXECUTOR_GRAPH, b.stages[1].executor_ref = 0;
     }},
    // refused: the runtime
    {"abi_version", [](Broken& b) { b.rt.abi_version = 2; }},
    {"size_127", [](Broken& b) { b.rt.struct_size = 127; }},
    {"null_exp", [](Broken& b) { b.rt.exp = nullptr; }},
    {"exp_abi", [](Broken& b) { b.exp.abi_version = 2; }},
    {"exp_size", [](Broken& b) { b.exp.struct_size = 127; }},
    {"null_identity", [](Broken& b) { b.exp.identity = nullptr; }},
    {"null_retain", [](Broken& b) { b.rt.retain = nullptr; }},
    {"null_release", [](Broken& b) { b.rt.release = nullptr; }},
    {"null_ports", [](Broken& b) { b.rt.ports = nullptr; }},
    {"many_ports", [](Broken& b) { b.rt.n_ports = UINT64_MAX / 72; }},
    {"port_no_name", [](Broken& b) { b.ports[1].name = ""; }},
    {"port_null_name", [](Broken& b) { b.ports[1].name = nullptr; }},
    {"port_direction", [](Broken& b) { b.ports[1].direction = 2; }},
    {"port_update", [](Broken& b) { b.ports[1].update = 3; }},
    {"port_shape", [](Broken& b) { b.ports[1].shape = nullptr; }},
    {"port_rank", [](Broken& b) { b.ports[1].rank = 17; }},
    {"null_legacy", [](Broken& b) { b.rt.n_stages = 1; }},
    {"verbs_size", [](Broken& b) { b.rt.verbs.struct_size = 40; }},
    {"no_authority", [](Broken& b) { b.has_plan = false, b.rt.verbs.step = nullptr; }},
    {"graph_plan",
     [](Broken& b) {
       legacy_plan(b);
       b.rt.verbs.step = nullptr;
     }},
    {"both_plans",
     [](Broken& b) {
       legacy_plan(b);
       b.has_plan = true;
     }},
    // refused: the answer about the plan
    {"query_code", [](Broken& b) { b.answer_code = -2, b.answer_table = false; }},
    {"query_no_table", [](Broken& b) { b.answer_table = false; }},
    {"query_both", [](Broken& b) { b.answer_code = -3; }},
    {"query_throws", [](Broken& b) { b.answer_throws = true; }},
    // refused: the plan
    {"plan_version", [](Broken& b) { b.plan.abi_version = 0; }},
    {"plan_size", [](Broken& b) { b.plan.struct_size = 39; }},
    {"plan_empty", [](Broken& b) { b.plan.n_stages = 0; }},
    {"plan_null_stages", [](Broken& b) { b.plan.stages = nullptr; }},
    {"plan_many", [](Broken& b) { b.plan.n_stages = UINT64_MAX / 32; }},
    {"plan_no_runner", [](Broken& b) { b.plan.run_opaque = nullptr; }},
    {"plan_no_last_error", [](Broken& b) { b.rt.verbs.last_error = nullptr; }},
    {"stage_null_name", [](Broken& b) { b.stages[0].name = nullptr; }},
    {"stage_empty_name", [](Broken& b) { b.stages[0].name = ""; }},
    {"stage_long_name", [](Broken& b) { b.stages[0].name = b.long_name.c_str(); }},
    {"stage_control_name", [](Broken& b) { b.stages[0].name = "in\nfer"; }},
    {"stage_utf8_name", [](Broken& b) { b.stages[0].name = "\xC0\xAF"; }},
    {"stage_kind", [](Broken& b) { b.stages[0].executor_kind = 2; }},
    {"stage_null_after", [](Broken& b) { b.stages[0].n_after = 1; }},
    {"stage_graph_ref",
     [](Broken& b) { two_stages(b), b.stages[1].executor_kind = FRT_EXECUTOR_GRAPH; }},
    {"stage_same_name", [](Broken& b) { two_stages(b), b.stages[1].name = b.stages[0].name; }},
    {"stage_after_itself",
     [](Broken& b) {
       two_stages(b);
       b.stages[1].n_after = 1, b.stages[1].after = b.edges;
     }},
    {"stage_after_twice",
     [](Broken& b) {
       two_stages(b);
       b.stages[1].n_after = 2, b.stages[1].after = b.edges + 1;
     }},
    {"plan_graph_only",
     [](Broken& b) {
       with_graph(b);
       b.stages[0].executor_kind = FRT_EXECUTOR_GRAPH, b.stages[0].executor_ref = 0;
     }},
    {"mixed_plan",
     [](Broken& b) {
       with_graph(b), two_stages(b);
       b.stages[1].executor_kind = FRT_EXECUTOR_GRAPH, b.stages[1].executor_ref = 0;
       b.rt.verbs.step = nullptr;
     }},
};

const Row* find_row(const char* fault) {
  for (const Row& row : kRows)
    if (std::strcmp(row.fault, fault) == 0) return &row;
  return nullptr;
}

void copy_parts(Broken& b) {
  b.rt = *b.sound;
  b.exp = *b.sound->exp;
  b.ports.assign(b.rt.ports, b.rt.ports + b.rt.n_ports);
  const void* table = nullptr;
  b.has_plan = b.sound->query_extension(b.sound, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &table) == 0;
  if (b.has_plan) {
    b.plan = *static_cast<const frt_generic_stage_plan_ext_v1*>(table);
    b.stages.reserve(b.plan.n_stages + 2);
    b.stages.assign(b.plan.stages, b.plan.stages + b.plan.n_stages);
    b.plan.stages = b.stages.data();
  }
  b.rt.exp = &b.exp;
  b.rt.ports = b.ports.data();
  b.rt.owner = &b;
  b.rt.retain = &retain;
  b.rt.release = &release;
  b.rt.query_extension = &query;
}

}  // namespace

bool is_fault(const char* fault) {
  return find_row(fault) != nullptr;
}

Result<frt_model_runtime_v1*> bend(frt_model_runtime_v1* sound, const char* fault) {
  const Row* row = find_row(fault);
  if (row == nullptr) return make_error(Code::kInvalid, "fake: unknown fault %.64s", fault);
  auto broken = std::make_unique<Broken>();
  broken->sound = sound;
  copy_parts(*broken);
  row->bend(*broken);
  const bool releasable =
      broken->rt.release != nullptr && broken->rt.abi_version == 1 && broken->rt.struct_size >= 128;
  frt_model_runtime_v1* rt = &broken->rt;
  if (releasable)
    (void)broken.release();
  else
    g_orphan = std::move(broken);
  return rt;
}

}  // namespace outrider::fake
