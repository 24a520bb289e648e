// The ends of a builder: authority, kept after refusal, discarded, stubs, the published structs.
#include <gtest/gtest.h>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

TEST(FinishModel, publishes_every_field_of_a_provider) {
  Model m;
  Held r(plan_model(&m));
  ASSERT_NE(r.r, nullptr);
  EXPECT_EQ(r->abi_version, 1u);
  EXPECT_EQ(r->struct_size, 136u);
  EXPECT_EQ(r->n_ports, 2u);
  EXPECT_EQ(r->stages, nullptr);
  EXPECT_EQ(r->n_stages, 0u);
  EXPECT_EQ(r->self, &m);
  EXPECT_EQ(r->verbs.struct_size, 48u);
  const frt_runtime_export_v1& e = *r->exp;
  EXPECT_EQ(e.abi_version, 1u);
  EXPECT_EQ(e.struct_size, 128u);
  EXPECT_EQ(e.ctx, nullptr);
  EXPECT_TRUE(!e.streams && !e.graphs && !e.buffers && !e.capsule_regions);
  EXPECT_EQ(e.n_streams + e.n_graphs + e.n_buffers + e.n_capsule_regions, 0u);
  EXPECT_EQ(e.owner, r->owner) << "one object, one counter";
  EXPECT_EQ(r->verbs.set_input(r->self, 3, "x", 9, -1), 11);
  EXPECT_EQ(m.calls.back(), "set_input 3 9 -1");
}

TEST(FinishModel, refuses_a_staged_port_without_its_verb) {
  for (const bool output : {false, true}) {
    Model m;
    Builder b = Builder::metadata();
    b.port("p", output ? FRT_PORT_OUT : FRT_PORT_IN);
    auto verbs = all_verbs();
    (output ? (void)(verbs.get_output = nullptr) : (void)(verbs.set_input = nullptr));
    EXPECT_EQ(b.finish(&m, verbs), nullptr);
    EXPECT_NE(std::string(b.reason()).find(output ? "get_output" : "set_input"), std::string::npos);
    EXPECT_EQ(m.retained, 0);
    Held r(b.finish(&m));  // the builder was kept: fix and retry
    EXPECT_NE(r.r, nullptr) << b.reason();
    EXPECT_EQ(m.retained, 1);
  }
}

TEST(FinishModel, a_port_that_is_not_staged_needs_no_verb) {
  Model m;
  Builder b = Builder::metadata();
  b.port("setup", FRT_PORT_IN, FRT_UPDATE_SETUP);
  frt_model_runtime_verbs verbs{sizeof verbs, 0, nullptr, nullptr, nullptr, step, nullptr};
  Held r(b.finish(&m, verbs));
  EXPECT_NE(r.r, nullptr);
}

TEST(FinishModel, a_verbs_table_shorter_than_48_counts_as_missing) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in");
  auto verbs = all_verbs();
  for (uint32_t size : {0u, 8u, 47u}) {
    verbs.struct_size = size;
    EXPECT_EQ(b.finish(&m, verbs), nullptr) << size;
  }
  EXPECT_EQ(frt_runtime_builder_finish_model(b, nullptr, &m, &m, nullptr, nullptr), nullptr);
  verbs.struct_size = 56;  // longer is fine
  Held r(b.finish(&m, verbs));
  ASSERT_NE(r.r, nullptr);
  EXPECT_EQ(r->verbs.struct_size, 48u);
}

// One row of the authority table.
struct Row {
  bool legacy, plan, opaque, runner, last_error, step, accepted;
};

frt_model_runtime_v1* build_row(Builder& b, Model* m, const Row& row) {
  b.graph("g");
  if (row.legacy) frt_runtime_builder_add_stage(b, 0, nullptr, 0);
  if (row.plan) b.stage("graph", 0, {}, FRT_EXECUTOR_GRAPH);
  if (row.opaque) b.stage("opaque");
  if (row.runner) b.runner(m);
  auto verbs = all_verbs();
  if (!row.step) verbs.step = nullptr;
  if (!row.last_error) verbs.last_error = nullptr;
  return b.finish(m, verbs);
}

TEST(FinishModel, follows_the_authority_table) {
  for (int bits = 0; bits < 64; ++bits) {
    Row row{bool(bits & 1),  bool(bits & 2),  bool(bits & 4), bool(bits & 8),
            bool(bits & 16), bool(bits & 32), false};
    if (row.legacy && (row.plan || row.opaque || row.runner)) continue;  // refused by the add calls
    const bool plan_present = row.plan || row.opaque || row.runner;
    row.accepted =
        row.legacy || (plan_present ? row.opaque && row.runner && row.last_error : row.step);
    Model m;
    Builder b = Builder::with_ctx();
    Held r(build_row(b, &m, row));
    EXPECT_EQ(r.r != nullptr, row.accepted) << bits << ": " << (r.r ? "" : b.reason());
    if (r.r != nullptr) continue;
    EXPECT_EQ(m.retained, 0);
    // Completing what is missing makes the kept builder finish.
    if (plan_present && !row.opaque) b.stage("late");
    if (plan_present && !row.runner) b.runner(&m);
    Held fixed(b.finish(&m));
    EXPECT_NE(fixed.r, nullptr) << bits << ": " << b.reason();
  }
}

