#include <gtest/gtest.h>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

constexpr uint64_t kTaps = kExtensionIdBase | 1, kStatus = kExtensionIdBase | 2;

int query(const frt_model_runtime_v1* r, uint64_t id, uint32_t version, const void** out) {
  return r->query_extension(r, id, version, out);
}

TEST(QueryExtension, clears_out_before_anything_else) {
  Model m;
  Held r(plan_model(&m));
  int dirt = 0;
  const void* out = &dirt;
  EXPECT_EQ(r->query_extension(nullptr, 1, 1, &out), -1);
  EXPECT_EQ(out, nullptr);
  out = &dirt;
  EXPECT_EQ(query(r.r, 1, 0, &out), -1);
  EXPECT_EQ(out, nullptr);
  out = &dirt;
  EXPECT_EQ(query(r.r, 2, 1, &out), -3);
  EXPECT_EQ(out, nullptr);
  out = &dirt;
  EXPECT_EQ(query(r.r, 1, 2, &out), -3);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(query(r.r, 1, 1, nullptr), -1);
}

TEST(QueryExtension, gives_one_stable_plan_table) {
  Model m;
  Held r(plan_model(&m));
  const void *first = nullptr, *second = nullptr;
  ASSERT_EQ(query(r.r, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &first), 0);
  ASSERT_EQ(query(r.r, FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &second), 0);
  EXPECT_EQ(first, second);
  const auto* plan = static_cast<const frt_generic_stage_plan_ext_v1*>(first);
  EXPECT_EQ(plan->abi_version, 1u);
  EXPECT_EQ(plan->struct_size, 40u);
  ASSERT_EQ(plan->n_stages, 1u);
  EXPECT_STREQ(plan->stages[0].name, "infer");
  EXPECT_EQ(plan->run_opaque(plan->stage_self, plan->stages[0].executor_ref), 0);
  EXPECT_EQ(m.calls.back(), "run 37");
}

TEST(QueryExtension, a_runtime_without_a_plan_says_unsupported) {
  Model m;
  for (auto* make : {step_model, graph_model}) {
    Held r(make(&m));
    const void* out = &m;
    EXPECT_EQ(query(r.r, 1, 1, &out), -3);
    EXPECT_EQ(out, nullptr);
  }
}

Result<frt_model_runtime_v1*> finish_with(Builder& b, Model* m,
                                          std::vector<ExtensionTable> tables) {
  const auto verbs = all_verbs();
  auto made = finish_model(b, &verbs, m, m, retain_owner, release_owner, tables);
  if (made) b.forget();
  return made;
}

TEST(QueryExtension, finds_our_tables_up_to_their_version) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in");
  const int taps = 1, status = 2;
  auto made = finish_with(b, &m, {{kTaps, 1, &taps}, {kStatus, 3, &status}});
  ASSERT_TRUE(made) << made.error().text;
  Held r(made.value());
  const void* out = nullptr;
  EXPECT_EQ(query(r.r, kTaps, 1, &out), 0);
  EXPECT_EQ(out, &taps);
  EXPECT_EQ(query(r.r, kTaps, 2, &out), -3);
  EXPECT_EQ(out, nullptr);
  for (uint32_t version = 1; version <= 3; ++version) {
    EXPECT_EQ(query(r.r, kStatus, version, &out), 0);
    EXPECT_EQ(out, &status);
  }
  EXPECT_EQ(query(r.r, kStatus, 4, &out), -3);
  EXPECT_EQ(query(r.r, kStatus + 1, 1, &out), -3);
  EXPECT_EQ(query(r.r, 1, 1, &out), -3) << "no plan here";
}

TEST(QueryExtension, an_override_reaches_our_tables_of_the_base) {
  Model m, other;
  Builder b = Builder::metadata();
  b.port("in"), b.stage("infer"), b.runner(&m);
  const int taps = 1;
  auto made = finish_with(b, &m, {{kTaps, 1, &taps}});
  ASSERT_TRUE(made);
  Held base(made.value());
  const auto verbs = all_verbs();
  Held over(frt_model_runtime_override_verbs(base.r, &verbs, &other, &other, nullptr, nullptr));
  ASSERT_NE(over.r, nullptr);
  const void* out = nullptr;
  EXPECT_EQ(query(over.r, kTaps, 1, &out), 0);
  EXPECT_EQ(out, &taps);
}

TEST(FinishModel, refuses_bad_extension_tables_and_keeps_the_builder) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in");
  const int table = 0;
  const std::vector<ExtensionTable> bad[] = {
      {{1, 1, &table}},                             // an id of the core
      {{UINT64_C(0x4F54000000000001), 1, &table}},  // another range
      {{kTaps, 0, &table}},
      {{kTaps, 1, nullptr}},
      {{kTaps, 1, &table}, {kStatus, 1, &table}, {kTaps, 2, &table}}};
  for (const auto& tables : bad) {
    auto made = finish_with(b, &m, tables);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.code(), Code::kInvalid);
    EXPECT_NE(made.error().message().find("extension"), std::string_view::npos);
    EXPECT_STREQ(b.reason(), made.error().text);
  }
  EXPECT_EQ(m.retained, 0);
  auto made = finish_with(b, &m, {});
  ASSERT_TRUE(made);
  made.value()->release(made.value()->owner);
}

}  // namespace
}  // namespace outrider::abi::test
