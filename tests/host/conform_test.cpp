// The contract suite judged: it passes what keeps the rules, and finds each broken one by name.
#include "host/conform.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "base/json.h"
#include "host/conform_elf.h"
#include "support/temp_dir.h"

namespace outrider::host {
namespace {

std::string library(const char* name) {
  return std::string(OUTRIDER_BUILD_DIR "/lib/") + name;
}

std::string pi0_config(const std::string& path = "mock") {
  return R"({"model_family":"pi0","model_path":")" + path +
         R"(","mmproj_path":"m","backend":"cpu","n_views":2,"image_height":6,"image_width":8,)"
         R"("image_channels":3,"action_steps":5,"action_dim":7})";
}

std::string text_config(const char* family, const std::string& path = "mock",
                        const char* max_tokens = "6") {
  const std::string projector = std::string(family) == "mllm" ? R"("mmproj_path":"m",)" : "";
  return std::string(R"({"model_family":")") + family + R"(","model_path":")" + path + R"(",)" +
         projector +
         R"("backend":"cpu","n_ctx":0,"n_threads":0,"temp":0.0,"top_k":0,"top_p":0.0,"seed":1,"max_tokens":)" +
         max_tokens + "}";
}

ConformReport judge(const std::string& config, const ConformOptions& options = {}) {
  return conform(library("test/provider_face_mock.so"), config, options);
}

ConformOptions strict() {
  ConformOptions options;
  options.strict = true;
  return options;
}

std::string failures(const ConformReport& report) {
  std::string out;
  for (const auto& check : report.checks)
    if (check.outcome == ConformOutcome::kFailed) out += check.name + " -- " + check.detail + "\n";
  return out;
}

bool failed(const ConformReport& report, const std::string& name) {
  for (const auto& check : report.checks)
    if (check.name == name) return check.outcome == ConformOutcome::kFailed;
  ADD_FAILURE() << "no check is called " << name;
  return false;
}

TEST(Conform, passes_a_policy_face_that_keeps_every_rule) {
  const auto report = judge(pi0_config(), strict());
  EXPECT_EQ(failures(report), "");
  EXPECT_GT(report.passed, 45);
  EXPECT_EQ(report.passed + report.failed + report.skipped, int(report.checks.size()));
}

TEST(Conform, passes_a_policy_face_without_a_split) {
  EXPECT_EQ(failures(judge(pi0_config("fault:unsplit"), strict())), "");
}

TEST(Conform, passes_text_faces_that_keep_every_rule) {
  for (const char* family : {"llm", "mllm"})
    for (const char* plan : {"mock", "fault:unsplit"})
      EXPECT_EQ(failures(judge(text_config(family, plan), strict())), "") << family << plan;
}

TEST(Conform, passes_the_scripted_provider_with_every_plan) {
  for (const char* plan : {"infer", "split", "diamond", "step"}) {
    const auto config = std::string(R"({"model_family":"fake","plan":")") + plan + "\"}";
    const auto report = conform(library("provider_fake.so"), config, {});
    EXPECT_EQ(failures(report), "") << plan;
    EXPECT_GT(report.passed, 25) << plan;
  }
}

struct Fault {
  const char* name;
  const char* check;
};

TEST(Conform, finds_each_broken_rule_of_a_policy_face) {
  const Fault faults[] = {
      {"size_128", "record: struct sizes and published tail"},
      {"empty_array", "record: can be adopted as a provider"},
      {"modality", "record: port values are known ones"},
      {"fingerprint", "identity: fingerprint is the hash of the text"},
      {"identity", "identity: port and stage lines match the descriptors"},
      {"no_family_pair", "identity: producer pairs of the family in order"},
      {"digest", "identity: producer pairs of the family in order"},
      {"bad_query", "extension: query_extension follows its rules"},
      {"null_error", "verbs: last_error is never NULL"},
      {"no_error_text", "set_input: outputs and unknown ports are refused"},
      {"prepare_ok", "verbs: prepare answers -3"},
      {"written_null", "get_output: written NULL is -1"},
      {"reads_input", "get_output: inputs and unknown ports are refused"},
      {"any_port", "set_input: outputs and unknown ports are refused"},
      {"bad_ref_code", "stages: an unknown executor reference is -2"},
      {"ready_code", "outputs: nothing is ready before a run"},
      {"needs_nothing", "inputs: a run without a required one is -1"},
      {"action_alone", "stages: a stage refuses to run before those it waits for"},
      {"wrong_written", "outputs: sizes are those of the shapes"},
      {"no_needed_size", "outputs: too little room is -5 with the size needed"},
      {"small_room_code", "outputs: too little room is -5 with the size needed"},
      {"overruns", "outputs: too little room is -5 with the size needed"},
      {"writes_past", "outputs: too little room is -5 with the size needed"},
      {"random", "repeat: the same inputs give the same bytes"},
      {"step_differs", "repeat: step and stages give the same bytes"},
      {"raw_throw", "repeat: step and stages give the same bytes"},
      {"keeps_outputs", "stale: a new input makes outputs not ready"},
      {"keeps_old_value", "stale: a refused input drops the old value"},
      {"shared_state", "instances: are independent"},
      {"short_view", "images: a broken view refuses the whole call"},
      {"any_view_count", "images: number and fixed size of views are demanded"},
      {"any_view_size", "images: number and fixed size of views are demanded"},
      {"ignores_bgr", "images: every pixel format means the same picture"},
      {"ignores_stride", "images: every pixel format means the same picture"},
      {"port_name", "pi0: the four ports"},
      {"no_edges", "pi0: the plan"},
      {"nan_actions", "outputs: actions are finite"},
      {"context_twice", "pi0: a context serves one action"},
      {"keeps_context", "pi0: any set_input drops a pending context"},
      {"keeps_chunk", "pi0: a refused set_input drops the chunk"},
      {"nan_state", "pi0: a state must be finite"},
      {"empty_prompt", "pi0: empty prompt and broken state are refused"},
      {"torn_state", "pi0: empty prompt and broken state are refused"},
      {"wide_state", "pi0: a state wider than the model fails"},
      {"unknown_key", "config: an unknown key is refused"},
      {"missing_key", "config: a missing key is refused"},
      {"any_type", "config: a value of another type is refused"},
      {"any_range", "config: values out of range are refused"},
      {"trailing", "config: broken text is refused"},
      {"wrong_code", "config: broken text is refused"},
      {"out_kept", "config: an unknown key is refused"},
      {"stays_loaded", "lifetime: two copies in one process, and the library leaves"},
  };
  for (const auto& [name, check] : faults)
    EXPECT_TRUE(failed(judge(pi0_config(std::string("fault:") + name)), check)) << name;
}

TEST(Conform, finds_each_broken_rule_of_a_text_face) {
  const Fault faults[] = {
      {"prefill_text", "text: prefill leaves logits, decode a token"},
      {"decode_alone", "text: decode needs a session"},
      {"no_budget", "text: max_tokens bounds the decodes"},
      {"tokens_stay", "text: max_tokens bounds the decodes"},
      {"budget_text", "text: max_tokens bounds the decodes"},
      {"step_differs", "text: step writes what the stages write"},
      {"step_leaves_logits", "text: step writes what the stages write"},
      {"tokens_stick", "text: tokens and prompt replace each other"},
      {"keeps_outputs", "stale: a new input makes outputs not ready"},
  };
  // One token of budget: the toy text does not end before it.
  for (const auto& [name, check] : faults)
    EXPECT_TRUE(failed(judge(text_config("llm", std::string("fault:") + name, "1")), check))
        << name;
}

std::string fake(const std::string& members) {
  return R"({"model_family":"fake")" + (members.empty() ? "" : "," + members) + "}";
}

ConformReport judge_fake(const std::string& members, const ConformOptions& options = {}) {
  return conform(library("provider_fake.so"), fake(members), options);
}

TEST(Conform, finds_a_value_that_is_not_finite_in_any_family_and_at_any_tick) {
  for (const char* tick : {"1", "2", "5"}) {
    const auto report = judge_fake(std::string(R"("nan_at":)") + tick);
    EXPECT_NE(failures(report).find("is not finite"), std::string::npos) << tick;
  }
}

TEST(Conform, finds_an_error_text_that_hurts_its_reader) {
  const char* check = "verbs: last_error ends, is UTF-8 and holds no control bytes";
  EXPECT_FALSE(failed(judge_fake(""), check));
  for (const char* kind : {"garbage", "long", "null"})
    EXPECT_TRUE(failed(judge_fake(std::string(R"("last_error":")") + kind + "\""), check)) << kind;
}

TEST(Conform, a_verb_left_out_is_advice_that_names_it) {
  for (const char* verb : {"prepare", "step"}) {
    const std::string members = std::string(R"("null_verbs":")") + verb + "\"";
    EXPECT_EQ(failures(judge_fake(members)), "");
    const auto report = judge_fake(members, strict());
    EXPECT_TRUE(failed(report, "record: no verb is NULL"));
    EXPECT_NE(failures(report).find(std::string("verbs.") + verb), std::string::npos);
  }
}

TEST(Conform, finds_a_leak_in_ticks_of_every_size_above_its_bound) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const char* check = "memory: ticks keep none";
  EXPECT_FALSE(failed(judge_fake(""), check));
  for (const char* bytes : {"4000", "100000", "1000000"})
    EXPECT_TRUE(failed(judge_fake(std::string(R"("leak_bytes":)") + bytes), check)) << bytes;
}

