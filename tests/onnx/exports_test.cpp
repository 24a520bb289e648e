// Graphs as the exporters of policy trainers write them: rsl_rl and IsaacLab, skrl,
// Stable-Baselines3, PyTorch's older exporter (shape arithmetic in int64) and its newer one. Each
// against its formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "onnx/model_maker.h"

namespace outrider::onnx::test {
namespace {

using Floats = std::vector<float>;

Floats numbers(size_t n, int seed, float scale = 1) {
  Floats v(n);
  uint32_t s = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (float& x : v) {
    s = s * 1664525u + 1013904223u;
    x = (static_cast<float>(s >> 8) / 8388608.0f - 1) * scale;
  }
  return v;
}

// One tick; every input and output by name, f32.
std::map<std::string, Floats> tick(const ModelMaker& m, const std::map<std::string, Floats>& in,
                                   const PlanOptions& options = {}) {
  std::map<std::string, Floats> out;
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return out;
  PlanProblems problems;
  auto runner = make_runner(std::move(model.value()), options, 1, &problems);
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return out;
  Run& r = *runner.value().run;
  for (const auto& [name, values] : in) {
    const int i = r.plan().find_input(name);
    EXPECT_GE(i, 0) << name;
    if (i < 0) return out;
    const auto room = r.input(static_cast<size_t>(i));
    EXPECT_EQ(room.size(), values.size() * 4) << name;
    std::memcpy(room.data(), values.data(), std::min(room.size(), values.size() * 4));
  }
  r.run();
  for (size_t i = 0; i < r.plan().outputs().size(); ++i) {
    Floats values(r.output(i).size() / 4);
    std::memcpy(values.data(), r.output(i).data(), values.size() * 4);
    out[r.plan().outputs()[i].name] = values;
  }
  return out;
}

void expect_near(const Floats& got, const Floats& wanted, const char* what, float bound = 2e-6f) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], bound * std::max(1.0f, std::abs(wanted[i])))
        << what << " at " << i;
}

