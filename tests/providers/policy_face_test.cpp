// The robot face: the same model as the plain face, in robot units. FC-06, 07, 12, 14 to 18, 20 to
// 23, 25, 26.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/json.h"
#include "base/rng.h"
#include "host/conform.h"
#include "outrider/host.h"
#include "policy/checkpoint.h"
#include "policy/convert.h"
#include "providers/policy_fixture.h"
#include "support/hot_counter.h"
#include "vision/resize.h"

namespace outrider::test {
namespace {

// What the plain face gives for the same observation, with this normalised state.
std::vector<float> plain_actions(const PiPair& pair, const std::vector<float>& state,
                                 int64_t n_views = 2, const std::string& more = "") {
  const PiProvider plain(config_json(
      {.pair = pair, .n_views = n_views, .extra = R"("precision":"f32","n_threads":1)" + more}));
  EXPECT_TRUE(plain.ok());
  Request request = make_request(pair, n_views);
  request.state = state;
  return run_request(plain, request);
}

std::vector<float> normalised(PiFamily family, const std::vector<float>& raw) {
  std::vector<float> out;
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    const auto x = static_cast<double>(raw[i]);
    out.push_back(static_cast<float>(
        family == PiFamily::kPi0 ? (x - mean_of(k)) / (std_of(k) + 1e-6)
                                 : (x - q01_of(k)) / (q99_of(k) - q01_of(k) + 1e-6) * 2 - 1));
  }
  return out;
}

double robot_units(PiFamily family, int64_t i, float y) {
  return family == PiFamily::kPi0
             ? static_cast<double>(y) * (std_of(i) + 1e-6) + mean_of(i)
             : (static_cast<double>(y) + 1) / 2 * (q99_of(i) - q01_of(i) + 1e-6) + q01_of(i);
}

TEST(PolicyFace, publishes_a_port_for_every_camera_and_fixed_widths) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  const PiPair& pair = folder.pair();
  const char* names[] = {
      "top",         "wrist",          "prompt",         "state",           "actions",
      "noise",       "previous_chunk", "prefix_weights", "guidance_weight", "prefix_steps",
      "extra_tokens"};
  ASSERT_EQ(provider->n_ports, std::size(names));
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_STREQ(provider->ports[i].name, names[i]);
  EXPECT_EQ(provider.shape("top"), (std::vector<int64_t>{1, pair.image_size, pair.image_size, 3}));
  EXPECT_EQ(provider.shape("state"), (std::vector<int64_t>{6}));
  EXPECT_EQ(provider.shape("actions"), (std::vector<int64_t>{pair.action_steps, 6}));
  EXPECT_EQ(provider.shape("noise"), (std::vector<int64_t>{pair.action_steps, pair.action_dim}));
  EXPECT_EQ(provider->ports[0].required, 1u);
  EXPECT_EQ(provider->ports[1].required, 0u);
  EXPECT_EQ(provider->ports[2].required, 1u);
}

TEST(PolicyFace, FC25_equals_the_plain_face_between_its_conversions) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const PolicyProvider provider(folder.config());
    ASSERT_TRUE(provider.ok());
    stage_robot(provider, folder.pair());
    const std::vector<float> got = provider.tick();
    const std::vector<float> plain =
        plain_actions(folder.pair(), normalised(family, some_state(6)));
    const int64_t dim = folder.pair().action_dim;
    ASSERT_EQ(got.size(), plain.size() / static_cast<size_t>(dim) * 6);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / 6, col = i % 6;
      const double wanted = robot_units(family, static_cast<int64_t>(col),
                                        plain[row * static_cast<size_t>(dim) + col]);
      EXPECT_NEAR(got[i], wanted, 1e-6 * std::max(1.0, std::abs(wanted))) << row << " " << col;
    }
  }
}

