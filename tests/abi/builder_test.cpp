// Every rejection of the add and set calls, one by one; each leaves the builder as it was.
#include "abi/builder.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

#define EXPECT_REFUSED(call, b, words)                                                   \
  do {                                                                                   \
    EXPECT_EQ((call), -1);                                                               \
    EXPECT_NE(std::string((b).reason()).find(words), std::string::npos) << (b).reason(); \
  } while (0)

// Completes a builder with a context, so that it does not outlive the test.
void end_graph_builder(Builder& b) {
  Model m;
  if (b.graph("the end") != 0) return;
  frt_model_runtime_v1* model = nullptr;
  frt_runtime_builder_add_stage(b, 0, nullptr, 0);
  model = b.finish(&m);
  ASSERT_NE(model, nullptr) << b.reason();
  model->release(model->owner);
}

TEST(Builder, create_refuses_a_null_context) {
  EXPECT_EQ(frt_runtime_builder_create(nullptr), nullptr);
}

TEST(Builder, every_call_refuses_a_null_builder) {
  Model m;
  const auto verbs = all_verbs();
  EXPECT_EQ(frt_runtime_builder_add_stream(nullptr, "s", 0, 0, nullptr), -1);
  EXPECT_EQ(frt_runtime_builder_add_graph(nullptr, "g", some_graph(), 0, nullptr, 0, 0), -1);
  EXPECT_EQ(frt_runtime_builder_add_buffer(nullptr, "b", some_buffer(), 1, 1), -1);
  EXPECT_EQ(frt_runtime_builder_add_region(nullptr, "r", some_buffer(), 0, 1, 1), -1);
  EXPECT_EQ(frt_runtime_builder_add_identity(nullptr, "k", "v"), -1);
  EXPECT_EQ(frt_runtime_builder_set_manifest(nullptr, "{}"), -1);
  EXPECT_EQ(
      frt_runtime_builder_add_port(nullptr, "p", 0, 0, 0, 0, 1, 0, nullptr, 0, 0, nullptr, 0, 0),
      -1);
  EXPECT_EQ(frt_runtime_builder_add_stage(nullptr, 0, nullptr, 0), -1);
  EXPECT_EQ(frt_runtime_builder_add_generic_stage(nullptr, "s", 1, 0, nullptr, 0), -1);
  EXPECT_EQ(frt_runtime_builder_set_generic_stage_runner(nullptr, &m, run_opaque), -1);
  EXPECT_EQ(frt_runtime_builder_finish(nullptr, &m, retain_owner, release_owner), nullptr);
  EXPECT_EQ(frt_runtime_builder_finish_model(nullptr, &verbs, &m, &m, retain_owner, release_owner),
            nullptr);
  EXPECT_EQ(m.retained, 0);
}

TEST(Builder, add_stream_refusals) {
  Builder meta = Builder::metadata(), b = Builder::with_ctx();
  EXPECT_REFUSED(frt_runtime_builder_add_stream(meta, "s", 0, 0, nullptr), meta, "metadata");
  EXPECT_REFUSED(frt_runtime_builder_add_stream(b, nullptr, 0, 0, nullptr), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_add_stream(b, "s", -1, 0, nullptr), b, "id -1");
  EXPECT_EQ(frt_runtime_builder_add_stream(b, "s", 0, -5, nullptr), 0);
  end_graph_builder(b);
}

TEST(Builder, add_graph_refusals) {
  Builder meta = Builder::metadata(), b = Builder::with_ctx();
  EXPECT_REFUSED(meta.graph("g"), meta, "metadata");
  EXPECT_REFUSED(b.graph(nullptr), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_add_graph(b, "g", nullptr, 0, nullptr, 0, 0), b, "handle");
  EXPECT_REFUSED(frt_runtime_builder_add_graph(b, "g", some_graph(), 0, nullptr, 2, 0), b,
                 "2 keys");
  end_graph_builder(b);
}

