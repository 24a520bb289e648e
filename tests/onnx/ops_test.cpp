// Operators that the standard's node tests say little of: Einsum, QuantizeLinear and its inverse,
// antialiased Resize, masks of Dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "onnx/model_maker.h"

namespace outrider::onnx::test {
namespace {

using Floats = std::vector<float>;

// Output `output` after one tick with every f32 input filled, one after the other.
Floats run(const ModelMaker& m, const std::vector<Floats>& inputs, size_t output = 0) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return {};
  auto runner = make_runner(std::move(model.value()), {});
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return {};
  Run& r = *runner.value().run;
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(r.input(i).size(), inputs[i].size() * 4);
    std::memcpy(r.input(i).data(), inputs[i].data(), inputs[i].size() * 4);
  }
  r.run();
  Floats y(r.output(output).size() / 4);
  std::memcpy(y.data(), r.output(output).data(), y.size() * 4);
  return y;
}

std::string refusal(const ModelMaker& m) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  const auto runner = make_runner(std::move(model.value()), {});
  EXPECT_FALSE(runner);
  return runner ? "" : runner.error().text;
}

ModelMaker einsum(const std::string& equation, const std::vector<std::vector<int64_t>>& shapes) {
  ModelMaker m(13);
  std::vector<std::string> names;
  for (const auto& shape : shapes) {
    names.push_back("x" + std::to_string(names.size()));
    m.input(names.back(), shape);
  }
  m.output("y");
  set_text(m.node("Einsum", names, {"y"}), "equation", equation);
  return m;
}
Floats count(size_t n) {
  Floats v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i + 1);
  return v;
}

TEST(OnnxEinsum, one_operand_is_turned_summed_and_read_along_its_diagonal) {
  EXPECT_EQ(run(einsum("ij->ji", {{2, 3}}), {count(6)}), (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run(einsum("ij->j", {{2, 3}}), {count(6)}), (Floats{5, 7, 9}));
  EXPECT_EQ(run(einsum("ij->", {{2, 3}}), {count(6)}), (Floats{21}));
  EXPECT_EQ(run(einsum("ii->i", {{3, 3}}), {count(9)}), (Floats{1, 5, 9}));
  EXPECT_EQ(run(einsum("ii", {{3, 3}}), {count(9)}), (Floats{15}));
  EXPECT_EQ(run(einsum("ba", {{2, 3}}), {count(6)}), (Floats{1, 4, 2, 5, 3, 6})) << "by alphabet";
  EXPECT_EQ(run(einsum("i...->...", {{2, 3}}), {count(6)}), (Floats{5, 7, 9}));
}

TEST(OnnxEinsum, products_of_every_layout_are_the_sums) {
  // Sizes of a, b, c, d, e; every operand is a walk over its letters.
  const std::map<char, int64_t> size{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 2}, {'e', 5}};
  for (const std::string equation :
       {"ab,bc->ac", "ab,cb->ac", "ba,bc->ca", "abc,abd->acd", "bac,dbc->bad", "a,b->ab",
        "ab,ab->a", "ab,ab->", "abc,cd,de->abe", "abcd,aecd->bea", "ab,b->b", "abc,c->ab",
        "ae,be->eab"}) {
    const size_t arrow = equation.find("->");
    std::vector<std::string> terms{""};
    for (const char ch : equation.substr(0, arrow))
      ch == ',' ? terms.emplace_back() : terms.back() += ch;
    const std::string out = equation.substr(arrow + 2);
    std::vector<std::vector<int64_t>> shapes;
    std::vector<Floats> inputs;
    for (const std::string& term : terms) {
      shapes.emplace_back();
      size_t n = 1;
      for (const char ch : term) {
        shapes.back().push_back(size.at(ch));
        n *= static_cast<size_t>(size.at(ch));
      }
      inputs.push_back(count(n));
    }
    std::map<char, int64_t> at;
    const auto place = [&](const std::string& term) {
      int64_t i = 0;
      for (const char ch : term) i = i * size.at(ch) + at[ch];
      return static_cast<size_t>(i);
    };
    size_t n_out = 1;
    for (const char ch : out) n_out *= static_cast<size_t>(size.at(ch));
    Floats wanted(n_out);
    std::string letters;
    for (const char ch : {'a', 'b', 'c', 'd', 'e'})
      if (equation.find(ch) != std::string::npos) letters += ch;
    int64_t n = 1;
    for (const char ch : letters) n *= size.at(ch);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i;
      for (const char ch : letters) at[ch] = rest % size.at(ch), rest /= size.at(ch);
      float product = 1;
      for (size_t k = 0; k < terms.size(); ++k) product *= inputs[k][place(terms[k])];
      wanted[place(out)] += product;  // small whole numbers: exact in any order
    }
    EXPECT_EQ(run(einsum(equation, shapes), inputs), wanted) << equation;
  }
}

TEST(OnnxEinsum, three_dots_stand_for_what_is_left_and_are_stretched) {
  const auto m = einsum("...ij,...jk->...ik", {{2, 1, 2}, {1, 2, 1}});
  EXPECT_EQ(run(m, {{1, 2, 3, 4}, {10, 1}}), (Floats{12, 34}));
  EXPECT_EQ(run(einsum("...j, j ->...", {{2, 2}, {2}}), {{1, 2, 3, 4}, {10, 1}}), (Floats{12, 34}));
}