TEST(PolicyFace, FC24_folder_pair_and_bits_are_the_same) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    CheckpointSpec lerobot_names, shards;
    lerobot_names.prefix = "model.";
    shards.n_shards = 3;
    shards.renamed_time = family == PiFamily::kPi05;
    const RobotFolder other({.family = family, .weights = lerobot_names}),
        third({.family = family, .weights = shards});
    std::vector<float> first;
    for (const std::string& config : {folder.config(), folder.described_pair(), other.config(),
                                      third.config(), folder.config(R"(,"n_views":2)")}) {
      const PolicyProvider provider(config);
      ASSERT_TRUE(provider.ok()) << config;
      stage_robot(provider, folder.pair());
      const auto actions = provider.tick();
      if (first.empty()) first = actions;
      EXPECT_EQ(actions, first) << config;
    }
  }
}

TEST(PolicyFace, FC23_relative_dimensions_get_the_state_of_their_observation) {
  const RobotFolder absolute, relative({.action_more = R"(,"delta_mask":[2,-1,2,-1])"});
  const PolicyProvider a(absolute.config()), r(relative.config());
  ASSERT_TRUE(a.ok() && r.ok());
  stage_robot(a, absolute.pair());
  stage_robot(r, relative.pair());
  const auto x = a.tick(), y = r.tick();
  const auto state = some_state(6);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool added = i % 6 == 0 || i % 6 == 1 || i % 6 == 3 || i % 6 == 4;
    EXPECT_NEAR(y[i], x[i] + (added ? state[i % 6] : 0.0f), 2e-6) << i;
  }
}

TEST(PolicyFace, FC15_an_absent_camera_is_masked_and_black_is_not_absent) {
  const RobotFolder both, one({.cameras = R"({"name":"top","slot":"base_0_rgb"})"});
  const PolicyProvider provider(both.config()), single(one.config());
  ASSERT_TRUE(provider.ok() && single.ok());
  stage_robot(provider, both.pair());
  const auto with_both = provider.tick();
  ASSERT_EQ(provider.set("wrist", nullptr, 0), 0) << "an optional camera can be taken back";
  const auto without = provider.tick();
  EXPECT_EQ(provider.counter("masked_views"), 1);
  stage_robot(single, one.pair());
  EXPECT_EQ(without, single.tick());
  EXPECT_NE(without, with_both);
  const int64_t s = both.pair().image_size;
  const std::vector<uint8_t> black(static_cast<size_t>(s * s * 3));
  ASSERT_EQ(provider.set_camera("wrist", black, s, s), 0);
  EXPECT_NE(provider.tick(), without);
  EXPECT_LT(provider.set("top", nullptr, 0), 0) << "a required camera cannot";
  EXPECT_EQ(provider.step(), -1);
  EXPECT_NE(provider.error().find("top"), std::string::npos) << provider.error();
}

TEST(PolicyFace, FC16_cameras_are_bound_by_name) {
  const RobotFolder folder,
      swapped_in_file({.cameras = R"({"name":"wrist","slot":"left_wrist_0_rgb","required":false},)"
                                  R"({"name":"top","slot":"base_0_rgb"})"}),
      swapped_slots({.cameras = R"({"name":"wrist","slot":"base_0_rgb"},)"
                                R"({"name":"top","slot":"left_wrist_0_rgb"})"});
  const auto run = [](const RobotFolder& f) {
    const PolicyProvider provider(f.config());
    EXPECT_TRUE(provider.ok());
    stage_robot(provider, f.pair());
    return provider.tick();
  };
  const auto first = run(folder);
  EXPECT_EQ(run(swapped_in_file), first);
  EXPECT_NE(run(swapped_slots), first);
  // Other order of calls.
  const PolicyProvider provider(folder.config());
  const int64_t s = folder.pair().image_size;
  ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
  ASSERT_EQ(provider.set_camera("wrist", noise_rgb(s, s, 101), s, s), 0);
  ASSERT_EQ(provider.set_text("prompt", "pick up the red block"), 0);
  ASSERT_EQ(provider.set_camera("top", noise_rgb(s, s, 100), s, s), 0);
  EXPECT_EQ(provider.tick(), first);
}

