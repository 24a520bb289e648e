// The reader against good, damaged and crafted files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "onnx/model_maker.h"
#include "support/shared_data.h"

namespace outrider::onnx::test {
namespace {

using ::outrider::test::TempDir;

// y = x + c, four values.
ModelMaker small() {
  ModelMaker m;
  m.input("x", {4}).output("y", {4});
  m.floats("c", {4}, {1, 2, 3, 4});
  m.node("Add", {"x", "c"}, {"y"});
  return m;
}

void expect_refused(const ModelMaker& m, Code code, const char* word,
                    const std::string& folder = "") {
  const auto read = m.read(folder);
  ASSERT_FALSE(read) << "wanted: " << word;
  EXPECT_EQ(read.code(), code) << read.error().text;
  EXPECT_NE(std::string(read.error().text).find(word), std::string::npos) << read.error().text;
  for (const char c : read.error().message()) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
}

TEST(OnnxReader, reads_what_was_written) {
  const auto read = small().read();
  ASSERT_TRUE(read) << read.error().text;
  const Graph& g = read.value().graph;
  EXPECT_EQ(read.value().opset, 17);
  EXPECT_EQ(read.value().n_parameters, 4);
  ASSERT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.nodes[0].op, "Add");
  ASSERT_EQ(g.initializers.size(), 1u);
  EXPECT_EQ(g.initializers[0].dims, std::vector<int64_t>{4});
  EXPECT_EQ(reinterpret_cast<const float*>(g.initializers[0].data)[3], 4);
}

TEST(OnnxReader, FC01_refuses_a_file_cut_at_any_byte) {
  const std::string whole = small().bytes();
  size_t n_read = 0;
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::string part = whole.substr(0, n);
    const auto read = read_model(bytes_of(part), "cut.onnx", {});
    n_read += read ? 1 : 0;
  }
  EXPECT_EQ(n_read, 0u) << "the opset comes last in this file, so every cut shows";
}

TEST(OnnxReader, refuses_other_kinds_of_files) {
  for (const std::string& text :
       {std::string(), std::string("GGUF\3\0\0\0", 8), std::string(100, '\0'),
        std::string("{\"model_family\":\"onnx\"}")}) {
    const auto read = read_model(bytes_of(text), "other", {});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.code(), Code::kNotFound) << read.error().text;
  }
}

TEST(OnnxReader, refuses_opsets_and_versions_outside_its_range) {
  for (const int64_t opset : {INT64_MIN, int64_t{0}, int64_t{6}, int64_t{22}, INT64_MAX}) {
    ModelMaker m = small();
    m.model.mutable_opset_import(0)->set_version(opset);
    expect_refused(m, Code::kUnsupported, "opset");
  }
  for (const int64_t opset : {7, 21}) {
    ModelMaker m = small();
    m.model.mutable_opset_import(0)->set_version(opset);
    EXPECT_TRUE(m.read()) << opset;
  }
  ModelMaker none = small();
  none.model.clear_opset_import();
  expect_refused(none, Code::kNotFound, "opset");
  ModelMaker twice = small();
  auto* other = twice.model.add_opset_import();
  other->set_domain("ai.onnx");
  other->set_version(13);
  expect_refused(twice, Code::kNotFound, "twice");
  ModelMaker ir = small();
  ir.model.set_ir_version(99);
  expect_refused(ir, Code::kUnsupported, "IR version");
}

TEST(OnnxReader, FC02_refuses_dimensions_that_wrap) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{-1},
                                           {INT64_MIN},
                                           {int64_t{1} << 62, 4},
                                           {int64_t{1} << 32, int64_t{1} << 32},
                                           {INT64_MAX},
                                           {0, INT64_MAX, INT64_MAX},
                                           {1, 1, 1, 1, 1, 1, 1, 1, 4}}) {
    ModelMaker m = small();
    auto* c = m.graph().mutable_initializer(0);
    c->clear_dims();
    for (const int64_t d : dims) c->add_dims(d);
    const auto read = m.read();
    ASSERT_FALSE(read);
    EXPECT_EQ(read.code(), Code::kNotFound) << read.error().text;
  }
}

