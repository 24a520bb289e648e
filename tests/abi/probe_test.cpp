#include "abi/probe.h"

#include <gtest/gtest.h>

#include <functional>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

TEST(Probe, accepts_the_two_ways_a_provider_ticks) {
  Model m;
  Held planned(plan_model(&m)), stepped(step_model(&m));
  auto plan = check_provider(planned.r);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan.value().authority, Authority::kGenericPlan);
  ASSERT_NE(plan.value().plan, nullptr);
  auto step = check_provider(stepped.r);
  ASSERT_TRUE(step) << step.error().text;
  EXPECT_EQ(step.value().authority, Authority::kStepOnly);
  EXPECT_EQ(step.value().plan, nullptr);
  EXPECT_EQ(m.released, 0);
}

TEST(Probe, refuses_a_graph_producer) {
  Model m;
  Held r(graph_model(&m));
  auto facts = check_provider(r.r);
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message().find("ctx"), std::string_view::npos);
}

// Copies of a good provider whose fields can be broken one by one.
struct Copy {
  explicit Copy(frt_model_runtime_v1* source)
      : r(*source), exp(*source->exp), ports(source->ports, source->ports + source->n_ports) {
    r.exp = &exp;
    r.ports = ports.data();
  }
  frt_model_runtime_v1 r;
  frt_runtime_export_v1 exp;
  std::vector<frt_runtime_port_desc> ports;
};

TEST(Probe, refuses_each_broken_field_with_its_name) {
  Model m;
  Held source(step_model(&m));
  static const char dirt = 0;
  static const frt_runtime_stage_desc legacy{};
  const std::pair<const char*, std::function<void(Copy&)>> cases[] = {
      {"abi_version 0", [](Copy& c) { c.r.abi_version = 0; }},
      {"abi_version 2", [](Copy& c) { c.r.abi_version = 2; }},
      {"struct_size 0", [](Copy& c) { c.r.struct_size = 0; }},
      {"struct_size 127", [](Copy& c) { c.r.struct_size = 127; }},
      {"retain", [](Copy& c) { c.r.retain = nullptr; }},
      {"release", [](Copy& c) { c.r.release = nullptr; }},
      {"export: NULL", [](Copy& c) { c.r.exp = nullptr; }},
      {"export: abi_version 3", [](Copy& c) { c.exp.abi_version = 3; }},
      {"export: struct_size 127", [](Copy& c) { c.exp.struct_size = 127; }},
      {"export: retain", [](Copy& c) { c.exp.retain = nullptr; }},
      {"export: retain or release", [](Copy& c) { c.exp.release = nullptr; }},
      {"identity", [](Copy& c) { c.exp.identity = nullptr; }},
      {"ctx", [](Copy& c) { c.exp.ctx = some_ctx(); }},
      {"streams", [](Copy& c) { c.exp.n_streams = 1; }},
      {"streams",
       [](Copy& c) { c.exp.streams = reinterpret_cast<const frt_runtime_stream_desc*>(&dirt); }},
      {"graphs", [](Copy& c) { c.exp.n_graphs = 1; }},
      {"graphs",
       [](Copy& c) { c.exp.graphs = reinterpret_cast<const frt_runtime_graph_desc*>(&dirt); }},
      {"buffers", [](Copy& c) { c.exp.n_buffers = 1; }},
      {"buffers",
       [](Copy& c) { c.exp.buffers = reinterpret_cast<const frt_runtime_buffer_desc*>(&dirt); }},
      {"capsule_regions", [](Copy& c) { c.exp.n_capsule_regions = 1; }},
      {"capsule_regions",
       [](Copy& c) {
         c.exp.capsule_regions = reinterpret_cast<const frt_runtime_region_desc*>(&dirt);
       }},
      {"legacy stages: 1", [](Copy& c) { c.r.n_stages = 1; }},
      {"legacy stages: 0 entries, array not NULL", [](Copy& c) { c.r.stages = &legacy; }},
      {"ports", [](Copy& c) { c.r.ports = nullptr; }},
      {"4097 ports", [](Copy& c) { c.r.n_ports = 4097; }},
      {"name", [](Copy& c) { c.ports[0].name = nullptr; }},
      {"name", [](Copy& c) { c.ports[0].name = ""; }},
      {"SWAP", [](Copy& c) { c.ports[0].update = FRT_UPDATE_SWAP; }},
      {"rank 1", [](Copy& c) { c.ports[0].rank = 1; }},
      {"rank 17",
       [](Copy& c) {
         static const int64_t d[17] = {};
         c.ports[0].rank = 17, c.ports[0].shape = d;
       }},
      {"buffer set", [](Copy& c) { c.ports[0].buffer = some_buffer(); }},
      {"offset 4", [](Copy& c) { c.ports[0].offset = 4; }},
      {"bytes 4", [](Copy& c) { c.ports[0].bytes = 4; }},
      {"set_input", [](Copy& c) { c.r.verbs.set_input = nullptr; }},
      {"get_output", [](Copy& c) { c.r.verbs.get_output = nullptr; }},
      {"nothing can run", [](Copy& c) { c.r.verbs.step = nullptr; }},
  };
  int index = 0;
  for (const auto& [words, damage] : cases) {
    Copy copy(source.r);
    damage(copy);
    auto facts = check_provider(&copy.r);
    EXPECT_FALSE(facts) << index;
    EXPECT_NE(facts.error().message().find(words), std::string_view::npos)
        << index << ": " << facts.error().text;
    ++index;
  }
  Copy copy(source.r);
  copy.r.verbs.prepare = nullptr;
  copy.r.verbs.last_error = nullptr;
  copy.r.verbs.struct_size = 0;
  EXPECT_TRUE(check_provider(&copy.r)) << "verbs that nothing needs may be NULL";
  EXPECT_FALSE(check_provider(nullptr));
}