TEST(PolicyFace, FC05_the_prompt_is_cleaned) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto first = provider.tick();
  for (const char* same : {"  pick_up the red block\n", "pick up the red block\r\n\n"}) {
    ASSERT_EQ(provider.set_text("prompt", same), 0);
    EXPECT_EQ(provider.tick(), first) << same;
  }
}

TEST(PolicyFace, FC07_a_prompt_beyond_the_budget_is_refused_or_cut_with_a_count) {
  const RobotFolder strict, cutting({.more = R"(,"prompt":{"too_long":"cut"})"});
  std::string words;
  for (int i = 0; i < 100; ++i) words += "the ";
  const PolicyProvider a(strict.config()), b(cutting.config());
  stage_robot(a, strict.pair());
  stage_robot(b, cutting.pair());
  EXPECT_EQ(a.set_text("prompt", words), -4);
  EXPECT_NE(a.error().find("at most 48"), std::string::npos) << a.error();
  EXPECT_LT(a.step(), 0) << "the old prompt is gone";
  ASSERT_EQ(b.set_text("prompt", words), 0) << b.error();
  EXPECT_FALSE(b.tick().empty());
  EXPECT_EQ(b.counter("cut_prompts"), 1);
  EXPECT_EQ(a.set_text("prompt", std::string(1 << 20, 'x')), -4);
  EXPECT_EQ(a.set_text("prompt", "\xff"), -1);
}

TEST(PolicyFace, a_default_prompt_makes_the_port_optional) {
  const RobotFolder folder({.more = R"(,"prompt":{"default":"pick up the red block"})"}), plain;
  const PolicyProvider provider(folder.config()), other(plain.config());
  ASSERT_TRUE(provider.ok());
  EXPECT_EQ(provider->ports[provider.port("prompt")].required, 0u);
  stage_robot(provider, folder.pair());
  stage_robot(other, plain.pair());
  const auto wanted = other.tick();
  EXPECT_EQ(provider.tick(), wanted);
  ASSERT_EQ(provider.set_text("prompt", "open the left drawer"), 0);
  EXPECT_NE(provider.tick(), wanted);
  ASSERT_EQ(provider.set("prompt", nullptr, 0), 0);
  EXPECT_EQ(provider.tick(), wanted);
  EXPECT_EQ(provider.counter("default_prompts"), 1);
}

TEST(PolicyFace, FC21_only_the_declared_state_width_is_taken) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  for (const size_t n : {1u, 5u, 7u, 32u, 33u}) {
    EXPECT_EQ(provider.set_floats("state", std::vector<float>(n)), -4) << n;
    EXPECT_NE(provider.error().find("exactly 6"), std::string::npos) << provider.error();
    EXPECT_LT(provider.step(), 0);
  }
  EXPECT_EQ(provider.set("state", nullptr, 0), -1);
  const float one = 0;
  EXPECT_EQ(provider.set("state", &one, 3), -1);
}

TEST(PolicyFace, FC21_the_padded_width_is_given_when_the_configuration_asks) {
  const RobotFolder folder;
  const int64_t dim = folder.pair().action_dim;
  const PolicyProvider narrow(folder.config()),
      wide(folder.config(R"(,"action_dim":)" + std::to_string(dim)));
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide.shape("actions")[1], dim);
  stage_robot(narrow, folder.pair());
  stage_robot(wide, folder.pair());
  const auto a = narrow.tick(), b = wide.tick();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(b[i / 6 * static_cast<size_t>(dim) + i % 6], a[i]);
}

