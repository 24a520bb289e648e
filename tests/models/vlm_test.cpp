// Vision-language pairs without recorded data: sizes of pictures, and files that contradict
// themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "models/synthetic_vlm.h"
#include "models/vlm_picture.h"
#include "models/vlm_weights.h"
#include "support/gguf_edit.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

VlmConfig qwen() {
  VlmConfig c;
  c.kind = VlmKind::kQwen25Vl;
  c.patch_size = 14;
  c.merge = 2;
  return c;
}

TEST(Picture, a_free_size_is_rounded_to_whole_tokens_between_the_limits) {
  const int64_t rows[][4] = {
      {56, 84, 84, 112},        {112, 56, 112, 56},   {150, 90, 140, 84},
      {100, 200, 112, 196},     {1, 1, 84, 84},       {10, 300, 28, 308},
      {3000, 30, 2996, 28},     {640, 480, 644, 476}, {2000, 1800, 1876, 1680},
      {4000, 3000, 2044, 1540}, {42, 200, 56, 196},   {70, 200, 84, 196}};
  for (const auto& [w, h, width, height] : rows) {
    const PicturePlan plan = plan_picture(qwen(), w, h);
    EXPECT_EQ(plan.frame_width, width) << w << "x" << h;
    EXPECT_EQ(plan.frame_height, height) << w << "x" << h;
    EXPECT_EQ(plan.n_tokens(), width / 28 * (height / 28));
    EXPECT_EQ(plan.token_columns, width / 28);
  }
}

TEST(Picture, no_size_has_more_tokens_than_the_upper_limit) {
  for (int64_t w = 1; w <= kMaxPictureSide; w = w * 3 / 2 + 1)
    for (int64_t h = 1; h <= kMaxPictureSide; h = h * 3 / 2 + 1) {
      const PicturePlan plan = plan_picture(qwen(), w, h);
      ASSERT_LE(plan.n_tokens(), VlmConfig::kMostTokens) << w << "x" << h;
      ASSERT_GE(plan.n_tokens(), 1);
    }
}

TEST(Picture, tiles_follow_the_longest_side_and_rounding_may_cost_one) {
  VlmConfig c;
  c.kind = VlmKind::kIdefics3;
  c.image_size = 64;
  c.patch_size = 8;
  c.merge = 2;
  c.longest = 192;
  const int64_t rows[][4] = {{100, 60, 3, 2}, {64, 64, 3, 3}, {50, 150, 1, 3},
                             {80, 40, 3, 2},  {43, 43, 4, 4}, {170, 150, 4, 3}};
  for (const auto& [w, h, columns, lines] : rows) {
    const PicturePlan plan = plan_picture(c, w, h);
    EXPECT_EQ(plan.tile_columns, columns) << w << "x" << h;
    EXPECT_EQ(plan.tile_rows, lines) << w << "x" << h;
    EXPECT_EQ(plan.n_tokens(), (columns * lines + 1) * 16);
  }
  c.longest = 0;
  EXPECT_EQ(plan_picture(c, 170, 150).n_frames(), 1);
}

// ---- files --------------------------------------------------------------------------------------

class VisionFile : public testing::Test {
 protected:
  // The file of `kind` with one thing changed; the words of its refusal.
  std::string refused(VlmKind kind, const GgufEdit& edit) {
    const std::string whole = dir_.file(std::string(vlm_kind_name(kind)) + ".gguf");
    if (!std::filesystem::exists(whole)) {
      const auto written = write_synthetic_vision({.kind = kind}, whole.c_str());
      EXPECT_TRUE(written) << written.error().text;
    }
    edit_gguf(whole, path_, edit);
    auto file = GgufFile::open(path_.c_str());
    EXPECT_TRUE(file);
    const auto weights = read_vlm_weights(file.value());
    EXPECT_FALSE(weights) << edit.key << edit.tensor;
    return weights ? "" : weights.error().text;
  }
  static bool says(const std::string& text, const std::string& word) {
    return text.find(word) != std::string::npos;
  }
  TempDir dir_;
  std::string path_ = dir_.file("vision.gguf");
};

constexpr VlmKind kKinds[] = {VlmKind::kGemma3, VlmKind::kQwen25Vl, VlmKind::kIdefics3};