TEST(OnnxEinsum, impossible_equations_are_refused) {
  const std::vector<std::vector<int64_t>> two{{2, 3}, {3, 2}};
  for (const char* equation : {"", "ij", "ij,jk,kl", "ij,jk->iz", "ij,jk->ii", "i,jk", "ij,j1->i",
                               "ij,ij->ij", "i....j,jk", "...i...j,jk", "ij,jk->i->k"})
    EXPECT_NE(refusal(einsum(equation, two)).find("Einsum"), std::string::npos) << equation;
}

TEST(OnnxQuantize, rounds_half_to_even_and_stops_at_the_ends) {
  ModelMaker m(13);
  m.input("x", {7}).output("y");
  m.floats("scale", {}, {2});
  auto* zero = m.graph().add_initializer();
  zero->set_name("zero");
  zero->set_data_type(::onnx::TensorProto::UINT8);
  zero->set_raw_data(std::string(1, char{100}));
  m.node("QuantizeLinear", {"x", "scale", "zero"}, {"q"});
  m.node("DequantizeLinear", {"q", "scale", "zero"}, {"y"});
  // (0.5, 1.5, -0.5) steps of 2 round to (0, 2, 0); 1e9 and -1e9 stop at 255 and 0.
  EXPECT_EQ(run(m, {{1, 3, -1, 1e9f, -1e9f, 5, std::nanf("")}}),
            (Floats{0, 4, 0, 310, -200, 4, 0}));
}

TEST(OnnxQuantize, each_channel_or_block_has_its_scale) {
  ModelMaker m(21);
  m.input("x", {2, 4}).output("y").output("z");
  m.floats("rows", {2}, {1, 10});
  m.floats("blocks", {2, 2}, {1, 2, 4, 8});
  set_int(m.node("QuantizeLinear", {"x", "rows"}, {"a"}), "axis", 0);
  set_int(m.node("DequantizeLinear", {"a", "rows"}, {"y"}), "axis", 0);
  auto& q = m.node("QuantizeLinear", {"x", "blocks"}, {"b"});
  auto& d = m.node("DequantizeLinear", {"b", "blocks"}, {"z"});
  for (auto* node : {&q, &d}) set_int(*node, "axis", 1), set_int(*node, "block_size", 2);
  const Floats x{3, 3, 3, 3, 13, 13, 13, 13};
  EXPECT_EQ(run(m, {x}, 0), (Floats{3, 3, 3, 3, 10, 10, 10, 10}));
  EXPECT_EQ(run(m, {x}, 1), (Floats{3, 3, 4, 4, 12, 12, 16, 16}));
}

TEST(OnnxOpset18, resize_with_antialias_takes_the_mean_of_what_falls_together) {
  ModelMaker m(18);
  m.input("x", {8}).output("y");
  m.ints("sizes", {1}, {2});
  auto& node = m.node("Resize", {"x", "", "", "sizes"}, {"y"});
  set_text(node, "mode", "linear");
  set_int(node, "antialias", 1);
  // Centre 1.5, triangle of half width 4: weights of indices -2 .. 5 are (1,3,5,7,7,5,3,1) / 8,
  // those before 0 fall to the border.
  const Floats x{0, 0, 0, 0, 1, 0, 0, 0};
  const Floats y = run(m, {x});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_NEAR(y[0], 3.0f / 32, 1e-6f);
  EXPECT_NEAR(y[1], 5.0f / 32, 1e-6f);
}

TEST(OnnxOpset18, FC02_resize_refuses_more_weights_than_any_picture_has) {
  ModelMaker m(18);
  m.input("x", {100000000}).output("y");
  m.ints("sizes", {1}, {1000});
  auto& node = m.node("Resize", {"x", "", "", "sizes"}, {"y"});
  set_text(node, "mode", "cubic");
  set_int(node, "antialias", 1);
  EXPECT_NE(refusal(m).find("with antialias"), std::string::npos);
}

TEST(OnnxOpset18, resize_keeps_the_ratio_of_sides_when_asked) {
  for (const auto& [policy, rows, columns] :
       {std::tuple{"not_larger", 2, 4}, std::tuple{"not_smaller", 3, 6}}) {
    ModelMaker m(18);
    m.input("x", {4, 8}).output("y");
    m.ints("sizes", {2}, {2, 6});
    auto& node = m.node("Resize", {"x", "", "", "sizes"}, {"y"});
    set_text(node, "keep_aspect_ratio_policy", policy);
    EXPECT_EQ(run(m, {count(32)}).size(), static_cast<size_t>(rows * columns)) << policy;
  }
}

TEST(OnnxOps, old_dropout_has_a_mask_of_its_inputs_type) {
  ModelMaker m(7);
  m.input("x", {2}).output("y").output("mask");
  m.node("Dropout", {"x"}, {"y", "mask"});
  EXPECT_EQ(run(m, {{3, 4}}, 0), (Floats{3, 4}));
  EXPECT_EQ(run(m, {{3, 4}}, 1), (Floats{0, 0}));
}

}  // namespace
}  // namespace outrider::onnx::test
