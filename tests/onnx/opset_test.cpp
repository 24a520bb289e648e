// What opsets 18 to 21 changed of the operators that are claimed and no older test of ours shows:
// each change as its formula says, or refused in words. The page's table of changes names these
// tests.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "onnx/model_maker.h"
#include "tensor/dtype.h"

namespace outrider::onnx::test {
namespace {

using Floats = std::vector<float>;
using Type = ::onnx::TensorProto;

// Output 0 as T after one tick with input 0 filled.
template <class T, class X>
std::vector<T> run(const ModelMaker& m, const std::vector<X>& x) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return {};
  auto runner = make_runner(std::move(model.value()));
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return {};
  Run& r = *runner.value().run;
  EXPECT_EQ(r.input(0).size(), x.size() * sizeof(X));
  std::memcpy(r.input(0).data(), x.data(), x.size() * sizeof(X));
  r.run();
  std::vector<T> y(r.output(0).size() / sizeof(T));
  std::memcpy(y.data(), r.output(0).data(), y.size() * sizeof(T));
  return y;
}

std::string refusal(const ModelMaker& m) {
  auto model = m.read();
  if (!model) return model.error().text;
  const auto runner = make_runner(std::move(model.value()));
  EXPECT_FALSE(runner);
  return runner ? "" : runner.error().text;
}
void expect_refusal(const ModelMaker& m, const std::string& words) {
  const std::string text = refusal(m);
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(OnnxOpset18, lp_pool_skips_places_and_rounds_up) {
  ModelMaker m(18);
  m.input("x", {1, 1, 6}).output("y");
  auto& node = m.node("LpPool", {"x"}, {"y"});
  set_ints(node, "kernel_shape", {2});
  set_ints(node, "dilations", {2});
  set_ints(node, "strides", {3});
  set_int(node, "ceil_mode", 1);
  const auto y = run<float>(m, Floats{3, 9, 4, 5, 9, 12});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_NEAR(y[0], 5, 1e-6);
  EXPECT_NEAR(y[1], 13, 1e-6);
}

TEST(OnnxOpset18, every_other_reduction_takes_its_axes_as_an_input) {
  const double e = std::log(std::exp(1.0) + std::exp(3.0));
  for (const auto& [op, first, second] :
       {std::tuple{"ReduceL2", std::sqrt(10.0), 5.0},
        {"ReduceLogSum", std::log(4.0), std::log(7.0)},
        {"ReduceLogSumExp", e, std::log(std::exp(3.0) + std::exp(4.0))}}) {
    ModelMaker m(18);
    m.input("x", {2, 2}).output("y");
    m.ints("axes", {1}, {-1});
    set_int(m.node(op, {"x", "axes"}, {"y"}), "keepdims", 0);
    const auto y = run<float>(m, Floats{1, 3, 3, 4});
    ASSERT_EQ(y.size(), 2u) << op;
    EXPECT_NEAR(y[0], first, 1e-6) << op;
    EXPECT_NEAR(y[1], second, 1e-6) << op;
  }
}

TEST(OnnxOpset18, a_reduction_over_no_axes_is_over_all_or_over_none) {
  for (const bool none : {false, true}) {
    ModelMaker m(18);
    m.input("x", {3}).output("y");
    if (none) m.ints("axes", {0}, {});
    auto& node =
        m.node("ReduceSumSquare",
               none ? std::vector<std::string>{"x", "axes"} : std::vector<std::string>{"x"}, {"y"});
    set_int(node, "noop_with_empty_axes", none ? 1 : 0);
    const auto y = run<float>(m, Floats{1, 2, 3});
    EXPECT_EQ(y, none ? (Floats{1, 2, 3}) : (Floats{14}));
  }
}

TEST(OnnxOpset18, scatter_keeps_the_smallest_and_by_index_the_largest) {
  ModelMaker least(18);
  least.input("x", {3}).output("y");
  least.ints("at", {2}, {0, 2});
  least.floats("new", {2}, {5, 0});
  set_text(least.node("ScatterElements", {"x", "at", "new"}, {"y"}), "reduction", "min");
  EXPECT_EQ(run<float>(least, Floats{1, 2, 3}), (Floats{1, 2, 0}));
  for (const auto& [reduction, wanted] :
       {std::pair{"max", Floats{4, 2, 3}}, {"min", Floats{1, 2, -1}}}) {
    ModelMaker m(18);
    m.input("x", {3}).output("y");
    m.ints("at", {2, 1}, {0, 2});
    m.floats("new", {2}, {4, -1});
    set_text(m.node("ScatterND", {"x", "at", "new"}, {"y"}), "reduction", reduction);
    EXPECT_EQ(run<float>(m, Floats{1, 2, 3}), wanted) << reduction;
  }
}

TEST(OnnxOpset18, split_into_another_number_than_outputs_is_refused) {
  ModelMaker m(18);
  m.input("x", {6}).output("a");
  set_int(m.node("Split", {"x"}, {"a", "b"}), "num_outputs", 3);
  expect_refusal(m, "num_outputs is 3, it has 2");
}

TEST(OnnxOpset19, average_pool_skips_places) {
  ModelMaker m(19);
  m.input("x", {1, 1, 5}).output("y");
  auto& node = m.node("AveragePool", {"x"}, {"y"});
  set_ints(node, "kernel_shape", {2});
  set_ints(node, "dilations", {2});
  EXPECT_EQ(run<float>(m, Floats{1, 2, 3, 6, 9}), (Floats{2, 4, 6}));
}

TEST(OnnxOpset19, casts_to_numbers_of_8_and_4_bits_are_refused) {
  for (const auto& [opset, number] : {std::pair<int64_t, int64_t>{19, 17}, {19, 20}, {21, 22}}) {
    ModelMaker m(opset);
    m.input("x", {2}).output("y", {}, 0);
    set_int(m.node("Cast", {"x"}, {"y"}), "to", number);
    expect_refusal(m, "to element type");
  }
}

TEST(OnnxOpset19, equal_of_texts_is_refused) {
  ModelMaker m(19);
  m.input("x", {2}, Type::STRING).output("y", {2}, Type::BOOL);
  m.node("Equal", {"x", "x"}, {"y"});
  expect_refusal(m, "STRING");
}

TEST(OnnxOpset19, a_reshape_to_nothing_is_nothing_and_to_0_keeps_the_size) {
  ModelMaker m(19);
  m.input("x", {2, 3}).output("y");
  m.ints("shape", {2}, {0, -1});
  m.node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(run<float>(m, Floats{1, 2, 3, 4, 5, 6}).size(), 6u);
  ModelMaker zero(19);
  zero.input("x", {2, 3}).output("y");
  zero.ints("shape", {2}, {0, 6});
  set_int(zero.node("Reshape", {"x", "shape"}, {"y"}), "allowzero", 1);
  EXPECT_NE(refusal(zero), "");
}

TEST(OnnxOpset20, largest_and_smallest_truth) {
  for (const auto& [op, wanted] :
       {std::pair{"ReduceMax", std::vector<uint8_t>{1, 0}}, {"ReduceMin", {0, 0}}}) {
    ModelMaker m(20);
    m.input("x", {2, 2}, Type::BOOL).output("y", {}, Type::BOOL);
    m.ints("axes", {1}, {1});
    set_int(m.node(op, {"x", "axes"}, {"y"}), "keepdims", 0);
    EXPECT_EQ(run<uint8_t>(m, std::vector<uint8_t>{0, 1, 0, 0}), wanted) << op;
  }
}

TEST(OnnxOpset20, halves_are_infinite_or_no_number) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<uint16_t> x{f32_to_f16(1), f32_to_f16(-inf), f32_to_f16(std::nanf(""))};
  for (const auto& [op, wanted] :
       {std::pair{"IsInf", std::vector<uint8_t>{0, 1, 0}}, {"IsNaN", {0, 0, 1}}}) {
    ModelMaker m(20);
    m.input("x", {3}, Type::FLOAT16).output("y", {}, Type::BOOL);
    m.node(op, {"x"}, {"y"});
    EXPECT_EQ(run<uint8_t>(m, x), wanted) << op;
  }
}

TEST(OnnxOpset21, quantize_names_its_type_and_refuses_those_of_4_bits) {
  ModelMaker m(21);
  m.input("x", {3}).output("y", {}, Type::INT8);
  m.floats("scale", {}, {2});
  set_int(m.node("QuantizeLinear", {"x", "scale"}, {"y"}), "output_dtype", Type::INT8);
  EXPECT_EQ(run<int8_t>(m, Floats{-4, 5, 400}), (std::vector<int8_t>{-2, 2, 127}));
  for (const int64_t number : {21, 22, 17}) {
    ModelMaker four(21);
    four.input("x", {3}).output("y", {}, 0);
    four.floats("scale", {}, {2});
    set_int(four.node("QuantizeLinear", {"x", "scale"}, {"y"}), "output_dtype", number);
    expect_refusal(four, "to element type");
  }
}

TEST(OnnxOpset21, constants_of_4_bits_are_refused_by_name) {
  ModelMaker m(21);
  m.input("x", {2}).output("y");
  m.floats("scale", {}, {2});
  auto* q = m.graph().add_initializer();
  q->set_name("q");
  q->set_data_type(22);
  q->add_dims(2);
  q->set_raw_data(std::string(1, char{0x21}));
  m.node("DequantizeLinear", {"q", "scale"}, {"d"});
  m.node("Add", {"x", "d"}, {"y"});
  EXPECT_NE(refusal(m), "");
}

// What came with these opsets and is not claimed: by its name and the file's opset.
TEST(OnnxOpset18, operators_that_came_later_and_are_not_claimed_are_refused_by_name) {
  const std::pair<const char*, int64_t> later[] = {{"BitwiseAnd", 18},         {"BitwiseNot", 18},
                                                   {"BitwiseOr", 18},          {"BitwiseXor", 18},
                                                   {"CenterCropPad", 18},      {"Col2Im", 18},
                                                   {"OptionalHasElement", 18}, {"DeformConv", 19},
                                                   {"AffineGrid", 20},         {"DFT", 20},
                                                   {"GridSample", 20},         {"ImageDecoder", 20},
                                                   {"RegexFullMatch", 20},     {"StringConcat", 20},
                                                   {"StringSplit", 20}};
  for (const auto& [op, opset] : later) {
    ModelMaker m(opset);
    m.input("x", {2}).output("y");
    m.node(op, {"x"}, {"y"});
    expect_refusal(m, "operator " + std::string(op) + " (opset " + std::to_string(opset) + ")");
  }
}

}  // namespace
}  // namespace outrider::onnx::test
