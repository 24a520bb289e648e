// The vectors of the ABI text, built through the real builder, byte for byte and as hash.
#include <gtest/gtest.h>

#include "fixture.h"

namespace outrider::abi::test {
namespace {

int add_port(frt_runtime_builder b, const char* name, uint32_t modality, uint32_t dtype,
             uint32_t layout, uint32_t direction, uint32_t required, std::vector<int64_t> shape,
             frt_buffer buffer = nullptr, uint64_t offset = 0, uint64_t bytes = 0) {
  return frt_runtime_builder_add_port(
      b, name, modality, dtype, layout, direction, FRT_UPDATE_STAGED, required, shape.data(),
      static_cast<uint32_t>(shape.size()), 7, buffer, offset, bytes);
}

TEST(Fingerprint, matches_the_published_vectors) {
  EXPECT_EQ(frt_runtime_fingerprint("", 0), UINT64_C(0xcbf29ce484222325));
  EXPECT_EQ(frt_runtime_fingerprint(nullptr, 0), UINT64_C(0xcbf29ce484222325));
  const std::string header = "frt-runtime-identity-v1\n";
  ASSERT_EQ(header.size(), 24u);
  EXPECT_EQ(frt_runtime_fingerprint(header.data(), 24), UINT64_C(0xb3265011ccdfba03));
}

TEST(Identity, vector_b_one_stage_text_provider) {
  Model m;
  Builder b = Builder::metadata();
  frt_runtime_builder_add_identity(b, "provider", "demo");
  frt_runtime_builder_add_identity(b, "model_family", "llm");
  add_port(b, "prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1});
  add_port(b, "text", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0, {-1});
  b.stage("infer", 37), b.runner(&m);
  Held r(b.finish(&m));
  ASSERT_NE(r.r, nullptr);
  EXPECT_STREQ(r->exp->identity,
               "frt-runtime-identity-v1\n"
               "provider=demo\n"
               "model_family=llm\n"
               "port:0:prompt:2:0:0:0:1:1:-1:-1:0:0\n"
               "port:1:text:2:0:0:1:1:0:-1:-1:0:0\n"
               "gstage-v1:0:5:infer:1:37:0:\n");
  EXPECT_EQ(std::strlen(r->exp->identity), 153u);
  EXPECT_EQ(r->exp->fingerprint, UINT64_C(0x77f4f16e182fb853));
}

frt_model_runtime_v1* vector_c(Model* m, uint32_t cadence_hz, const char* manifest) {
  Builder b = Builder::metadata();
  const std::string a(64, 'a'), c(64, 'b');
  const std::pair<const char*, const char*> pairs[] = {{"provider", "llama_cpp"},
                                                       {"model_family", "pi0"},
                                                       {"model_path", "/m/policy.gguf"},
                                                       {"mmproj_path", "/m/vision.gguf"},
                                                       {"weights_sha256", a.c_str()},
                                                       {"mmproj_sha256", c.c_str()},
                                                       {"backend", "cpu"},
                                                       {"stage_plan", "context_action"}};
  for (const auto& [key, value] : pairs) frt_runtime_builder_add_identity(b, key, value);
  const int64_t images[] = {2, 224, 224, 3};
  frt_runtime_builder_add_port(b, "images", FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC,
                               FRT_PORT_IN, FRT_UPDATE_STAGED, 1, images, 4, cadence_hz, nullptr, 0,
                               0);
  add_port(b, "prompt", FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1});
  add_port(b, "state", FRT_MODALITY_STATE, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {-1});
  add_port(b, "actions", FRT_MODALITY_ACTION, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0,
           {50, 32});
  b.stage("context", 4), b.stage("action", 91, {0}), b.runner(m);
  if (manifest != nullptr) frt_runtime_builder_set_manifest(b, manifest);
  return b.finish(m);
}

TEST(Identity, vector_c_split_policy_provider) {
  Model m;
  Held r(vector_c(&m, 0, nullptr));
  ASSERT_NE(r.r, nullptr);
  const std::string want =
      "frt-runtime-identity-v1\nprovider=llama_cpp\nmodel_family=pi0\nmodel_path=/m/policy.gguf\n"
      "mmproj_path=/m/vision.gguf\nweights_sha256=" +
      std::string(64, 'a') + "\nmmproj_sha256=" + std::string(64, 'b') +
      "\nbackend=cpu\nstage_plan=context_action\n"
      "port:0:images:1:0:2:0:1:1:2,224,224,3:-1:0:0\n"
      "port:1:prompt:2:0:0:0:1:1:-1:-1:0:0\n"
      "port:2:state:3:1:0:0:1:1:-1:-1:0:0\n"
      "port:3:actions:4:1:0:1:1:0:50,32:-1:0:0\n"
      "gstage-v1:0:7:context:1:4:0:\n"
      "gstage-v1:1:6:action:1:91:1:0\n";
  EXPECT_EQ(r->exp->identity, want);
  EXPECT_EQ(want.size(), 525u);
  EXPECT_EQ(r->exp->fingerprint, UINT64_C(0x79484bfeb25ebe33));
  EXPECT_EQ(r->exp->manifest_json, nullptr);
}

TEST(Identity, cadence_and_manifest_are_no_part_of_it) {
  Model m;
  Held r(vector_c(&m, 30, "{\"edited\": 1}"));
  ASSERT_NE(r.r, nullptr);
  EXPECT_EQ(r->exp->fingerprint, UINT64_C(0x79484bfeb25ebe33));
  EXPECT_STREQ(r->exp->manifest_json, "{\"edited\": 1}");
}

// Vector D; stream priority, buffer role and the like may vary without a trace.
frt_model_runtime_v1* vector_d(Model* m, int priority, uint32_t role, int decode_stream) {
  Builder b = Builder::with_ctx();
  frt_runtime_builder_add_identity(b, "model", "unit");
  frt_runtime_builder_add_stream(b, "main", 0, priority, nullptr);
  b.graph("encode", 0), b.graph("decode", 1, decode_stream);
  frt_runtime_builder_add_buffer(b, "out", some_buffer(), 3200, role);
  add_port(b, "images", FRT_MODALITY_IMAGE, FRT_DTYPE_BF16, FRT_LAYOUT_NHWC, FRT_PORT_IN, 1,
           {3, 224, 224, 3});
  add_port(b, "actions", FRT_MODALITY_ACTION, FRT_DTYPE_BF16, FRT_LAYOUT_FLAT, FRT_PORT_OUT, 0,
           {50, 32}, some_buffer(), 0, 3200);
  const uint32_t after = 0;
  frt_runtime_builder_add_stage(b, 0, nullptr, 0);
  frt_runtime_builder_add_stage(b, 1, &after, 1);
  return b.finish(m);
}

TEST(Identity, vector_d_graph_producer) {
  Model m;
  Held r(vector_d(&m, 0, FRT_BUFFER_OUTPUT, 0));
  ASSERT_NE(r.r, nullptr);
  EXPECT_STREQ(r->exp->identity,
               "frt-runtime-identity-v1\nmodel=unit\ngraph:encode:0\ngraph:decode:0\n"
               "port:0:images:1:3:2:0:1:1:3,224,224,3:-1:0:0\n"
               "port:1:actions:4:3:0:1:1:0:50,32:0:0:3200\n"
               "stage:0:0:\nstage:1:1:0\n");
  EXPECT_EQ(std::strlen(r->exp->identity), 175u);
  EXPECT_EQ(r->exp->fingerprint, UINT64_C(0xd1393a80cdef15b3));
}

TEST(Identity, streams_and_roles_are_free_but_moving_a_graph_to_another_stream_shows) {
  Model m;
  Held other_role(vector_d(&m, -5, FRT_BUFFER_SCRATCH, 0)), moved(vector_d(&m, 0, 2, 1));
  ASSERT_NE(other_role.r, nullptr);
  ASSERT_NE(moved.r, nullptr);
  EXPECT_EQ(other_role->exp->fingerprint, UINT64_C(0xd1393a80cdef15b3));
  EXPECT_NE(moved->exp->fingerprint, UINT64_C(0xd1393a80cdef15b3));
}

TEST(Identity, regions_keep_their_own_numbering) {
  Model m;
  Builder b = Builder::with_ctx();
  b.graph("g");
  frt_runtime_builder_add_region(b, "one", some_buffer(), 16, 64, FRT_REGION_SNAPSHOT);
  frt_runtime_builder_add_region(b, "two", some_buffer(), 0, UINT64_MAX, 3);
  auto* exp = b.finish_export(&m);
  ASSERT_NE(exp, nullptr);
  EXPECT_STREQ(exp->identity,
               "frt-runtime-identity-v1\ngraph:g:0\nregion:0:one:16:64:1\n"
               "region:1:two:0:18446744073709551615:3\n");
  exp->release(exp->owner);
}

TEST(Identity, is_never_cut_whatever_the_length) {
  Model m;
  Builder b = Builder::metadata();
  const std::string value(5000, 'v'), port(96, 'p'), stage(255, 's');
  frt_runtime_builder_add_identity(b, "k", value.c_str());
  std::vector<int64_t> shape(60, INT64_MIN);
  add_port(b, port.c_str(), UINT32_MAX, UINT32_MAX, UINT32_MAX, 1, UINT32_MAX, shape);
  b.stage(stage.c_str(), UINT32_MAX), b.runner(&m);
  Held r(b.finish(&m));
  ASSERT_NE(r.r, nullptr);
  std::string dims;
  for (int i = 0; i < 60; ++i) dims += (i ? "," : "") + std::to_string(INT64_MIN);
  const std::string big = std::to_string(UINT32_MAX);
  EXPECT_EQ(r->exp->identity, "frt-runtime-identity-v1\nk=" + value + "\nport:0:" + port + ":" +
                                  big + ":" + big + ":" + big + ":1:1:" + big + ":" + dims +
                                  ":-1:0:0\ngstage-v1:0:255:" + stage + ":1:" + big + ":0:\n");
}

}  // namespace
}  // namespace outrider::abi::test
