// policy.json: what it takes, what it refuses, and that what it prints means the same.
#include "policy/description.h"

#include "policy/support.h"

namespace outrider::policy_test {
namespace {

constexpr const char* kWhole = R"({
  "robot": "custom", "family": "pi05", "checkpoint": "ckpt", "tokenizer": "t.model",
  "asset_id": "mine",
  "cameras": [{"name": "wrist", "slot": "left_wrist_0_rgb", "required": false,
               "rotate_180": true, "height": 48, "width": 64},
              {"name": "top", "slot": "base_0_rgb"}],
  "state": {"fields": [{"name": "arm", "size": 2, "unit": "rad"}, {"name": "grip", "size": 1}],
            "convert": [{"from": 2, "scale": 0.1, "offset": -0.3}, {}]},
  "actions": {"size": 2, "names": ["a", "b"], "unit": "rad", "delta_mask": [1, -1],
              "convert": [{"scale": 2}, {"from": 0}]},
  "adapt_to_pi": false,
  "prompt": {"default": "tidy \"up\"", "state_in_text": true, "rule": "lerobot",
             "max_tokens": 77, "too_long": "cut"},
  "normalisation": {"state": "quantile", "actions": "z_score", "rule": "openpi", "epsilon": 1e-6},
  "statistics": {"state": {"q01": [0, 0], "q99": [1, 2]},
                 "actions": {"mean": [0.1, 0.2], "std": [1, 1]}},
  "statistics_path": "s.json", "resize": "torch", "horizon": 12, "num_steps": 5, "rate_hz": 20.5,
  "model": {"head_dim": 8, "vision_heads": 3}
})";

Result<PolicyDescription> read(const std::string& text) {
  return read_policy(text, "policy.json", PiFamily::kPi05);
}

TEST(PolicyJson, reads_every_key) {
  auto read_back = read(kWhole);
  ASSERT_TRUE(read_back) << read_back.error().text;
  const PolicyDescription& p = read_back.value();
  ASSERT_EQ(p.cameras.size(), 2u);
  EXPECT_EQ(p.cameras[0].name, "top");  // by slot, not by place in the file
  EXPECT_EQ(p.cameras[1].name, "wrist");
  EXPECT_FALSE(p.cameras[1].required);
  EXPECT_TRUE(p.cameras[1].rotate_180);
  EXPECT_EQ(p.cameras[1].width, 64);
  EXPECT_EQ(p.state_width(), 3);
  EXPECT_EQ(p.state_convert, (std::vector<AffineDim>{{2, 0.1, -0.3}, {1, 1, 0}}));
  EXPECT_EQ(p.delta_mask, (std::vector<bool>{true, false}));
  EXPECT_EQ(p.action_convert, (std::vector<AffineDim>{{0, 2, 0}, {0, 1, 0}}));
  EXPECT_EQ(p.default_prompt, "tidy \"up\"");
  EXPECT_EQ(p.prompt_rule, PromptRule::kLerobot);
  EXPECT_EQ(p.too_long, TooLong::kCut);
  EXPECT_EQ(p.action_form, NormForm::kZScore);
  EXPECT_EQ(p.statistics.state.q99, (std::vector<double>{1, 2}));
  EXPECT_EQ(p.resize, ResizeChoice::kTorch);
  EXPECT_EQ(p.horizon, 12);
  EXPECT_EQ(p.rate_hz, 20.5);
  EXPECT_EQ(p.model.vision_heads, 3);
  EXPECT_TRUE(check_policy(p, PiFamily::kPi05)) << check_policy(p, PiFamily::kPi05).error().text;
}

TEST(PolicyJson, what_is_printed_reads_back_as_the_same) {
  for (const std::string& text :
       {std::string(kWhole), std::string(R"({"robot": "aloha"})"),
        std::string(R"({"robot": "libero", "prompt": {"default": "a\n\u0007b"}})")}) {
    auto first = read(text);
    ASSERT_TRUE(first) << first.error().text;
    const std::string printed = policy_json(first.value());
    auto second = read(printed);
    ASSERT_TRUE(second) << second.error().text << "\n" << printed;
    EXPECT_EQ(policy_json(second.value()), printed);
    EXPECT_EQ(second.value().statistics.state, first.value().statistics.state);
    EXPECT_EQ(second.value().default_prompt, first.value().default_prompt);
    EXPECT_EQ(second.value().delta_mask, first.value().delta_mask);
  }
}

