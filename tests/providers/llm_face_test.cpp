// The llm face: ports, plans, stale rules, budgets, the end of generation, the context limit.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "host/conform.h"
#include "providers/llm_fixture.h"

namespace outrider::test {
namespace {

using P = LlmProvider;

LlmSpec tiny(std::string extra = {}) {
  LlmSpec spec;
  spec.model = tiny_llm();
  spec.extra = std::move(extra);
  return spec;
}

void expect_nothing_ready(const LlmProvider& provider, const char* when) {
  for (const uint32_t port : {P::kText, P::kNextToken, P::kLogits, P::kIsEog})
    EXPECT_EQ(provider.read(port), FRT_ERR_NOT_READY) << "port " << port << " " << when;
}

TEST(LlmConform, both_plans_of_every_architecture_pass_the_contract_suite) {
  host::ConformOptions options;
  options.strict = true;
  for (const LlmArch arch : {LlmArch::kLlama, LlmArch::kQwen2, LlmArch::kQwen3, LlmArch::kGemma,
                             LlmArch::kGemma2, LlmArch::kGemma3, LlmArch::kQwen2Vl}) {
    for (const char* plan : {"staged", "infer"}) {
      LlmSpec spec = tiny(R"("plan":")" + std::string(plan) + '"');
      spec.model = tiny_llm({.arch = arch});
      const auto report = host::conform(llm_provider_path(), config_json(spec), options);
      EXPECT_GT(report.passed, 45);
      EXPECT_EQ(report.failed, 0) << llm_arch_name(arch) << " " << plan << "\n"
                                  << host::to_text(report);
    }
  }
}

TEST(LlmFace, ports_and_plan_are_those_of_the_family) {
  const LlmProvider staged(tiny()), whole(tiny(R"("plan":"infer")"));
  ASSERT_TRUE(staged.ok() && whole.ok());
  const char* names[] = {"prompt", "text", "next_token", "logits", "is_eog", "tokens"};
  ASSERT_EQ(staged->n_ports, 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_STREQ(staged->ports[i].name, names[i]);
  ASSERT_EQ(whole->n_ports, 2u);
  ASSERT_EQ(staged.plan()->n_stages, 3u);
  EXPECT_EQ(staged.plan()->stages[1].executor_ref, 91u);
  ASSERT_EQ(whole.plan()->n_stages, 1u);
  EXPECT_EQ(whole.plan()->stages[0].executor_ref, 37u);
  ASSERT_EQ(whole.prompt("pick up the cup"), 0);
  ASSERT_EQ(staged.prompt("pick up the cup"), 0);
  ASSERT_EQ(whole.stage("infer"), 0) << whole.error();
  ASSERT_EQ(staged.step(), 0);
  EXPECT_EQ(whole.text(), staged.text());
  EXPECT_EQ(whole.set(P::kTokens, "abcd", 4), FRT_ERR_INVALID);
}

TEST(LlmFace, nothing_runs_before_an_input_and_nothing_is_read_before_a_run) {
  const LlmProvider provider(tiny());
  expect_nothing_ready(provider, "after open");
  EXPECT_EQ(provider.prefill(), FRT_ERR_INVALID);
  EXPECT_NE(provider.error().find("prompt"), std::string::npos);
  EXPECT_LT(provider.decode(), 0);
  EXPECT_EQ(provider.step(), FRT_ERR_INVALID);
  EXPECT_EQ(provider.reset(), 0);
}

TEST(LlmFace, a_new_input_ends_the_session_until_prefill) {
  const LlmProvider provider(tiny());
  ASSERT_EQ(provider.prompt("open the drawer"), 0);
  ASSERT_EQ(provider.prefill(), 0);
  ASSERT_EQ(provider.decode(), 0);
  ASSERT_EQ(provider.prompt("close the lid"), 0);
  expect_nothing_ready(provider, "after a new prompt");
  EXPECT_LT(provider.decode(), 0) << "decode after a new input";
  expect_nothing_ready(provider, "after a refused decode");
  ASSERT_EQ(provider.prefill(), 0);
  EXPECT_EQ(provider.decode(), 0);
}

TEST(LlmFace, a_failed_input_drops_the_old_one_and_the_outputs) {
  const LlmProvider provider(tiny());
  const std::string broken = "\xff\xfe", huge(2 << 20, 'a');
  const int32_t outside[] = {640}, negative[] = {-1};
  struct Bad {
    uint32_t port;
    const void* data;
    uint64_t bytes;
  };
  for (const Bad& bad :
       {Bad{P::kPrompt, "", 0}, Bad{P::kPrompt, nullptr, 5}, Bad{P::kPrompt, broken.data(), 2},
        Bad{P::kPrompt, huge.data(), huge.size()}, Bad{P::kTokens, outside, 4},
        Bad{P::kTokens, negative, 4}, Bad{P::kTokens, "abcde", 5}, Bad{P::kTokens, "", 0}}) {
    ASSERT_EQ(provider.prompt("turn the cup"), 0);
    ASSERT_EQ(provider.prefill(), 0);
    ASSERT_EQ(provider.decode(), 0);
    EXPECT_EQ(provider.set(bad.port, bad.data, bad.bytes),
              bad.data == huge.data() ? FRT_ERR_SHAPE : FRT_ERR_INVALID)
        << bad.bytes;
    EXPECT_FALSE(provider.error().empty());
    expect_nothing_ready(provider, "after a refused input");
    EXPECT_EQ(provider.prefill(), FRT_ERR_INVALID) << "the old input is gone";
  }
}

TEST(LlmFace, an_unknown_port_changes_nothing) {
  const LlmProvider provider(tiny());
  ASSERT_EQ(provider.prompt("turn the cup"), 0);
  ASSERT_EQ(provider.prefill(), 0);
  ASSERT_EQ(provider.decode(), 0);
  const int32_t token = provider.integer(P::kNextToken);
  for (const uint32_t port : {uint32_t{P::kText}, uint32_t{P::kLogits}, 6u, UINT32_MAX})
    EXPECT_EQ(provider.set(port, "abcd", 4), FRT_ERR_INVALID);
  EXPECT_EQ(provider.integer(P::kNextToken), token);
  EXPECT_EQ(provider.decode(), 0) << provider.error();
}

TEST(LlmFace, outputs_tell_their_size_and_want_that_much) {
  const LlmProvider provider(tiny());
  ASSERT_EQ(provider.prompt("turn the cup"), 0);
  ASSERT_EQ(provider.prefill(), 0);
  ASSERT_EQ(provider.decode(), 0);
  const auto& get = provider->verbs.get_output;
  char bytes[8];
  uint64_t written = 7;
  EXPECT_EQ(get(provider->self, P::kNextToken, bytes, 8, nullptr, -1), FRT_ERR_INVALID);
  EXPECT_EQ(get(provider->self, P::kNextToken, bytes, 3, &written, -1), FRT_ERR_STORAGE);
  EXPECT_EQ(written, 4u);
  EXPECT_EQ(get(provider->self, P::kLogits, nullptr, 0, &written, -1), FRT_ERR_STORAGE);
  EXPECT_EQ(written, 640 * sizeof(float));
  for (const uint32_t port : {uint32_t{P::kPrompt}, uint32_t{P::kTokens}, 6u, UINT32_MAX})
    EXPECT_EQ(get(provider->self, port, bytes, 8, &written, -1), FRT_ERR_INVALID);
}

TEST(LlmFace, max_tokens_bounds_the_decodes_of_a_prefill) {
  LlmSpec spec = tiny();
  spec.max_tokens = 5;
  const LlmProvider provider(spec);
  ASSERT_EQ(provider.tokens(some_ids(6)), 0);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(provider.generate(5).size(), 5u) << "this model writes on";
    EXPECT_FALSE(provider.logits().empty());
    const std::string text = provider.text();
    EXPECT_LT(provider.decode(), 0);
    EXPECT_NE(provider.error().find("max_tokens"), std::string::npos) << provider.error();
    for (const uint32_t port : {P::kNextToken, P::kLogits, P::kIsEog})
      EXPECT_EQ(provider.read(port), FRT_ERR_NOT_READY);
    EXPECT_EQ(provider.text(), text);
    EXPECT_LT(provider.decode(), 0);
  }
  EXPECT_EQ(provider.counter("length_ends"), 2);
}

// A model whose end of turn is the fourth id that its twin would write.
TEST(LlmFace, the_end_of_generation_closes_the_session) {
  const auto prompt = some_ids(9);
  const LlmProvider twin(tiny());
  ASSERT_EQ(twin.tokens(prompt), 0);
  const auto ids = twin.generate(8);
  ASSERT_EQ(ids.size(), 8u);
  size_t at = 3;
  while (std::count(ids.begin(), ids.begin() + int64_t(at), ids[at]) > 0) ++at;
  ASSERT_LT(at, ids.size()) << "all ids of the twin repeat";
  LlmSpec spec = tiny();
  spec.model = tiny_llm({.end_of_turn = ids[at]});
  const LlmProvider provider(spec);
  ASSERT_EQ(provider.tokens(prompt), 0);
  const auto got = provider.generate(8);
  ASSERT_EQ(got, std::vector(ids.begin(), ids.begin() + int64_t(at) + 1));
  EXPECT_EQ(provider.integer(P::kIsEog), 1);
  EXPECT_EQ(provider.integer(P::kNextToken), ids[at]);
  EXPECT_EQ(provider.read(P::kLogits), FRT_ERR_NOT_READY);
  const std::string text = provider.text();
  EXPECT_LT(provider.decode(), 0);
  EXPECT_EQ(provider.text(), text) << "the text is kept";
  EXPECT_EQ(provider.integer(P::kNextToken), ids[at]);
  ASSERT_EQ(provider.tokens(prompt), 0);
  ASSERT_EQ(provider.step(), 0);
  EXPECT_EQ(provider.text(), text);
  EXPECT_EQ(provider.counter("eog_ends"), 2);
}

// An answer of nothing but the end of generation: finished and really empty.
TEST(LlmFace, a_finished_empty_text_is_read_as_empty) {
  const auto prompt = some_ids(9);
  const LlmProvider twin(tiny());
  ASSERT_EQ(twin.tokens(prompt), 0);
  LlmSpec spec = tiny();
  spec.model = tiny_llm({.end_of_turn = twin.generate(1)[0]});
  const LlmProvider provider(spec);
  ASSERT_EQ(provider.tokens(prompt), 0);
  ASSERT_EQ(provider.prefill(), 0);
  EXPECT_EQ(provider.read(P::kText), FRT_ERR_NOT_READY) << "nothing was written yet";
  ASSERT_EQ(provider.decode(), 0);
  uint64_t written = 9;
  EXPECT_EQ(provider->verbs.get_output(provider->self, P::kText, nullptr, 0, &written, -1), 0);
  EXPECT_EQ(written, 0u);
}

TEST(LlmFace, reset_restores_the_budget_and_keeps_the_input) {
  const LlmProvider provider(tiny());
  ASSERT_EQ(provider.tokens(some_ids(6)), 0);
  const auto first = provider.generate(4);
  ASSERT_EQ(provider.reset(), 0);
  expect_nothing_ready(provider, "after reset");
  EXPECT_LT(provider.decode(), 0);
  EXPECT_EQ(provider.generate(4), first);
}

TEST(LlmFace, step_honours_staged_tokens) {
  const LlmProvider provider(tiny());
  const auto ids = some_ids(7);
  ASSERT_EQ(provider.tokens(ids), 0);
  ASSERT_EQ(provider.step(), 0) << provider.error();
  const std::string by_ids = provider.text();
  ASSERT_EQ(provider.prompt("pick up the red block"), 0);
  ASSERT_EQ(provider.step(), 0);
  EXPECT_NE(provider.text(), by_ids);
  ASSERT_EQ(provider.tokens(ids), 0);
  ASSERT_EQ(provider.step(), 0);
  EXPECT_EQ(provider.text(), by_ids);
}

TEST(LlmFace, seeds_reproduce_and_differ) {
  std::set<std::vector<int32_t>> all;
  for (const int64_t seed : {1, 2, 3, 4}) {
    LlmSpec spec = tiny();
    spec.seed = seed;
    spec.temp = 2;
    const LlmProvider one(spec), two(spec);
    ASSERT_EQ(one.tokens(some_ids(6)), 0);
    ASSERT_EQ(two.tokens(some_ids(6)), 0);
    const auto ids = one.generate(12);
    EXPECT_EQ(two.generate(12), ids);
    EXPECT_EQ(one.generate(12), ids) << "prefill goes back to the seed";
    all.insert(ids);
  }
  EXPECT_GT(all.size(), 2u);
}

TEST(LlmFace, a_kept_prefix_changes_no_bit_and_is_counted) {
  const LlmProvider plain(tiny()), keeping(tiny(R"("reuse":"on")"));
  auto ids = some_ids(40);
  for (int turn = 0; turn < 4; ++turn) {
    for (const LlmProvider* provider : {&plain, &keeping}) {
      ASSERT_EQ(provider->tokens(ids), 0);
      ASSERT_EQ(provider->reset(), 0);
      ASSERT_EQ(provider->prefill(), 0);
    }
    ASSERT_EQ(keeping.logits(), plain.logits()) << "turn " << turn;
    ASSERT_EQ(keeping.generate(3), plain.generate(3));
    const auto more = some_ids(5, static_cast<uint32_t>(turn));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  EXPECT_EQ(plain.counter("reused_tokens"), 0);
  EXPECT_GT(keeping.counter("reused_tokens"), 100);
}

TEST(LlmFace, FC10_a_prompt_that_begins_with_the_bos_text_is_counted) {
  const LlmProvider provider(tiny());
  ASSERT_EQ(provider.prompt("<bos>pick up"), 0) << provider.error();
  EXPECT_EQ(provider.counter("doubled_bos"), 1);
  ASSERT_EQ(provider.prompt("pick up"), 0);
  EXPECT_EQ(provider.counter("doubled_bos"), 1);
}

// ---- FC-27 --------------------------------------------------------------------------------------

TEST(LlmFace, FC27_a_prompt_that_does_not_fit_is_refused_before_any_compute) {
  LlmSpec spec = tiny();
  spec.n_ctx = 32;
  const LlmProvider provider(spec), other(spec);
  ASSERT_EQ(other.tokens(some_ids(8)), 0);
  const auto wanted = other.generate(4);
  for (const size_t n : {33, 320}) {
    ASSERT_EQ(provider.tokens(some_ids(n)), 0);
    const int64_t before = provider.counter("evaluated_tokens");
    for (const bool whole : {false, true}) {
      EXPECT_EQ(whole ? provider.step() : provider.prefill(), FRT_ERR_SHAPE);
      EXPECT_NE(provider.error().find(std::to_string(n)), std::string::npos) << provider.error();
      EXPECT_NE(provider.error().find("32"), std::string::npos) << provider.error();
      EXPECT_EQ(provider.counter("evaluated_tokens"), before);
      expect_nothing_ready(provider, "after a prompt that does not fit");
    }
  }
  std::string text = "turn";
  while (text.size() < 1500) text += " turn";
  ASSERT_EQ(provider.prompt(text), 0) << provider.error();
  EXPECT_EQ(provider.prefill(), FRT_ERR_SHAPE);
  ASSERT_EQ(other.tokens(some_ids(8)), 0);
  EXPECT_EQ(other.generate(4), wanted) << "the other conversation is untouched";
  ASSERT_EQ(provider.tokens(some_ids(8)), 0);
  EXPECT_EQ(provider.generate(4), wanted) << "and so is this one";
}

TEST(LlmFace, FC27_generation_that_runs_into_the_end_stops_with_the_text_so_far) {
  LlmSpec spec = tiny(), wide = tiny();
  spec.n_ctx = 32;
  wide.n_ctx = 64;
  const LlmProvider provider(spec), roomy(wide);
  for (const size_t n : {30, 31, 32}) {
    ASSERT_EQ(provider.tokens(some_ids(n)), 0);
    ASSERT_EQ(roomy.tokens(some_ids(n)), 0);
    const size_t fit = 33 - n;  // one more than the context holds: the last is not evaluated
    const auto ids = provider.generate(fit);
    ASSERT_EQ(ids, roomy.generate(fit));
    EXPECT_EQ(provider.read(P::kLogits), FRT_ERR_NOT_READY);
    EXPECT_EQ(provider.integer(P::kNextToken), ids.back());
    const std::string text = provider.text();
    EXPECT_LT(provider.decode(), 0);
    EXPECT_NE(provider.error().find("context"), std::string::npos) << provider.error();
    EXPECT_EQ(provider.text(), text);
    ASSERT_EQ(provider.tokens(some_ids(n)), 0);
    ASSERT_EQ(provider.step(), 0) << provider.error();
    EXPECT_EQ(provider.text(), text);
  }
  EXPECT_EQ(provider.counter("length_ends"), 6);
}

TEST(LlmFace, a_context_of_one_token_works) {
  LlmSpec spec = tiny();
  spec.n_ctx = 1;
  const LlmProvider provider(spec);
  ASSERT_TRUE(provider.ok());
  ASSERT_EQ(provider.tokens(some_ids(1)), 0);
  EXPECT_EQ(provider.generate(1).size(), 1u);
  EXPECT_LT(provider.decode(), 0);
  ASSERT_EQ(provider.tokens(some_ids(2)), 0);
  EXPECT_EQ(provider.prefill(), FRT_ERR_SHAPE);
}

}  // namespace
}  // namespace outrider::test