TEST(PolicyFace, FC22_values_that_are_no_numbers_are_refused_by_index) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  for (const char* port : {"state", "noise", "previous_chunk", "prefix_weights"}) {
    size_t n = 1;
    for (const int64_t side : provider.shape(port)) n *= static_cast<size_t>(side);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(n, 0.1f);
      values[n - 1] = bad;
      EXPECT_EQ(provider.set_floats(port, values), -1) << port;
      EXPECT_NE(provider.error().find("value " + std::to_string(n - 1)), std::string::npos)
          << provider.error();
    }
  }
  EXPECT_EQ(provider.set_floats("state", std::vector<float>(6, 1e-42f)), 0) << "denormals are fine";
  EXPECT_FALSE(provider.tick().empty());
}

TEST(PolicyFace, FC26_noise_may_be_given_and_taken_back) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto seeded = provider.tick();
  std::vector<float> noise(
      static_cast<size_t>(folder.pair().action_steps * folder.pair().action_dim));
  fill_normal_noise(noise, 41);
  ASSERT_EQ(provider.set_floats("noise", noise), 0);
  EXPECT_EQ(provider.tick(), seeded);
  fill_normal_noise(noise, 42);
  ASSERT_EQ(provider.set_floats("noise", noise), 0);
  const auto other = provider.tick();
  EXPECT_NE(other, seeded);
  const PolicyProvider by_seed(folder.config(R"(,"noise_seed":42)"));
  stage_robot(by_seed, folder.pair());
  EXPECT_EQ(by_seed.tick(), other);
  ASSERT_EQ(provider.set("noise", nullptr, 0), 0);
  EXPECT_EQ(provider.tick(), seeded);
}

TEST(PolicyFace, FC26_fifty_calls_give_one_answer_whatever_lies_between_and_with_any_threads) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  std::vector<float> first;
  for (const char* threads : {"1", "2", "4"}) {
    std::string config = folder.config();
    config.replace(config.find("\"n_threads\":1"), 13, std::string("\"n_threads\":") + threads);
    const PolicyProvider provider(config);
    ASSERT_TRUE(provider.ok());
    for (int i = 0; i < 18; ++i) {
      stage_robot(provider, folder.pair());
      const auto actions = provider.tick();
      if (first.empty()) first = actions;
      ASSERT_EQ(actions, first) << threads << " " << i;
      ASSERT_EQ(provider.set_text("prompt", i % 2 != 0 ? "open the drawer" : "stop"), 0);
      ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
      provider.tick();
    }
  }
}

TEST(PolicyFace, FC12_FC14_pictures_are_checked_as_in_the_plain_face) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  const int64_t s = folder.pair().image_size;
  const auto rgb = noise_rgb(s, s, 100);
  EXPECT_EQ(provider.set_camera("top", rgb, s, s - 1), -4);
  EXPECT_EQ(provider.set_camera("top", rgb, s - 1, s), -4);
  auto view = rgb_view(rgb, s, s);
  view.pixel_format = 5;
  EXPECT_EQ(provider.set("top", &view, sizeof view), -1);
  view = rgb_view(rgb, s, s);
  EXPECT_EQ(provider.set("top", &view, sizeof view - 1), -1);
  EXPECT_EQ(provider.set("top", &view, 2 * sizeof view), -1);
  const std::vector<uint8_t> floats(rgb.size() * 4);
  view = rgb_view(floats, s, s);
  EXPECT_EQ(provider.set("top", &view, sizeof view), -1);
  EXPECT_NE(provider.error().find("float pixels"), std::string::npos);
}

