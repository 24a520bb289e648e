// Instruction to ids, by every rule. FC-05, FC-07.
#include "policy/prompt.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "policy/support.h"

namespace outrider::policy_test {
namespace {

SpmTokenizer small_tokenizer() {
  const std::string bytes = small_model_file().bytes();
  auto made = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), "small.model");
  EXPECT_TRUE(made) << made.error().text;
  return std::move(made.value());
}

struct Prompt {
  PolicyPrompt writer;
  std::vector<int32_t> ids = std::vector<int32_t>(1024);
  PolicyPrompt::Written last = {};
  std::vector<int32_t> operator()(std::string_view text, std::vector<double> state = {}) {
    last = writer.write(text, state, ids);
    return {ids.begin(), ids.begin() + static_cast<int64_t>(last.n_ids)};
  }
};

Prompt make(const SpmTokenizer& tokenizer, PiFamily family, bool in_text, PromptRule rule,
            int64_t max_tokens = 0, TooLong too_long = TooLong::kRefuse) {
  PolicyDescription p = small_robot(2, 2);
  p.state_in_text = in_text;
  p.prompt_rule = rule;
  p.max_tokens = max_tokens;
  p.too_long = too_long;
  auto made = PolicyPrompt::make(p, family, tokenizer, 16384);
  EXPECT_TRUE(made) << made.error().text;
  return {std::move(made.value())};
}

TEST(PolicyPrompt, FC05_every_recorded_prompt_gives_the_recorded_ids) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-preproc");
  OUTRIDER_NEED_SHARED(model, "golden/openpi-spm/tiny.model");
  const std::string bytes = read_file(model);
  auto tokenizer = SpmTokenizer::from_sentencepiece(std::as_bytes(std::span(bytes)), model);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text;
  const Json meta = read_json(folder + "/meta.json");
  int n_same = 0, n_cut = 0;
  for (const Json& sample : meta.find("prompts")->items()) {
    const bool in_text = sample.find("state")->is_array();
    PolicyDescription p = small_robot(8, 2);
    p.state_in_text = in_text;
    p.max_tokens = sample.find("max_len")->integer();
    auto writer = PolicyPrompt::make(p, PiFamily::kPi05, tokenizer.value(), 16384);
    ASSERT_TRUE(writer);
    std::vector<int32_t> ids(1024);
    const std::vector<double> state =
        in_text ? doubles(*sample.find("state")) : std::vector<double>();
    const auto written = writer.value().write(sample.find("prompt")->text(), state, ids);
    std::vector<int32_t> wanted = ids_of(*sample.find("tokens"));
    if (written.code == Code::kShape) {  // the reference cuts there and loses the action cue
      EXPECT_EQ(sample.find("mask_len")->integer(), p.max_tokens);
      EXPECT_GT(written.n_wanted, static_cast<size_t>(p.max_tokens));
      ++n_cut;
      continue;
    }
    ASSERT_EQ(written.code, Code::kOk);
    wanted.resize(static_cast<size_t>(sample.find("mask_len")->integer()));
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<int64_t>(written.n_ids)),
              wanted)
        << sample.find("prompt")->text();
    ++n_same;
  }
  EXPECT_GT(n_same, 20);
  EXPECT_GT(n_cut, 3);
}

// A vocabulary in which the last letter and the newline are one piece: only an instruction whose
// newline is tokenised apart has both ids, as PI0 was trained.
SpmTokenizer joining_tokenizer() {
  SpmVocab vocab;
  vocab.pieces = {{"<pad>", 0, PieceType::kControl}, {"<eos>", 0, PieceType::kControl},
                  {"<bos>", 0, PieceType::kControl}, {"<unk>", 0, PieceType::kUnknown},
                  {"p", -1, PieceType::kNormal},     {"\n", -1, PieceType::kNormal},
                  {"p\n", -0.5f, PieceType::kNormal}};
  vocab.bos = 2, vocab.eos = 1, vocab.unk = 3, vocab.pad = 0;
  vocab.add_space_prefix = false;
  auto made = SpmTokenizer::from_vocab(std::move(vocab));
  EXPECT_TRUE(made) << made.error().text;
  return std::move(made.value());
}

