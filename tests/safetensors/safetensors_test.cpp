#include "safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "support/temp_dir.h"

namespace outrider {
namespace {

std::string file_of(std::string_view header, size_t n_data) {
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, sizeof length);
  out += header;
  for (size_t i = 0; i < n_data; ++i) out.push_back(char(i + 1));
  return out;
}

Result<SafeTensorsFile> parse(std::string_view bytes) {
  return SafeTensorsFile::parse(std::as_bytes(std::span(bytes)), "policy.safetensors");
}

bool says(const Error& error, std::string_view words) {
  return error.message().find(words) != std::string_view::npos;
}

constexpr const char* kGood = R"({"__metadata__":{"format":"pt"},)"
                              R"("w":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[20,28]},)"
                              R"("empty":{"dtype":"F16","shape":[0,7],"data_offsets":[28,28]}}  )";

TEST(SafeTensors, reads_names_shapes_types_and_places) {
  const std::string bytes = file_of(kGood, 28);
  auto parsed = parse(bytes);
  ASSERT_TRUE(parsed) << parsed.error().text;
  const SafeTensorsFile& file = parsed.value();
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "b");  // sorted
  const SafeTensor* w = file.tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kBf16);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w->n_values(), 6);
  EXPECT_EQ(w->n_bytes, 12u);
  EXPECT_EQ(uint8_t(w->data[0]), 9u);
  EXPECT_EQ(file.tensor("scalar")->n_values(), 1);
  EXPECT_EQ(file.tensor("empty")->n_values(), 0);
  EXPECT_EQ(file.tensor("__metadata__"), nullptr);
  EXPECT_EQ(file.tensor("absent"), nullptr);
}

TEST(SafeTensors, every_element_type_has_its_size) {
  struct Row {
    const char* name;
    DType type;
    size_t bytes;
  };
  for (const Row& r :
       {Row{"F64", DType::kF64, 8}, Row{"F32", DType::kF32, 4}, Row{"F16", DType::kF16, 2},
        Row{"BF16", DType::kBf16, 2}, Row{"I64", DType::kI64, 8}, Row{"I32", DType::kI32, 4},
        Row{"U8", DType::kU8, 1}, Row{"I8", DType::kI8, 1}, Row{"BOOL", DType::kBool, 1}}) {
    const std::string header = R"({"t":{"dtype":")" + std::string(r.name) +
                               R"(","shape":[3],"data_offsets":[0,)" + std::to_string(3 * r.bytes) +
                               "]}}";
    auto file = parse(file_of(header, 3 * r.bytes));
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file.value().tensors()[0].dtype, r.type);
    EXPECT_FALSE(parse(file_of(header, 3 * r.bytes + 1))) << r.name;
  }
}

TEST(SafeTensors, other_element_types_are_refused_by_name) {
  for (const char* type : {"F8_E4M3", "U16", "f32", ""}) {
    const std::string header =
        R"({"t":{"dtype":")" + std::string(type) + R"(","shape":[1],"data_offsets":[0,1]}})";
    auto file = parse(file_of(header, 1));
    EXPECT_EQ(file.code(), Code::kUnsupported) << type;
    EXPECT_TRUE(says(file.error(), "tensor t")) << file.error().text;
    EXPECT_TRUE(says(file.error(), "supported: F64 F32 F16 BF16")) << file.error().text;
  }
}

TEST(SafeTensors, open_keeps_the_views_alive_over_a_move) {
  const test::TempDir temp;
  const std::string path = temp.file("policy.safetensors");
  std::ofstream(path, std::ios::binary) << file_of(kGood, 28);
  auto opened = SafeTensorsFile::open(path.c_str());
  ASSERT_TRUE(opened) << opened.error().text;
  const SafeTensorsFile file = std::move(opened.value());
  std::remove(path.c_str());
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(uint8_t(file.tensor("b")->data[0]), 1u);
  EXPECT_EQ(SafeTensorsFile::open("/nonexistent/x.safetensors").code(), Code::kNotFound);
}

TEST(FC01, a_safetensors_file_cut_at_any_byte_is_refused) {
  const std::string whole = file_of(kGood, 28);
  for (size_t n = 0; n < whole.size(); ++n) {
    auto file = parse(std::string_view(whole).substr(0, n));
    ASSERT_EQ(file.code(), Code::kNotFound) << n;
    ASSERT_TRUE(says(file.error(), "policy.safetensors")) << file.error().text;
  }
  auto last = parse(std::string_view(whole).substr(0, whole.size() - 1));
  EXPECT_TRUE(says(last.error(), "tensor scalar needs data bytes 20..28, the file has 27"))
      << last.error().text;
}

TEST(FC02, every_crafted_safetensors_header_is_refused_by_field) {
  struct Row {
    const char* header;
    size_t n_data;
    const char* words;
  };
  const Row rows[] = {
      {"", 0, "header"},
      {"[]", 0, "no JSON object"},
      {"{", 0, "header"},
      {R"({"t":1})", 0, "tensor t: is no JSON object"},
      {R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "name is empty"},
      {R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1, "dtype must be"},
      {R"({"t":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1, "dtype must be"},
      {R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1, "shape must be"},
      {R"({"t":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "shape must be"},
      {R"({"t":{"dtype":"U8","shape":[1]}})", 1, "data_offsets must be"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "data_offsets must be"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "data_offsets must be"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1, "unknown field"},
      {R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "dimension -1"},
      {R"({"t":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "dimension 1.0"},
      {R"({"t":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}})", 1, "dimension 1e0"},
      {R"({"t":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1, "dimension 1"},
      {R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}})", 1,
       "dimension 4294967296"},
      {R"({"t":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0,
       "dimension 4294967296"},
      {R"({"t":{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}})", 8,
       "span 8 bytes"},
      {R"({"t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
       "9 dimensions"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8, "span 8 bytes"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "ordered"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "ordered"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4, "ordered"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]}})",
       4, "needs data bytes"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "an overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, "an overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "a hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "a hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "the tensors cover 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "header"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "dimension"},
      {R"({"a":{"dtype":"U8","shape":[[[1]]],"data_offsets":[0,1]}})", 1, "header"},
  };
  for (const Row& r : rows) {
    auto file = parse(file_of(r.header, r.n_data));
    ASSERT_FALSE(file) << r.header;
    EXPECT_EQ(file.code(), Code::kNotFound) << r.header;
    EXPECT_TRUE(says(file.error(), r.words)) << r.header << ": " << file.error().text;
  }
}

TEST(FC02, a_header_length_beyond_limit_or_file_is_refused_at_once) {
  for (uint64_t length : {uint64_t{29}, uint64_t{1} << 20, uint64_t{1} << 40, UINT64_MAX}) {
    std::string bytes = file_of("{}", 26);
    std::memcpy(bytes.data(), &length, sizeof length);
    auto file = parse(bytes);
    EXPECT_EQ(file.code(), Code::kNotFound) << length;
    EXPECT_TRUE(says(file.error(), std::to_string(length))) << file.error().text;
  }
}

TEST(FC02, no_mutation_of_a_safetensors_file_leads_outside_the_input) {
  const std::string good = file_of(kGood, 28);
  std::mt19937_64 rng(21);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + rng() % 3; n > 0; --n) bytes[rng() % bytes.size()] = char(rng());
    auto file = parse(bytes);
    if (!file) continue;
    ++accepted;
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    for (const SafeTensor& t : file.value().tensors()) {
      ASSERT_GE(t.data, first) << "mutation " << i;
      ASSERT_LE(t.data + t.n_bytes, first + bytes.size()) << "mutation " << i;
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 15000);
}

}  // namespace
}  // namespace outrider
