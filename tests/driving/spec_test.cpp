// What follows from a graph's ports and metadata, and what is refused.
#include "driving/spec.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "driving/facts.h"

namespace outrider::driving::test {
namespace {

GraphFacts without_input(GraphFacts facts, const std::string& name) {
  std::erase_if(facts.inputs, [&](const NamedShape& p) { return p.name == name; });
  return facts;
}
GraphFacts with_dims(GraphFacts facts, const std::string& name, const std::vector<int64_t>& dims) {
  for (auto* list : {&facts.inputs, &facts.outputs})
    for (NamedShape& port : *list)
      if (port.name == name) port.dims = dims;
  return facts;
}
GraphFacts with_slices(GraphFacts facts, const std::string& text) {
  facts.metadata[0].second = text;
  return facts;
}
std::string why(const GraphFacts& facts) {
  const auto spec = read_spec(facts, 4);
  return spec ? "" : spec.error().text;
}

TEST(DrivingSpec, of_the_shipped_queued_model) {
  const auto read = read_spec(big_queued(), 4);
  ASSERT_TRUE(read) << read.error().text;
  const Spec& s = read.value();
  EXPECT_EQ(s.layout, Layout::kQueued);
  EXPECT_EQ(s.frames_bytes(), 393216);
  EXPECT_EQ(s.n_packed(), 12);
  EXPECT_EQ(s.image_ring_rows(), 5);
  EXPECT_EQ(s.feature_floats, 16384);
  EXPECT_EQ(s.feature_ring_rows(), 128);
  EXPECT_EQ(s.desire_ring_rows(), 132);
  EXPECT_EQ(s.n_outputs, 18452);
  EXPECT_EQ(s.hidden, (Range{2066, 18450}));
  EXPECT_EQ(s.n_reply(), 2068);
  EXPECT_EQ(s.checkpoint, "made");
}

TEST(DrivingSpec, of_the_shipped_stateful_model_has_the_same_frame_and_reply) {
  const auto read = read_spec(big_stateful(), 4);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().layout, Layout::kStateful);
  EXPECT_EQ(read.value().frames_bytes(), 393216);
  EXPECT_EQ(read.value().n_packed(), 12);
  EXPECT_EQ(read.value().n_reply(), 2068);
  EXPECT_FALSE(read.value().has_checkpoint);
}

TEST(DrivingSpec, of_older_sizes) {
  GraphFacts facts = with_dims(big_queued(), "features_buffer", {1, 25, 512});
  facts = with_slices(with_dims(facts, "outputs", {1, 600}), R"({"hidden_state":[-512,null]})");
  facts = with_dims(facts, "desire_pulse", {1, 25, 8});
  const auto read = read_spec(facts, 4);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().feature_floats, 512);
  EXPECT_EQ(read.value().feature_ring_rows(), 100);
  EXPECT_EQ(read.value().desire_ring_rows(), 100);
  EXPECT_EQ(read.value().hidden, (Range{88, 600}));
}

TEST(DrivingSpec, hidden_range_is_what_python_makes_of_it_others_must_lie_inside) {
  const auto hidden = [&](const char* slice) {
    const auto read = read_spec(with_slices(big_stateful(), slice), 4);
    return read ? read.value().hidden : Range{-1, -1};
  };
  EXPECT_EQ(hidden(R"({"hidden_state":[18000,99999]})"), (Range{18000, 18452}));
  EXPECT_EQ(hidden(R"({"hidden_state":[null,-18000]})"), (Range{0, 452}));
  EXPECT_EQ(hidden(R"({"hidden_state":[5,5]})").size(), 0);
  EXPECT_EQ(hidden(R"({"plan":[0,5]})").size(), 0);
  EXPECT_EQ(hidden(R"({"hidden_state":[0,6,2]})"), (Range{-1, -1}));
  for (const char* bad :
       {R"({"plan":[5,5]})", R"({"plan":[9,5]})", R"({"plan":[0,18453]})", R"({"plan":[-18453,4]})",
        R"({"plan":[18452,18453]})", R"({"plan":[0,5,2]})"})
    EXPECT_NE(why(with_slices(big_stateful(), bad)).find("slice plan"), std::string::npos) << bad;
  EXPECT_EQ(why(with_slices(big_stateful(), R"({"plan":[0,18452],"pad":[-2,null]})")), "");
}

TEST(DrivingSpec, names_the_input_that_is_missing) {
  for (const char* name :
       {"img", "big_img", "desire_pulse", "traffic_convention", "action_t", "features_buffer"})
    EXPECT_NE(why(without_input(big_queued(), name)).find(std::string("\"") + name + "\""),
              std::string::npos)
        << name;
  for (const char* name : {"desire", "traffic_convention", "action_t"})
    EXPECT_NE(why(without_input(big_stateful(), name)).find(std::string("\"") + name + "\""),
              std::string::npos)
        << name;
}

