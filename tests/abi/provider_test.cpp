#include "abi/provider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>

namespace outrider::abi {
namespace {

frt_model_runtime_v1 a_runtime{};
Result<frt_model_runtime_v1*> open_good(const Json&) {
  return &a_runtime;
}
Result<frt_model_runtime_v1*> open_bad(const Json& json) {
  return make_error(Code::kShape, "width %s", json.find("width")->text().c_str());
}
Result<frt_model_runtime_v1*> open_without_memory(const Json&) {
  throw std::bad_alloc();
}
Result<frt_model_runtime_v1*> open_throwing(const Json&) {
  throw 7;
}
constexpr Family kFamilies[] = {{"good", open_good},
                                {"bad", open_bad},
                                {"starved", open_without_memory},
                                {"wild", open_throwing}};

// The code, and whatever was written to standard error.
std::pair<int, std::string> open_with(const char* config, frt_model_runtime_v1** out) {
  setenv("OUTRIDER_OPEN_ERRORS", "stderr", 1);
  testing::internal::CaptureStderr();
  const int code = open_provider(config, out, kFamilies);
  std::string said = testing::internal::GetCapturedStderr();
  unsetenv("OUTRIDER_OPEN_ERRORS");
  return {code, said};
}

TEST(Provider, opens_by_family) {
  frt_model_runtime_v1* out = nullptr;
  EXPECT_EQ(open_with(R"({"model_family":"good"})", &out), std::pair(int{FRT_OK}, std::string()));
  EXPECT_EQ(out, &a_runtime);
}

TEST(Provider, every_refusal_has_its_code_its_line_and_no_runtime) {
  const struct {
    const char *config, *line;
    int code;
  } rows[] = {
      {nullptr, "config: NULL, wanted a JSON object", FRT_ERR_INVALID},
      {R"({"width":"7"})", R"(this provider has "good" and "bad" and "starved" and "wild")",
       FRT_ERR_INVALID},
      {R"({"model_family":7})", "no string", FRT_ERR_INVALID},
      {R"({"model_family":""})", "empty", FRT_ERR_INVALID},
      {R"({"model_family":"goo"})", R"(model_family is "goo", this provider has "good")",
       FRT_ERR_UNSUPPORTED},
      {R"({"model_family":"bad","width":"x9"})", "width x9", FRT_ERR_SHAPE},
      {R"({"model_family":)", "", FRT_ERR_INVALID},
  };
  for (const auto& row : rows) {
    frt_model_runtime_v1* out = &a_runtime;
    const auto [code, said] = open_with(row.config, &out);
    EXPECT_EQ(code, row.code) << said;
    EXPECT_EQ(out, nullptr);
    EXPECT_NE(said.find(row.line), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  EXPECT_EQ(open_provider("{}", nullptr, kFamilies), FRT_ERR_INVALID);
}

TEST(Provider, no_exception_leaves_an_open_and_its_end_is_told_too) {
  frt_model_runtime_v1* out = &a_runtime;
  const auto starved = open_with(R"({"model_family":"starved"})", &out);
  EXPECT_EQ(starved.first, to_abi(Code::kNoMemory));
  EXPECT_NE(starved.second.find("out of memory"), std::string::npos);
  EXPECT_EQ(out, nullptr);
  const auto wild = open_with(R"({"model_family":"wild"})", &out);
  EXPECT_EQ(wild.first, to_abi(Code::kFailed));
  EXPECT_NE(wild.second.find("unexpected"), std::string::npos);
}

TEST(Provider, counters_are_cut_at_the_capacity_and_always_counted) {
  const std::atomic<int64_t> one{1}, two{2};
  const Counter rows[] = {{"one", &one}, {"two", &two}};
  outrider_counter_v1 out[3] = {};
  EXPECT_EQ(read_counters(rows, nullptr, 9), 2u);
  EXPECT_EQ(read_counters(rows, out, 1), 2u);
  EXPECT_STREQ(out[0].name, "one");
  EXPECT_EQ(out[1].name, nullptr);
  EXPECT_EQ(read_counters(rows, out, 3), 2u);
  EXPECT_EQ(out[1].value, 2);
  EXPECT_EQ(out[2].name, nullptr);
}

TEST(MetadataBuilder, keeps_the_first_refusal_and_publishes_nothing) {
  MetadataBuilder builder;
  builder.identity("provider", "test");
  builder.port({"x", FRT_MODALITY_TENSOR, FRT_DTYPE_F32, FRT_LAYOUT_FLAT, FRT_PORT_IN, 1, {2, 3}});
  EXPECT_TRUE(builder.ok());
  builder.port({""});
  EXPECT_FALSE(builder.ok());
  const std::string reason = builder_error(builder.get());
  EXPECT_EQ(reason, "port 1: name is NULL or empty");
  builder.port({"y"});
  builder.stage("infer", 37);
  EXPECT_FALSE(builder.ok());
  EXPECT_EQ(builder.refusal(Code::kInvalid, "camera").text, "camera: " + reason);
  EXPECT_EQ(builder.refusal(Code::kInvalid, "camera").code, Code::kInvalid);
  const frt_model_runtime_verbs verbs = {};
  const auto made = publish(builder, std::make_unique<int>(7), verbs, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.code(), Code::kNoMemory);
  EXPECT_EQ(made.error().text, "open: the runtime description was refused: " + reason);
}

TEST(MetadataBuilder, a_port_like_another_is_the_same) {
  const int64_t shape[] = {1, -1, 3};
  frt_runtime_port_desc like{};
  like.name = "image";
  like.modality = FRT_MODALITY_IMAGE;
  like.dtype = FRT_DTYPE_U8;
  like.layout = FRT_LAYOUT_NHWC;
  like.direction = FRT_PORT_IN;
  like.update = FRT_UPDATE_STAGED;
  like.required = 1;
  like.shape = shape;
  like.rank = 3;
  like.cadence_hint_hz = 20;
  const auto identity_of = [](auto&& add) {
    MetadataBuilder builder;
    add(builder);
    builder.stage("infer", 37);
    builder.runner([](void*, uint32_t) { return 0; }, nullptr);
    const frt_model_runtime_verbs verbs = {
        sizeof verbs,
        0,
        [](void*, uint32_t, const void*, uint64_t, int) { return 0; },
        [](void*, uint32_t, void*, uint64_t, uint64_t*, int) { return 0; },
        [](void*, uint32_t, uint64_t) { return 0; },
        [](void*) { return 0; },
        [](void*) { return ""; }};
    const auto made = publish(builder, std::make_unique<int>(7), verbs, {});
    EXPECT_TRUE(made) << made.error().text;
    if (!made) return std::string();
    std::string identity = made.value()->exp->identity;
    made.value()->release(made.value()->owner);
    return identity;
  };
  const std::string copied = identity_of([&](MetadataBuilder& b) { b.port_like(like); });
  EXPECT_NE(copied.find("image"), std::string::npos) << copied;
  like.cadence_hint_hz = 0;
  const PortRow row = {"image", FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC, FRT_PORT_IN,
                       1,       {1, -1, 3}};
  EXPECT_EQ(identity_of([&](MetadataBuilder& b) { b.port(row); }),
            identity_of([&](MetadataBuilder& b) { b.port_like(like); }));
}

}  // namespace
}  // namespace outrider::abi
