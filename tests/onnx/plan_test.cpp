// The planner: sizes, everything unsupported at once, folding, control flow; and what opsets 18 to
// 21 and the fusions add to the standard's node tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx/model_maker.h"
#include "tensor/dtype.h"

namespace outrider::onnx::test {
namespace {

// Runs a model with one f32 input "x" (or none) and gives output 0 as f32.
std::vector<float> run(const ModelMaker& m, const std::vector<float>& x,
                       const PlanOptions& options = {}) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return {};
  auto runner = make_runner(std::move(model.value()), options);
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return {};
  auto& r = *runner.value().run;
  if (!r.plan().inputs().empty()) {
    EXPECT_EQ(r.input(0).size(), x.size() * 4);
    std::memcpy(r.input(0).data(), x.data(), x.size() * 4);
  }
  r.run();
  std::vector<float> y(r.output(0).size() / 4);
  std::memcpy(y.data(), r.output(0).data(), y.size() * 4);
  return y;
}

PlanProblems problems_of(const ModelMaker& m, Code code, const PlanOptions& options = {}) {
  PlanProblems problems;
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return problems;
  const auto runner = make_runner(std::move(model.value()), options, 1, &problems);
  EXPECT_FALSE(runner);
  EXPECT_EQ(runner.code(), code) << runner.error().text;
  return problems;
}

TEST(OnnxPlan, symbolic_sizes_are_given_or_refused_by_name) {
  ModelMaker m;
  m.input("x", {-1, -2}).output("y");
  m.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(problems_of(m, Code::kInvalid).free_dims, (std::vector<std::string>{"n1", "n2"}));
  PlanOptions half;
  half.dims["n1"] = 2;
  EXPECT_EQ(problems_of(m, Code::kInvalid, half).free_dims, (std::vector<std::string>{"n2"}));
  half.dims["n2"] = 2;
  EXPECT_EQ(run(m, {-1, 2, -3, 4}, half), (std::vector<float>{0, 2, 0, 4}));
}

TEST(OnnxPlan, everything_unsupported_is_listed_at_once) {
  ModelMaker m;
  m.input("x", {2}).output("y").output("z").output("w");
  m.node("Frobnicate", {"x"}, {"a"});
  m.node("Relu", {"a"}, {"y"});
  auto& foreign = m.node("Thing", {"a"}, {"z"});
  foreign.set_domain("com.acme");
  m.node("STFT", {"x"}, {"w"});
  m.node("Unused", {"x"}, {"nobody"});
  const auto problems = problems_of(m, Code::kUnsupported);
  ASSERT_EQ(problems.lines.size(), 3u) << "the unused node is no problem";
  EXPECT_NE(problems.lines[0].find("Frobnicate"), std::string::npos);
  EXPECT_NE(problems.lines[1].find("com.acme.Thing"), std::string::npos);
  EXPECT_NE(problems.lines[2].find("STFT"), std::string::npos);
}

TEST(OnnxPlan, FC02_results_beyond_the_limit_are_refused_before_they_are_made) {
  ModelMaker m;
  m.input("x", {1}).output("y");
  m.ints("shape", {3}, {int64_t{1} << 40, int64_t{1} << 40, 1});
  m.node("Expand", {"x", "shape"}, {"y"});
  problems_of(m, Code::kNoMemory);
  ModelMaker constant;
  constant.output("y");
  constant.ints("shape", {2}, {int64_t{1} << 20, int64_t{1} << 20});
  constant.node("ConstantOfShape", {"shape"}, {"y"});
  problems_of(constant, Code::kNoMemory);
}

TEST(OnnxPlan, shapes_that_contradict_are_refused) {
  ModelMaker m;
  m.input("x", {2, 3}).output("y");
  m.floats("w", {4, 2}, std::vector<float>(8, 1));
  m.node("MatMul", {"x", "w"}, {"y"});
  problems_of(m, Code::kNotFound);
  ModelMaker type;
  type.input("x", {2}).output("y", {2}, ::onnx::TensorProto::INT64);
  type.node("Relu", {"x"}, {"y"});
  problems_of(type, Code::kNotFound);
}

TEST(OnnxPlan, what_is_known_is_computed_at_open) {
  ModelMaker m;
  m.input("x", {2, 3}).output("y");
  m.node("Shape", {"x"}, {"s"});
  m.ints("one", {1}, {1});
  m.node("Gather", {"s", "one"}, {"cols"});
  m.node("Reshape", {"x", "cols_and"}, {"y"});
  m.ints("two", {1}, {2});
  auto& concat = m.node("Concat", {"cols", "two"}, {"cols_and"});
  set_int(concat, "axis", 0);
  auto model = m.read();
  ASSERT_TRUE(model) << model.error().text;
  auto runner = make_runner(std::move(model.value()));
  ASSERT_TRUE(runner) << runner.error().text;
  EXPECT_EQ(runner.value().run->plan().outputs()[0].type.shape, (Shape{3, 2}));
  EXPECT_EQ(runner.value().run->plan().n_steps(), 1u) << "only the copy to the output is left";
}

TEST(OnnxPlan, outputs_are_arrays_of_their_own) {
  ModelMaker m;
  m.input("x", {2}).output("a").output("b").output("c");
  m.floats("k", {2}, {7, 8});
  m.node("Identity", {"x"}, {"a"});
  m.node("Identity", {"a"}, {"b"});
  m.node("Identity", {"k"}, {"c"});
  auto model = m.read();
  ASSERT_TRUE(model);
  auto runner = make_runner(std::move(model.value()));
  ASSERT_TRUE(runner) << runner.error().text;
  auto& r = *runner.value().run;
  EXPECT_NE(r.output(0).data(), r.output(1).data());
  EXPECT_NE(static_cast<const void*>(r.output(0).data()),
            static_cast<const void*>(r.input(0).data()));
  r.run();
  EXPECT_EQ(reinterpret_cast<const float*>(r.output(2).data())[1], 8);
}

TEST(OnnxPlan, if_with_an_unknown_condition_chooses_as_it_runs) {
  ModelMaker m;
  m.input("x", {2}).output("y");
  m.ints("zero", {1}, {0});
  m.floats("limit", {1}, {0});
  m.node("Gather", {"x", "zero"}, {"first"});
  m.node("Greater", {"first", "limit"}, {"c"});
  auto& node = m.node("If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* a = node.add_attribute();
    a->set_name(branch);
    a->set_type(::onnx::AttributeProto::GRAPH);
    auto* g = a->mutable_g();
    ModelMaker::add_node(*g, branch[0] == 't' ? "Neg" : "Abs", {"x"},
                         {std::string("out") + branch[0]});
    g->add_output()->set_name(std::string("out") + branch[0]);
  }
  EXPECT_EQ(run(m, {2, -3}), (std::vector<float>{-2, 3}));
  EXPECT_EQ(run(m, {-2, -3}), (std::vector<float>{2, 3}));
}

TEST(OnnxPlan, fusions_change_no_result) {
  for (const char* act : {"Relu", "Sigmoid", "Tanh", "Elu", "Silu"}) {
    const auto make = [&](bool fused) {
      ModelMaker m;
      m.input("x", {2, 3}).output("y");
      m.floats("w", {3, 4}, {1, -2, 3, 4, -5, 6, .7f, -.8f, .9f, 1, -1.1f, 1.2f});
      m.floats("b", {4}, {.1f, .2f, -.3f, .4f});
      m.node("MatMul", {"x", "w"}, {"p"});
      m.node("Add", {"p", "b"}, {"h"});
      if (!fused) m.output("p").output("h");  // read from outside: nothing may go
      if (std::string(act) == "Silu") {
        m.node("Sigmoid", {"h"}, {"s"});
        m.node("Mul", {"h", "s"}, {"y"});
      } else {
        m.node(act, {"h"}, {"y"});
      }
      return m;
    };
    const std::vector<float> x = {.1f, -.2f, .3f, 1, 2, -3};
    const auto a = run(make(true), x), b = run(make(false), x);
    ASSERT_EQ(a.size(), 8u);
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-6 * std::max(1.0f, std::abs(b[i]))) << act;
    auto model = make(true).read();
    auto runner = make_runner(std::move(model.value()));
    ASSERT_TRUE(runner);
    EXPECT_EQ(runner.value().run->plan().n_steps(), 1u) << act;
  }
}