TEST(Builder, add_buffer_refusals) {
  Builder meta = Builder::metadata(), b = Builder::with_ctx();
  EXPECT_REFUSED(frt_runtime_builder_add_buffer(meta, "b", some_buffer(), 8, 1), meta, "metadata");
  EXPECT_REFUSED(frt_runtime_builder_add_buffer(b, nullptr, some_buffer(), 8, 1), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_add_buffer(b, "b", nullptr, 8, 1), b, "handle");
  EXPECT_EQ(frt_runtime_builder_add_buffer(b, "b", some_buffer(), 0, 0), 0);
  end_graph_builder(b);
}

TEST(Builder, add_region_refusals) {
  Builder meta = Builder::metadata(), b = Builder::with_ctx();
  EXPECT_REFUSED(frt_runtime_builder_add_region(meta, "r", some_buffer(), 0, 8, 3), meta,
                 "metadata");
  EXPECT_REFUSED(frt_runtime_builder_add_region(b, nullptr, some_buffer(), 0, 8, 3), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_add_region(b, "r", nullptr, 0, 8, 3), b, "buffer");
  EXPECT_REFUSED(frt_runtime_builder_add_region(b, "r", some_buffer(), 0, 0, 3), b, "0 bytes");
  EXPECT_EQ(frt_runtime_builder_add_region(b, std::string(96, 'r').c_str(), some_buffer(), 0, 8, 3),
            0);
  EXPECT_REFUSED(
      frt_runtime_builder_add_region(b, std::string(97, 'r').c_str(), some_buffer(), 0, 8, 3), b,
      "96 bytes");
  end_graph_builder(b);
}

TEST(Builder, identity_and_manifest_refuse_null_and_accept_empty) {
  Builder b = Builder::metadata();
  EXPECT_REFUSED(frt_runtime_builder_add_identity(b, nullptr, "v"), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_add_identity(b, "k", nullptr), b, "NULL");
  EXPECT_REFUSED(frt_runtime_builder_set_manifest(b, nullptr), b, "NULL");
  EXPECT_EQ(frt_runtime_builder_add_identity(b, "", ""), 0);
  EXPECT_EQ(frt_runtime_builder_set_manifest(b, "not json"), 0);
  EXPECT_STREQ(b.reason(), "");
}

TEST(Builder, add_port_refusals_common_to_both_builders) {
  Builder meta = Builder::metadata(), full = Builder::with_ctx();
  for (Builder* b : {&meta, &full}) {
    EXPECT_REFUSED(b->port(nullptr), *b, "NULL or empty");
    EXPECT_REFUSED(b->port(""), *b, "NULL or empty");
    EXPECT_REFUSED(b->port("p", 2), *b, "direction 2");
    EXPECT_REFUSED(b->port("p", FRT_PORT_IN, 3), *b, "update 3");
    EXPECT_REFUSED(
        frt_runtime_builder_add_port(*b, "p", 0, 0, 0, 0, 1, 0, nullptr, 1, 0, nullptr, 0, 0), *b,
        "rank 1");
    EXPECT_EQ(b->port(std::string(96, 'p').c_str()), 0);
    EXPECT_REFUSED(b->port(std::string(97, 'p').c_str()), *b, "96 bytes");
  }
  end_graph_builder(full);
}

TEST(Builder, add_port_leaves_modality_dtype_layout_required_and_repeated_names_free) {
  Builder b = Builder::metadata();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(
        frt_runtime_builder_add_port(b, "p", 99, 98, 97, 1, 1, 96, nullptr, 0, 0, nullptr, 0, 0),
        0);
}

TEST(Builder, a_metadata_port_cannot_be_bound) {
  Builder b = Builder::metadata();
  const auto add = [&](uint32_t update, frt_buffer buffer, uint64_t offset, uint64_t bytes) {
    return frt_runtime_builder_add_port(b, "p", 0, 0, 0, 0, update, 0, nullptr, 0, 0, buffer,
                                        offset, bytes);
  };
  EXPECT_REFUSED(add(FRT_UPDATE_SWAP, nullptr, 0, 0), b, "SWAP");
  EXPECT_REFUSED(add(FRT_UPDATE_STAGED, some_buffer(), 0, 0), b, "metadata-only");
  EXPECT_REFUSED(add(FRT_UPDATE_STAGED, nullptr, 1, 0), b, "window at 1");
  EXPECT_REFUSED(add(FRT_UPDATE_STAGED, nullptr, 0, 1), b, "of 1 bytes");
  EXPECT_EQ(add(FRT_UPDATE_SETUP, nullptr, 0, 0), 0);
}

