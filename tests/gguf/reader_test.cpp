#include <gtest/gtest.h>

#include <fstream>

#include "gguf_bytes.h"
#include "support/temp_dir.h"

namespace outrider {
namespace {

using test::GgufBytes;
using test::good_file;
using test::parse;

TEST(GgufReader, reads_versions_2_and_3_alike) {
  for (uint32_t version : {2u, 3u}) {
    auto b = good_file();
    b.version = version;
    const std::string bytes = b.build();
    auto file = parse(bytes);
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file.value().version(), version);
    ASSERT_EQ(file.value().tensors().size(), 3u);
    const GgufTensor* w = file.value().tensor("blk.0.w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->dtype, DType::kQ8_0);
    EXPECT_EQ(w->n_dims, 2u);
    EXPECT_EQ(w->n_bytes, 68u);
    EXPECT_EQ(w->n_values(), 64);
    EXPECT_EQ(reinterpret_cast<const char*>(w->data), bytes.data() + b.data_begin + 32);
    const GgufTensor* head = file.value().tensor("head.weight");
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->ne[0], 4);
    EXPECT_EQ(head->ne[3], 2);
    EXPECT_EQ(head->n_bytes, 96u);
    EXPECT_EQ(file.value().tensor("absent"), nullptr);
  }
}

TEST(GgufReader, keeps_the_order_of_the_file) {
  const std::string bytes = good_file().build();
  auto file = parse(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file.value().metadata()[0].key, "general.architecture");
  EXPECT_EQ(file.value().metadata()[3].key, "scores");
  EXPECT_EQ(file.value().tensors()[0].name, "norm.weight");
  EXPECT_EQ(file.value().tensors()[2].name, "head.weight");
}

TEST(GgufReader, honours_the_alignment_key) {
  for (uint32_t alignment : {8u, 16u, 64u, 4096u, 1u << 20}) {
    GgufBytes b;
    b.u32("general.alignment", alignment);
    b.alignment = alignment;
    b.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, alignment);
    b.data_bytes = alignment + 4;
    const std::string bytes = b.build();
    auto file = parse(bytes);
    ASSERT_TRUE(file) << alignment << ": " << file.error().text;
    EXPECT_EQ(reinterpret_cast<const char*>(file.value().tensor("b")->data),
              bytes.data() + b.data_begin + alignment);
  }
}

TEST(GgufReader, a_file_without_tensors_is_readable_metadata) {
  GgufBytes b;
  b.text("general.architecture", "llama");
  const std::string bytes = b.build();
  auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_TRUE(file.value().tensors().empty());
  EXPECT_EQ(file.value().string("general.architecture").value(), "llama");
}

TEST(GgufReader, gaps_between_tensors_and_bytes_behind_the_last_are_allowed) {
  GgufBytes b;
  b.tensor("b", {4}, 0, 256).tensor("a", {4}, 0, 64);  // any order in the table
  b.data_bytes = 1000;
  const std::string bytes = b.build();
  EXPECT_TRUE(parse(bytes));
}

TEST(GgufReader, open_maps_the_file_and_the_views_outlive_a_move) {
  const test::TempDir temp;
  const std::string path = temp.file("policy.gguf");
  std::ofstream(path, std::ios::binary) << good_file().build();
  auto opened = GgufFile::open(path.c_str());
  ASSERT_TRUE(opened) << opened.error().text;
  const GgufFile file = std::move(opened.value());
  std::remove(path.c_str());
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.string("general.architecture").value(), "pi0");
  EXPECT_EQ(uint8_t(file.tensor("norm.weight")->data[1]), 8u);
  EXPECT_GT(file.file().size(), 0u);
}

TEST(GgufReader, open_names_a_file_that_is_not_there) {
  auto file = GgufFile::open("/nonexistent/policy.gguf");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.code(), Code::kNotFound);
  EXPECT_NE(file.error().message().find("policy.gguf"), std::string_view::npos);
}

TEST(GgufReader, a_file_of_another_kind_is_told_apart) {
  auto zip = parse(std::string("PK\x03\x04", 4) + std::string(100, '\0'));
  EXPECT_EQ(zip.code(), Code::kNotFound);
  EXPECT_NE(zip.error().message().find("not a GGUF file"), std::string_view::npos);
}

TEST(GgufReader, other_versions_are_refused_in_words) {
  struct Row {
    uint32_t version;
    const char* words;
  };
  for (const Row& r : {Row{0, "version 0"}, Row{1, "version 1"}, Row{4, "version 4"},
                       Row{0x03000000, "big-endian"}}) {
    auto b = good_file();
    b.version = r.version;
    auto file = parse(b.build());
    EXPECT_EQ(file.code(), Code::kUnsupported);
    EXPECT_NE(file.error().message().find(r.words), std::string_view::npos) << file.error().text;
    EXPECT_NE(file.error().message().find("re-convert"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace outrider