TEST(OnnxPlan, half_precision_is_computed_in_f32) {
  ModelMaker m;
  m.input("x", {2}, ::onnx::TensorProto::FLOAT16).output("y", {2}, ::onnx::TensorProto::FLOAT16);
  m.node("Exp", {"x"}, {"y"});
  auto model = m.read();
  auto runner = make_runner(std::move(model.value()));
  ASSERT_TRUE(runner) << runner.error().text;
  auto& r = *runner.value().run;
  const uint16_t in[] = {f32_to_f16(1), f32_to_f16(-2)};
  std::memcpy(r.input(0).data(), in, sizeof in);
  r.run();
  const auto* y = reinterpret_cast<const uint16_t*>(r.output(0).data());
  EXPECT_EQ(y[0], f32_to_f16(std::exp(1.0f)));
  EXPECT_EQ(y[1], f32_to_f16(std::exp(-2.0f)));
}

// ---- opsets 18 to 21
// --------------------------------------------------------------------------------

TEST(OnnxOpset18, reductions_take_their_axes_as_an_input) {
  for (const auto& [op, wanted] : {std::pair<const char*, std::vector<float>>("ReduceMax", {3, 6}),
                                   {"ReduceMean", {2, 5}},
                                   {"ReduceMin", {1, 4}},
                                   {"ReduceProd", {6, 120}},
                                   {"ReduceL1", {6, 15}},
                                   {"ReduceSumSquare", {14, 77}}}) {
    ModelMaker m(18);
    m.input("x", {2, 3}).output("y");
    m.ints("axes", {1}, {1});
    set_int(m.node(op, {"x", "axes"}, {"y"}), "keepdims", 0);
    EXPECT_EQ(run(m, {1, 2, 3, 4, 5, 6}), wanted) << op;
  }
}

