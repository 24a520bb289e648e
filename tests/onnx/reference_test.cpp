// Real policies against recorded outputs of the reference runtime: ../shared/data.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "onnx/model_maker.h"
#include "support/shared_data.h"

namespace outrider::onnx::test {
namespace {

std::vector<uint8_t> from_base64(const std::string& text) {
  std::vector<uint8_t> out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const char* all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char* at = std::strchr(all, c);
    if (c == '=' || at == nullptr) break;
    bits = bits << 6 | static_cast<uint32_t>(at - all);
    n += 6;
    if (n >= 8) out.push_back(static_cast<uint8_t>(bits >> (n -= 8)));
  }
  return out;
}

struct Case {
  std::map<std::string, std::vector<uint8_t>> inputs, outputs;
  std::map<std::string, std::vector<int64_t>> shapes;
};

std::vector<uint8_t> values_of(const Json& array) {
  const Json* data = array.find("data");
  if (data->is_string()) return from_base64(data->text());
  std::vector<int64_t> numbers;
  if (data->is_array())
    for (const Json& item : data->items()) numbers.push_back(item.integer());
  else
    numbers.push_back(data->integer());
  std::vector<uint8_t> out(numbers.size() * 8);
  std::memcpy(out.data(), numbers.data(), out.size());
  return out;
}

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  auto json = Json::parse(text.str());
  EXPECT_TRUE(json) << path;
  std::vector<Case> cases;
  for (const Json& item : json.value().find("cases")->items()) {
    Case c;
    for (const auto& member : item.find("inputs")->members()) {
      c.inputs[member.name] = values_of(member.value);
      for (const Json& dim : member.value.find("shape")->items())
        c.shapes[member.name].push_back(dim.integer());
    }
    for (const auto& member : item.find("outputs")->members())
      c.outputs[member.name] = values_of(member.value);
    cases.push_back(std::move(c));
  }
  return cases;
}

// Sizes of symbolic dimensions, as the recorded inputs have them.
PlanOptions options_for(const Model& model, const Case& c) {
  PlanOptions options;
  for (const Declared& input : model.graph.inputs) {
    const auto shape = c.shapes.find(input.name);
    if (shape == c.shapes.end()) continue;
    for (size_t i = 0; i < input.dims.size(); ++i)
      if (!input.dims[i].name.empty()) options.dims[input.dims[i].name] = shape->second[i];
  }
  return options;
}

class Reference : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Reference,
                         testing::Values("falcon_dec_loco_g1_29dof", "mnist",
                                         "mujoco_playground_g1_policy",
                                         "mujoco_playground_go1_policy",
                                         "mujoco_playground_leap_reorient_policy",
                                         "silero_vad_16k_op15", "unitree_g1_velocity_policy"),
                         [](const auto& param) { return std::string(param.param); });

// Runs all cases in order; an output next_X or XN of one case is the input X of the next.
std::vector<std::vector<std::byte>> run_all(const std::string& path, const std::vector<Case>& cases,
                                            int n_threads, double* worst) {
  std::vector<std::vector<std::byte>> bits;
  auto model = read_model_file(path);
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return bits;
  const PlanOptions options = options_for(model.value(), cases[0]);
  auto runner = make_runner(std::move(model.value()), options, n_threads);
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return bits;
  Run& run = *runner.value().run;
  for (const Case& c : cases) {
    for (size_t i = 0; i < run.plan().inputs().size(); ++i) {
      const Port& port = run.plan().inputs()[i];
      const auto given = c.inputs.find(port.name);
      if (given == c.inputs.end()) continue;  // a state: kept from the case before
      EXPECT_EQ(given->second.size(), run.input(i).size()) << port.name;
      std::memcpy(run.input(i).data(), given->second.data(), given->second.size());
    }
    run.run();
    for (size_t i = 0; i < run.plan().outputs().size(); ++i) {
      const Port& port = run.plan().outputs()[i];
      const auto out = run.output(i);
      bits.emplace_back(out.begin(), out.end());
      const int state = run.plan().find_input(port.name.substr(0, port.name.size() - 1));
      if (port.name.back() == 'N' && state >= 0)
        std::memcpy(run.input(static_cast<size_t>(state)).data(), out.data(), out.size());
      const auto& wanted = c.outputs.at(port.name);
      EXPECT_EQ(wanted.size(), out.size()) << port.name;
      const auto *got = reinterpret_cast<const float*>(out.data()),
                 *ref = reinterpret_cast<const float*>(wanted.data());
      double largest = 1;
      for (size_t k = 0; k < out.size() / 4; ++k)
        largest = std::max(largest, std::abs(static_cast<double>(ref[k])));
      for (size_t k = 0; k < out.size() / 4; ++k) {
        const double d = std::abs(static_cast<double>(got[k]) - static_cast<double>(ref[k]));
        *worst = std::max(*worst, d / largest);
        EXPECT_LE(d, 1e-5 * largest) << port.name << " value " << k;
      }
    }
  }
  return bits;
}

TEST_P(Reference, matches_its_recording_with_the_same_bits_for_any_threads) {
  OUTRIDER_NEED_SHARED(path, std::string("data/") + GetParam() + ".onnx");
  OUTRIDER_NEED_SHARED(recording, std::string("data/") + GetParam() + ".ref.json");
  const auto cases = read_cases(recording);
  ASSERT_FALSE(cases.empty());
  double worst = 0;
  const auto one = run_all(path, cases, 1, &worst);
  RecordProperty("cases", static_cast<int>(cases.size()));
  std::printf("%s: %zu cases, largest difference %.2g of max(1, max|ref|)\n", GetParam(),
              cases.size(), worst);
  ASSERT_FALSE(one.empty());
  EXPECT_EQ(one, run_all(path, cases, 2, &worst));
}

}  // namespace
}  // namespace outrider::onnx::test