TEST(OnnxReader, refuses_sizes_that_lie) {
  for (const size_t n_bytes : {size_t{0}, size_t{15}, size_t{17}, size_t{32}}) {
    ModelMaker m = small();
    m.graph().mutable_initializer(0)->set_raw_data(std::string(n_bytes, 'x'));
    expect_refused(m, Code::kNotFound, "need");
  }
  ModelMaker both = small();
  for (int i = 0; i < 4; ++i) both.graph().mutable_initializer(0)->add_float_data(1);
  expect_refused(both, Code::kNotFound, "twice");
  ModelMaker truth = small();
  truth.graph().mutable_initializer(0)->set_data_type(::onnx::TensorProto::BOOL);
  truth.graph().mutable_initializer(0)->set_raw_data(std::string("\0\1\2\0", 4));
  expect_refused(truth, Code::kNotFound, "BOOL");
  ModelMaker typed = small();
  typed.graph().mutable_initializer(0)->clear_raw_data();
  for (int i = 0; i < 3; ++i) typed.graph().mutable_initializer(0)->add_float_data(1);
  expect_refused(typed, Code::kNotFound, "need 16");
}

TEST(OnnxReader, reads_every_type_from_its_own_field) {
  using P = ::onnx::TensorProto;
  for (const auto& [type, dtype] :
       {std::pair(P::FLOAT, DType::kF32), std::pair(P::DOUBLE, DType::kF64),
        std::pair(P::INT64, DType::kI64), std::pair(P::INT32, DType::kI32),
        std::pair(P::UINT8, DType::kU8), std::pair(P::INT8, DType::kI8),
        std::pair(P::BOOL, DType::kBool), std::pair(P::FLOAT16, DType::kF16),
        std::pair(P::BFLOAT16, DType::kBf16)}) {
    P p;
    p.set_data_type(type);
    p.add_dims(3);
    for (int i = 0; i < 3; ++i) {
      if (type == P::FLOAT)
        p.add_float_data(float(i & 1));
      else if (type == P::DOUBLE)
        p.add_double_data(i & 1);
      else if (type == P::INT64)
        p.add_int64_data(i & 1);
      else
        p.add_int32_data(i & 1);
    }
    const auto read = read_tensor(bytes_of(p.SerializeAsString()), "t");
    ASSERT_TRUE(read) << type << read.error().text;
    EXPECT_EQ(read.value().dtype, dtype);
    EXPECT_EQ(read.value().n_bytes, 3 * dtype_bytes(dtype));
    EXPECT_NE(read.value().data[dtype_bytes(dtype)] |
                  read.value().data[2 * dtype_bytes(dtype) - 2 + (dtype_bytes(dtype) == 1)] |
                  read.value().data[2 * dtype_bytes(dtype) - 1],
              std::byte{0})
        << "the middle value is one";
  }
}

TEST(OnnxReader, refuses_names_that_are_taken_missing_or_empty) {
  ModelMaker output = small();
  output.node("Relu", {"x"}, {"y"});
  expect_refused(output, Code::kNotFound, "taken");
  ModelMaker shadow = small();
  shadow.node("Relu", {"x"}, {"c"});
  expect_refused(shadow, Code::kNotFound, "taken");
  ModelMaker input = small();
  input.input("x", {4});
  expect_refused(input, Code::kNotFound, "taken");
  ModelMaker constant = small();
  constant.floats("c", {1}, {1});
  expect_refused(constant, Code::kNotFound, "taken");
  ModelMaker unknown = small();
  unknown.node("Relu", {"nobody"}, {"z"});
  expect_refused(unknown, Code::kNotFound, "nobody");
  ModelMaker nothing = small();
  nothing.output("ghost");
  expect_refused(nothing, Code::kNotFound, "ghost");
  ModelMaker empty = small();
  empty.floats("", {1}, {1});
  expect_refused(empty, Code::kNotFound, "no name");
  ModelMaker twice = small();
  twice.output("y");
  expect_refused(twice, Code::kNotFound, "twice");
  ModelMaker attribute = small();
  set_int(*attribute.graph().mutable_node(0), "a", 1);
  set_int(*attribute.graph().mutable_node(0), "a", 2);
  expect_refused(attribute, Code::kNotFound, "twice");
}

TEST(OnnxReader, refuses_cycles_and_sorts_what_is_only_out_of_order) {
  ModelMaker cycle;
  cycle.input("x", {1}).output("b");
  cycle.node("Add", {"x", "b"}, {"a"});
  cycle.node("Relu", {"a"}, {"b"});
  expect_refused(cycle, Code::kNotFound, "cycle");
  ModelMaker self;
  self.input("x", {1}).output("a");
  self.node("Add", {"x", "a"}, {"a"});
  expect_refused(self, Code::kNotFound, "cycle");
  ModelMaker late;
  late.input("x", {1}).output("b");
  late.node("Relu", {"a"}, {"b"});
  late.node("Neg", {"x"}, {"a"});
  const auto read = late.read();
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read.value().graph.nodes[0].op, "Neg");
}

