// FC-04: element types this build cannot decode.
#include <gtest/gtest.h>

#include "gguf_bytes.h"

namespace outrider {
namespace {

Error with_type(uint32_t id) {
  test::GgufBytes b;
  b.tensor("blk.0.ffn_up.weight", {256}, id, 0);
  b.data_bytes = 4096;
  auto file = test::parse(b.build());
  return file ? Error{} : file.error();
}

bool says(const Error& error, std::string_view words) {
  return error.message().find(words) != std::string_view::npos;
}

TEST(FC04, the_decodable_ids_open_as_themselves) {
  struct Row {
    uint32_t id;
    DType type;
    size_t bytes;
  };
  for (const Row& r :
       {Row{0, DType::kF32, 1024}, Row{1, DType::kF16, 512}, Row{2, DType::kQ4_0, 144},
        Row{8, DType::kQ8_0, 272}, Row{12, DType::kQ4_K, 144}, Row{14, DType::kQ6_K, 210},
        Row{30, DType::kBf16, 512}, Row{3, DType::kQ4_1, 160}, Row{6, DType::kQ5_0, 176},
        Row{7, DType::kQ5_1, 192}, Row{10, DType::kQ2_K, 84}, Row{11, DType::kQ3_K, 110},
        Row{13, DType::kQ5_K, 176}}) {
    test::GgufBytes b;
    b.tensor("w", {256}, r.id, 0);
    b.data_bytes = r.bytes;
    const std::string bytes = b.build();
    auto file = test::parse(bytes);
    ASSERT_TRUE(file) << r.id << ": " << file.error().text;
    EXPECT_EQ(file.value().tensors()[0].dtype, r.type);
    EXPECT_EQ(file.value().tensors()[0].n_bytes, r.bytes);
  }
}

TEST(FC04, known_types_without_a_decoder_are_refused_by_name) {
  struct Row {
    uint32_t id;
    const char* name;
  };
  for (const Row& r : {Row{9, "Q8_1"}, Row{15, "Q8_K"}, Row{16, "IQ2_XXS"}, Row{20, "IQ4_NL"},
                       Row{23, "IQ4_XS"}, Row{24, "I8"}, Row{26, "I32"}, Row{28, "F64"},
                       Row{29, "IQ1_M"}, Row{34, "TQ1_0"}, Row{39, "MXFP4"}}) {
    const Error error = with_type(r.id);
    EXPECT_EQ(error.code, Code::kUnsupported) << r.id;
    EXPECT_TRUE(says(error, r.name)) << error.text;
    EXPECT_TRUE(says(error, "(" + std::to_string(r.id) + ")")) << error.text;
    EXPECT_TRUE(says(error, "blk.0.ffn_up.weight")) << error.text;
    EXPECT_TRUE(says(error, kWeightTypes)) << error.text;
    EXPECT_FALSE(says(error, "re-convert")) << error.text;
  }
}

TEST(FC04, retired_types_get_their_own_hint) {
  for (uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    const Error error = with_type(id);
    EXPECT_EQ(error.code, Code::kUnsupported) << id;
    EXPECT_TRUE(says(error, "retired")) << error.text;
    EXPECT_TRUE(says(error, "re-convert with a current tool")) << error.text;
    EXPECT_TRUE(says(error, "blk.0.ffn_up.weight")) << error.text;
  }
}

TEST(FC04, unknown_types_are_refused_by_number) {
  for (uint32_t id : {40u, 255u, 1u << 31, UINT32_MAX}) {
    const Error error = with_type(id);
    EXPECT_EQ(error.code, Code::kUnsupported) << id;
    EXPECT_TRUE(says(error, std::to_string(id))) << error.text;
    EXPECT_TRUE(says(error, "supported: F32")) << error.text;
  }
}

}  // namespace
}  // namespace outrider
