#include <gtest/gtest.h>

#include <functional>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

frt_model_runtime_v1* over(const frt_model_runtime_v1* base, Model* self,
                           const frt_model_runtime_verbs& verbs) {
  return frt_model_runtime_override_verbs(base, &verbs, self, self, retain_owner, release_owner);
}

TEST(OverrideVerbs, aliases_the_base_and_forwards_every_verb) {
  for (auto* make : {plan_model, graph_model}) {
    Model base_self, self;
    Held base(make(&base_self));
    Held r(over(base.r, &self, all_verbs()));
    ASSERT_NE(r.r, nullptr);
    EXPECT_EQ(r->exp, base->exp);
    EXPECT_EQ(r->ports, base->ports);
    EXPECT_EQ(r->stages, base->stages);
    EXPECT_EQ(r->n_stages, base->n_stages);
    EXPECT_EQ(r->struct_size, 136u);
    uint64_t written = 0;
    EXPECT_EQ(r->verbs.set_input(r->self, 1, "ab", 2, 5), 11);
    EXPECT_EQ(r->verbs.get_output(r->self, 2, nullptr, 44, &written, -1), 12);
    EXPECT_EQ(written, 44u);
    EXPECT_EQ(r->verbs.prepare(r->self, 6, 7), 13);
    EXPECT_EQ(r->verbs.step(r->self), 14);
    EXPECT_EQ(self.calls,
              (std::vector<std::string>{"set_input 1 2 5", "get_output 2", "prepare 6 7", "step"}));
    EXPECT_TRUE(base_self.calls.empty());
  }
}

TEST(OverrideVerbs, last_error_is_the_bases_when_a_generic_plan_exists) {
  Model base_self, self;
  base_self.error = "base text", self.error = "override text";
  Held planned(plan_model(&base_self)), graphs(graph_model(&base_self));
  Held over_plan(over(planned.r, &self, all_verbs())),
      over_graphs(over(graphs.r, &self, all_verbs()));
  EXPECT_STREQ(over_plan->verbs.last_error(over_plan->self), "base text");
  EXPECT_STREQ(over_graphs->verbs.last_error(over_graphs->self), "override text");
}

TEST(OverrideVerbs, the_bases_runner_and_plan_stay_in_force) {
  Model base_self, self;
  Held base(plan_model(&base_self)), r(over(base.r, &self, all_verbs()));
  const void *from_base = nullptr, *from_override = nullptr;
  ASSERT_EQ(base->query_extension(base.r, 1, 1, &from_base), 0);
  ASSERT_EQ(r->query_extension(r.r, 1, 1, &from_override), 0);
  EXPECT_EQ(from_base, from_override);
  const auto* plan = static_cast<const frt_generic_stage_plan_ext_v1*>(from_override);
  EXPECT_EQ(plan->run_opaque(plan->stage_self, 37), 0);
  EXPECT_EQ(base_self.calls.back(), "run 37");
  EXPECT_EQ(r->query_extension(r.r, 1, 0, &from_override), -1);
  EXPECT_EQ(from_override, nullptr);
  EXPECT_EQ(r->query_extension(r.r, 99, 1, &from_override), -3);
}

TEST(OverrideVerbs, missing_verbs_become_stubs) {
  Model base_self, self;
  for (auto* make : {plan_model, graph_model}) {
    Held base(make(&base_self));
    frt_model_runtime_verbs verbs{sizeof verbs, 0,       set_input, get_output,
                                  nullptr,      nullptr, nullptr};
    Held r(over(base.r, &self, verbs));
    ASSERT_NE(r.r, nullptr);
    EXPECT_EQ(r->verbs.prepare(r->self, 0, 0), -3);
    EXPECT_EQ(r->verbs.step(r->self), -3);
    EXPECT_STRNE(r->verbs.last_error(r->self), "");
  }
}