TEST(Conform, memory_is_not_judged_when_a_tick_is_slow) {
  const auto report = judge_fake(R"("sleep_ms":120)");
  for (const auto& c : report.checks)
    if (c.name == "memory: ticks keep none") {
      EXPECT_EQ(c.outcome, ConformOutcome::kSkipped) << c.detail;
    }
}

TEST(Conform, a_break_of_our_stricter_rules_is_advice_and_fails_only_when_strict) {
  const auto config = pi0_config("fault:null_prepare");
  EXPECT_EQ(failures(judge(config)), "");
  EXPECT_TRUE(failed(judge(config, strict()), "record: no verb is NULL"));
  bool advised = false;
  for (const auto& check : judge(config).checks) advised |= check.detail.rfind("advice: ", 0) == 0;
  EXPECT_TRUE(advised);
}

TEST(Conform, an_exception_through_the_border_is_a_failure) {
  const auto report = judge(pi0_config("fault:raw_throw"));
  EXPECT_NE(failures(report).find("-2147483648"), std::string::npos);
}

TEST(Conform, what_cannot_be_loaded_or_opened_fails_and_the_rest_is_skipped) {
  for (const std::string& path :
       std::vector<std::string>{"/nonexistent/provider.so", library("not_a_provider.so"),
                                OUTRIDER_SOURCE_DIR "/CMakeLists.txt"}) {
    const auto report = conform(path, pi0_config());
    EXPECT_TRUE(failed(report, "library: loads and has the factory symbol")) << path;
    EXPECT_GT(report.skipped, 40) << path;
    EXPECT_LE(report.passed, 3) << path << "\n" << to_text(report);
  }
  const auto report = judge(pi0_config("fault:everything"));
  EXPECT_TRUE(failed(report, "open: accepts the given configuration"));
  EXPECT_EQ(report.failed, 1) << failures(report);
}