TEST(FinishModel, missing_verbs_become_stubs_that_answer_unsupported) {
  Model m;
  Builder b = Builder::with_ctx();
  b.graph("g");
  frt_runtime_builder_add_stage(b, 0, nullptr, 0);
  auto* model =
      frt_runtime_builder_finish_model(b, nullptr, nullptr, &m, retain_owner, release_owner);
  ASSERT_NE(model, nullptr);
  b.forget();
  Held r(model);
  uint64_t written = 77;
  EXPECT_EQ(r->verbs.set_input(r->self, 0, "", 0, -1), -3);
  EXPECT_EQ(r->verbs.get_output(r->self, 0, nullptr, 0, &written, -1), -3);
  EXPECT_EQ(written, 0u);
  EXPECT_EQ(r->verbs.get_output(r->self, 0, nullptr, 0, nullptr, -1), -3);
  EXPECT_EQ(r->verbs.prepare(r->self, 0, 0), -3);
  EXPECT_EQ(r->verbs.step(r->self), -3);
  EXPECT_STRNE(r->verbs.last_error(r->self), "");
}

TEST(Finish, discards_a_metadata_builder_whatever_it_holds) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in"), b.stage("infer"), b.runner(&m);
  EXPECT_EQ(b.finish_export(&m), nullptr);
  b.forget();  // freed: the leak checker would tell
  EXPECT_EQ(m.retained, 0);
  EXPECT_EQ(m.released, 0);
}

TEST(Finish, a_plain_export_is_refused_when_a_model_was_begun_and_the_builder_is_kept) {
  for (int what = 0; what < 3; ++what) {
    Model m;
    Builder b = Builder::with_ctx();
    b.graph("g");
    if (what == 0) b.port("p");
    if (what == 1) frt_runtime_builder_add_stage(b, 0, nullptr, 0);
    if (what == 2) b.runner(&m);
    EXPECT_EQ(b.finish_export(&m), nullptr) << what;
    EXPECT_NE(std::string(b.reason()).find("finish_model"), std::string::npos);
    EXPECT_EQ(m.retained, 0);
    if (what == 2) b.stage("s");
    Held r(b.finish(&m));
    EXPECT_NE(r.r, nullptr) << b.reason();
  }
}

TEST(Finish, builds_a_plain_export_with_one_reference) {
  Model m;
  Builder b = Builder::with_ctx();
  const uint64_t keys[] = {4, 8};
  int native = 0;
  frt_runtime_builder_add_stream(b, "main", 3, -1, &native);
  frt_runtime_builder_add_graph(b, "g", some_graph(), 8, keys, 2, 3);
  frt_runtime_builder_add_buffer(b, "b", some_buffer(), 64, FRT_BUFFER_STATE);
  frt_runtime_builder_set_manifest(b, "first");
  frt_runtime_builder_set_manifest(b, "last");
  auto* e = b.finish_export(&m);
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(m.retained, 1);
  EXPECT_EQ(e->ctx, some_ctx());
  EXPECT_STREQ(e->streams[0].name, "main");
  EXPECT_EQ(e->streams[0].native_handle, &native);
  EXPECT_EQ(e->graphs[0].keys[1], 8u);
  EXPECT_NE(e->graphs[0].keys, keys) << "copied";
  EXPECT_EQ(e->buffers[0].role, unsigned(FRT_BUFFER_STATE));
  EXPECT_EQ(e->capsule_regions, nullptr);
  EXPECT_STREQ(e->manifest_json, "last");
  e->retain(e->owner);
  e->release(e->owner);
  EXPECT_EQ(m.released, 0);
  e->release(e->owner);
  EXPECT_EQ(m.released, 1);
}

TEST(FinishModel, a_retain_callback_that_throws_is_a_refusal) {
  Model m;
  Builder b = Builder::metadata();
  b.port("in");
  const auto verbs = all_verbs();
  const auto thrower = [](void*) { throw 1; };
  EXPECT_EQ(frt_runtime_builder_finish_model(b, &verbs, &m, &m, thrower, release_owner), nullptr);
  EXPECT_EQ(m.released, 0);
  Held r(b.finish(&m));
  EXPECT_NE(r.r, nullptr);
}

}  // namespace
}  // namespace outrider::abi::test