TEST(DrivingSpec, FC02_refuses_shapes_that_no_driving_graph_has) {
  const std::tuple<const char*, std::vector<int64_t>> queued[] = {
      {"img", {1, 12, 128}},
      {"img", {2, 12, 128, 256}},
      {"img", {1, 13, 128, 256}},
      {"img", {1, 0, 128, 256}},
      {"img", {1, 12, 0, 256}},
      {"img", {1, 12, -1, 256}},
      {"img", {1, 12, INT64_MAX, INT64_MAX}},
      {"big_img", {1, 12, 128, 255}},
      {"features_buffer", {1, 32}},
      {"features_buffer", {2, 32, 512}},
      {"features_buffer", {1, 0, 512}},
      {"features_buffer", {1, 32, 0}},
      {"features_buffer", {1, INT64_MAX / 2, 3}},
      {"features_buffer", {1, 32, 512}},  // hidden_state has 16384
      {"desire_pulse", {1, 33}},
      {"desire_pulse", {1, 33, 0}},
      {"desire_pulse", {3, 33, 8}},
      {"traffic_convention", {0}},
      {"action_t", {1, 0}},
      {"outputs", {0}},
      {"outputs", {INT64_MAX}},
  };
  for (const auto& [name, dims] : queued)
    EXPECT_NE(why(with_dims(big_queued(), name, dims)), "") << name;
  const std::tuple<const char*, std::vector<int64_t>> stateful[] = {{"new_img", {1, 6, 128, 256}},
                                                                    {"new_img", {2, 12, 128, 256}},
                                                                    {"new_img", {2, 6, 0, 1}},
                                                                    {"new_img", {2, 6, 128}},
                                                                    {"desire", {0}}};
  for (const auto& [name, dims] : stateful)
    EXPECT_NE(why(with_dims(big_stateful(), name, dims)), "") << name;
}

TEST(DrivingSpec, refuses_queues_beyond_their_limit_and_other_strides) {
  EXPECT_TRUE(read_spec(big_queued(), 1));
  EXPECT_TRUE(read_spec(big_queued(), 64));
  for (const int64_t skip : {int64_t{-1}, int64_t{0}, int64_t{65}, INT64_MAX})
    EXPECT_EQ(read_spec(big_queued(), skip).code(), Code::kInvalid) << skip;
  // 64 * 1024 frames of 393 KB.
  EXPECT_EQ(read_spec(with_dims(with_dims(big_queued(), "img", {1, 960, 128, 256}), "big_img",
                                {1, 960, 128, 256}),
                      64)
                .code(),
            Code::kShape);
}

TEST(DrivingSpec, needs_its_metadata_once_and_readable) {
  GraphFacts none = big_queued();
  none.metadata.clear();
  EXPECT_NE(why(none).find("output_slices"), std::string::npos);
  EXPECT_FALSE(looks_like_driving(none));
  EXPECT_TRUE(looks_like_driving(big_queued()));
  EXPECT_TRUE(looks_like_driving(big_stateful()));
  GraphFacts twice = big_queued();
  twice.metadata.emplace_back(kSlicesKey, "{}");
  EXPECT_NE(why(twice).find("twice"), std::string::npos);
  GraphFacts long_name = big_queued();
  long_name.metadata[1].second = std::string(257, 'x');
  EXPECT_NE(why(long_name), "");
  long_name.metadata[1].second = "\xff\xfe";
  EXPECT_NE(why(long_name), "");
  GraphFacts doubled = big_queued();
  doubled.inputs.push_back(doubled.inputs[0]);
  EXPECT_NE(why(doubled).find("occurs twice"), std::string::npos);
}

// ---- the record of a link -----------------------------------------------------------------------

TEST(DrivingSpec, record_tells_what_the_graph_is) {
  const Spec spec = read_spec(big_queued(), 4).value();
  const std::string text = spec_json(spec);
  EXPECT_EQ(
      text.find(R"({"frame_skip":4,"checkpoint":"made","input_shapes":{"img":[1,12,128,256])"), 0u)
      << text;
  for (const GraphFacts& facts : {big_queued(), big_stateful()}) {
    const Spec graph = read_spec(facts, 4).value();
    const auto record = Json::parse(spec_json(graph));
    ASSERT_TRUE(record) << record.error().text;
    EXPECT_EQ(record.value().find("checkpoint")->is_null(), !graph.has_checkpoint);
    const auto same = [&](const char* key, const std::string& name,
                          const std::vector<int64_t>& wanted) {
      const Json* found = record.value().find(key)->find(name);
      ASSERT_NE(found, nullptr) << key << " " << name;
      ASSERT_EQ(found->items().size(), wanted.size()) << name;
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_EQ(found->items()[i].integer(), wanted[i]) << name;
    };
    for (const NamedShape& port : graph.inputs) same("input_shapes", port.name, port.dims);
    for (const NamedShape& port : graph.outputs) same("output_shapes", port.name, port.dims);
    for (const NamedRange& slice : graph.slices)
      same("output_slices", slice.name, {slice.range.begin, slice.range.end});
    EXPECT_EQ(record.value().find("output_slices")->members().size(), graph.slices.size());
  }
}

TEST(DrivingSpec, record_keeps_every_word_of_a_checkpoint) {
  GraphFacts facts = big_queued();
  for (auto& [key, value] : facts.metadata)
    if (key == kCheckpointKey) value = "a \"name\"\n\\ \x01 gr\xC3\xBC\xC3\x9F";
  const Spec spec = read_spec(facts, 4).value();
  const auto record = Json::parse(spec_json(spec));
  ASSERT_TRUE(record) << record.error().text;
  EXPECT_EQ(record.value().find("checkpoint")->text(), spec.checkpoint);
}

}  // namespace
}  // namespace outrider::driving::test
