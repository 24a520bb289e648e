#include "link/jetlink/spec.h"

#include <gtest/gtest.h>

#include "link/jetlink/bytes.h"
#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

TEST(JetlinkSizes, of_the_shipped_models_are_the_same_for_both_layouts) {
  for (const ModelSpec& spec : {shipped_queued(), shipped_stateful()}) {
    auto sizes = sizes_of(spec);
    ASSERT_TRUE(sizes) << sizes.error().text;
    const Sizes& s = sizes.value();
    EXPECT_EQ(s.warped_bytes, 393216u);
    EXPECT_EQ(s.packed(), 12u);
    EXPECT_EQ(s.output, 18452u);
    EXPECT_EQ(s.reply(), 2068u);
    EXPECT_EQ(s.request_bytes(3), 393272u);
    EXPECT_EQ(s.reply_bytes(3, false), 8292u);
    EXPECT_EQ(s.reply_bytes(3, true) + kHeaderBytes, 73860u);
    EXPECT_EQ(s.reply_bytes(2, false) + kHeaderBytes, 73860u) << "version 2 sends all";
  }
}

TEST(JetlinkSizes, of_version_2_carry_the_hidden_state_of_a_queued_graph_to_the_host) {
  const Sizes queued = sizes_of(shipped_queued()).value();
  EXPECT_EQ(queued.prev_feat, 16384u);
  EXPECT_EQ(queued.request_bytes(2) + kHeaderBytes, 458840u);
  EXPECT_EQ(sizes_of(shipped_stateful()).value().request_bytes(2), 393272u);
}

TEST(JetlinkSizes, resolve_the_hidden_range_as_python_resolves_a_slice) {
  const auto range = [](std::optional<int64_t> start, std::optional<int64_t> stop) {
    ModelSpec spec = tiny_queued();
    spec.slices["hidden_state"] = {start, stop};
    const Sizes s = sizes_of(spec).value();
    return std::pair(s.hidden_start, s.hidden_stop);
  };
  using P = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(range(12, 16), P(12, 16));
  EXPECT_EQ(range(-8, -4), P(12, 16));
  EXPECT_EQ(range(std::nullopt, 4), P(0, 4));
  EXPECT_EQ(range(16, std::nullopt), P(16, 20));
  EXPECT_EQ(range(16, 400), P(16, 20));
  EXPECT_EQ(range(-400, 4), P(0, 4));
  EXPECT_EQ(range(16, 12), P(0, 0)) << "empty: none";
  EXPECT_EQ(range(7, 7), P(0, 0));
  EXPECT_EQ(range(INT64_MIN, INT64_MAX), P(0, 20));
  ModelSpec none = tiny_queued();
  none.slices.erase("hidden_state");
  EXPECT_EQ(sizes_of(none).value().reply(), 20u);
}

TEST(JetlinkSizes, refuse_every_shape_that_is_none) {
  const auto refused = [](const char* input, Shape shape) {
    ModelSpec spec = tiny_queued();
    spec.inputs[input] = std::move(shape);
    return !sizes_of(spec);
  };
  EXPECT_TRUE(refused("img", {1, 12, 4}));
  EXPECT_TRUE(refused("img", {1, 13, 4, 6}));
  EXPECT_TRUE(refused("img", {1, 12, 0, 6}));
  EXPECT_TRUE(refused("img", {1, 12, -4, 6}));
  EXPECT_TRUE(refused("img", {1, 12, 1 << 20, 1 << 20}));
  EXPECT_TRUE(refused("big_img", {1, 12, 4, 8}));
  EXPECT_TRUE(refused("desire_pulse", {1, 3}));
  EXPECT_TRUE(refused("features_buffer", {1, 2, INT64_MAX, INT64_MAX}));
  EXPECT_TRUE(refused("traffic_convention", {0}));
  for (const auto& [name, shape] : tiny_queued().inputs) {
    ModelSpec spec = tiny_queued();
    spec.inputs.erase(name);
    auto sizes = sizes_of(spec);
    ASSERT_FALSE(sizes) << name;
    EXPECT_NE(sizes.error().message().find(name), std::string_view::npos) << sizes.error().text;
  }
  ModelSpec outputs = tiny_queued();
  outputs.outputs = {{"outputs", {1, 5'000'000}}};
  EXPECT_FALSE(sizes_of(outputs));
  ModelSpec frame = tiny_queued();
  frame.inputs["img"] = frame.inputs["big_img"] = {1, 12, 1200, 1200};
  EXPECT_FALSE(sizes_of(frame)) << "a frame larger than a message";
}

TEST(JetlinkSpec, comes_back_as_it_went) {
  ModelSpec open = tiny_queued();
  open.slices["tail"] = {-2, std::nullopt};
  for (const ModelSpec& spec : {shipped_queued(), shipped_stateful(), tiny_queued(), open}) {
    auto json = Json::parse(to_json(spec));
    ASSERT_TRUE(json) << json.error().text;
    auto again = spec_from_json(json.value());
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_EQ(to_json(again.value()), to_json(spec));
    EXPECT_EQ(again.value().checkpoint, spec.checkpoint);
  }
}

TEST(JetlinkSpec, is_refused_with_the_field_when_one_is_missing_or_wrong) {
  const std::string good = to_json(tiny_queued());
  const std::pair<const char*, const char*> breaks[] = {
      {"\"sha256\":\"", "\"sha256\":\"X"},
      {"\"nbytes\":1000", "\"nbytes\":-1"},
      {"\"nbytes\":1000", "\"nbytes\":1.5"},
      {"\"frame_skip\":4", "\"frame_skip\":0"},
      {"\"checkpoint\":\"tiny\"", "\"checkpoint\":7"},
      {"\"input_shapes\":{", "\"input_shapes\":{\"x\":3,"},
      {"\"output_shapes\":{", "\"output_shapes\":{\"x\":[\"y\"],"},
      {"\"output_slices\":{", "\"output_slices\":{\"x\":[1],"}};
  for (const auto& [from, to] : breaks) {
    std::string text = good;
    text.replace(text.find(from), std::string_view(from).size(), to);
    auto json = Json::parse(text);
    ASSERT_TRUE(json) << text;
    EXPECT_FALSE(spec_from_json(json.value())) << to;
  }
  EXPECT_FALSE(spec_from_json(Json::parse("{}").value()));
}

}  // namespace
}  // namespace outrider::link::jetlink