TEST(PolicyJson, refuses_with_key_value_and_what_is_allowed) {
  struct Row {
    const char *text, *says;
  };
  const Row rows[] = {
      {"", "policy.json"},
      {"[]", "wanted an object"},
      {R"({"robbot": "libero"})", "unknown key \"robbot\"; allowed here: robot"},
      {R"({"robot": "ur5"})", "\"ur5\", allowed is \"custom\", \"libero\""},
      {R"({"robot": "libero", "robot": "droid"})", "robot"},
      {R"({"family": 5})", "family is 5"},
      {R"({"cameras": {}})", "cameras is an object"},
      {R"({"cameras": [{"name": "a"}]})", "slot is missing"},
      {R"({"cameras": [{"name": "a", "slot": "left"}]})", "\"left\", allowed is \"base_0_rgb\""},
      {R"({"cameras": [{"name": "a", "slot": "base_0_rgb", "width": 4}]})", "both or neither"},
      {R"({"cameras": [{"name": "a", "slot": "base_0_rgb", "Height": 4}]})", "Height"},
      {R"({"cameras": [1, 2, 3, 4]})", "at most 3"},
      {R"({"state": {"fields": [{"name": "x"}]}})", "name and size"},
      {R"({"state": {"fields": [{"name": "x", "size": 0}]}})", "size is 0"},
      {R"({"state": {"fields": [{"name": "x", "size": 2.5}]}})", "2.5"},
      {R"({"state": {"convert": [{"from": -1}]}})", "from is -1"},
      {R"({"state": {"convert": [{"scale": "1"}]}})", "scale is \"1\""},
      {R"({"actions": {"size": 0}})", "size is 0"},
      {R"({"actions": {"delta_mask": [6, true]}})", "delta_mask"},
      {R"({"actions": {"delta_mask": [0]}})", "run of 0"},
      {R"({"actions": {"delta_mask": [99999999]}})", "99999999"},
      {R"({"actions": {"names": [1]}})", "names is 1"},
      {R"({"prompt": {"max_tokens": 2000}})", "0..1024"},
      {R"({"prompt": {"state_in_text": 1}})", "true or false"},
      {R"({"prompt": {"too_long": "drop"}})", "\"refuse\", \"cut\""},
      {R"({"normalisation": {"state": "zscore"}})", "\"z_score\""},
      {R"({"normalisation": {"epsilon": 0}})", "epsilon is 0"},
      {R"({"statistics": {"state": {"mean": [1], "std": [1, 2]}}})", "std has 2"},
      {R"({"resize": "cv2"})", "\"pil\""},
      {R"({"horizon": -1})", "horizon is -1"},
      {R"({"rate_hz": "20"})", "rate_hz"},
      {R"({"adapt_to_pi": "yes"})", "adapt_to_pi"},
      {R"({"model": {"heads": 8}})", "heads"},
      {R"({"tokenizer": "a\u0000b"})", "tokenizer"},
  };
  for (const Row& row : rows) {
    const auto policy = read(row.text);
    ASSERT_FALSE(policy) << row.text;
    EXPECT_EQ(policy.code(), Code::kInvalid) << row.text;
    EXPECT_NE(policy.error().message().find(row.says), std::string_view::npos)
        << row.text << " -> " << policy.error().text;
  }
}

TEST(PolicyJson, a_cut_document_is_refused_at_every_length) {
  const std::string text = kWhole;
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(read(text.substr(0, n))) << n;
}

TEST(PolicyDefaults, are_those_of_the_published_recipes) {
  const auto libero0 = policy_defaults(Robot::kLibero, PiFamily::kPi0),
             libero5 = policy_defaults(Robot::kLibero, PiFamily::kPi05);
  EXPECT_EQ(libero0.delta_mask, (delta_mask_of(std::array<int64_t, 2>{6, -1}).value()));
  EXPECT_TRUE(libero5.delta_mask.empty());
  EXPECT_FALSE(state_in_text(libero5, PiFamily::kPi05));
  EXPECT_EQ(libero5.state_width(), 8);
  EXPECT_EQ(libero5.action_width, 7);
  const auto droid = policy_defaults(Robot::kDroid, PiFamily::kPi05);
  EXPECT_TRUE(droid.delta_mask.empty());
  EXPECT_TRUE(state_in_text(droid, PiFamily::kPi05));
  EXPECT_FALSE(state_in_text(droid, PiFamily::kPi0));
  EXPECT_EQ(droid.state_width(), 8);
  EXPECT_EQ(droid.action_width, 8);
  const auto aloha = policy_defaults(Robot::kAloha, PiFamily::kPi0);
  EXPECT_EQ(aloha.delta_mask.size(), 14u);
  EXPECT_FALSE(aloha.delta_mask[6]);
  EXPECT_FALSE(aloha.delta_mask[13]);
  EXPECT_TRUE(aloha.delta_mask[5] && aloha.delta_mask[12]);
  EXPECT_TRUE(aloha.cameras[0].required);
  EXPECT_FALSE(aloha.cameras[1].required);
  EXPECT_EQ(state_form(aloha, PiFamily::kPi0), NormForm::kZScore);
  EXPECT_EQ(state_form(aloha, PiFamily::kPi05), NormForm::kQuantile);
  EXPECT_EQ(max_tokens(aloha, PiFamily::kPi0), 48);
  EXPECT_EQ(max_tokens(aloha, PiFamily::kPi05), 200);
}

