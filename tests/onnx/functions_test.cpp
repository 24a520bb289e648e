// Functions of a file's own: a call gives what the nodes in the body give, and no file makes more
// of it than is read.
#include <gtest/gtest.h>

#include <cstring>

#include "onnx/model_maker.h"

namespace outrider::onnx::test {
namespace {

::onnx::FunctionProto& function(ModelMaker& m, const std::string& name,
                                const std::vector<std::string>& in,
                                const std::vector<std::string>& out, int64_t opset = 17) {
  auto& f = *m.model.add_functions();
  f.set_name(name);
  f.set_domain("local");
  for (const auto& i : in) f.add_input(i);
  for (const auto& o : out) f.add_output(o);
  f.add_opset_import()->set_version(opset);
  return f;
}
::onnx::NodeProto& body(::onnx::FunctionProto& f, const std::string& op,
                        const std::vector<std::string>& in, const std::vector<std::string>& out,
                        const std::string& domain = "") {
  auto& n = *f.add_node();
  n.set_op_type(op);
  n.set_domain(domain);
  for (const auto& i : in) n.add_input(i);
  for (const auto& o : out) n.add_output(o);
  return n;
}
::onnx::NodeProto& call(ModelMaker& m, const std::string& name, const std::vector<std::string>& in,
                        const std::vector<std::string>& out) {
  auto& n = m.node(name, in, out);
  n.set_domain("local");
  return n;
}

std::vector<float> run(const ModelMaker& m, const std::vector<float>& x) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return {};
  auto runner = make_runner(std::move(model.value()), {});
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return {};
  Run& r = *runner.value().run;
  EXPECT_EQ(r.input(0).size(), x.size() * 4);
  std::memcpy(r.input(0).data(), x.data(), x.size() * 4);
  r.run();
  std::vector<float> y(r.output(0).size() / 4);
  std::memcpy(y.data(), r.output(0).data(), y.size() * 4);
  return y;
}

using Floats = std::vector<float>;

TEST(OnnxFunctions, a_call_gives_what_its_body_gives_each_with_values_of_its_own) {
  ModelMaker m;
  m.input("x", {2}).output("y");
  auto& twice = function(m, "Twice", {"a"}, {"b"});
  body(twice, "Add", {"a", "a"}, {"t"});
  body(twice, "Identity", {"t"}, {"b"});
  auto& both = function(m, "FourTimes", {"a"}, {"b"});
  body(both, "Twice", {"a"}, {"t"}, "local");  // a name that the inner body has too
  body(both, "Twice", {"t"}, {"b"}, "local");
  call(m, "FourTimes", {"x"}, {"t"});
  call(m, "FourTimes", {"t"}, {"y"});
  EXPECT_EQ(run(m, {1, -2}), (Floats{16, -32}));
}

TEST(OnnxFunctions, an_attribute_is_the_callers_or_the_default_or_the_operators_own) {
  ModelMaker m;
  m.input("x", {1}).output("y");
  auto& leak = function(m, "Leak", {"a"}, {"b"});
  leak.add_attribute("slope");
  auto* a = body(leak, "LeakyRelu", {"a"}, {"b"}).add_attribute();
  a->set_name("alpha");
  a->set_ref_attr_name("slope");
  a->set_type(::onnx::AttributeProto::FLOAT);
  auto& node = call(m, "Leak", {"x"}, {"y"});
  EXPECT_EQ(run(m, {-100}), (Floats{-1})) << "LeakyRelu's own 0.01";
  // Field 11 of the function, as later schemas write defaults: an attribute slope of 0.25.
  ::onnx::AttributeProto by_default;
  by_default.set_name("slope");
  by_default.set_type(::onnx::AttributeProto::FLOAT);
  by_default.set_f(0.25f);
  const std::string text = by_default.SerializeAsString();
  *leak.mutable_unknown_fields() =
      std::string{static_cast<char>(11 << 3 | 2), static_cast<char>(text.size())} + text;
  EXPECT_EQ(run(m, {-100}), (Floats{-25}));
  set_float(node, "slope", 0.5f);
  EXPECT_EQ(run(m, {-100}), (Floats{-50}));
  *leak.mutable_unknown_fields() = std::string{static_cast<char>(11 << 3 | 2), 100};
  EXPECT_EQ(m.read().code(), Code::kNotFound) << "a default that is cut off";
}

TEST(OnnxFunctions, a_body_has_the_opset_that_it_names) {
  ModelMaker m(18);
  m.input("x", {1, 3}).output("y");
  auto& sum = function(m, "Sum13", {"a"}, {"b"}, 12);
  set_ints(body(sum, "ReduceSum", {"a"}, {"b"}), "axes", {1});  // an attribute up to opset 12
  call(m, "Sum13", {"x"}, {"y"});
  EXPECT_EQ(run(m, {1, 2, 4}), (Floats{7}));
}

TEST(OnnxFunctions, what_is_left_out_is_left_out_inside_and_handed_on_values_are_copied) {
  ModelMaker m;
  m.input("x", {2}).output("y");
  auto& clip = function(m, "AtMost", {"a", "low", "high"}, {"b", "a"});
  body(clip, "Clip", {"a", "low", "high"}, {"b"});
  m.floats("one", {}, {1});
  call(m, "AtMost", {"x", "", "one"}, {"c", "same"});
  m.node("Add", {"c", "same"}, {"y"});
  EXPECT_EQ(run(m, {-3, 4}), (Floats{-6, 5}));
}

TEST(OnnxFunctions, branches_inside_a_body_read_the_calls_values) {
  ModelMaker m;
  m.input("x", {1}).output("y");
  auto& absolute = function(m, "Magnitude", {"a"}, {"b"});
  set_float(body(absolute, "Constant", {}, {"zero"}), "value_float", 0);
  body(absolute, "Less", {"a", "zero"}, {"negative"});
  body(absolute, "Squeeze", {"negative"}, {"condition"});
  auto& choose = body(absolute, "If", {"condition"}, {"b"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* attribute = choose.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    auto& graph = *attribute->mutable_g();
    ModelMaker::add_node(graph, branch[0] == 't' ? "Neg" : "Identity", {"a"}, {"result"});
    graph.add_output()->set_name("result");
  }
  call(m, "Magnitude", {"x"}, {"first"});
  m.node("Neg", {"first"}, {"minus"});
  call(m, "Magnitude", {"minus"}, {"y"});
  EXPECT_EQ(run(m, {-3}), (Floats{3}));
  EXPECT_EQ(run(m, {5}), (Floats{5}));
}

std::string refusal(const ModelMaker& m) {
  const auto model = m.read();
  EXPECT_EQ(model.code(), Code::kNotFound);
  return model ? "" : model.error().text;
}

TEST(OnnxFunctions, hostile_ones_are_refused_in_words) {
  ModelMaker twice;
  twice.input("x", {1}).output("y");
  for (int i = 0; i < 2; ++i) body(function(twice, "F", {"a"}, {"b"}), "Relu", {"a"}, {"b"});
  call(twice, "F", {"x"}, {"y"});
  EXPECT_NE(refusal(twice).find("defined twice"), std::string::npos);

  ModelMaker itself;
  itself.input("x", {1}).output("y");
  body(function(itself, "F", {"a"}, {"b"}), "F", {"a"}, {"b"}, "local");
  call(itself, "F", {"x"}, {"y"});
  EXPECT_NE(refusal(itself).find("inside each other"), std::string::npos);

  ModelMaker many;  // 4^24 nodes, if anybody made them
  many.input("x", {1}).output("y");
  for (int level = 0; level < 24; ++level) {
    auto& f = function(many, "F" + std::to_string(level), {"a"}, {"b"});
    for (int i = 0; i < 4; ++i)
      body(f, level == 0 ? "Relu" : "F" + std::to_string(level - 1),
           {i == 0 ? "a" : "b" + std::to_string(i)}, {i == 3 ? "b" : "b" + std::to_string(i + 1)},
           level == 0 ? "" : "local");
  }
  call(many, "F23", {"x"}, {"y"});
  EXPECT_NE(refusal(many).find("the most that is read"), std::string::npos);

  ModelMaker wide;
  wide.input("x", {1}).output("y");
  body(function(wide, "F", {"a"}, {"b"}), "Relu", {"a"}, {"b"});
  call(wide, "F", {"x", "x"}, {"y"});
  EXPECT_NE(refusal(wide).find("takes 1 inputs"), std::string::npos);

  ModelMaker undefined;
  undefined.input("x", {1}).output("y");
  body(function(undefined, "F", {"a"}, {"b"}), "Relu", {"nothing"}, {"b"});
  call(undefined, "F", {"x"}, {"y"});
  EXPECT_NE(refusal(undefined).find("which nothing makes"), std::string::npos);
}

}  // namespace
}  // namespace outrider::onnx::test
