// Statistics and widths through the served policy: what is missing, what disagrees, values on and
// beyond the marks, buffers of another size. FC-18, 21, 25.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "outrider/host.h"
#include "providers/policy_fixture.h"

namespace outrider::test {
namespace {

std::string reason_of(const std::string& config, int wanted) {
  outrider_session* session = nullptr;
  char text[512] = {};
  EXPECT_EQ(outrider_open(provider_path().c_str(), config.c_str(), &session, text, sizeof text),
            wanted)
      << text;
  outrider_close(session);
  return text;
}

void put_statistics(const RobotFolder& folder, const std::string& members) {
  write_text(folder.path() + "/assets/arm/norm_stats.json", R"({"norm_stats":{)" + members + "}}");
}

std::vector<float> plain_actions(const PiPair& pair, const std::vector<float>& state) {
  const PiProvider plain(
      config_json({.pair = pair, .n_views = 2, .extra = R"("precision":"f32","n_threads":1)"}));
  EXPECT_TRUE(plain.ok());
  Request request = make_request(pair, 2);
  request.state = state;
  return run_request(plain, request);
}

// ---- FC-18 --------------------------------------------------------------------------------------

TEST(PolicyUnits, FC18_statistics_without_actions_or_without_state_name_what_is_missing) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const std::string columns = family == PiFamily::kPi0 ? "mean" : "q01";
    put_statistics(folder, R"("state":)" + statistics_text(6));
    std::string said = reason_of(folder.config(), -2);
    EXPECT_NE(said.find("actions"), std::string::npos) << said;
    EXPECT_NE(said.find("norm_stats.json"), std::string::npos) << said;
    put_statistics(folder, R"("actions":)" + statistics_text(6));
    said = reason_of(folder.config(), -2);
    EXPECT_NE(said.find("state"), std::string::npos) << said;
    EXPECT_NE(said.find(columns), std::string::npos) << said;
    EXPECT_NE(said.find("\"none\""), std::string::npos) << "what else can be done: " << said;
  }
}

TEST(PolicyUnits, FC18_statistics_of_another_length_are_refused_with_both) {
  const RobotFolder folder;
  put_statistics(folder,
                 R"("state":)" + statistics_text(5) + R"(,"actions":)" + statistics_text(6));
  std::string said = reason_of(folder.config(), -4);
  EXPECT_NE(said.find("5 dimensions, the robot has 6"), std::string::npos) << said;
  put_statistics(folder,
                 R"("state":)" + statistics_text(6) + R"(,"actions":)" + statistics_text(1));
  said = reason_of(folder.config(), -4);
  EXPECT_NE(said.find("1 dimensions, the robot has 6"), std::string::npos) << said;
}

TEST(PolicyUnits, FC18_a_description_that_disagrees_with_the_side_file_is_refused) {
  const std::string same = R"(,"statistics":{"state":)" + statistics_text(6) + R"(,"actions":)" +
                           statistics_text(6) + "}";
  const RobotFolder agrees({.more = same});
  EXPECT_EQ(reason_of(agrees.config(), 0), "");
  const RobotFolder other({.more = same});
  std::string changed = statistics_text(6);
  changed.replace(changed.find("0.1"), 3, "0.2");
  put_statistics(other, R"("state":)" + changed + R"(,"actions":)" + statistics_text(6));
  const std::string said = reason_of(other.config(), -2);
  EXPECT_NE(said.find("disagree"), std::string::npos) << said;
}

TEST(PolicyUnits, FC18_normalised_units_are_used_only_when_that_is_said) {
  const RobotFolder folder({.more = R"(,"normalisation":{"state":"none","actions":"none"})"});
  std::filesystem::remove_all(folder.path() + "/assets");  // nothing is needed for them
  EXPECT_EQ(reason_of(folder.config(), 0), "");
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, folder.pair());
  const std::vector<float> got = provider.tick(), raw = plain_actions(folder.pair(), some_state(6));
  const auto dim = static_cast<size_t>(folder.pair().action_dim);
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], raw[i / 6 * dim + i % 6]) << "nothing is converted";
  const auto json = Json::parse(provider.description());
  ASSERT_TRUE(json);
  EXPECT_NE(provider.description().find("none"), std::string::npos) << provider.description();
}

// ---- FC-21 --------------------------------------------------------------------------------------

TEST(PolicyUnits, FC21_a_refused_width_leaves_the_next_one_to_be_taken) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, folder.pair());
  const std::vector<float> first = provider.tick();
  for (const size_t n : {size_t{0}, size_t{1}, size_t{5}, size_t{7}, size_t{32}, size_t{33}}) {
    const std::vector<float> values(std::max<size_t>(n, 1));
    EXPECT_LT(provider.set("state", values.data(), n * sizeof(float)), 0) << n;
    EXPECT_NE(provider.error().find("state"), std::string::npos) << provider.error();
    ASSERT_EQ(provider.set_floats("state", some_state(6)), 0) << provider.error();
    EXPECT_EQ(provider.tick(), first) << n;
  }
}