TEST(PolicyFace, FC17_cameras_of_another_size_are_resized_by_the_policys_rule) {
  const auto cameras = [](int64_t h, int64_t w, const char* more) {
    return R"({"name":"top","slot":"base_0_rgb","height":)" + std::to_string(h) + R"(,"width":)" +
           std::to_string(w) + more + "}";
  };
  const RobotFolder model_size({.cameras = R"({"name":"top","slot":"base_0_rgb"})"}),
      pil({.cameras = cameras(48, 80, "")}),
      torch({.more = R"(,"resize":"torch")", .cameras = cameras(48, 80, "")}),
      turned({.cameras = cameras(48, 80, R"(,"rotate_180":true)")});
  const int64_t s = model_size.pair().image_size;
  const auto rgb = noise_rgb(80, 48, 5);
  auto resizer = Resizer::make(ResizeRule::kPil, 80, 48, static_cast<int>(s), static_cast<int>(s));
  ASSERT_TRUE(resizer);
  std::vector<uint8_t> small(static_cast<size_t>(s * s * 3));
  resizer.value().run(rgb.data(), small.data());
  const auto run = [](const RobotFolder& f, const std::vector<uint8_t>& picture, int64_t w,
                      int64_t h) {
    const PolicyProvider provider(f.config());
    EXPECT_TRUE(provider.ok());
    EXPECT_EQ(provider.set_camera("top", picture, w, h), 0) << provider.error();
    EXPECT_EQ(provider.set_text("prompt", "pick up the red block"), 0);
    EXPECT_EQ(provider.set_floats("state", some_state(6)), 0);
    return provider.tick();
  };
  const auto wanted = run(model_size, small, s, s);
  EXPECT_EQ(run(pil, rgb, 80, 48), wanted);
  EXPECT_NE(run(torch, rgb, 80, 48), wanted);
  auto back = rgb;
  for (size_t i = 0; i < back.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c) back[i * 3 + c] = rgb[rgb.size() - 3 - i * 3 + c];
  EXPECT_EQ(run(turned, back, 80, 48), wanted);
}

TEST(PolicyFace, guidance_pulls_towards_the_previous_chunk_and_weight_0_changes_no_bit) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto free_run = provider.tick();
  const auto steps = static_cast<size_t>(folder.pair().action_steps);
  std::vector<float> previous(free_run.size(), 0.25f), weights(steps, 0.0f);
  for (size_t r = 0; r < 3; ++r) weights[r] = 1;
  ASSERT_EQ(provider.set_floats("previous_chunk", previous), 0);
  ASSERT_EQ(provider.set_floats("prefix_weights", weights), 0);
  ASSERT_EQ(provider.set_floats("guidance_weight", {0}), 0);
  EXPECT_EQ(provider.tick(), free_run);
  ASSERT_EQ(provider.set_floats("guidance_weight", {5}), 0);
  const auto guided = provider.tick();
  EXPECT_EQ(provider.counter("guided_runs"), 1);
  double before = 0, after = 0;
  for (size_t i = 0; i < 3 * 6; ++i) {
    before += std::abs(static_cast<double>(free_run[i]) - 0.25);
    after += std::abs(static_cast<double>(guided[i]) - 0.25);
  }
  EXPECT_LT(after, before * 0.5);
  ASSERT_EQ(provider.set_floats("guidance_weight", {-1}), 0);
  EXPECT_EQ(provider.step(), -1);
  ASSERT_EQ(provider.set_floats("guidance_weight", {5}), 0);
  ASSERT_EQ(provider.set("previous_chunk", nullptr, 0), 0);
  EXPECT_EQ(provider.step(), -1);
  EXPECT_NE(provider.error().find("previous_chunk"), std::string::npos) << provider.error();
}

TEST(PolicyFace, a_trained_prefix_stays_as_it_was_given) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const PolicyProvider provider(folder.config());
    stage_robot(provider, folder.pair());
    const auto free_run = provider.tick();
    const std::vector<float> previous(free_run.size(), 0.25f);
    ASSERT_EQ(provider.set_floats("previous_chunk", previous), 0);
    ASSERT_EQ(provider.set_floats("prefix_steps", {3}), 0);
    const auto continued = provider.tick();
    for (size_t i = 0; i < continued.size(); ++i) {
      if (i < 3 * 6) {
        EXPECT_NEAR(continued[i], 0.25f, 1e-6) << i;
      } else {
        EXPECT_NE(continued[i], free_run[i]) << i;
      }
    }
    ASSERT_EQ(provider.set_floats("prefix_steps", {0}), 0);
    EXPECT_EQ(provider.tick(), free_run);
    for (const float bad : {-1.0f, 0.5f, static_cast<float>(folder.pair().action_steps)}) {
      ASSERT_EQ(provider.set_floats("prefix_steps", {bad}), 0);
      EXPECT_EQ(provider.step(), -1) << bad;
    }
  }
}