// y = w x + b for w [n_out, n_in].
Floats linear(const Floats& w, const Floats& b, const Floats& x) {
  Floats y(b.size());
  for (size_t o = 0; o < b.size(); ++o) {
    double sum = b[o];
    for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(w[o * x.size() + i]) * x[i];
    y[o] = static_cast<float>(sum);
  }
  return y;
}
Floats each(Floats x, const std::function<double(double)>& f) {
  for (float& v : x) v = static_cast<float>(f(v));
  return x;
}
double elu(double x) {
  return x > 0 ? x : std::expm1(x);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
void gemm(ModelMaker& m, const std::string& x, const std::string& w, const std::string& y) {
  set_int(m.node("Gemm", {x, w + ".weight", w + ".bias"}, {y}), "transB", 1);
}
void layer(ModelMaker& m, const std::string& name, int64_t n_out, int64_t n_in, const Floats& w,
           const Floats& b) {
  m.floats(name + ".weight", {n_out, n_in}, w);
  m.floats(name + ".bias", {n_out}, b);
}

TEST(OnnxExports, rsl_rl_mlp_with_its_normalizer_baked_in) {
  for (const int64_t opset : {11, 13, 17, 18, 20, 21}) {
    const Floats mean = numbers(48, 1),
                 std_dev = each(numbers(48, 2), [](double v) { return std::abs(v) + 0.1; });
    const Floats w0 = numbers(64 * 48, 3, 0.2f), b0 = numbers(64, 4),
                 w1 = numbers(12 * 64, 5, 0.2f), b1 = numbers(12, 6);
    ModelMaker m(opset);
    m.input("obs", {1, 48}).output("actions", {1, 12});
    m.floats("normalizer._mean", {1, 48}, mean);
    m.floats("normalizer._std", {1, 48}, std_dev);
    m.floats("/normalizer/Constant_output_0", {}, {0.01f});
    layer(m, "actor.0", 64, 48, w0, b0);
    layer(m, "actor.2", 12, 64, w1, b1);
    m.node("Sub", {"obs", "normalizer._mean"}, {"/normalizer/Sub_output_0"});
    m.node("Add", {"normalizer._std", "/normalizer/Constant_output_0"},
           {"/normalizer/Add_output_0"});
    m.node("Div", {"/normalizer/Sub_output_0", "/normalizer/Add_output_0"},
           {"/normalizer/Div_output_0"});
    gemm(m, "/normalizer/Div_output_0", "actor.0", "/actor.0/Gemm_output_0");
    set_float(m.node("Elu", {"/actor.0/Gemm_output_0"}, {"/actor.1/Elu_output_0"}), "alpha", 1);
    gemm(m, "/actor.1/Elu_output_0", "actor.2", "raw");
    m.node("Identity", {"raw"}, {"actions"});
    const Floats obs = numbers(48, 7);
    Floats x(48);
    for (size_t i = 0; i < 48; ++i) x[i] = (obs[i] - mean[i]) / (std_dev[i] + 0.01f);
    const Floats wanted = linear(w1, b1, each(linear(w0, b0, x), elu));
    expect_near(tick(m, {{"obs", obs}})["actions"], wanted, "actions", 1e-5f);
  }
}

TEST(OnnxExports, stable_baselines_flattens_by_shape_arithmetic_and_clips_by_constants) {
  const Floats w = numbers(4 * 12, 1), b = numbers(4, 2);
  ModelMaker m(17);
  m.input("input", {-1, 3, 4}).output("action").output("value").output("log_prob");
  layer(m, "net", 4, 12, w, b);
  m.ints("zero", {}, {0});
  m.ints("axes", {1}, {0});
  m.ints("minus_one", {1}, {-1});
  // x.reshape(x.size(0), -1)
  m.node("Shape", {"input"}, {"s"});
  set_int(m.node("Gather", {"s", "zero"}, {"batch"}), "axis", 0);
  m.node("Unsqueeze", {"batch", "axes"}, {"batch1"});
  set_int(m.node("Concat", {"batch1", "minus_one"}, {"shape"}), "axis", 0);
  m.node("Reshape", {"input", "shape"}, {"flat"});
  gemm(m, "flat", "net", "mean");
  m.node("Tanh", {"mean"}, {"squashed"});
  // Bounds as Constant nodes, as the exporter writes them.
  auto constant = [&](const std::string& name, float value) {
    auto* a = m.node("Constant", {}, {name}).add_attribute();
    a->set_name("value");
    a->set_type(::onnx::AttributeProto::TENSOR);
    a->mutable_t()->set_data_type(::onnx::TensorProto::FLOAT);
    a->mutable_t()->set_raw_data(&value, sizeof value);
  };
  constant("low", -0.5f);
  constant("high", 0.5f);
  m.node("Clip", {"squashed", "low", "high"}, {"action"});
  set_int(m.node("ReduceSum", {"mean", "minus_one"}, {"value"}), "keepdims", 0);
  m.node("Neg", {"mean"}, {"log_prob"});
  PlanOptions options;
  options.dims["n1"] = 1;
  const Floats x = numbers(12, 3);
  auto out = tick(m, {{"input", x}}, options);
  const Floats mean = linear(w, b, x);
  expect_near(out["action"],
              each(mean, [](double v) { return std::clamp(std::tanh(v), -0.5, 0.5); }), "action");
  expect_near(out["value"], {mean[0] + mean[1] + mean[2] + mean[3]}, "value");
  expect_near(out["log_prob"], each(mean, [](double v) { return -v; }), "log_prob");
}

// rsl_rl's recurrent actors: the state goes in and out by h_in, c_in, h_out, c_out.
TEST(OnnxExports, rsl_rl_lstm_with_squeezed_sequence) {
  constexpr size_t kIn = 5, kHidden = 3;
  const Floats w = numbers(4 * kHidden * kIn, 1), r = numbers(4 * kHidden * kHidden, 2),
               b = numbers(8 * kHidden, 3);
  ModelMaker m(17);
  m.input("obs", {1, kIn}).input("h_in", {1, 1, kHidden}).input("c_in", {1, 1, kHidden});
  m.output("actions").output("h_out").output("c_out");
  m.floats("W", {1, 4 * kHidden, kIn}, w);
  m.floats("R", {1, 4 * kHidden, kHidden}, r);
  m.floats("B", {1, 8 * kHidden}, b);
  m.ints("axis0", {1}, {0});
  m.ints("axis1", {1}, {1});
  m.node("Unsqueeze", {"obs", "axis0"}, {"x"});
  set_int(m.node("LSTM", {"x", "W", "R", "B", "", "h_in", "c_in"}, {"y", "h_out", "c_out"}),
          "hidden_size", kHidden);
  m.node("Squeeze", {"y", "axis1"}, {"y1"});
  m.node("Squeeze", {"y1", "axis0"}, {"actions"});
  const Floats obs = numbers(kIn, 4), h = numbers(kHidden, 5), c = numbers(kHidden, 6);
  auto out = tick(m, {{"obs", obs}, {"h_in", h}, {"c_in", c}});
  // Gates in ONNX's order: input, output, forget, cell.
  const auto gate = [&](size_t g, size_t j) {
    double sum = b[g * kHidden + j] + b[(4 + g) * kHidden + j];
    for (size_t i = 0; i < kIn; ++i)
      sum += static_cast<double>(w[(g * kHidden + j) * kIn + i]) * obs[i];
    for (size_t i = 0; i < kHidden; ++i)
      sum += static_cast<double>(r[(g * kHidden + j) * kHidden + i]) * h[i];
    return sum;
  };
  Floats h_out, c_out;
  for (size_t j = 0; j < kHidden; ++j) {
    const double cell = sigmoid(gate(2, j)) * c[j] + sigmoid(gate(0, j)) * std::tanh(gate(3, j));
    c_out.push_back(static_cast<float>(cell));
    h_out.push_back(static_cast<float>(sigmoid(gate(1, j)) * std::tanh(cell)));
  }
  expect_near(out["h_out"], h_out, "h_out");
  expect_near(out["c_out"], c_out, "c_out");
  expect_near(out["actions"], h_out, "actions");
}

TEST(OnnxExports, gru_with_a_state_of_zeros_made_from_the_batch) {
  constexpr size_t kIn = 4, kHidden = 3;
  const Floats w = numbers(3 * kHidden * kIn, 1), r = numbers(3 * kHidden * kHidden, 2),
               b = numbers(6 * kHidden, 3);
  ModelMaker m(14);
  m.input("obs", {-1, -2, kIn}).output("actions");
  m.floats("W", {1, 3 * kHidden, kIn}, w);
  m.floats("R", {1, 3 * kHidden, kHidden}, r);
  m.floats("B", {1, 6 * kHidden}, b);
  m.ints("one", {}, {1});
  m.ints("axes", {1}, {0});
  m.ints("layers", {1}, {1});
  m.ints("hidden", {1}, {kHidden});
  // h0 = zeros(1, obs.size(1), hidden)
  m.node("Shape", {"obs"}, {"s"});
  m.node("Gather", {"s", "one"}, {"batch"});
  m.node("Unsqueeze", {"batch", "axes"}, {"batch1"});
  set_int(m.node("Concat", {"layers", "batch1", "hidden"}, {"shape"}), "axis", 0);
  m.node("ConstantOfShape", {"shape"}, {"h0"});
  auto& gru = m.node("GRU", {"obs", "W", "R", "B", "", "h0"}, {"y", "last"});
  set_int(gru, "hidden_size", kHidden);
  set_int(gru, "linear_before_reset", 1);  // PyTorch's
  m.node("Squeeze", {"last", "axes"}, {"actions"});
  PlanOptions options;
  options.dims = {{"n1", 2}, {"n2", 1}};  // two steps
  const Floats obs = numbers(2 * kIn, 4);
  Floats h(kHidden, 0.0f);
  for (size_t step = 0; step < 2; ++step) {
    const auto part = [&](size_t g, size_t j, bool recurrent) {
      double sum = b[(recurrent ? 3 * kHidden : 0) + g * kHidden + j];
      for (size_t i = 0; i < (recurrent ? kHidden : kIn); ++i)
        sum += recurrent
                   ? static_cast<double>(r[(g * kHidden + j) * kHidden + i]) * h[i]
                   : static_cast<double>(w[(g * kHidden + j) * kIn + i]) * obs[step * kIn + i];
      return sum;
    };
    Floats next;
    for (size_t j = 0; j < kHidden; ++j) {
      const double z = sigmoid(part(0, j, false) + part(0, j, true)),
                   reset = sigmoid(part(1, j, false) + part(1, j, true));
      const double n = std::tanh(part(2, j, false) + reset * part(2, j, true));
      next.push_back(static_cast<float>((1 - z) * n + z * h[j]));
    }
    h = next;
  }
  expect_near(tick(m, {{"obs", obs}}, options)["actions"], h, "actions");
}

// x.expand(batch, -1): Where(shape == -1, ones, shape) decides a size from constants and shapes.
TEST(OnnxExports, torch_expand_by_where_and_equal_on_shapes) {
  ModelMaker m(18);
  m.input("obs", {-1, 3}).output("y");
  m.floats("scale", {1, 3}, {1, 2, 3});
  m.ints("zero", {}, {0});
  m.ints("axes", {1}, {0});
  m.ints("minus_one", {1}, {-1});
  m.ints("minus_ones", {2}, {-1, -1});
  m.ints("two", {1}, {2});
  m.node("Shape", {"obs"}, {"s"});
  m.node("Gather", {"s", "zero"}, {"batch"});
  m.node("Unsqueeze", {"batch", "axes"}, {"batch1"});
  set_int(m.node("Concat", {"batch1", "minus_one"}, {"wanted"}), "axis", 0);
  m.node("ConstantOfShape", {"two"}, {"zeros"});  // of int64 below
  auto* value = m.graph().mutable_node(m.graph().node_size() - 1)->add_attribute();
  value->set_name("value");
  value->set_type(::onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(::onnx::TensorProto::INT64);
  value->mutable_t()->add_dims(1);
  value->mutable_t()->add_int64_data(1);
  m.node("Equal", {"wanted", "minus_ones"}, {"open"});
  m.node("Where", {"open", "zeros", "wanted"}, {"size"});
  m.node("Expand", {"scale", "size"}, {"wide"});
  m.node("Mul", {"obs", "wide"}, {"y"});
  PlanOptions options;
  options.dims["n1"] = 2;
  expect_near(tick(m, {{"obs", {1, 1, 1, 2, 2, 2}}}, options)["y"], {1, 2, 3, 2, 4, 6}, "y");
}

TEST(OnnxExports, layer_norm_and_gelu_as_their_parts) {
  constexpr size_t kN = 8;
  const Floats scale = numbers(kN, 1), shift = numbers(kN, 2), x = numbers(kN, 3, 2);
  ModelMaker m(18);
  m.input("obs", {1, kN}).output("y");
  m.floats("scale", {kN}, scale);
  m.floats("shift", {kN}, shift);
  m.floats("two", {}, {2});
  m.floats("eps", {}, {1e-5f});
  m.floats("root2", {}, {1.41421356f});
  m.floats("one", {}, {1});
  m.floats("half", {}, {0.5f});
  m.ints("last", {1}, {-1});
  m.node("ReduceMean", {"obs", "last"}, {"mean"});
  m.node("Sub", {"obs", "mean"}, {"d"});
  m.node("Pow", {"d", "two"}, {"d2"});
  m.node("ReduceMean", {"d2", "last"}, {"var"});
  m.node("Add", {"var", "eps"}, {"var1"});
  m.node("Sqrt", {"var1"}, {"std"});
  m.node("Div", {"d", "std"}, {"n"});
  m.node("Mul", {"n", "scale"}, {"ns"});
  m.node("Add", {"ns", "shift"}, {"h"});
  m.node("Div", {"h", "root2"}, {"hr"});
  m.node("Erf", {"hr"}, {"e"});
  m.node("Add", {"e", "one"}, {"e1"});
  m.node("Mul", {"h", "e1"}, {"he"});
  m.node("Mul", {"he", "half"}, {"y"});
  double mean = 0, var = 0;
  for (const float v : x) mean += v / static_cast<double>(kN);
  for (const float v : x) var += (v - mean) * (v - mean) / static_cast<double>(kN);
  Floats wanted;
  for (size_t i = 0; i < kN; ++i) {
    const double h = (x[i] - mean) / std::sqrt(var + 1e-5) * scale[i] + shift[i];
    wanted.push_back(static_cast<float>(0.5 * h * (1 + std::erf(h / std::sqrt(2.0)))));
  }
  expect_near(tick(m, {{"obs", x}})["y"], wanted, "y", 1e-5f);
}

// One head over a history of observations, scaled by a constant that a Shape decides.
TEST(OnnxExports, attention_over_a_history) {
  constexpr size_t kT = 3, kD = 4;
  const Floats x = numbers(kT * kD, 1), wq = numbers(kD * kD, 2), wk = numbers(kD * kD, 3),
               wv = numbers(kD * kD, 4);
  ModelMaker m(20);
  m.input("obs", {1, kT, kD}).output("y");
  m.floats("wq", {kD, kD}, wq);
  m.floats("wk", {kD, kD}, wk);
  m.floats("wv", {kD, kD}, wv);
  m.ints("last", {}, {-1});
  m.node("MatMul", {"obs", "wq"}, {"q"});
  m.node("MatMul", {"obs", "wk"}, {"k"});
  m.node("MatMul", {"obs", "wv"}, {"v"});
  set_ints(m.node("Transpose", {"k"}, {"kt"}), "perm", {0, 2, 1});
  m.node("MatMul", {"q", "kt"}, {"s"});
  m.node("Shape", {"q"}, {"size"});
  m.node("Gather", {"size", "last"}, {"width"});
  set_int(m.node("Cast", {"width"}, {"widthf"}), "to", ::onnx::TensorProto::FLOAT);
  m.node("Sqrt", {"widthf"}, {"root"});
  m.node("Div", {"s", "root"}, {"scaled"});
  set_int(m.node("Softmax", {"scaled"}, {"p"}), "axis", -1);
  m.node("MatMul", {"p", "v"}, {"y"});
  const auto times = [&](const Floats& w) {
    std::vector<double> y(kT * kD);
    for (size_t t = 0; t < kT; ++t)
      for (size_t j = 0; j < kD; ++j)
        for (size_t i = 0; i < kD; ++i)
          y[t * kD + j] += static_cast<double>(x[t * kD + i]) * w[i * kD + j];
    return y;
  };
  const auto q = times(wq), k = times(wk), v = times(wv);
  Floats wanted(kT * kD);
  for (size_t t = 0; t < kT; ++t) {
    double p[kT], sum = 0;
    for (size_t u = 0; u < kT; ++u) {
      double s = 0;
      for (size_t i = 0; i < kD; ++i) s += q[t * kD + i] * k[u * kD + i];
      sum += p[u] = std::exp(s / 2);
    }
    for (size_t j = 0; j < kD; ++j) {
      double y = 0;
      for (size_t u = 0; u < kT; ++u) y += p[u] / sum * v[u * kD + j];
      wanted[t * kD + j] = static_cast<float>(y);
    }
  }
  expect_near(tick(m, {{"obs", x}})["y"], wanted, "y", 1e-5f);
}

TEST(OnnxExports, skrl_gives_mean_and_deviation_and_splits_by_number) {
  const Floats w = numbers(6 * 4, 1), b = numbers(6, 2), x = numbers(4, 3);
  ModelMaker m(18);
  m.input("states", {1, 4}).output("mean").output("std");
  layer(m, "net", 6, 4, w, b);
  m.floats("low", {}, {-20});
  m.floats("high", {}, {2});
  gemm(m, "states", "net", "out");
  auto& split = m.node("Split", {"out"}, {"mean", "log_std"});
  set_int(split, "axis", 1);
  set_int(split, "num_outputs", 2);
  m.node("Clip", {"log_std", "low", "high"}, {"clipped"});
  m.node("Exp", {"clipped"}, {"std"});
  const Floats out = linear(w, b, x);
  auto got = tick(m, {{"states", x}});
  expect_near(got["mean"], {out[0], out[1], out[2]}, "mean");
  expect_near(got["std"], each({out[3], out[4], out[5]}, [](double v) { return std::exp(v); }),
              "std", 1e-5f);
}

TEST(OnnxExports, a_policy_that_samples_is_refused_by_the_name_of_the_operator) {
  ModelMaker m(17);
  m.input("obs", {1, 4}).output("actions");
  m.node("RandomNormalLike", {"obs"}, {"noise"});
  m.node("Add", {"obs", "noise"}, {"actions"});
  auto model = m.read();
  ASSERT_TRUE(model);
  PlanProblems problems;
  const auto runner = make_runner(std::move(model.value()), {}, 1, &problems);
  ASSERT_EQ(runner.code(), Code::kUnsupported);
  EXPECT_NE(problems.lines.at(0).find("RandomNormalLike"), std::string::npos);
}

TEST(OnnxExports, the_standard_domain_may_be_written_in_full) {
  ModelMaker m(17);
  m.model.mutable_opset_import(0)->set_domain("ai.onnx");
  m.input("obs", {1, 2}).output("actions");
  m.node("Relu", {"obs"}, {"actions"}).set_domain("ai.onnx");
  expect_near(tick(m, {{"obs", {-1, 2}}})["actions"], {0, 2}, "actions");
}

TEST(OnnxExports, a_layout_hint_of_tinygrad_changes_nothing_and_its_other_operators_are_unknown) {
  for (const bool hint : {true, false}) {
    ModelMaker m(17);
    auto* import = m.model.add_opset_import();
    import->set_domain("org.tinygrad");
    import->set_version(1);
    m.input("obs", {1, 2}).output("actions");
    m.node(hint ? "Contiguous" : "Bitcast", {"obs"}, {"same"}).set_domain("org.tinygrad");
    m.node("Relu", {"same"}, {"actions"});
    if (hint) {
      expect_near(tick(m, {{"obs", {-1, 2}}})["actions"], {0, 2}, "actions");
      continue;
    }
    auto model = m.read();
    ASSERT_TRUE(model);
    PlanProblems problems;
    EXPECT_EQ(make_runner(std::move(model.value()), {}, 1, &problems).code(), Code::kUnsupported);
    EXPECT_NE(problems.lines.at(0).find("org.tinygrad.Bitcast"), std::string::npos);
  }
}

}  // namespace
}  // namespace outrider::onnx::test
