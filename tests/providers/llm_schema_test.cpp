// Answers that follow a JSON schema: every id is the one that the rule picks among the allowed.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/json.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "models/synthetic_llm.h"
#include "providers/llm_fixture.h"
#include "support/hot_counter.h"
#include "support/reference_files.h"
#include "support/shared_data.h"
#include "text/constraint.h"

namespace outrider::test {
namespace {

using P = LlmProvider;

// A planner's steps: names of tools, a text with characters of two to four bytes, a small number.
constexpr const char* kPlan =
    R"({"type":"object","properties":{
          "steps":{"type":"array","minItems":1,"maxItems":2,"items":{
            "type":"object","properties":{
              "tool":{"enum":["move","grip","séjour 你好 😀"]},
              "times":{"type":"integer","minimum":-3,"maximum":12},
              "note":{"type":"string","maxLength":3}},
            "required":["tool","times"]}},
          "done":{"type":"boolean"}},
        "required":["steps","done"]})";

class SchemaFile {
 public:
  explicit SchemaFile(const std::string& text, const char* name = "schema.json")
      : path_(dir_.file(name)) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  std::string key() const { return R"("schema_path":")" + path_ + "\""; }
  const std::string& path() const { return path_; }

 private:
  TempDir dir_;
  std::string path_;
};

LlmSpec planner(const SchemaFile& schema, const std::string& model) {
  LlmSpec spec;
  spec.model = model;
  spec.n_ctx = 512;
  spec.max_tokens = 400;
  spec.extra = schema.key();
  return spec;
}

// A plan in the sense of kPlan, checked without the automaton.
void expect_plan(const std::string& text) {
  const auto plan = Json::parse(text);
  ASSERT_TRUE(plan) << text << ": " << plan.error().text;
  ASSERT_TRUE(plan.value().find("done") != nullptr && plan.value().find("done")->is_bool()) << text;
  const Json* steps = plan.value().find("steps");
  ASSERT_NE(steps, nullptr) << text;
  EXPECT_TRUE(steps->items().size() == 1 || steps->items().size() == 2) << text;
  for (const Json& step : steps->items()) {
    EXPECT_TRUE(std::set<std::string>({"move", "grip", "séjour 你好 😀"})
                    .contains(step.find("tool")->text()))
        << text;
    EXPECT_TRUE(step.find("times")->is_integer()) << text;
    EXPECT_TRUE(step.find("times")->integer() >= -3 && step.find("times")->integer() <= 12) << text;
    EXPECT_LE(step.members().size(), 3u) << text;
  }
}

class Planner : public testing::Test {
 protected:
  const SchemaFile schema_{kPlan};
};

TEST_F(Planner, whatever_is_drawn_is_a_plan_and_ends_by_itself) {
  std::set<std::string> texts;
  for (int64_t seed = 1; seed <= 25; ++seed) {
    LlmSpec spec = planner(schema_, tiny_llm());
    spec.temp = 4;
    spec.seed = seed;
    const LlmProvider provider(spec);
    ASSERT_TRUE(provider.ok());
    for (const char* prompt : {"pick up the red block", "open the drawer"}) {
      ASSERT_EQ(provider.prompt(prompt), 0);
      ASSERT_EQ(provider.step(), 0) << provider.error();
      expect_plan(provider.text());
      texts.insert(provider.text());
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(provider.counter("eog_ends"), 2) << provider.text();
  }
  EXPECT_GT(texts.size(), 20u) << "they are not all one plan";
}

TEST_F(Planner, the_whole_and_its_stages_write_the_same_and_a_new_prefill_begins_anew) {
  LlmSpec spec = planner(schema_, tiny_llm());
  const LlmProvider provider(spec);
  ASSERT_TRUE(provider.ok());
  ASSERT_EQ(provider.prompt("stack the cups"), 0);
  ASSERT_EQ(provider.step(), 0) << provider.error();
  const std::string whole = provider.text();
  expect_plan(whole);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(provider.prefill(), 0);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(provider.decode(), 0);  // then given up
    ASSERT_EQ(provider.prefill(), 0);
    do ASSERT_EQ(provider.decode(), 0) << provider.error();
    while (provider.integer(P::kIsEog) == 0);
    EXPECT_EQ(provider.text(), whole);
    EXPECT_LT(provider.decode(), 0);
  }
  spec.extra += R"(,"plan":"infer")";
  const LlmProvider at_once(spec);
  ASSERT_EQ(at_once.prompt("stack the cups"), 0);
  ASSERT_EQ(at_once.step(), 0);
  EXPECT_EQ(at_once.text(), whole);
}