TEST_F(VisionFile, as_it_is_written_it_is_whole) {
  for (const VlmKind kind : kKinds) {
    ASSERT_TRUE(write_synthetic_vision({.kind = kind}, path_.c_str()));
    auto file = GgufFile::open(path_.c_str());
    ASSERT_TRUE(file);
    EXPECT_TRUE(is_vlm(file.value()));
    const auto weights = read_vlm_weights(file.value());
    ASSERT_TRUE(weights) << weights.error().text;
    EXPECT_EQ(weights.value().config.kind, kind);
  }
}

TEST_F(VisionFile, every_tensor_is_needed_and_named) {
  for (const VlmKind kind : kKinds) {
    ASSERT_TRUE(write_synthetic_vision({.kind = kind}, path_.c_str()));
    std::vector<std::string> names;
    {
      auto file = GgufFile::open(path_.c_str());
      ASSERT_TRUE(file);
      for (const GgufTensor& t : file.value().tensors()) names.emplace_back(t.name);
    }
    for (const std::string& name : names) {
      GgufEdit edit;
      edit.tensor = name;
      EXPECT_TRUE(says(refused(kind, edit), name)) << name;
      edit.longer = true;
      EXPECT_TRUE(says(refused(kind, edit), name)) << name << " of another size";
    }
  }
}

TEST_F(VisionFile, every_key_is_needed_and_named) {
  const auto missing = [&](VlmKind kind, const char* key) {
    GgufEdit edit;
    edit.key = key;
    EXPECT_TRUE(says(refused(kind, edit), key)) << vlm_kind_name(kind) << " " << key;
  };
  for (const VlmKind kind : kKinds)
    for (const char* key :
         {"clip.vision.image_size", "clip.vision.patch_size", "clip.vision.embedding_length",
          "clip.vision.feed_forward_length", "clip.vision.block_count",
          "clip.vision.attention.head_count", "clip.vision.attention.layer_norm_epsilon",
          "clip.vision.projection_dim", "clip.vision.image_mean", "clip.vision.image_std",
          "clip.projector_type"})
      missing(kind, key);
  missing(VlmKind::kGemma3, "clip.use_gelu");
  missing(VlmKind::kIdefics3, "clip.use_gelu");
  missing(VlmKind::kIdefics3, "clip.vision.projector.scale_factor");
  missing(VlmKind::kQwen25Vl, "clip.use_silu");
  missing(VlmKind::kQwen25Vl, "clip.vision.n_wa_pattern");
}

TEST_F(VisionFile, absurd_sizes_are_refused_with_what_is_allowed) {
  const auto set = [&](VlmKind kind, const char* key, uint32_t value) {
    GgufEdit edit;
    edit.key = key;
    edit.value = value;
    const std::string text = refused(kind, edit);
    EXPECT_TRUE(says(text, key)) << key << " " << value << ": " << text;
    return text;
  };
  for (const VlmKind kind : kKinds)
    for (const uint32_t value : {0u, 0xffffffffu})
      for (const char* key :
           {"clip.vision.image_size", "clip.vision.patch_size", "clip.vision.embedding_length",
            "clip.vision.feed_forward_length", "clip.vision.block_count",
            "clip.vision.attention.head_count", "clip.vision.projection_dim"})
        set(kind, key, value);
  for (const VlmKind kind : {VlmKind::kGemma3, VlmKind::kIdefics3}) {
    EXPECT_TRUE(says(set(kind, "clip.vision.image_size", 113), "multiple of patch_size"));
    set(kind, "clip.vision.projector.scale_factor", 0);
  }
  set(VlmKind::kGemma3, "clip.vision.projector.scale_factor", 3);
  set(VlmKind::kGemma3, "clip.vision.attention.head_count", 5);
  set(VlmKind::kQwen25Vl, "clip.vision.attention.head_count", 32);
  set(VlmKind::kQwen25Vl, "clip.vision.spatial_merge_size", 3);
  set(VlmKind::kQwen25Vl, "clip.vision.n_wa_pattern", 5000);
  set(VlmKind::kIdefics3, "clip.vision.preproc_image_size", 0);
}

}  // namespace
}  // namespace outrider::test