TEST(PolicyPrompt, FC05_the_newline_of_pi0_is_tokenised_apart_from_the_instruction) {
  const SpmTokenizer tokenizer = joining_tokenizer();
  using Ids = std::vector<int32_t>;
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    auto openpi = make(tokenizer, family, false, PromptRule::kOpenpi);
    EXPECT_EQ(openpi("p"), (Ids{2, 4, 5}));
    EXPECT_EQ(openpi("p\n"), (Ids{2, 4, 5})) << "trimmed first";
    auto lerobot = make(tokenizer, family, false, PromptRule::kLerobot);
    EXPECT_EQ(lerobot("p"), (Ids{2, 6})) << "LeRobot tokenises both in one go";
  }
}

TEST(PolicyPrompt, FC05_variants_of_one_instruction_mean_the_same) {
  const SpmTokenizer tokenizer = small_tokenizer();
  for (const bool in_text : {false, true}) {
    for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
      if (in_text && family == PiFamily::kPi0) continue;
      Prompt prompt = make(tokenizer, family, in_text, PromptRule::kOpenpi);
      const auto clean = prompt("pick up the cup", {0, 0.5});
      ASSERT_FALSE(clean.empty());
      for (const char* same : {"pick up the cup\n", "pick up the cup\r\n", "pick up the cup\n\n",
                               "  pick up the cup  ", "\tpick up the cup\t", "pick_up_the_cup"})
        EXPECT_EQ(prompt(same, {0, 0.5}), clean) << same;
      EXPECT_NE(prompt("Pick up the cup", {0, 0.5}), clean);  // case is kept
      if (!in_text) {
        EXPECT_EQ(std::count(clean.begin(), clean.end(), 4), 1) << "one newline";
        EXPECT_EQ(clean.back(), 4);
      }
      EXPECT_EQ(clean.front(), 2);
      EXPECT_EQ(std::count(clean.begin(), clean.end(), 2), 1);
    }
  }
}

TEST(PolicyPrompt, FC05_no_newline_behind_the_cue_when_the_state_is_in_the_text) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt prompt = make(tokenizer, PiFamily::kPi05, true, PromptRule::kOpenpi);
  prompt("pick up", {-1.5, 0});
  EXPECT_EQ(prompt.writer.text(), "Task: pick up, State: -1 128;\nAction: ");
  EXPECT_TRUE(prompt.writer.reads_state());
}

TEST(PolicyPrompt, PI0_and_the_recipe_without_state_read_no_state) {
  const SpmTokenizer tokenizer = small_tokenizer();
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    Prompt prompt = make(tokenizer, family, family == PiFamily::kPi0, PromptRule::kOpenpi);
    EXPECT_FALSE(prompt.writer.reads_state());
    EXPECT_EQ(prompt("pick up", {0.1, 0.2}), prompt("pick up", {0.9, -3}));
  }
}

TEST(PolicyPrompt, the_lerobot_rule_keeps_underscores_and_adds_one_newline_at_most) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt lerobot = make(tokenizer, PiFamily::kPi0, false, PromptRule::kLerobot),
         openpi = make(tokenizer, PiFamily::kPi0, false, PromptRule::kOpenpi);
  EXPECT_EQ(lerobot("pick up"), openpi("pick up"));
  EXPECT_EQ(lerobot("pick up\n"), openpi("pick up"));
  EXPECT_NE(lerobot("pick_up"), openpi("pick_up"));
  EXPECT_NE(lerobot(" pick up"), openpi(" pick up"));
  // PI0.5's text is openpi's.
  Prompt lerobot5 = make(tokenizer, PiFamily::kPi05, true, PromptRule::kLerobot),
         openpi5 = make(tokenizer, PiFamily::kPi05, true, PromptRule::kOpenpi);
  EXPECT_EQ(lerobot5(" pick_up \n", {0, 1}), openpi5(" pick_up \n", {0, 1}));
}

TEST(PolicyPrompt, bins_are_taken_in_double) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt prompt = make(tokenizer, PiFamily::kPi05, true, PromptRule::kOpenpi);
  prompt("x", {-1e-12, 1 - 1.0 / 128 - 1e-13});
  EXPECT_EQ(prompt.writer.text(), "Task: x, State: 127 254;\nAction: ");
}

TEST(PolicyPrompt, the_bins_of_jetson_pi_are_those_of_f32) {
  const SpmTokenizer tokenizer = small_tokenizer();
  auto made =
      PolicyPrompt::make(small_robot(2, 2), PiFamily::kPi05, tokenizer, 1024, StateBins::kJetsonPi);
  ASSERT_TRUE(made);
  std::vector<int32_t> ids(1024);
  const std::vector<double> state = {-1e-9, 0.5};
  ASSERT_EQ(made.value().write("x", state, ids).code, Code::kOk);
  EXPECT_EQ(made.value().text(), "Task: x, State: 128 192;\nAction: ");
}