TEST(OverrideVerbs, keeps_the_base_and_ends_before_it) {
  static std::vector<std::string> ends;
  ends.clear();
  struct Named {
    const char* name;
  };
  Named base_owner{"base"}, user{"override"};
  const auto note = [](void* owner) { ends.push_back(static_cast<Named*>(owner)->name); };
  Model m;
  Builder b = Builder::metadata();
  b.port("in"), b.stage("infer"), b.runner(&m);
  const auto verbs = all_verbs();
  auto* base = frt_runtime_builder_finish_model(b, &verbs, &m, &base_owner, nullptr, note);
  b.forget();
  auto* r = frt_model_runtime_override_verbs(base, &verbs, &m, &user, nullptr, note);
  ASSERT_NE(r, nullptr);
  base->release(base->owner);
  EXPECT_TRUE(ends.empty());
  r->retain(r->owner);
  r->release(r->owner);
  EXPECT_TRUE(ends.empty());
  r->release(r->owner);
  EXPECT_EQ(ends, (std::vector<std::string>{"override", "base"}));
}

TEST(OverrideVerbs, can_be_stacked) {
  Model base_self, middle, top;
  auto* base = plan_model(&base_self);
  auto* first = over(base, &middle, all_verbs());
  auto* second = over(first, &top, all_verbs());
  base->release(base->owner);
  first->release(first->owner);
  EXPECT_EQ(base_self.released + middle.released, 0);
  EXPECT_STREQ(second->verbs.last_error(second->self), base_self.error.c_str());
  EXPECT_EQ(second->verbs.step(second->self), 14);
  EXPECT_EQ(top.calls.back(), "step");
  second->release(second->owner);
  EXPECT_EQ(base_self.released, 1);
  EXPECT_EQ(middle.released, 1);
  EXPECT_EQ(top.released, 1);
}

// A base made by hand, so that every field can be broken.
struct HandBase {
  HandBase() : donor(plan_model(&m)) {
    r = *donor.r;
    const void* table = nullptr;
    donor->query_extension(donor.r, 1, 1, &table);
    plan = *static_cast<const frt_generic_stage_plan_ext_v1*>(table);
    stages.assign(plan.stages, plan.stages + plan.n_stages);
    stages.push_back({"second", FRT_EXECUTOR_OPAQUE, 5, 1, 0, after});
    plan.stages = stages.data();
    plan.n_stages = stages.size();
    ports.assign(r.ports, r.ports + r.n_ports);
    r.ports = ports.data();
    exp = *r.exp;
    r.exp = &exp;
    r.self = this;
    r.owner = this;
    r.retain = [](void* o) { ++static_cast<HandBase*>(o)->m.retained; };
    r.release = [](void* o) { ++static_cast<HandBase*>(o)->m.released; };
    r.query_extension = [](const frt_model_runtime_v1* self, uint64_t, uint32_t, const void** out) {
      auto* b = static_cast<HandBase*>(self->owner);
      *out = b->answer_table ? &b->plan : nullptr;
      return b->answer;
    };
    m.retained = 0;
  }
  HandBase(const HandBase&) = delete;

  Model m;
  Held donor;
  frt_model_runtime_v1 r{};
  frt_runtime_export_v1 exp{};
  frt_generic_stage_plan_ext_v1 plan{};
  std::vector<frt_generic_stage_desc_v1> stages;
  std::vector<frt_runtime_port_desc> ports;
  uint32_t after[2] = {0, 0};
  int answer = 0;
  bool answer_table = true;
};

TEST(OverrideVerbs, accepts_a_base_made_by_hand) {
  HandBase base;
  Model self;
  Held r(over(&base.r, &self, all_verbs()));
  ASSERT_NE(r.r, nullptr);
  EXPECT_EQ(base.m.retained, 1);
}