int answer(const frt_model_runtime_v1* r, uint64_t, uint32_t, const void** out) {
  // `owner` carries the code to answer; a table comes along unless the code says otherwise.
  const auto code = static_cast<int>(reinterpret_cast<intptr_t>(r->owner));
  if (code == 0) return 0;
  static const frt_generic_stage_plan_ext_v1 table{};
  *out = code == -1 ? nullptr : &table;
  return code;
}

TEST(Probe, refuses_query_answers_outside_the_rules) {
  Model m;
  Held source(step_model(&m));
  for (const intptr_t code : {0, -1, -3, 1, -127}) {
    Copy copy(source.r);
    copy.r.owner = reinterpret_cast<void*>(code);
    copy.r.query_extension = answer;
    auto facts = check_provider(&copy.r);
    EXPECT_FALSE(facts) << code;
    EXPECT_NE(facts.error().message().find("query_extension"), std::string_view::npos);
    const void* out = &m;
    EXPECT_NE(query_extension(&copy.r, 1, 1, &out), 0) << "success without a table is none";
    EXPECT_EQ(out, nullptr);
  }
}

TEST(Probe, a_throwing_query_is_a_refusal) {
  Model m;
  Held source(step_model(&m));
  Copy copy(source.r);
  copy.r.query_extension = [](const frt_model_runtime_v1*, uint64_t, uint32_t,
                              const void**) -> int { throw 1; };
  EXPECT_FALSE(check_provider(&copy.r));
  const void* out = &m;
  EXPECT_EQ(query_extension(&copy.r, 1, 1, &out), -8);
  EXPECT_EQ(out, nullptr);
}

TEST(Probe, an_absent_tail_reads_as_unsupported) {
  Model m;
  Held source(plan_model(&m));
  Copy copy(source.r);
  const void* out = &m;
  EXPECT_EQ(query_extension(&copy.r, 1, 1, &out), 0);
  EXPECT_EQ(query_extension(&copy.r, 1, 0, &out), -1);
  EXPECT_EQ(query_extension(nullptr, 1, 1, &out), -1);
  EXPECT_EQ(query_extension(&copy.r, 1, 1, nullptr), -1);
  copy.r.query_extension = nullptr;
  EXPECT_EQ(query_extension(&copy.r, 1, 1, &out), -3);
  EXPECT_EQ(out, nullptr);
  copy.r.query_extension = source->query_extension;
  copy.r.struct_size = 135;
  EXPECT_EQ(query_extension(&copy.r, 1, 1, &out), -3);
  auto facts = check_provider(&copy.r);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts.value().authority, Authority::kStepOnly)
      << "the plan is out of reach, step is not";
}

TEST(Probe, a_plan_with_a_graph_stage_is_no_provider) {
  Model m;
  Builder b = Builder::with_ctx();
  b.graph("g"), b.stage("g", 0, {}, FRT_EXECUTOR_GRAPH), b.stage("cpu", 1, {0}), b.runner(&m);
  Held source(b.finish(&m));
  ASSERT_NE(source.r, nullptr);
  const void* table = nullptr;
  source->query_extension(source.r, 1, 1, &table);
  EXPECT_TRUE(check_plan(static_cast<const frt_generic_stage_plan_ext_v1*>(table), source.r));
  Copy copy(source.r);  // the same plan over an export that claims to be metadata only
  copy.exp.ctx = nullptr, copy.exp.graphs = nullptr, copy.exp.n_graphs = 0;
  auto facts = check_provider(&copy.r);
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message().find("graph 0"), std::string_view::npos) << facts.error().text;
}

TEST(Probe, a_plan_of_too_many_stages_is_not_walked) {
  Model m;
  Held source(plan_model(&m));
  const void* table = nullptr;
  source->query_extension(source.r, 1, 1, &table);
  auto plan = *static_cast<const frt_generic_stage_plan_ext_v1*>(table);
  plan.n_stages = UINT64_MAX;
  auto checked = check_plan(&plan, source.r);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("allows 4096"), std::string_view::npos);
  EXPECT_FALSE(check_plan(nullptr, source.r));
}

}  // namespace
}  // namespace outrider::abi::test