TEST(PolicyPrompt, control_pieces_in_an_instruction_stay_text) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt prompt = make(tokenizer, PiFamily::kPi0, false, PromptRule::kOpenpi);
  const auto ids = prompt("<pad></s><s>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
  EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [](int32_t id) { return id < 2 || id == 3; }), 0);
}

TEST(PolicyPrompt, FC07_too_long_is_refused_with_both_counts) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt prompt = make(tokenizer, PiFamily::kPi0, false, PromptRule::kOpenpi, 10);
  EXPECT_EQ(prompt("!!!!!!!!").size(), 10u);  // begin, 8, newline
  EXPECT_EQ(prompt.last.code, Code::kOk);
  prompt("!!!!!!!!!");
  EXPECT_EQ(prompt.last.code, Code::kShape);
  EXPECT_EQ(prompt.last.n_wanted, 11u);
  prompt(std::string(100, '!'));
  EXPECT_EQ(prompt.last.n_wanted, 102u);
  prompt(std::string(20000, '!'));  // beyond the bytes it was made for
  EXPECT_EQ(prompt.last.code, Code::kShape);
  prompt("\xff");
  EXPECT_EQ(prompt.last.code, Code::kInvalid);
}

TEST(PolicyPrompt, FC07_cutting_takes_from_the_instruction_alone) {
  const SpmTokenizer tokenizer = small_tokenizer();
  for (const int64_t max : {44, 45, 46, 60}) {
    Prompt prompt = make(tokenizer, PiFamily::kPi05, true, PromptRule::kOpenpi, max, TooLong::kCut);
    const auto ids = prompt(std::string(300, '!'), {0, 1});
    ASSERT_EQ(prompt.last.code, Code::kOk) << max;
    EXPECT_TRUE(prompt.last.cut());
    EXPECT_EQ(static_cast<int64_t>(ids.size()), max) << "as much as fits";
    EXPECT_TRUE(prompt.writer.text().ends_with(", State: 128 255;\nAction: "));
    EXPECT_TRUE(prompt.writer.text().starts_with("Task: !"));
    // Four-byte characters are kept whole.
    std::string faces;
    for (int i = 0; i < 80; ++i) faces += "\U0001F600";
    prompt(faces, {0, 1});
    ASSERT_EQ(prompt.last.code, Code::kOk);
    EXPECT_TRUE(prompt.writer.text().ends_with("\U0001F600, State: 128 255;\nAction: ") ||
                prompt.writer.text().starts_with("Task: , "))
        << prompt.writer.text();
  }
  // Not even the frame fits.
  Prompt none = make(tokenizer, PiFamily::kPi05, true, PromptRule::kOpenpi, 20, TooLong::kCut);
  none(std::string(300, '!'), {0, 1});
  EXPECT_EQ(none.last.code, Code::kShape);
}

TEST(PolicyPrompt, FC07_a_short_one_is_never_cut) {
  const SpmTokenizer tokenizer = small_tokenizer();
  Prompt prompt = make(tokenizer, PiFamily::kPi0, false, PromptRule::kOpenpi, 10, TooLong::kCut);
  EXPECT_EQ(prompt("!!").size(), 4u);
  EXPECT_FALSE(prompt.last.cut());
  EXPECT_EQ(prompt(std::string(9, '!')).size(), 10u);
  EXPECT_TRUE(prompt.last.cut());
  EXPECT_EQ(prompt.ids[9], 4) << "the newline stays";
}