TEST(OverrideVerbs, refuses_every_broken_base_and_retains_nothing) {
  const frt_runtime_stage_desc legacy{0, 0, nullptr};
  frt_model_runtime_verbs verbs{};
  const std::pair<const char*, std::function<void(HandBase&)>> cases[] = {
      {"abi_version 2", [](HandBase& b) { b.r.abi_version = 2; }},
      {"struct_size 127", [](HandBase& b) { b.r.struct_size = 127; }},
      {"exp, retain", [](HandBase& b) { b.r.exp = nullptr; }},
      {"exp, retain", [](HandBase& b) { b.r.retain = nullptr; }},
      {"exp, retain", [](HandBase& b) { b.r.release = nullptr; }},
      {"struct_size 0", [](HandBase& b) { b.exp.struct_size = 0; }},
      {"ports with a NULL array", [](HandBase& b) { b.r.ports = nullptr; }},
      {"legacy stages with a NULL array", [](HandBase& b) { b.r.n_stages = 1; }},
      {"name", [](HandBase& b) { b.ports[0].name = nullptr; }},
      {"set_input", [&](HandBase&) { verbs.set_input = nullptr; }},
      {"get_output", [&](HandBase&) { verbs.get_output = nullptr; }},
      {"set_input", [&](HandBase&) { verbs.struct_size = 0; }},
      {"answered -1", [](HandBase& b) { b.answer = -1, b.answer_table = false; }},
      {"answered 1", [](HandBase& b) { b.answer = 1; }},
      {"beside a table", [](HandBase& b) { b.answer = -3; }},
      {"NULL table", [](HandBase& b) { b.answer_table = false; }},
      {"legacy stages and a generic plan",
       [&](HandBase& b) { b.r.n_stages = 1, b.r.stages = &legacy; }},
      {"only `step`", [](HandBase& b) { b.answer = -3, b.answer_table = false; }},
      {"only `step`", [](HandBase& b) { b.r.struct_size = 128; }},
      {"only `step`", [](HandBase& b) { b.r.query_extension = nullptr; }},
      {"are GRAPH",
       [](HandBase& b) {
         b.exp.n_graphs = 1, b.stages[0].executor_kind = 0, b.stages[0].executor_ref = 0;
       }},
      {"abi_version 0", [](HandBase& b) { b.plan.abi_version = 0; }},
      {"struct_size 39", [](HandBase& b) { b.plan.struct_size = 39; }},
      {"array NULL", [](HandBase& b) { b.plan.stages = nullptr; }},
      {"0 stages", [](HandBase& b) { b.plan.n_stages = 0; }},
      {"run_opaque", [](HandBase& b) { b.plan.run_opaque = nullptr; }},
      {"last_error", [](HandBase& b) { b.r.verbs.last_error = nullptr; }},
      {"name is NULL", [](HandBase& b) { b.stages[1].name = nullptr; }},
      {"control", [](HandBase& b) { b.stages[1].name = "\n"; }},
      {"already used", [](HandBase& b) { b.stages[1].name = "infer"; }},
      {"kind 2", [](HandBase& b) { b.stages[1].executor_kind = 2; }},
      {"NULL array", [](HandBase& b) { b.stages[1].after = nullptr; }},
      {"graph 3", [](HandBase& b) { b.stages[1].executor_kind = 0, b.stages[1].executor_ref = 3; }},
      {"not earlier", [](HandBase& b) { b.after[0] = 1; }},
      {"must increase", [](HandBase& b) { b.stages[1].n_after = 2; }},
      {"all 2 stages",
       [](HandBase& b) {
         b.exp.n_graphs = 1;
         for (auto& s : b.stages) s.executor_kind = 0, s.executor_ref = 0;
       }},
  };
  int index = 0;
  for (const auto& [words, damage] : cases) {
    HandBase base;
    Model self;
    verbs = all_verbs();
    damage(base);
    auto made = override_verbs({&base.r, &verbs, &self, &self, retain_owner, release_owner});
    EXPECT_FALSE(made) << index;
    EXPECT_NE(made.error().message().find(words), std::string_view::npos)
        << index << ": " << made.error().text;
    EXPECT_EQ(over(&base.r, &self, verbs), nullptr) << index;
    EXPECT_EQ(base.m.retained + self.retained, 0) << index;
    ++index;
  }
  EXPECT_EQ(frt_model_runtime_override_verbs(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            nullptr);
}

TEST(OverrideVerbs, a_newer_plan_table_is_accepted) {
  HandBase base;
  base.plan.abi_version = 2, base.plan.struct_size = 64;
  Model self;
  Held r(over(&base.r, &self, all_verbs()));
  EXPECT_NE(r.r, nullptr);
}

}  // namespace
}  // namespace outrider::abi::test