TEST(OnnxOpset18, split_into_unequal_parts) {
  ModelMaker m(18);
  m.input("x", {5}).output("b").output("a");
  set_int(m.node("Split", {"x"}, {"a", "b"}), "num_outputs", 2);
  EXPECT_EQ(run(m, {1, 2, 3, 4, 5}), (std::vector<float>{4, 5}));
}

TEST(OnnxOpset18, pad_names_axes) {
  ModelMaker m(18);
  m.input("x", {2, 2}).output("y");
  m.ints("pads", {2}, {1, 0});
  m.ints("axes", {1}, {1});
  m.floats("value", {}, {9});
  m.node("Pad", {"x", "pads", "value", "axes"}, {"y"});
  EXPECT_EQ(run(m, {1, 2, 3, 4}), (std::vector<float>{9, 1, 2, 9, 3, 4}));
}

TEST(OnnxOpset19, pad_wraps_around) {
  ModelMaker m(19);
  m.input("x", {3}).output("y");
  m.ints("pads", {2}, {2, 1});
  set_text(m.node("Pad", {"x", "pads"}, {"y"}), "mode", "wrap");
  EXPECT_EQ(run(m, {1, 2, 3}), (std::vector<float>{2, 3, 1, 2, 3, 1}));
}

TEST(OnnxOpset18, resize_names_axes) {
  ModelMaker m(18);
  m.input("x", {1, 1, 1, 2}).output("y");
  m.floats("scales", {1}, {2});
  auto& node = m.node("Resize", {"x", "", "scales"}, {"y"});
  set_ints(node, "axes", {3});
  set_text(node, "coordinate_transformation_mode", "half_pixel_symmetric");
  EXPECT_EQ(run(m, {1, 2}), (std::vector<float>{1, 1, 2, 2}));
}

