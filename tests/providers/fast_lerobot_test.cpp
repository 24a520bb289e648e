// PI0-FAST as LeRobot trains it: its own folder, a head of its own, cameras in order and masked,
// answers read id by id. FC-07, 15, 16, 22, 24.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "host/conform.h"
#include "providers/fast_fixture.h"

namespace outrider::test {
namespace {

// LeRobot's own files say 48 x 64 pictures.
void stage_lerobot(const PolicyProvider& provider, uint32_t seed = 1) {
  ASSERT_EQ(provider.set_camera("observation.images.top", noise_rgb(64, 48, seed), 64, 48), 0)
      << provider.error();
  ASSERT_EQ(provider.set_camera("observation.images.wrist", noise_rgb(64, 48, 2), 64, 48), 0)
      << provider.error();
  ASSERT_EQ(provider.set_text("prompt", "Pick up the RED block"), 0) << provider.error();
  ASSERT_EQ(provider.set_floats("state", some_state(6)), 0) << provider.error();
}

FastSpec lerobot_spec() {
  FastSpec spec;
  spec.prefix = "model.";
  spec.lerobot = spec.files = true;
  return spec;
}

TEST(FastLerobot, FC24_its_own_folder_becomes_the_chunk_in_robot_units) {
  for (const bool own_head : {false, true}) {
    FastSpec spec = lerobot_spec();
    spec.own_head = own_head;
    const FastFolder folder(spec);
    const auto chunk = fast_chunk(spec);
    for (const char* precision : {"f32", "bf16", "int8"}) {
      const PolicyProvider provider(
          folder.config(std::string(R"(,"precision":")") + precision + "\""));
      ASSERT_TRUE(provider.ok());
      stage_lerobot(provider);
      const auto actions = provider.tick();
      ASSERT_EQ(actions.size(), 60u) << precision << own_head;
      for (size_t i = 0; i < 60; ++i) {
        const double low = -1 - 0.1 * static_cast<double>(i % 6),
                     high = 1.5 + 0.1 * static_cast<double>(i % 6);
        EXPECT_NEAR(actions[i], (chunk[i] + 1) * (high - low) / 2 + low, 2e-6) << precision << i;
      }
      // It stops at the bar, in front of the end id.
      EXPECT_EQ(provider.counter("answer_tokens"),
                static_cast<int64_t>(fast_answer_ids(spec).size()) - 1);
    }
  }
}

TEST(FastLerobot, FC24_a_folder_and_its_single_file_give_the_same_bits) {
  FastSpec spec = lerobot_spec();
  spec.own_head = spec.varied = true;
  spec.dtype = DType::kBf16;
  const FastFolder folder(spec);
  const std::string file = converted(folder, "one.gguf");
  for (const char* precision : {"f32", "bf16", "int8"}) {
    const std::string more = std::string(R"(,"precision":")") + precision + "\"";
    const PolicyProvider a(folder.config(more)), b(by_file(file, more));
    ASSERT_TRUE(a.ok() && b.ok()) << precision;
    for (const uint32_t seed : {1u, 9u}) {
      std::vector<float> logits[2], actions[2];
      for (const PolicyProvider* p : {&a, &b}) {
        taps_on(*p);
        stage_lerobot(*p, seed);
        actions[p == &b] = p->tick();
        logits[p == &b] = tap(*p, "logits_3");
      }
      EXPECT_EQ(actions[0], actions[1]) << precision;
      EXPECT_EQ(logits[0], logits[1]) << precision;
      EXPECT_FALSE(actions[0].empty());
    }
  }
}

// Only what is there is seen, in the order of config.json; an absent camera is masked.
TEST(FastLerobot, FC15_cameras_are_seen_in_order_and_masked_when_absent) {
  FastSpec spec;
  spec.lerobot = true;
  spec.taught = false;
  const FastFolder folder(spec);
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  EXPECT_EQ(provider.description().find("\"black_slots\""), std::string::npos)
      << "nothing is black";
  taps_on(provider);
  stage_robot(provider, pair());
  provider.step();
  const auto text = static_cast<int64_t>(tap(provider, "tokens").size());
  EXPECT_EQ(provider.counter("prefix_tokens"), 2 * 16 + text);
  const auto both = tap(provider, "logits_0");
  ASSERT_EQ(provider.set("wrist", nullptr, 0), 0);
  provider.step();
  EXPECT_EQ(provider.counter("prefix_tokens"), 16 + text);
  EXPECT_EQ(provider.counter("masked_views"), 1);
  EXPECT_EQ(provider.counter("black_views"), 0);
  const auto masked = tap(provider, "logits_0");
  EXPECT_NE(masked, both);
  const int64_t s = pair().image_size;
  ASSERT_EQ(
      provider.set_camera("wrist", std::vector<uint8_t>(static_cast<size_t>(s * s * 3)), s, s), 0);
  provider.step();
  EXPECT_NE(tap(provider, "logits_0"), masked) << "black is not absent";
}

// The answer stands right behind the prefix, which has one id more than openpi's: openpi leaves
// that position out. So the first answered token has the same key in both, as long as it is the
// same token.
TEST(FastLerobot, no_position_is_left_out_behind_the_prefix) {
  FastSpec spec;
  spec.cameras = R"({"name":"top","slot":"base_0_rgb"},{"name":"base2","slot":"base_1_rgb"},)"
                 R"({"name":"wrist","slot":"wrist_0_rgb"})";
  for (const bool taught : {false, true}) {
    std::vector<float> ids[2], prefix[2], answer[2];
    for (const bool lerobot : {false, true}) {
      spec.taught = taught;
      spec.lerobot = lerobot;
      const FastFolder folder(spec);
      const PolicyProvider provider(folder.config());
      ASSERT_TRUE(provider.ok());
      taps_on(provider);
      const int64_t s = pair().image_size;
      for (const char* name : {"top", "base2", "wrist"})
        ASSERT_EQ(provider.set_camera(name, noise_rgb(s, s, 5), s, s), 0);
      ASSERT_EQ(provider.set_text("prompt", "pick up the red block"), 0);
      ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
      provider.step();
      ids[lerobot] = tap(provider, "tokens");
      prefix[lerobot] = tap(provider, "prefix_k_0");
      answer[lerobot] = tap(provider, "answer_k_0");
    }
    ASSERT_EQ(ids[1].size(), ids[0].size() + 1);
    EXPECT_EQ(ids[1].back(), 2) << "a begin id";
    ids[1].pop_back();
    EXPECT_EQ(ids[1], ids[0]);
    if (taught) {
      EXPECT_EQ(answer[1], answer[0]);
    } else {
      prefix[1].resize(prefix[0].size());
      EXPECT_EQ(prefix[1], prefix[0]);
    }
  }
}

TEST(FastLerobot, FC22_a_wrong_count_is_refused_or_made_to_fit_when_asked) {
  FastSpec spec;
  spec.lerobot = true;
  spec.answer = {32, 33};
  const FastFolder strict(spec);
  spec.more = R"(,"action_tokens":{"undecodable":"fit"})";
  const FastFolder fit(spec);
  const PolicyProvider a(strict.config()), b(fit.config());
  ASSERT_TRUE(a.ok() && b.ok());
  stage_robot(a, pair());
  stage_robot(b, pair());
  EXPECT_EQ(a.step(), -8);
  EXPECT_NE(a.error().find("10 coefficients, wanted 60"), std::string::npos) << a.error();
  const auto chunk = b.tick();
  ASSERT_EQ(chunk.size(), 60u);
  EXPECT_EQ(b.counter("undecodable_answers"), 1) << "never silent";
  // The first row of frequencies is there, the rest are zeros.
  const double n = 10, w = 6;
  for (int t = 0; t < 10; ++t) {
    double sum = 0;
    for (int k = 0; k < 2; ++k) {
      const int i = static_cast<int>(k * w);
      if (i < 10)
        sum += fast_coefficient(i / 5, i % 5) * std::sqrt((k == 0 ? 1 : 2) / n) *
               std::cos(M_PI * k * (2 * t + 1) / (2 * n));
    }
    const double wanted = (sum / kFastScale + 1) / 2 * (q99_of(0) - q01_of(0) + 1e-6) + q01_of(0);
    EXPECT_NEAR(chunk[static_cast<size_t>(t) * 6], wanted, 1e-6) << t;
  }
}

TEST(FastLerobot, what_would_change_the_answer_is_refused_by_name) {
  for (const auto& [more, says] :
       {std::pair<const char*, const char*>{R"(,"temperature":0.7)", "temperature is 0.7"},
        {R"(,"fast_skip_tokens":0)", "fast_skip_tokens is 0"},
        {R"(,"validate_action_token_prefix":false)", "validate_action_token_prefix is false"},
        {R"(,"max_decoding_steps":1025)", "max_decoding_steps is 1025"},
        {R"(,"max_decoding_steps":"many")", "max_decoding_steps"}}) {
    FastSpec spec = lerobot_spec();
    spec.more = more;
    const FastFolder folder(spec);
    EXPECT_NE(refused(folder.config()).find(says), std::string::npos)
        << says << ": " << refused(folder.config());
  }
  const auto edited = [](const std::string& file, const std::string& from, const std::string& to) {
    const FastFolder folder(lerobot_spec());
    std::string text = read_small_file(folder.path() + "/" + file, 1 << 20).value();
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_text(folder.path() + "/" + file, text.replace(at, from.size(), to));
    return refused(folder.config());
  };
  EXPECT_NE(edited("config.json", R"("n_action_steps":10)", R"("n_action_steps":5)")
                .find("n_action_steps is 5"),
            std::string::npos);
  EXPECT_NE(edited("config.json", R"("pi0_fast")", R"("pi05")").find("type is \"pi05\""),
            std::string::npos);
  EXPECT_NE(
      edited("policy_preprocessor.json", R"("fast_skip_tokens":128)", R"("fast_skip_tokens":127)")
          .find("fast_skip_tokens is 127"),
      std::string::npos);
  const FastFolder folder(lerobot_spec());
  std::filesystem::remove_all(folder.path() + "/action_tokenizer");
  EXPECT_NE(refused(folder.config()).find("action tokens"), std::string::npos)
      << refused(folder.config());
}

TEST(FastLerobot, passes_the_contract_suite) {
  FastSpec spec = lerobot_spec();
  spec.varied = true;
  const FastFolder folder(spec);
  host::ConformOptions options;
  options.strict = true;
  const auto report = host::conform(provider_path(), folder.config(), options);
  EXPECT_GT(report.passed, 45);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
}

}  // namespace
}  // namespace outrider::test