TEST(Conform, a_library_that_shows_more_than_the_factory_is_found) {
  const auto report = conform(library("test/provider_face_leaky.so"), pi0_config());
  EXPECT_EQ(report.failed, 1) << failures(report);
  EXPECT_TRUE(failed(report, "library: exports nothing but the factory"));
}

TEST(Conform, checks_that_do_not_apply_are_skipped_with_a_reason) {
  const auto report = judge(text_config("llm", "mock", "512"));
  for (const auto& check : report.checks)
    EXPECT_EQ(check.outcome == ConformOutcome::kSkipped && check.detail.empty(), false)
        << check.name;
  EXPECT_GT(report.skipped, 10);
}

TEST(Conform, given_inputs_replace_the_generated_ones) {
  ConformOptions options;
  options.inputs["state"] = "abc";  // three bytes: no whole float
  const auto report = judge(pi0_config(), options);
  EXPECT_TRUE(failed(report, "tick: runs with every input staged"));
}

TEST(Conform, tells_each_check_as_it_goes_and_writes_text_and_json) {
  std::vector<std::string> started, done;
  ConformOptions options;
  options.on_start = [&](const char* name) { started.push_back(name); };
  options.on_check = [&](const ConformCheck& check) { done.push_back(check.name); };
  const auto report = judge(pi0_config("fault:prepare_ok"), options);
  EXPECT_EQ(started, done);
  EXPECT_EQ(done.size(), report.checks.size());
  const std::string text = to_text(report);
  const std::string last = std::to_string(report.passed) + " passed, 1 failed\n";
  ASSERT_GT(text.size(), last.size());
  EXPECT_EQ(text.substr(text.size() - last.size()), last);
  auto json = Json::parse(to_json(report));
  ASSERT_TRUE(json) << json.error().text;
  EXPECT_EQ(json.value().find("failed")->integer(), 1);
  EXPECT_EQ(json.value().find("checks")->items().size(), report.checks.size());
}

TEST(Conform, check_names_are_unique) {
  std::set<std::string> names;
  for (const auto& check : judge(pi0_config()).checks)
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
}

TEST(ConformElf, a_library_cut_or_flipped_anywhere_never_crashes_the_reader) {
  std::ifstream file(library("not_a_provider.so"), std::ios::binary);  // small
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(good.size(), 64u);
  const test::TempDir temp;
  const std::string path = temp.file("cut.so");
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return conformance::read_elf(path.c_str());
  };
  ASSERT_TRUE(read(good));
  for (size_t n : {size_t{0}, size_t{4}, size_t{63}, size_t{64}, good.size() / 2, good.size() - 1})
    EXPECT_FALSE(read(good.substr(0, n))) << n;
  for (size_t i = 0; i < 64; ++i) {  // every byte of the header, among them table offset and count
    std::string bad = good;
    bad[i] = static_cast<char>(0xff);
    (void)read(bad);
  }
  uint64_t table = 0;
  std::memcpy(&table, good.data() + 40, 8);
  for (size_t i = table; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0xff);
    (void)read(bad);
  }
}

}  // namespace
}  // namespace outrider::host