TEST(PolicyFace, extra_tokens_change_the_actions_and_can_be_taken_back) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto free_run = provider.tick();
  const auto shape = provider.shape("extra_tokens");
  const std::vector<float> extra(static_cast<size_t>(shape[0] * shape[1]), 0.7f);
  ASSERT_EQ(provider.set_floats("extra_tokens", extra), 0);
  EXPECT_NE(provider.tick(), free_run);
  ASSERT_EQ(provider.set("extra_tokens", nullptr, 0), 0);
  EXPECT_EQ(provider.tick(), free_run);
}

TEST(PolicyFace, FC06_a_tick_allocates_nothing_whatever_the_length_of_the_state_text) {
  if (!hot_counter::available()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, folder.pair());
  const int64_t s = folder.pair().image_size;
  const auto top = noise_rgb(s, s, 1), wrist = noise_rgb(s, s, 2);
  const frt_image_view views[] = {rgb_view(top, s, s), rgb_view(wrist, s, s)};
  std::vector<float> state(6), out(static_cast<size_t>(folder.pair().action_steps * 6));
  const auto* rt = provider.get();
  const auto actions = static_cast<uint32_t>(provider.port("actions"));
  hot_counter::arm();
  int failed = 0;
  for (int i = 0; i < 12; ++i) {
    for (size_t k = 0; k < 6; ++k)
      state[k] = -2.0f + 0.3f * static_cast<float>((i + static_cast<int>(k) * 5) % 12);
    failed += rt->verbs.set_input(rt->self, 0, &views[0], sizeof views[0], -1) != 0;
    failed += rt->verbs.set_input(rt->self, 1, &views[1], sizeof views[1], -1) != 0;
    failed += rt->verbs.set_input(rt->self, 2, "pick up", 7, -1) != 0;
    failed += rt->verbs.set_input(rt->self, 3, state.data(), 24, -1) != 0;
    failed += rt->verbs.step(rt->self) != 0;
    uint64_t written = 0;
    failed +=
        rt->verbs.get_output(rt->self, actions, out.data(), out.size() * 4, &written, -1) != 0;
  }
  const auto counts = hot_counter::disarm();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  EXPECT_GT(provider.counter("outside_states"), 0);
}

TEST(PolicyFace, describes_its_contract_as_strict_json) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  const auto json = Json::parse(provider.description());
  ASSERT_TRUE(json) << json.error().text << "\n" << provider.description();
  EXPECT_EQ(json.value().find("units")->text(), "robot");
  EXPECT_EQ(json.value().find("cameras")->items()[1].find("slot")->text(), "left_wrist_0_rgb");
  EXPECT_EQ(json.value().find("masked_slots")->items()[0].text(), "right_wrist_0_rgb");
  EXPECT_NE(json.value().find("statistics")->find("state")->text().find("6 dims"),
            std::string::npos);
}

// ---- open ---------------------------------------------------------------------------------------

int open_code(const std::string& config, std::string& reason) {
  outrider_session* session = nullptr;
  char text[512] = {};
  const int code =
      outrider_open(provider_path().c_str(), config.c_str(), &session, text, sizeof text);
  reason = text;
  outrider_close(session);
  return code;
}