TEST(PolicyUnits, FC21_an_output_buffer_of_another_size_gets_all_or_the_needed_size) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, folder.pair());
  const std::vector<float> whole = provider.tick();
  const uint64_t needed = whole.size() * sizeof(float);
  const auto port = static_cast<uint32_t>(provider.port("actions"));
  const frt_model_runtime_v1* rt = provider.get();
  std::vector<float> out(whole.size() + 40, -7.0f);
  for (const uint64_t less : {uint64_t{0}, uint64_t{4}, needed - 4, needed - 1}) {
    uint64_t written = 1;
    EXPECT_EQ(rt->verbs.get_output(rt->self, port, out.data(), less, &written, -1), -5) << less;
    EXPECT_EQ(written, needed) << less;
    EXPECT_EQ(out[0], -7.0f) << "nothing is written";
  }
  uint64_t written = 0;
  ASSERT_EQ(rt->verbs.get_output(rt->self, port, out.data(), out.size() * 4, &written, -1), 0);
  EXPECT_EQ(written, needed);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), out.begin()));
  EXPECT_EQ(out[whole.size()], -7.0f);
}

// ---- FC-25 --------------------------------------------------------------------------------------

struct Mark {
  const char* name;
  double (*at)(int64_t i);
  bool outside;
};
constexpr Mark kMarks[] = {
    {"q01", q01_of, false},
    {"q99", q99_of, false},
    {"midpoint", [](int64_t i) { return (q01_of(i) + q99_of(i)) / 2; }, false},
    {"twice above", [](int64_t i) { return q99_of(i) + 2 * (q99_of(i) - q01_of(i)); }, true},
    {"twice below", [](int64_t i) { return q01_of(i) - 2 * (q99_of(i) - q01_of(i)); }, true},
    {"mean", mean_of, false},
    {"mean + std", [](int64_t i) { return mean_of(i) + std_of(i); }, false},
    {"mean - std", [](int64_t i) { return mean_of(i) - std_of(i); }, false},
};

// The formulas of openpi, here in double.
double normal(PiFamily family, int64_t i, double x) {
  return family == PiFamily::kPi0 ? (x - mean_of(i)) / (std_of(i) + 1e-6)
                                  : (x - q01_of(i)) / (q99_of(i) - q01_of(i) + 1e-6) * 2 - 1;
}
double robot(PiFamily family, int64_t i, double y) {
  return family == PiFamily::kPi0 ? y * (std_of(i) + 1e-6) + mean_of(i)
                                  : (y + 1) / 2 * (q99_of(i) - q01_of(i) + 1e-6) + q01_of(i);
}

TEST(PolicyUnits, FC25_states_on_and_beyond_every_mark_follow_the_formula) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const PolicyProvider provider(folder.config());
    ASSERT_TRUE(provider.ok());
    const auto dim = static_cast<size_t>(folder.pair().action_dim);
    for (const Mark& mark : kMarks) {
      std::vector<float> state, normalised;
      for (int64_t i = 0; i < 6; ++i) {
        // PI0.5 reads its state by bins: a quarter of one away from their edges.
        const double aside = family == PiFamily::kPi05 ? (q99_of(i) - q01_of(i)) / 1024 : 0;
        state.push_back(static_cast<float>(mark.at(i) + aside));
        normalised.push_back(
            static_cast<float>(normal(family, i, static_cast<double>(state.back()))));
      }
      stage_robot(provider, folder.pair());
      ASSERT_EQ(provider.set_floats("state", state), 0) << mark.name;
      const std::vector<float> got = provider.tick(),
                               plain = plain_actions(folder.pair(), normalised);
      for (size_t i = 0; i < got.size(); ++i) {
        const double wanted = robot(family, static_cast<int64_t>(i % 6),
                                    static_cast<double>(plain[i / 6 * dim + i % 6]));
        EXPECT_NEAR(got[i], wanted, 1e-6 * std::max(1.0, std::abs(wanted)))
            << mark.name << " " << i;
      }
    }
  }
}

TEST(PolicyUnits, FC25_values_beyond_the_quantiles_are_kept_and_counted) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  int64_t counted = provider.counter("outside_states");
  for (const Mark& mark : kMarks) {
    if (std::string_view(mark.name).starts_with("q")) continue;  // f32 lies on either side
    std::vector<float> state;
    for (int64_t i = 0; i < 6; ++i) state.push_back(static_cast<float>(mark.at(i)));
    stage_robot(provider, folder.pair());
    ASSERT_EQ(provider.set_floats("state", state), 0);
    EXPECT_FALSE(provider.tick().empty());
    counted += mark.outside;
    EXPECT_EQ(provider.counter("outside_states"), counted) << mark.name;
  }
}

}  // namespace
}  // namespace outrider::test