std::vector<float> group_norm(int64_t opset, const std::vector<float>& scale,
                              const std::vector<float>& bias) {
  ModelMaker m(opset);
  m.input("x", {1, 4, 1}).output("y");
  m.floats("s", {static_cast<int64_t>(scale.size())}, scale);
  m.floats("b", {static_cast<int64_t>(bias.size())}, bias);
  auto& node = m.node("GroupNormalization", {"x", "s", "b"}, {"y"});
  set_int(node, "num_groups", 2);
  set_float(node, "epsilon", 1e-9f);
  return run(m, {1, 3, 10, 30});
}
TEST(OnnxOpset18, group_norm_scales_groups_and_from_21_on_channels) {
  const auto by_group = group_norm(18, {2, 3}, {0, 1});
  const std::vector<float> wanted = {-2, 2, -2, 4};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(by_group[i], wanted[i], 1e-5);
  const auto by_channel = group_norm(21, {1, 2, 3, 4}, {0, 0, 0, 10});
  const std::vector<float> other = {-1, 2, -3, 14};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(by_channel[i], other[i], 1e-5);
}

TEST(OnnxOpset18, mish_and_opset_20_gelu_follow_their_formulas) {
  const std::vector<float> x = {-3, -1, -0.1f, 0, 0.5f, 2, 5};
  ModelMaker mish(18);
  mish.input("x", {7}).output("y");
  mish.node("Mish", {"x"}, {"y"});
  ModelMaker exact(20);
  exact.input("x", {7}).output("y");
  exact.node("Gelu", {"x"}, {"y"});
  ModelMaker tanh(20);
  tanh.input("x", {7}).output("y");
  set_text(tanh.node("Gelu", {"x"}, {"y"}), "approximate", "tanh");
  const auto a = run(mish, x), b = run(exact, x), c = run(tanh, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]);
    EXPECT_NEAR(a[i], v * std::tanh(std::log1p(std::exp(v))), 1e-6);
    EXPECT_NEAR(b[i], v / 2 * (1 + std::erf(v / std::sqrt(2.0))), 1e-6);
    EXPECT_NEAR(c[i], v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))),
                1e-6);
  }
}

TEST(OnnxOpset18, scatter_keeps_the_largest) {
  ModelMaker m(18);
  m.input("x", {3}).output("y");
  m.ints("at", {2}, {1, -1});
  m.floats("new", {2}, {5, 0});
  set_text(m.node("ScatterElements", {"x", "at", "new"}, {"y"}), "reduction", "max");
  EXPECT_EQ(run(m, {1, 2, 3}), (std::vector<float>{1, 5, 3}));
}

TEST(OnnxOpset21, the_usual_policy_runs_in_every_opset) {
  std::vector<float> first;
  for (int64_t opset = kMinOpset; opset <= kMaxOpset; ++opset) {
    ModelMaker m(opset);
    m.input("x", {1, 2}).output("y");
    m.floats("w", {2, 2}, {1, 2, 3, 4});
    m.floats("b", {2}, {.5f, -.5f});
    m.node("Gemm", {"x", "w", "b"}, {"h"});
    m.node("Tanh", {"h"}, {"t"});
    m.node("Softmax", {"t"}, {"y"});
    const auto y = run(m, {.1f, .2f});
    if (first.empty()) first = y;
    EXPECT_EQ(y, first) << opset;
  }
}

TEST(OnnxOps, lp_normalization_and_lp_pool_follow_their_formulas) {
  ModelMaker norm;
  norm.input("x", {1, 2}).output("y");
  norm.node("LpNormalization", {"x"}, {"y"});
  EXPECT_EQ(run(norm, {3, 4}), (std::vector<float>{0.6f, 0.8f}));
  ModelMaker pool;
  pool.input("x", {1, 1, 2}).output("y");
  set_ints(pool.node("LpPool", {"x"}, {"y"}), "kernel_shape", {2});
  EXPECT_NEAR(run(pool, {3, 4})[0], 5, 1e-6);
}

}  // namespace
}  // namespace outrider::onnx::test