TEST(PolicyFace, FC18_what_does_not_fit_is_refused_with_its_code) {
  const RobotFolder folder;
  struct Row {
    const char* more;
    int code;
    const char* says;
  };
  const Row rows[] = {{R"(,"n_views":3)", -4, "n_views is 3"},
                      {R"(,"action_steps":3)", -4, "action_steps is 3"},
                      {R"(,"action_dim":5)", -4, "action_dim is 5"},
                      {R"(,"image_channels":1)", -4, "image_channels is 1"},
                      {R"(,"image_height":64)", -1, "both or neither"},
                      {R"(,"policy_directory":"x")", -1, "policy_dir"}};
  std::string reason;
  for (const Row& row : rows) {
    EXPECT_EQ(open_code(folder.config(row.more), reason), row.code) << row.more << ": " << reason;
    EXPECT_NE(reason.find(row.says), std::string::npos) << reason;
  }
  std::filesystem::remove_all(folder.path() + "/assets");
  EXPECT_EQ(open_code(folder.config(), reason), -2);
  EXPECT_NE(reason.find("looked for"), std::string::npos) << reason;
  EXPECT_EQ(
      open_code(R"({"model_family":"pi0","policy_dir":"/nonexistent","backend":"cpu"})", reason),
      -2);
  EXPECT_EQ(
      open_code(R"({"model_family":"pi0","policy_dir":"/nonexistent","backend":"gpu"})", reason),
      -3);
  // A model file that describes no robot.
  EXPECT_EQ(open_code(R"({"model_family":"pi0","backend":"cpu","model_path":")" +
                          folder.pair().policy + "\"}",
                      reason),
            -2);
}

TEST(PolicyFace, passes_the_contract_suite) {
  host::ConformOptions options;
  options.strict = true;
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const auto report = host::conform(provider_path(), folder.config(), options);
    EXPECT_GT(report.passed, 45);
    EXPECT_EQ(report.failed, 0) << host::to_text(report);
  }
}

TEST(PolicyFace, the_packed_cache_is_shared_by_files_with_equal_weights) {
  const RobotFolder folder;
  const TempDir cache;
  const std::string dir = R"(,"cache_dir":")" + cache.path() + "\"";
  CheckpointSpec shards;
  shards.n_shards = 2;
  shards.prefix = "model.";
  const RobotFolder other({.weights = shards});
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // their times tell the next change
  // The other form is the GGUF file that `outrider convert` writes.
  const auto opened = open_policy_checkpoint(folder.path());
  ASSERT_TRUE(opened) << opened.error().text;
  const std::string file = folder.path() + "/one.gguf";
  ASSERT_TRUE(convert_checkpoint(opened.value(), {}, file));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const std::string by_file = R"({"model_family":"pi0","backend":"cpu","n_threads":1,)"
                              R"("precision":"f32","model_path":")" +
                              file + "\"" + dir + "}";
  int i = 0;
  for (const std::string& config : {folder.config(dir), other.config(dir), by_file}) {
    const PolicyProvider provider(config);
    ASSERT_TRUE(provider.ok());
    EXPECT_NE(provider.description().find(i++ == 0 ? "\"cache\":\"miss: written\""
                                                   : "\"cache\":\"hit\""),
              std::string::npos)
        << i << " " << provider.description();
  }
}

TEST(PolicyFace, the_packed_cache_serves_checkpoints_too) {
  const RobotFolder folder;
  const TempDir cache;
  const std::string config = folder.config(R"(,"cache_dir":")" + cache.path() + "\"");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  std::vector<float> first;
  for (int i = 0; i < 2; ++i) {
    const PolicyProvider provider(config);
    ASSERT_TRUE(provider.ok());
    stage_robot(provider, folder.pair());
    const auto actions = provider.tick();
    if (i == 0) first = actions;
    EXPECT_EQ(actions, first);
    if (i == 1) {
      EXPECT_NE(provider.description().find("\"cache\":\"hit\""), std::string::npos)
          << provider.description();
    }
  }
}

}  // namespace
}  // namespace outrider::test