// The greedy id is the largest of the raw logits among the ids that the automaton allows; the
// lowest on a tie. `logits` shows them all, allowed or not.
void expect_best_of_the_allowed(const std::string& model) {
  const auto file = GgufFile::open(model.c_str());
  ASSERT_TRUE(file);
  const auto tokenizer = LanguageTokenizer::from_gguf(file.value());
  ASSERT_TRUE(tokenizer);
  // Characters of two to four bytes whose pieces overlap: many ways to write each.
  const char* text =
      R"({"type":"array","minItems":3,"maxItems":3,"items":{"enum":["é","你好","😀","éé你","go go"]}})";
  const auto constraint = Constraint::compile(Json::parse(text).value(), tokenizer.value());
  ASSERT_TRUE(constraint) << constraint.error().text;
  const SchemaFile schema(text);
  const LlmProvider provider(planner(schema, model));
  ASSERT_TRUE(provider.ok()) << model;
  ASSERT_EQ(provider.tokens(some_ids(7)), 0);
  ASSERT_EQ(provider.prefill(), 0);
  Constraint::State state = constraint.value().start();
  std::string bytes;
  for (int i = 0; i < 200 && !state.ended; ++i) {
    const auto logits = provider.logits();
    const TokenMask mask = constraint.value().allowed(state);
    int32_t best = -1;
    for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
      if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) continue;
      if (best < 0 || logits[static_cast<size_t>(id)] > logits[static_cast<size_t>(best)])
        best = id;
    }
    ASSERT_GE(best, 0);
    ASSERT_EQ(provider.decode(), 0) << provider.error();
    ASSERT_EQ(provider.integer(P::kNextToken), best) << "after " << bytes;
    ASSERT_TRUE(constraint.value().advance(state, best));
    if (!state.ended) bytes += tokenizer.value().bytes(best);
  }
  EXPECT_TRUE(state.ended);
  EXPECT_EQ(provider.text(), bytes);
  const auto list = Json::parse(bytes);
  ASSERT_TRUE(list) << bytes;
  EXPECT_EQ(list.value().items().size(), 3u) << bytes;
}

TEST_F(Planner, every_id_is_the_best_of_the_allowed_with_single_byte_pieces) {
  expect_best_of_the_allowed(tiny_llm());
}

TEST_F(Planner, every_id_is_the_best_of_the_allowed_with_byte_level_merges) {
  const std::string folder = shared_path("golden/llm_qwen2_f16");
  if (folder.empty()) GTEST_SKIP() << "shared reference data is absent: golden/llm_qwen2_f16";
  const auto bytes = read_reference<char>(folder + "/meta.json");
  const auto meta = Json::parse({bytes.data(), bytes.size()});
  const Json& model = *meta.value().find("model");
  const std::string dir = reference_files(model.find("make_gguf")->text());
  if (dir.empty())
    GTEST_SKIP() << "the reference generator does not run here (python3-numpy missing?)";
  expect_best_of_the_allowed(dir + "/" + model.find("file")->text());
}

TEST_F(Planner, a_budget_that_ends_first_leaves_a_beginning) {
  LlmSpec spec = planner(schema_, tiny_llm());
  const LlmProvider provider(spec);
  ASSERT_EQ(provider.prompt("stack the cups"), 0);
  ASSERT_EQ(provider.step(), 0);
  const std::string whole = provider.text();
  spec.max_tokens = 6;
  const LlmProvider shorter(spec);
  ASSERT_EQ(shorter.prompt("stack the cups"), 0);
  ASSERT_EQ(shorter.step(), 0);
  EXPECT_LT(shorter.text().size(), whole.size());
  EXPECT_TRUE(whole.starts_with(shorter.text())) << shorter.text();
  EXPECT_EQ(shorter.counter("length_ends"), 1);
}

TEST_F(Planner, the_identity_changes_with_the_schema_and_not_with_its_place) {
  const auto fingerprint = [](const SchemaFile& schema) {
    const LlmProvider provider(planner(schema, tiny_llm()));
    EXPECT_TRUE(provider.ok());
    return provider.ok() ? provider->exp->fingerprint : 0;
  };
  const SchemaFile elsewhere(kPlan, "other.json"), other(R"({"enum":[1,2]})");
  EXPECT_EQ(fingerprint(schema_), fingerprint(elsewhere));
  EXPECT_NE(fingerprint(schema_), fingerprint(other));
  LlmSpec none = planner(schema_, tiny_llm());
  none.extra = R"("schema_path":"")";
  const LlmProvider without(none);
  ASSERT_TRUE(without.ok());
  none.extra.clear();
  const LlmProvider absent(none);
  EXPECT_EQ(without->exp->fingerprint, absent->exp->fingerprint);
  EXPECT_NE(fingerprint(schema_), absent->exp->fingerprint);
}