// PI0-FAST: lower case, the state always, no cue; a newline inside an instruction stays.
TEST(PolicyPrompt, FC05_pi0_fast_has_lower_case_and_no_action_cue) {
  OUTRIDER_NEED_SHARED(path, "golden/openpi-spm/tiny.model");
  const auto file = MappedFile::open(path.c_str());
  ASSERT_TRUE(file);
  const auto tokenizer = SpmTokenizer::from_sentencepiece(file.value().bytes(), "tiny.model");
  ASSERT_TRUE(tokenizer);
  PolicyDescription policy;
  policy.state = {{"joints", 3, ""}};
  auto prompt = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  ASSERT_TRUE(prompt);
  EXPECT_TRUE(prompt.value().reads_state());
  EXPECT_EQ(prompt.value().max_tokens(), 250);
  const std::vector<double> state = {-1.5, 0, 1};
  std::vector<int32_t> ids(1024);
  const std::string wanted = "Task: pick up\nthe red cup, State: -1 128 255;\n";
  for (const char* text : {"pick up\nthe red cup", "  Pick_UP\nThe red_CUP\n\r\n "}) {
    const auto written = prompt.value().write(text, state, ids);
    ASSERT_EQ(written.code, Code::kOk);
    EXPECT_EQ(prompt.value().text(), wanted);
    const auto encoded =
        tokenizer.value().encode(wanted, {.add_special = false, .parse_special = false});
    ASSERT_TRUE(encoded);
    std::vector<int32_t> expected = {2};
    expected.insert(expected.end(), encoded.value().begin(), encoded.value().end());
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<int64_t>(written.n_ids)),
              expected);
  }
  // More bytes in lower case than before, at the limit of the buffer.
  std::string capitals;
  while (capitals.size() + 2 <= 4096) capitals += "\xC8\xBA";  // U+023A, lower case U+2C65
  EXPECT_EQ(prompt.value().write(capitals, state, ids).code, Code::kShape);
  // Beyond the budget: refused with the count, or the instruction alone is cut.
  std::string words;
  for (int i = 0; i < 400; ++i) words += "red ";
  EXPECT_EQ(prompt.value().write(words, state, ids).code, Code::kShape);
  policy.too_long = TooLong::kCut;
  auto cutting = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  ASSERT_TRUE(cutting);
  EXPECT_TRUE(cutting.value().write(words, state, ids).cut());
  EXPECT_TRUE(cutting.value().text().ends_with(", State: -1 128 255;\n"));
}

// LeRobot keeps the case and puts a second begin id behind the text.
TEST(PolicyPrompt, FC05_lerobots_pi0_fast_keeps_the_case_and_ends_with_a_begin_id) {
  OUTRIDER_NEED_SHARED(path, "golden/openpi-spm/tiny.model");
  const auto file = MappedFile::open(path.c_str());
  ASSERT_TRUE(file);
  const auto tokenizer = SpmTokenizer::from_sentencepiece(file.value().bytes(), "tiny.model");
  ASSERT_TRUE(tokenizer);
  PolicyDescription policy;
  policy.state = {{"joints", 3, ""}};
  policy.prompt_rule = PromptRule::kLerobot;
  policy.max_tokens = 60;
  auto prompt = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  ASSERT_TRUE(prompt);
  EXPECT_EQ(prompt.value().max_tokens(), 61) << "the begin id behind is LeRobot's own";
  const std::vector<double> state = {-1.5, 0, 1};
  std::vector<int32_t> ids(1024);
  const std::string wanted = "Task: Pick UP the red cup, State: -1 128 255;\n";
  auto expected = tokenizer.value().encode(wanted, {.add_special = false, .parse_special = false});
  ASSERT_TRUE(expected);
  expected.value().insert(expected.value().begin(), 2);
  expected.value().push_back(2);
  for (const char* text : {"Pick UP the red cup", "\t Pick_UP\nthe red_cup \r\n"}) {
    const auto written = prompt.value().write(text, state, ids);
    ASSERT_EQ(written.code, Code::kOk);
    EXPECT_EQ(prompt.value().text(), wanted);
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<int64_t>(written.n_ids)),
              expected.value());
  }
  // At the budget, one beyond it, and cut with both begin ids and the state kept.
  policy.max_tokens = static_cast<int64_t>(expected.value().size()) - 1;
  auto exact = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  EXPECT_EQ(exact.value().write("Pick UP the red cup", state, ids).code, Code::kOk);
  --policy.max_tokens;
  auto tight = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  EXPECT_EQ(tight.value().write("Pick UP the red cup", state, ids).code, Code::kShape);
  policy.too_long = TooLong::kCut;
  auto cutting = PolicyPrompt::make(policy, PiFamily::kPi0Fast, tokenizer.value(), 4096);
  const auto cut = cutting.value().write("Pick UP the red cup", state, ids);
  EXPECT_TRUE(cut.cut());
  EXPECT_EQ(ids[0], 2);
  EXPECT_EQ(ids[cut.n_ids - 1], 2);
  EXPECT_TRUE(cutting.value().text().ends_with(", State: -1 128 255;\n"));
}

}  // namespace
}  // namespace outrider::policy_test