TEST(Builder, add_stage_refusals) {
  Builder meta = Builder::metadata(), b = Builder::with_ctx(), planned = Builder::with_ctx();
  EXPECT_REFUSED(frt_runtime_builder_add_stage(meta, 0, nullptr, 0), meta, "metadata");
  EXPECT_REFUSED(frt_runtime_builder_add_stage(b, 0, nullptr, 0), b, "graph 0");
  ASSERT_EQ(b.graph("g"), 0);
  EXPECT_REFUSED(frt_runtime_builder_add_stage(b, 1, nullptr, 0), b, "graph 1");
  EXPECT_REFUSED(frt_runtime_builder_add_stage(b, 0, nullptr, 1), b, "NULL array");
  const uint32_t self = 0, later = 1;
  EXPECT_REFUSED(frt_runtime_builder_add_stage(b, 0, &self, 1), b, "not earlier");
  EXPECT_REFUSED(frt_runtime_builder_add_stage(b, 0, &later, 1), b, "not earlier");
  EXPECT_EQ(frt_runtime_builder_add_stage(b, 0, nullptr, 0), 0);
  EXPECT_EQ(frt_runtime_builder_add_stage(b, 0, &self, 1), 0);

  Model m;
  ASSERT_EQ(planned.graph("g"), 0);
  ASSERT_EQ(planned.runner(&m), 0);  // a runner alone already marks the plan as present
  EXPECT_REFUSED(frt_runtime_builder_add_stage(planned, 0, nullptr, 0), planned, "generic plan");
  end_graph_builder(b);
  ASSERT_EQ(planned.stage("infer"), 0);
  Held done(planned.finish(&m));
  EXPECT_NE(done.r, nullptr);
}

TEST(Builder, generic_stages_refuse_a_builder_with_legacy_stages) {
  Model m;
  Builder b = Builder::with_ctx();
  ASSERT_EQ(b.graph("g"), 0);
  ASSERT_EQ(frt_runtime_builder_add_stage(b, 0, nullptr, 0), 0);
  EXPECT_REFUSED(b.stage("infer"), b, "legacy");
  EXPECT_REFUSED(b.runner(&m), b, "legacy");
  end_graph_builder(b);
}

TEST(Builder, generic_stage_refusals) {
  Builder b = Builder::metadata();
  EXPECT_REFUSED(b.stage("s", 1, {}, 2), b, "kind 2");
  EXPECT_REFUSED(b.stage("s", 0, {}, FRT_EXECUTOR_GRAPH), b, "metadata");
  EXPECT_REFUSED(frt_runtime_builder_add_generic_stage(b, "s", 1, 0, nullptr, 1), b, "NULL array");
  EXPECT_REFUSED(b.stage("s", 1, {0}), b, "not earlier");
  ASSERT_EQ(b.stage("a"), 0);
  EXPECT_REFUSED(b.stage("a"), b, "already used");
  EXPECT_REFUSED(b.stage("b", 1, {1}), b, "not earlier");
  EXPECT_REFUSED(b.stage("b", 1, {UINT32_MAX}), b, "not earlier");
  ASSERT_EQ(b.stage("b", 1, {0}), 0);
  EXPECT_REFUSED(b.stage("c", 1, {1, 0}), b, "must increase");
  EXPECT_REFUSED(b.stage("c", 1, {0, 0}), b, "must increase");
  EXPECT_EQ(b.stage("c", 1, {0, 1}), 0);
}

