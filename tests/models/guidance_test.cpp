// Guidance in its identity form, against recorded values.
#include "models/guidance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/json.h"
#include "base/mapped_file.h"
#include "support/shared_data.h"

namespace outrider {
namespace {

Result<Json> read_toy(const std::string& folder) {
  auto file = MappedFile::open((folder + "/meta.json").c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  return Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Numbers of any nesting, in order.
void flatten(const Json& json, std::vector<double>& out) {
  if (json.is_number()) out.push_back(json.number());
  for (const Json& item : json.items()) flatten(item, out);
}
std::vector<double> numbers(const Json* json) {
  std::vector<double> out;
  if (json != nullptr) flatten(*json, out);
  return out;
}
std::vector<float> floats(const Json* json) {
  const auto values = numbers(json);
  return {values.begin(), values.end()};
}

TEST(RowWeights, are_the_recorded_ones_of_all_schedules) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-rtc-toy");
  const auto toy = read_toy(folder);
  ASSERT_TRUE(toy);
  const std::map<std::string, RowSchedule> names = {{"ZEROS", RowSchedule::kZeros},
                                                    {"ONES", RowSchedule::kOnes},
                                                    {"LINEAR", RowSchedule::kLinear},
                                                    {"EXP", RowSchedule::kExp}};
  const auto& rows = toy.value().find("schedules")->items();
  ASSERT_EQ(rows.size(), 32u);
  for (const Json& row : rows) {
    const auto got =
        row_weights(names.at(row.find("schedule")->text()), row.find("total")->integer(),
                    row.find("start")->integer(), row.find("end")->integer());
    const auto wanted = numbers(row.find("weights"));
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
  }
}

TEST(GuidanceWeight, has_the_worked_values) {
  const double worked[] = {9.1111, 4.25, 2.7619, 2.1667, 2, 2.1667, 2.7619, 4.25, 9.1111};
  for (int i = 0; i < 9; ++i)
    EXPECT_NEAR(guidance_weight(0.9 - 0.1 * i, 100), worked[i], 5e-5) << i;
  EXPECT_EQ(guidance_weight(1, 5), 5);
  EXPECT_EQ(guidance_weight(0.9, 5), 5);
}

// Every Euler step of the recorded toy network, in its identity form.
TEST(GuideVelocity, follows_the_recorded_toy) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-rtc-toy");
  const auto json = read_toy(folder);
  ASSERT_TRUE(json);
  const Json& toy = *json.value().find("toy");
  const auto w = numbers(toy.find("W")), c = numbers(toy.find("c")), a = numbers(toy.find("a"));
  const int64_t rows = toy.find("H")->integer(), steps = toy.find("num_steps")->integer();
  const auto n = static_cast<size_t>(rows * toy.find("D")->integer());
  std::vector<float> chunk = floats(toy.find("prev_chunk_left_over"));
  chunk.resize(n, 0.0f);
  int n_identity = 0;
  for (const Json& sample : toy.find("cases")->items()) {
    if (sample.find("exact_vjp")->boolean()) continue;  // not offered
    ++n_identity;
    const bool exponential = sample.find("schedule")->text() == "exp";
    const double most = sample.find("max_guidance_weight")->number();
    const auto weights = row_weights(exponential ? RowSchedule::kExp : RowSchedule::kLinear, rows,
                                     sample.find("inference_delay")->integer(),
                                     sample.find("execution_horizon")->integer());
    const auto gains = numbers(sample.find("guidance_weight")), v = numbers(sample.find("v"));
    ASSERT_EQ(v.size(), n * static_cast<size_t>(steps));
    std::vector<float> x = floats(toy.find("noise"));
    for (int64_t k = 0; k < steps; ++k) {
      const double t = 1 - static_cast<double>(k) / static_cast<double>(steps);
      // The case without guidance has no gains: a cap of 0 leaves the velocity alone.
      EXPECT_NEAR(guidance_weight(t, most), gains.empty() ? 0 : gains.at(static_cast<size_t>(k)),
                  1e-9);
      std::vector<float> velocity(n);
      for (size_t i = 0; i < n; ++i) {
        double sum = a[i] * t;
        for (size_t j = 0; j < n; ++j) sum += w[i * n + j] * static_cast<double>(x[j]);
        velocity[i] = static_cast<float>(std::tanh(sum) + c[i]);
      }
      guide_velocity(chunk, weights, x, static_cast<float>(t), most, velocity);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(velocity[i], v[static_cast<size_t>(k) * n + i], 2e-4)
            << sample.find("name")->text() << " step " << k << " value " << i;
        x[i] -= velocity[i] / static_cast<float>(steps);
      }
    }
  }
  EXPECT_EQ(n_identity, 3);
}

}  // namespace
}  // namespace outrider