TEST(Schema, that_is_hostile_is_refused_and_a_good_one_opens_afterwards) {
  const auto code = [](const std::string& text) {
    const SchemaFile schema(text);
    return LlmProvider(planner(schema, tiny_llm())).open_code();
  };
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += R"({"type":"array","items":)";
  deep += "{}";
  for (int i = 0; i < 40; ++i) deep += "}";
  for (const std::string& bad :
       {std::string(), std::string("no json"), std::string("[]"),
        std::string("{\"type\":\"object\""), std::string(R"({"type":"number","type":"string"})"),
        deep, std::string(100'000, '['),
        std::string(R"({"type":"array","minItems":5,"maxItems":4})"),
        std::string(R"({"type":"string","maxLength":1000000})"),
        std::string(R"({"type":"array","maxItems":900000000,"items":{"type":"number"}})"),
        std::string(R"({"enum":[]})"), std::string(R"({"properties":{"a":{"$ref":"#"}}})"),
        std::string(R"({"title":")") + std::string(2 << 20, 'x') + "\"}"})
    EXPECT_EQ(code(bad), FRT_ERR_INVALID) << bad.substr(0, 60);
  for (const char* beyond :
       {R"({"type":"string","pattern":"(a+)+b"})", R"({"oneOf":[{"const":1}]})",
        R"({"$ref":"https://example.com/plan.json"})"})
    EXPECT_EQ(code(beyond), FRT_ERR_UNSUPPORTED) << beyond;
  const auto named = [](const std::string& path) {
    LlmSpec spec;
    spec.model = tiny_llm();
    spec.extra = R"("schema_path":")" + path + "\"";
    return LlmProvider(spec).open_code();
  };
  const TempDir dir;
  EXPECT_EQ(named(dir.file("absent.json")), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(named(dir.path()), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(code(kPlan), 0);
}

// A schema forces the emoji, whose four bytes are four ids here; the budget ends after each of
// them.
TEST(Schema, FC08_an_emoji_that_the_budget_cuts_never_leaves_half_a_character) {
  const SchemaFile schema(R"({"const":"a😀é"})");
  LlmSpec spec = planner(schema, tiny_llm());
  const LlmProvider whole(spec);
  ASSERT_EQ(whole.tokens(some_ids(5)), 0);
  ASSERT_EQ(whole.step(), 0);
  const std::string text = whole.text();
  EXPECT_TRUE(text.ends_with("\"a😀é\"")) << text;
  const auto n_ids = static_cast<int64_t>(whole.counter("sampled_tokens"));
  ASSERT_GE(n_ids, 8) << "four of the emoji, two of the letter, quotes, an end";
  int n_replaced = 0;
  for (int64_t n = 1; n < n_ids; ++n) {
    spec.max_tokens = n;
    const LlmProvider cut(spec);
    ASSERT_EQ(cut.tokens(some_ids(5)), 0);
    ASSERT_EQ(cut.prefill(), 0);
    std::string streamed;
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(cut.decode(), 0) << cut.error();
      const std::string now = cut.text();
      EXPECT_TRUE(utf8_valid(now)) << n << " ids, after " << i;
      EXPECT_TRUE(now.starts_with(streamed)) << "what was shown stays";
      streamed = now;
    }
    ASSERT_EQ(cut.tokens(some_ids(5)), 0);
    ASSERT_EQ(cut.step(), 0);
    EXPECT_EQ(cut.text(), streamed) << "the stream's parts make the whole";
    const std::string replacement = "\xEF\xBF\xBD";
    const bool replaced = streamed.ends_with(replacement);
    n_replaced += replaced ? 1 : 0;
    const std::string kept =
        replaced ? streamed.substr(0, streamed.size() - replacement.size()) : streamed;
    EXPECT_TRUE(text.starts_with(kept)) << kept;
    EXPECT_EQ(kept.find(replacement), std::string::npos) << "one at most";
  }
  EXPECT_EQ(n_replaced, 4) << "three places inside the emoji, one inside the letter";
}

TEST(Schema, costs_no_heap_and_no_lock_in_a_request) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  const SchemaFile schema(kPlan);
  LlmSpec spec = planner(schema, tiny_llm());
  spec.temp = 2;
  spec.n_threads = 2;
  const LlmProvider provider(spec);
  ASSERT_TRUE(provider.ok());
  const auto& verbs = provider->verbs;
  const std::string prompt = "pick up the red block";
  int worst = 0;
  hot_counter::arm();
  for (int tick = 0; tick < 3; ++tick) {
    worst = std::min(worst, verbs.set_input(provider->self, 0, prompt.data(), prompt.size(), -1));
    worst = std::min(worst, verbs.step(provider->self));
  }
  const HotCounts counts = hot_counter::disarm();
  EXPECT_EQ(worst, 0) << provider.error();
  EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
}

}  // namespace
}  // namespace outrider::test