TEST(CheckPolicy, FC16_names_and_slots_must_be_one_to_one) {
  const PolicyDescription good = small_robot(2, 2);
  EXPECT_TRUE(check_policy(good, PiFamily::kPi0));
  const auto refused = [&](std::vector<PolicyCamera> cameras, const char* says) {
    PolicyDescription p = good;
    p.cameras = std::move(cameras);
    const auto checked = check_policy(p, PiFamily::kPi0);
    ASSERT_FALSE(checked) << says;
    EXPECT_NE(checked.error().message().find(says), std::string_view::npos) << checked.error().text;
  };
  refused({}, "0 entries");
  refused({{"a", 0, true, false, 0, 0}, {"a", 1, true, false, 0, 0}}, "named twice");
  refused({{"a", 0, true, false, 0, 0}, {"b", 0, true, false, 0, 0}}, "both go to slot base_0_rgb");
  refused({{"a", 0, false, false, 0, 0}}, "every camera is optional");
  refused({{"", 0, true, false, 0, 0}}, "name");
  refused({{"state", 0, true, false, 0, 0}}, "as another port is");
  refused({{"a b", 0, true, false, 0, 0}}, "without blanks");
  refused({{std::string(91, 'x'), 0, true, false, 0, 0}}, "1..90");
}

TEST(CheckPolicy, refuses_what_contradicts_itself) {
  const PolicyDescription good = small_robot(3, 4);
  EXPECT_TRUE(check_policy(good, PiFamily::kPi05));
  PolicyDescription p = good;
  p.family = PiFamily::kPi0;
  EXPECT_EQ(check_policy(p, PiFamily::kPi05).code(), Code::kNotFound);
  p = good, p.state.clear();
  EXPECT_EQ(check_policy(p, PiFamily::kPi05).code(), Code::kInvalid);
  p = good, p.action_width = 0;
  EXPECT_EQ(check_policy(p, PiFamily::kPi05).code(), Code::kInvalid);
  p = good, p.action_names = {"a"};
  EXPECT_EQ(check_policy(p, PiFamily::kPi05).code(), Code::kShape);
}

TEST(CheckPolicy, FC23_a_mask_of_another_length_is_refused) {
  for (const size_t n : {1u, 3u, 5u, 32u}) {
    PolicyDescription p = small_robot(6, 4);
    p.delta_mask.assign(n, true);
    const auto checked = check_policy(p, PiFamily::kPi05);
    ASSERT_FALSE(checked) << n;
    EXPECT_EQ(checked.code(), Code::kShape);
    EXPECT_NE(checked.error().message().find("delta_mask covers"), std::string_view::npos);
  }
  PolicyDescription p = small_robot(2, 4);  // nothing to add for the third
  p.delta_mask = {true, true, true, false};
  const auto checked = check_policy(p, PiFamily::kPi05);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("dimension 2"), std::string_view::npos);
  p.delta_mask = {true, true, false, false};
  EXPECT_TRUE(check_policy(p, PiFamily::kPi05));
}

TEST(CheckPolicy, FC18_missing_statistics_are_refused_unless_units_are_normalised) {
  PolicyDescription p = small_robot(3, 4);
  p.statistics = {};
  auto checked = check_policy(p, PiFamily::kPi0);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.code(), Code::kNotFound);
  EXPECT_NE(checked.error().message().find("no statistics found"), std::string_view::npos)
      << checked.error().text;
  EXPECT_NE(checked.error().message().find("\"none\""), std::string_view::npos)
      << checked.error().text;
  p.statistics.state = plain_statistics(3);
  checked = check_policy(p, PiFamily::kPi0);  // state but no actions
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("actions"), std::string_view::npos);
  p.statistics.actions = plain_statistics(3);  // of other length
  EXPECT_EQ(check_policy(p, PiFamily::kPi0).code(), Code::kShape);
  p.statistics = {};
  p.state_form = p.action_form = NormForm::kNone;
  EXPECT_TRUE(check_policy(p, PiFamily::kPi0));
}

}  // namespace
}  // namespace outrider::policy_test