TEST(OnnxReader, refuses_graphs_nested_too_deep) {
  for (const int depth : {kMaxGraphDepth, kMaxGraphDepth + 1, 90, 2000}) {
    ::onnx::GraphProto inner;
    inner.add_output()->set_name("x");
    for (int i = 0; i < depth; ++i) {
      ::onnx::GraphProto outer;
      auto& node = ModelMaker::add_node(outer, "If", {}, {"y"});
      auto* a = node.add_attribute();
      a->set_name("then_branch");
      a->set_type(::onnx::AttributeProto::GRAPH);
      a->mutable_g()->Swap(&inner);
      outer.add_output()->set_name("x");
      inner.Swap(&outer);
    }
    ModelMaker m;
    inner.add_input()->set_name("x");
    m.graph().Swap(&inner);
    const auto read = m.read();
    if (depth == kMaxGraphDepth) {
      EXPECT_TRUE(read) << read.error().text;
    } else {
      ASSERT_FALSE(read);
      EXPECT_EQ(read.code(), Code::kNotFound);
    }
  }
}

TEST(OnnxReader, refuses_a_file_of_very_many_very_small_messages) {
  // A graph (field 7) of 12 million empty nodes (field 1): 24 MB that would become gigabytes.
  std::string nodes;
  for (int i = 0; i < 12000000; ++i) nodes += std::string("\x0a\x00", 2);
  std::string file("\x08\x08\x42\x04\x0a\x00\x10\x11\x3a", 9);
  for (size_t n = nodes.size();; n >>= 7) {
    file += static_cast<char>(n < 128 ? n : (n & 127) | 128);
    if (n < 128) break;
  }
  file += nodes;
  const auto read = read_model(bytes_of(file), "small.onnx", {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.code(), Code::kNoMemory) << read.error().text;
}

TEST(OnnxReader, messages_show_hostile_names_as_plain_text) {
  ModelMaker m = small();
  m.node("Re\nlu\x1b[31m", {"no\0body"}, {std::string(5000, 'z')});
  const auto read = m.read();
  ASSERT_FALSE(read);
  for (const char c : read.error().message()) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
}

// ---- external data ------------------------------------------------------------------------------

ModelMaker external(const std::string& location, const std::string& offset,
                    const std::string& length) {
  ModelMaker m = small();
  auto* c = m.graph().mutable_initializer(0);
  c->clear_raw_data();
  c->set_data_location(::onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair<std::string, std::string>("location", location),
                                   {"offset", offset},
                                   {"length", length}}) {
    if (value.empty()) continue;
    auto* entry = c->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return m;
}

TEST(OnnxReader, reads_external_data_beside_the_model) {
  const TempDir dir;
  std::ofstream out(dir.file("w.bin"), std::ios::binary);
  for (int i = 0; i < 9; ++i) {
    const float value = static_cast<float>(i);
    out.write(reinterpret_cast<const char*>(&value), 4);
  }
  out.close();
  for (const char* offset : {"0", "4", "20", ""}) {  // 4: not aligned to eight bytes
    const auto read = external("w.bin", offset, "16").read(dir.path());
    ASSERT_TRUE(read) << read.error().text;
    const auto* values = reinterpret_cast<const float*>(read.value().graph.initializers[0].data);
    EXPECT_EQ(values[0], static_cast<float>(*offset ? std::stoi(offset) / 4 : 0));
  }
  expect_refused(external("w.bin", "24", "16"), Code::kNotFound, "cut off", dir.path());
  expect_refused(external("w.bin", "0", "12"), Code::kNotFound, "needs", dir.path());
  expect_refused(external("w.bin", "-1", "16"), Code::kNotFound, "offset", dir.path());
  expect_refused(external("w.bin", "99999999999999999999", "16"), Code::kNotFound, "offset",
                 dir.path());
  expect_refused(external("absent.bin", "0", "16"), Code::kNotFound, "absent", dir.path());
  expect_refused(external("", "0", "16"), Code::kNotFound, "location", dir.path());
  expect_refused(external("w.bin", "0", "16"), Code::kNotFound, "folder", "");
}

TEST(OnnxReader, refuses_external_data_outside_the_folder) {
  const TempDir outside, dir;
  std::ofstream(outside.file("secret")) << std::string(64, 'x');
  std::filesystem::create_symlink(outside.file("secret"), dir.file("link"));
  std::filesystem::create_directory(dir.file("sub"));
  for (const std::string& location :
       {std::string("../secret"), outside.file("secret"), std::string("link"),
        std::string("sub/../../x"), std::string("sub"), std::string("a\0b", 3)}) {
    const auto read = external(location, "0", "16").read(dir.path());
    ASSERT_FALSE(read) << location;
    EXPECT_EQ(read.code(), Code::kNotFound) << read.error().text;
  }
}

}  // namespace
}  // namespace outrider::onnx::test
