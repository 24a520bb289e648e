// Which family a pair of files is, and pairs that do not belong together.
#include "models/pi_gguf.h"

#include <gtest/gtest.h>

#include <functional>

#include "gguf/writer.h"
#include "support/shared_data.h"

namespace outrider {
namespace {

struct PolicySpec {
  std::function<void(GgufWriter&)> extra;
  std::string architecture = "pi0", name = "synthetic";
  std::vector<std::string> tensors = {"output_norm_dense.weight"};
  uint32_t width = 32, head_count = 4, kv_heads = 2, key_length = 8, block_count = 4;
};

struct VisionSpec {
  std::function<void(GgufWriter&)> extra;
  std::string architecture = "clip", name = "x", projector = "pi0";
  bool use_gelu = true;
  uint32_t image_size = 28, patch_size = 14, width = 32, head_count = 2;
  int64_t projector_out = 32;
};

void zero_tensor(GgufWriter& writer, const std::string& name, std::vector<int64_t> ne) {
  writer.add_tensor(name, DType::kF32, ne,
                    [](int64_t, std::span<float> row) { std::fill(row.begin(), row.end(), 0.0f); });
}

GgufFile write_policy(const test::TempDir& dir, const PolicySpec& spec) {
  GgufWriter writer;
  writer.add_string("general.architecture", spec.architecture);
  writer.add_string("general.name", spec.name);
  writer.add_u32("pi0.block_count", spec.block_count);
  writer.add_u32("pi0.embedding_length", spec.width);
  writer.add_u32("pi0.feed_forward_length", 64);
  writer.add_u32("pi0.attention.head_count", spec.head_count);
  writer.add_u32("pi0.attention.head_count_kv", spec.kv_heads);
  writer.add_u32("pi0.attention.key_length", spec.key_length);
  writer.add_u32("pi0.embedding_length_ae", 16);
  writer.add_u32("pi0.intermediate_size_ae", 32);
  writer.add_bool("pi0.pi05", true);  // the public converter writes true for both families
  if (spec.extra) spec.extra(writer);
  zero_tensor(writer, "token_embd.weight", {spec.width, 11});
  for (const std::string& name : spec.tensors) zero_tensor(writer, name, {4, 4});
  const std::string path = dir.file("policy.gguf");
  EXPECT_TRUE(writer.write(path.c_str()));
  auto file = GgufFile::open(path.c_str());
  EXPECT_TRUE(file) << file.error().text;
  return std::move(file.value());
}

GgufFile write_vision(const test::TempDir& dir, const VisionSpec& spec) {
  GgufWriter writer;
  writer.add_string("general.architecture", spec.architecture);
  writer.add_string("general.name", spec.name);
  writer.add_string("clip.projector_type", spec.projector);
  writer.add_bool("clip.use_gelu", spec.use_gelu);
  writer.add_u32("clip.vision.image_size", spec.image_size);
  writer.add_u32("clip.vision.patch_size", spec.patch_size);
  writer.add_u32("clip.vision.embedding_length", spec.width);
  writer.add_u32("clip.vision.feed_forward_length", 48);
  writer.add_u32("clip.vision.block_count", 2);
  writer.add_u32("clip.vision.attention.head_count", spec.head_count);
  if (spec.extra) spec.extra(writer);
  zero_tensor(writer, "mm.linear.weight", {spec.width, spec.projector_out});
  const std::string path = dir.file("vision.gguf");
  EXPECT_TRUE(writer.write(path.c_str()));
  auto file = GgufFile::open(path.c_str());
  EXPECT_TRUE(file) << file.error().text;
  return std::move(file.value());
}

TEST(PiFamilyOfPolicy, is_decided_by_tensor_names_not_by_the_flag) {
  const test::TempDir dir;
  const auto family = [&](std::vector<std::string> tensors, std::string name = "x") {
    PolicySpec spec;
    spec.tensors = std::move(tensors);
    spec.name = std::move(name);
    return guess_policy_family(write_policy(dir, spec)).family;
  };
  EXPECT_EQ(family({"output_norm_dense.weight"}), PiFamily::kPi05);
  EXPECT_EQ(family({"blk.3.attn_norm_dense.weight"}), PiFamily::kPi05);
  EXPECT_EQ(family({"blk.3.ffn_norm_dense.bias", "state_proj.weight"}), PiFamily::kPi05);
  EXPECT_EQ(family({"time_mlp_out.weight"}), PiFamily::kPi05);
  EXPECT_EQ(family({"state_proj.weight"}), PiFamily::kPi0);
  EXPECT_EQ(family({"action_time_mlp_in.weight"}), PiFamily::kPi0);
  EXPECT_EQ(family({}, "my PI0.5 model"), PiFamily::kPi05);
  EXPECT_EQ(family({}), std::nullopt);
}

TEST(PiFamilyOfVision, is_decided_by_name_then_activation) {
  const test::TempDir dir;
  const auto family = [&](std::string name, bool use_gelu) {
    VisionSpec spec;
    spec.name = std::move(name);
    spec.use_gelu = use_gelu;
    return guess_vision_family(write_vision(dir, spec)).family;
  };
  EXPECT_EQ(family("Pi05_VIT", true), PiFamily::kPi05);
  EXPECT_EQ(family("anything", false), PiFamily::kPi05);
  EXPECT_EQ(family("VIT", true), PiFamily::kPi0);
  EXPECT_EQ(family("some tower", true), std::nullopt);
}

TEST(PiConfig, reads_both_halves_with_defaults) {
  const test::TempDir dir;
  const auto config = read_pi_config(write_policy(dir, {}), write_vision(dir, {}));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config.value().family, PiFamily::kPi05);
  EXPECT_EQ(config.value().backbone.n_layers, 2);
  EXPECT_EQ(config.value().expert.width, 16);
  EXPECT_EQ(config.value().action_steps, 50);
  EXPECT_EQ(config.value().action_dim, 32);
  EXPECT_EQ(config.value().n_denoise_steps, 10);
  EXPECT_EQ(config.value().rope_base, 10000);
  EXPECT_EQ(config.value().vision.n_tokens(), 4);
}

void expect_refused(const Result<PiConfig>& config, std::initializer_list<const char*> words) {
  ASSERT_FALSE(config);
  EXPECT_EQ(config.code(), Code::kNotFound);
  for (const char* word : words)
    EXPECT_NE(config.error().message().find(word), std::string_view::npos) << config.error().text;
}

TEST(FC03, a_projector_of_another_width_is_refused_with_both_widths) {
  const test::TempDir dir;
  VisionSpec vision;
  vision.projector_out = 48;
  expect_refused(read_pi_config(write_policy(dir, {}), write_vision(dir, vision)),
                 {"48", "32", "vision.gguf", "policy.gguf"});
}

TEST(FC03, a_projector_of_another_family_is_refused_with_both_families) {
  const test::TempDir dir;
  VisionSpec vision;
  vision.name = "vit";
  expect_refused(read_pi_config(write_policy(dir, {}), write_vision(dir, vision)),
                 {"PI0.5", "PI0 ", "do not belong together"});
}

TEST(FC03, a_projector_of_another_kind_of_model_is_refused) {
  const test::TempDir dir;
  VisionSpec vision;
  vision.projector = "gemma3";
  expect_refused(read_pi_config(write_policy(dir, {}), write_vision(dir, vision)),
                 {"gemma3", "pi0"});
}

TEST(FC03, exchanged_files_are_refused_in_words) {
  const test::TempDir dir;
  const GgufFile policy = write_policy(dir, {}), vision = write_vision(dir, {});
  expect_refused(read_pi_config(vision, policy), {"clip", "mmproj_path"});
  expect_refused(read_pi_config(policy, policy), {"wanted clip", "model_path"});
}

TEST(FC03, a_matching_pair_of_unknown_vision_family_opens) {
  const test::TempDir dir;
  PolicySpec policy;
  policy.tensors = {"state_proj.weight"};
  VisionSpec vision;
  vision.name = "some tower";
  const auto config = read_pi_config(write_policy(dir, policy), write_vision(dir, vision));
  ASSERT_TRUE(config) << config.error().text;
  EXPECT_EQ(config.value().family, PiFamily::kPi0);
}

TEST(PiConfig, sizes_out_of_range_are_refused_by_key) {
  const test::TempDir dir;
  PolicySpec odd;
  odd.block_count = 3;
  PolicySpec heads;
  heads.head_count = 3;
  PolicySpec uneven;
  uneven.key_length = 7;
  VisionSpec patch;
  patch.patch_size = 15;
  VisionSpec tower;
  tower.head_count = 5;
  expect_refused(read_pi_policy_config(write_policy(dir, odd)), {"block_count", "3"});
  expect_refused(read_pi_policy_config(write_policy(dir, heads)),
                 {"head_count 3", "head_count_kv 2"});
  expect_refused(read_pi_policy_config(write_policy(dir, uneven)), {"key_length", "7"});
  expect_refused(read_pi_config(write_policy(dir, {}), write_vision(dir, patch)),
                 {"image_size 28", "patch_size 15"});
  expect_refused(read_pi_config(write_policy(dir, {}), write_vision(dir, tower)), {"head_count 5"});
}

TEST(PiConfig, metadata_that_contradicts_the_tensors_is_refused_not_ignored) {
  const test::TempDir dir;
  const auto policy = [&](std::function<void(GgufWriter&)> extra) {
    PolicySpec spec;
    spec.extra = std::move(extra);
    return read_pi_config(write_policy(dir, spec), write_vision(dir, {}));
  };
  const auto vision = [&](std::function<void(GgufWriter&)> extra) {
    VisionSpec spec;
    spec.extra = std::move(extra);
    return read_pi_config(write_policy(dir, {}), write_vision(dir, spec));
  };
  expect_refused(policy([](GgufWriter& w) { w.add_string("pi0.rope.freq_base", "10000"); }),
                 {"rope.freq_base"});
  expect_refused(policy([](GgufWriter& w) { w.add_u32("pi0.attention.value_length", 16); }),
                 {"value_length is 16", "key_length 8"});
  expect_refused(policy([](GgufWriter& w) {
                   zero_tensor(w, "blk.4.attn_q.weight", {4, 4});
                 }),
                 {"block_count is 4", "blk.4.attn_q.weight"});
  expect_refused(vision([](GgufWriter& w) {
                   zero_tensor(w, "v.blk.2.attn_q.weight", {4, 4});
                 }),
                 {"block_count is 2", "v.blk.2.attn_q.weight"});
  expect_refused(vision([](GgufWriter& w) { w.add_u32("clip.vision.projection_dim", 65); }),
                 {"projection_dim is 65", "32"});
  expect_refused(
      vision([](GgufWriter& w) { w.add_f32("clip.vision.attention.layer_norm_epsilon", -1); }),
      {"layer_norm_epsilon is -1"});
}

TEST(FC04, a_norm_in_four_bits_is_refused_by_tensor_and_type) {
  const test::TempDir dir;
  GgufWriter writer;
  const std::vector<int64_t> ne = {32};
  writer.add_tensor("blk.0.attn_norm.weight", DType::kQ4_0, ne,
                    [](int64_t, std::span<float> row) { std::fill(row.begin(), row.end(), 1.0f); });
  const std::string path = dir.file("norm.gguf");
  ASSERT_TRUE(writer.write(path.c_str()));
  const auto file = GgufFile::open(path.c_str());
  ASSERT_TRUE(file) << file.error().text;
  const GgufSource source(file.value());
  WeightReader reader(source);
  EXPECT_TRUE(reader.values("blk.0.attn_norm.weight", 32).empty());
  EXPECT_EQ(reader.failure().code, Code::kUnsupported);
  for (const char* word : {"norm.gguf", "blk.0.attn_norm.weight", "Q4_0", "F32 F16 BF16"}) {
    EXPECT_NE(reader.failure().message().find(word), std::string_view::npos)
        << reader.failure().text;
  }
}

TEST(PiWeightsOfGguf, a_missing_tensor_is_named) {
  const test::TempDir dir;
  const auto weights = read_pi_gguf(write_policy(dir, {}), write_vision(dir, {}));
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.code(), Code::kNotFound);
  EXPECT_NE(weights.error().message().find("blk.0.attn_norm.weight"), std::string_view::npos)
      << weights.error().text;
}

}  // namespace
}  // namespace outrider