TEST(Builder, a_graph_stage_must_name_a_graph) {
  Model m;
  Builder b = Builder::with_ctx();
  EXPECT_REFUSED(b.stage("s", 0, {}, FRT_EXECUTOR_GRAPH), b, "graph 0");
  ASSERT_EQ(b.graph("g"), 0);
  EXPECT_REFUSED(b.stage("s", 1, {}, FRT_EXECUTOR_GRAPH), b, "graph 1");
  EXPECT_EQ(b.stage("s", 0, {}, FRT_EXECUTOR_GRAPH), 0);
  EXPECT_EQ(b.stage("cpu", 9, {0}), 0);
  ASSERT_EQ(b.runner(&m), 0);
  Held done(b.finish(&m));
  EXPECT_NE(done.r, nullptr) << "a mixed plan is legal for a producer";
}

TEST(Builder, stage_names_are_utf8_without_control_bytes_up_to_255) {
  Builder b = Builder::metadata();
  const std::string bad[] = {"",
                             std::string(256, 'x'),
                             "a\x01",
                             "\x1f",
                             "tab\t",
                             "\x7f",
                             "\x80",              // a continuation byte alone
                             "\xc3",              // cut after the lead byte
                             "\xe2\x82",          // cut in the middle
                             "\xf0\x9f\x98",      // cut at the end
                             "\xc0\xaf",          // overlong, two bytes
                             "\xe0\x80\xaf",      // overlong, three
                             "\xf0\x80\x80\xaf",  // overlong, four
                             "\xed\xa0\x80",      // surrogate
                             "\xed\xbf\xbf",      // last surrogate
                             "\xf4\x90\x80\x80",  // above U+10FFFF
                             "\xf5\x80\x80\x80",
                             "\xff",
                             "ok\xe2\x28\xa1"};
  for (const auto& name : bad) EXPECT_EQ(b.stage(name.c_str()), -1) << name;
  EXPECT_EQ(b.stage(nullptr), -1);
  const std::string good[] = {"a:b",       std::string(255, 'x'), "\xc2\x80",        "\xdf\xbf",
                              " ",         "\xe0\xa0\x80",        "\xed\x9f\xbf",    "\xee\x80\x80",
                              "greifen ü", "\xf0\x90\x80\x80",    "\xf4\x8f\xbf\xbf"};
  for (const auto& name : good) EXPECT_EQ(b.stage(name.c_str()), 0) << name << ": " << b.reason();
}

TEST(Builder, runner_refuses_null_and_a_second_one) {
  Model m;
  Builder b = Builder::metadata();
  EXPECT_REFUSED(frt_runtime_builder_set_generic_stage_runner(b, &m, nullptr), b, "NULL");
  EXPECT_EQ(b.runner(&m), 0);
  EXPECT_REFUSED(b.runner(&m), b, "already set");
}

TEST(Builder, copies_names_shapes_and_lists) {
  Model m;
  Builder b = Builder::metadata();
  char name[] = "port";
  int64_t shape[] = {2, -1};
  ASSERT_EQ(frt_runtime_builder_add_port(b, name, 1, 0, 2, 0, 1, 1, shape, 2, 30, nullptr, 0, 0),
            0);
  ASSERT_EQ(b.stage("first"), 0);
  uint32_t after[] = {0};
  char stage[] = "second";
  ASSERT_EQ(frt_runtime_builder_add_generic_stage(b, stage, 1, 5, after, 1), 0);
  ASSERT_EQ(b.runner(&m), 0);
  name[0] = stage[0] = 'X', shape[0] = 9, after[0] = 7;
  Held r(b.finish(&m));
  ASSERT_NE(r.r, nullptr);
  EXPECT_STREQ(r->ports[0].name, "port");
  EXPECT_EQ(r->ports[0].shape[0], 2);
  EXPECT_EQ(r->ports[0].shape[1], -1);
  EXPECT_EQ(r->ports[0].cadence_hint_hz, 30u);
  const void* table = nullptr;
  ASSERT_EQ(r->query_extension(r.r, 1, 1, &table), 0);
  const auto* plan = static_cast<const frt_generic_stage_plan_ext_v1*>(table);
  EXPECT_STREQ(plan->stages[1].name, "second");
  EXPECT_EQ(plan->stages[1].after[0], 0u);
}

}  // namespace
}  // namespace outrider::abi::test
