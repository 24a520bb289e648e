// Field cases that several parts share.
#include "policy/pipeline.h"
#include "policy/prompt.h"
#include "policy/support.h"

namespace outrider::policy_test {
namespace {

// FC-25: the two forms are not each other; which one holds is part of the description.
TEST(PolicyFieldCases, FC25_the_form_is_kept_with_the_numbers) {
  PolicyDescription p = small_robot(2, 2);
  const std::vector<float> state = {0.5f, 0.5f};
  auto by_family = PolicyPipeline::make(p, PiFamily::kPi05, 4, 2);
  ASSERT_TRUE(by_family);
  p.state_form = NormForm::kZScore;
  auto by_word = PolicyPipeline::make(p, PiFamily::kPi05, 4, 2);
  ASSERT_TRUE(by_word);
  by_family.value().take_state(state);
  by_word.value().take_state(state);
  EXPECT_NE(by_family.value().normalised_state()[0], by_word.value().normalised_state()[0]);
  EXPECT_NE(policy_json(p).find("\"state\":\"z_score\""), std::string::npos);
}

// FC-06: a swept state changes the number of ids; nothing is cut and nothing allocated for it.
TEST(PolicyFieldCases, FC06_every_length_that_states_can_give_is_written) {
  const std::string bytes = small_model_file().bytes();
  auto tokenizer = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), "t.model");
  ASSERT_TRUE(tokenizer);
  auto prompt = PolicyPrompt::make(small_robot(8, 2), PiFamily::kPi05, tokenizer.value(), 1024);
  ASSERT_TRUE(prompt);
  std::vector<int32_t> ids(1024);
  size_t least = SIZE_MAX, most = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<double> state(8);
    for (size_t k = 0; k < 8; ++k)
      state[k] = -1.0 + 2.0 * ((i * (static_cast<int>(k) + 1)) % 256) / 256.0;
    const auto written = prompt.value().write("pick up the red cup", state, ids);
    ASSERT_EQ(written.code, Code::kOk);
    least = std::min(least, written.n_ids);
    most = std::max(most, written.n_ids);
  }
  EXPECT_GT(most, least);
  EXPECT_LE(most - least, 16u);  // 8 numbers of 1 to 3 digits
}

}  // namespace
}  // namespace outrider::policy_test
