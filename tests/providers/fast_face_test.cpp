// PI0-FAST through the provider: ports, answers, refusals, bits, hot path. FC-07, 15, 22, 26.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/json.h"
#include "host/conform.h"
#include "outrider/host.h"
#include "policy/gguf_policy.h"
#include "providers/fast_fixture.h"
#include "support/gguf_edit.h"
#include "support/hot_counter.h"

namespace outrider::test {
namespace {

TEST(FastFace, has_the_ports_of_a_robot_and_none_of_a_flow) {
  const FastFolder folder;
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  const char* names[] = {"top", "wrist", "prompt", "state", "actions"};
  ASSERT_EQ(provider->n_ports, std::size(names));
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_STREQ(provider->ports[i].name, names[i]);
  EXPECT_EQ(provider.shape("actions"), (std::vector<int64_t>{10, 6}));
  EXPECT_EQ(provider.shape("state"), (std::vector<int64_t>{6}));
  const float value = 0;
  EXPECT_EQ(provider.PiProvider::set(5, &value, 4), -1);
  EXPECT_NE(provider.error().find("ports 0..4"), std::string::npos) << provider.error();
}

TEST(FastFace, an_answer_becomes_the_chunk_in_robot_units) {
  const FastFolder folder, relative({.action_more = R"(,"delta_mask":[5,-1])"});
  const auto chunk = fast_chunk(folder.spec());
  ASSERT_EQ(chunk.size(), 60u);
  for (const char* precision : {"f32", "bf16", "int8"}) {
    const std::string more = std::string(R"(,"precision":")") + precision + "\"";
    const PolicyProvider provider(folder.config(more)), other(relative.config(more));
    ASSERT_TRUE(provider.ok() && other.ok());
    stage_robot(provider, pair());
    stage_robot(other, pair());
    const auto actions = provider.tick(), added = other.tick();
    ASSERT_EQ(actions.size(), 60u) << precision;
    for (size_t i = 0; i < 60; ++i) {
      const auto c = static_cast<int64_t>(i % 6);
      const double wanted = (chunk[i] + 1) / 2 * (q99_of(c) - q01_of(c) + 1e-6) + q01_of(c);
      EXPECT_NEAR(actions[i], wanted, 1e-6 * std::max(1.0, std::abs(wanted))) << precision << i;
      EXPECT_NEAR(added[i], wanted + (c < 5 ? static_cast<double>(some_state(6)[i % 6]) : 0), 2e-6);
    }
    EXPECT_EQ(provider.counter("answer_tokens"),
              static_cast<int64_t>(fast_answer_ids(folder.spec()).size()));
  }
}

TEST(FastFace, the_next_position_after_the_prefix_is_skipped_and_inputs_matter) {
  // Random weights: the answer means nothing, its logits show what was computed.
  const FastFolder folder({.taught = false});
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  taps_on(provider);
  stage_robot(provider, pair());
  EXPECT_EQ(provider.step(), -8);
  EXPECT_NE(provider.error().find("Action: "), std::string::npos) << provider.error();
  const auto first = tap(provider, "logits_0"), second = tap(provider, "logits_1");
  ASSERT_EQ(first.size(), 1024u);
  EXPECT_NE(first, second);
  const int64_t s = pair().image_size;
  ASSERT_EQ(provider.set_camera("top", noise_rgb(s, s, 7), s, s), 0);
  EXPECT_EQ(provider.step(), -8);
  EXPECT_NE(tap(provider, "logits_0"), first);
}

TEST(FastFace, FC15_a_missing_camera_is_black_and_not_masked) {
  const FastFolder folder({.taught = false});
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  taps_on(provider);
  stage_robot(provider, pair());
  EXPECT_EQ(provider.counter("black_views"), 0);
  provider.step();
  const auto with_wrist = tap(provider, "logits_0");
  EXPECT_EQ(provider.counter("black_views"), 1) << "the slot between has no camera";
  EXPECT_EQ(provider.counter("prefix_tokens"),
            3 * 16 + static_cast<int64_t>(tap(provider, "tokens").size()));
  ASSERT_EQ(provider.set("wrist", nullptr, 0), 0);
  provider.step();
  const auto absent = tap(provider, "logits_0");
  EXPECT_NE(absent, with_wrist);
  const int64_t s = pair().image_size;
  ASSERT_EQ(
      provider.set_camera("wrist", std::vector<uint8_t>(static_cast<size_t>(s * s * 3)), s, s), 0);
  provider.step();
  EXPECT_EQ(tap(provider, "logits_0"), absent) << "absent is a black picture";
  EXPECT_EQ(provider.counter("masked_views"), 0);
}

TEST(FastFace, FC26_any_number_of_threads_and_reuse_give_the_same_bits) {
  const FastFolder folder({.taught = false}), taught({.varied = true});
  for (const char* precision : {"f32", "bf16", "int8"}) {
    const std::string more = std::string(R"(,"precision":")") + precision + "\"";
    std::vector<float> logits, last, actions;
    for (const char* threads : {"1", "2", "4"}) {
      for (const char* reuse : {"off", "on"}) {
        const std::string with = more + R"(,"reuse":")" + reuse + "\"";
        const PolicyProvider provider(folder.config(with, threads)),
            robot(taught.config(with, threads));
        ASSERT_TRUE(provider.ok() && robot.ok());
        stage_robot(robot, pair());
        for (int i = 0; i < 3; ++i) {
          const auto got = robot.tick();
          if (actions.empty()) actions = got;
          ASSERT_EQ(got, actions) << threads << reuse;
        }
        EXPECT_EQ(robot.counter("reused_prefixes"), std::string(reuse) == "on" ? 2 : 0);
        taps_on(provider);
        stage_robot(provider, pair());
        provider.step();
        if (logits.empty()) logits = tap(provider, "logits_0"), last = tap(provider, "logits_100");
        ASSERT_EQ(tap(provider, "logits_0"), logits) << threads << reuse;
        ASSERT_EQ(tap(provider, "logits_100"), last) << threads << reuse;
      }
    }
  }
}

TEST(FastFace, stages_and_stale_rules_are_those_of_every_policy) {
  const FastFolder folder;
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  EXPECT_EQ(provider.step(), -1);
  stage_robot(provider, pair());
  const auto whole = provider.tick();
  EXPECT_EQ(provider.action(), -7) << "each context serves one action";
  EXPECT_EQ(provider.context(), 0);
  EXPECT_TRUE(provider.actions().empty());
  EXPECT_EQ(provider.action(), 0);
  EXPECT_EQ(provider.actions(), whole);
  ASSERT_EQ(provider.set_text("prompt", "PICK_UP the red block "), 0);
  EXPECT_TRUE(provider.actions().empty()) << "older outputs are dropped";
  EXPECT_EQ(provider.tick(), whole);
}

TEST(FastFace, FC07_the_budget_of_action_tokens_ends_an_answer) {
  const size_t n = fast_answer_ids({}).size();
  const auto most = [&](size_t tokens) {
    return R"(,"action_tokens":{"most":)" + std::to_string(tokens) + "}";
  };
  // The bar and the end id are not needed: one token for each group is.
  const FastFolder enough({.more = most(n - 2)}), short_by_one({.more = most(n - 3)}),
      one({.more = most(1)});
  const PolicyProvider a(enough.config()), b(short_by_one.config()), c(one.config());
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  for (const PolicyProvider* p : {&a, &b, &c}) stage_robot(*p, pair());
  EXPECT_FALSE(a.tick().empty());
  EXPECT_EQ(b.step(), -8);
  EXPECT_NE(b.error().find("cut off"), std::string::npos) << b.error();
  EXPECT_NE(b.error().find("55 coefficients, wanted 60"), std::string::npos) << b.error();
  EXPECT_TRUE(b.actions().empty());
  EXPECT_EQ(b.counter("undecodable_answers"), 1);
  EXPECT_EQ(c.step(), -8);
}

TEST(FastFace, FC22_what_is_no_chunk_is_refused_in_words_or_zeros_when_asked) {
  struct Row {
    FastSpec spec;
    const char* says;
  };
  const Row rows[] = {{{.answer = {32, 33}}, "10 coefficients, wanted 60"},
                      {{.with_cue = false}, "does not hold \"Action: \""},
                      {{.answer = {32, 100, 33}}, "place 1 of the action holds id 795"},
                      {{.answer = {32, 92, 33}}, "inside a character"}};
  for (const Row& row : rows) {
    const FastFolder strict(row.spec);
    FastSpec zeros_spec = row.spec;
    zeros_spec.more = R"(,"action_tokens":{"undecodable":"zeros"})";
    const FastFolder zeros(zeros_spec);
    const PolicyProvider a(strict.config()), b(zeros.config());
    ASSERT_TRUE(a.ok() && b.ok());
    stage_robot(a, pair());
    stage_robot(b, pair());
    EXPECT_EQ(a.step(), -8) << row.says;
    EXPECT_NE(a.error().find(row.says), std::string::npos) << a.error();
    EXPECT_TRUE(a.actions().empty());
    const auto chunk = b.tick();
    ASSERT_EQ(chunk.size(), 60u);
    for (size_t i = 0; i < 60; ++i) {
      const auto c = static_cast<int64_t>(i % 6);
      EXPECT_NEAR(chunk[i], (q99_of(c) - q01_of(c) + 1e-6) / 2 + q01_of(c), 1e-6);
    }
    EXPECT_EQ(b.counter("undecodable_answers"), 1);
  }
}

TEST(FastFace, FC22_weights_that_are_no_numbers_end_the_tick_with_a_code) {
  const FastFolder folder;
  const std::string path = folder.path() + "/model.safetensors";
  // One value of the final norm becomes NaN.
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  uint64_t n = 0;
  ASSERT_EQ(std::fread(&n, 8, 1, file), 1u);
  std::string header(n, ' ');
  ASSERT_EQ(std::fread(header.data(), 1, n, file), n);
  const size_t at = header.find("language_model.norm.weight");
  const size_t first = header.find("data_offsets\":[", at) + 15;
  std::fseek(file, static_cast<long>(8 + n + std::stoull(header.substr(first))), SEEK_SET);
  const float nan = NAN;
  std::fwrite(&nan, 4, 1, file);
  std::fclose(file);
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, pair());
  EXPECT_EQ(provider.step(), -8);
  EXPECT_NE(provider.error().find("NaN"), std::string::npos) << provider.error();
  EXPECT_EQ(provider.counter("nonfinite_outputs"), 1);
}

TEST(FastFace, a_tick_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const FastFolder folder;
  for (const char* more : {R"(,"precision":"f32")", R"(,"precision":"int8","reuse":"on")"}) {
    const PolicyProvider provider(folder.config(more, "2"));
    ASSERT_TRUE(provider.ok());
    stage_robot(provider, pair());
    const int64_t s = pair().image_size;
    const auto top = noise_rgb(s, s, 1);
    const frt_image_view view = rgb_view(top, s, s);
    std::vector<float> state(6), out(60);
    const auto* rt = provider.get();
    hot_counter::arm();
    int failed = 0;
    for (int i = 0; i < 8; ++i) {
      state[0] = 0.1f * static_cast<float>(i % 3);
      failed += rt->verbs.set_input(rt->self, 0, &view, sizeof view, -1) != 0;
      failed += rt->verbs.set_input(rt->self, 2, "Pick UP", 7, -1) != 0;
      failed += rt->verbs.set_input(rt->self, 3, state.data(), 24, -1) != 0;
      failed += rt->verbs.step(rt->self) != 0;
      uint64_t written = 0;
      failed += rt->verbs.get_output(rt->self, 4, out.data(), 240, &written, -1) != 0;
    }
    const auto counts = hot_counter::disarm();
    EXPECT_EQ(failed, 0) << provider.error();
    EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  }
}

TEST(FastFace, passes_the_contract_suite) {
  const FastFolder folder({.varied = true});
  host::ConformOptions options;
  options.strict = true;
  const auto report = host::conform(provider_path(), folder.config(), options);
  EXPECT_GT(report.passed, 45);
  EXPECT_EQ(report.failed, 0) << host::to_text(report);
}

TEST(FastFace, the_packed_cache_holds_the_head_too) {
  const FastFolder folder({.dtype = DType::kBf16});
  const TempDir cache;
  const std::string config =
      folder.config(R"(,"precision":"bf16","cache_dir":")" + cache.path() + "\"");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  std::vector<float> first;
  for (int i = 0; i < 2; ++i) {
    const PolicyProvider provider(config);
    ASSERT_TRUE(provider.ok());
    stage_robot(provider, pair());
    const auto actions = provider.tick();
    if (i == 0) first = actions;
    EXPECT_EQ(actions, first);
    EXPECT_NE(provider.description().find(i == 0 ? "miss: written" : "\"cache\":\"hit\""),
              std::string::npos)
        << provider.description();
  }
}

TEST(FastFace, FC24_a_folder_and_its_single_file_give_the_same_bits) {
  for (const DType stored : {DType::kF32, DType::kBf16}) {
    const FastFolder folder({.varied = true, .dtype = stored});
    const std::string file = converted(folder, "one.gguf");
    for (const char* precision : {"f32", "stored", "bf16", "int8"}) {
      const std::string more = std::string(R"(,"precision":")") + precision + "\"";
      const PolicyProvider a(folder.config(more)), b(by_file(file, more)),
          c(R"({"model_family":"pi0","policy_dir":")" + file + R"(","backend":"cpu")" + more + "}");
      ASSERT_TRUE(a.ok() && b.ok() && c.ok()) << precision;
      std::vector<std::vector<float>> actions, logits, later;
      for (const PolicyProvider* p : {&a, &b, &c}) {
        taps_on(*p);
        for (int other = 0; other < 2; ++other) {
          stage_robot(*p, pair());
          const int64_t s = pair().image_size;
          if (other == 1) {
            ASSERT_EQ(p->set_camera("top", noise_rgb(s, s, 77), s, s), 0);
          }
          actions.push_back(p->tick());
          logits.push_back(tap(*p, "logits_0"));
          later.push_back(tap(*p, "logits_9"));
        }
      }
      for (size_t i = 2; i < actions.size(); ++i) {
        EXPECT_EQ(actions[i], actions[i % 2]) << precision << i;
        EXPECT_EQ(logits[i], logits[i % 2]) << precision << i;
        EXPECT_EQ(later[i], later[i % 2]) << precision << i;
      }
      EXPECT_NE(logits[0], logits[1]) << "what the model sees matters";
    }
  }
}

TEST(FastFace, the_packed_cache_is_one_for_a_folder_and_its_single_file) {
  const FastFolder folder({.dtype = DType::kBf16});
  const std::string file = converted(folder, "one.gguf");
  const TempDir cache;
  const std::string more = R"(,"precision":"bf16","cache_dir":")" + cache.path() + "\"";
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const PolicyProvider first(by_file(file, more));
  ASSERT_TRUE(first.ok());
  EXPECT_NE(first.description().find("miss: written"), std::string::npos) << first.description();
  const PolicyProvider second(folder.config(more));
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second.description().find("\"cache\":\"hit\""), std::string::npos)
      << second.description();
  stage_robot(first, pair());
  stage_robot(second, pair());
  EXPECT_EQ(first.tick(), second.tick());
}

TEST(FastFace, a_single_file_keeps_budget_and_rules_of_its_policy) {
  const size_t n = fast_answer_ids({}).size();
  const FastFolder folder({.more = R"(,"action_tokens":{"most":)" + std::to_string(n - 3) +
                                   R"(,"undecodable":"zeros"})"});
  const std::string file = converted(folder, "one.gguf", DType::kQ8_0);
  const PolicyProvider provider(by_file(file));
  ASSERT_TRUE(provider.ok());
  stage_robot(provider, pair());
  const auto chunk = provider.tick();
  ASSERT_EQ(chunk.size(), 60u);
  EXPECT_NEAR(chunk[0], (q99_of(0) - q01_of(0) + 1e-6) / 2 + q01_of(0), 1e-6) << "zeros";
  EXPECT_EQ(provider.counter("undecodable_answers"), 1);
  EXPECT_EQ(provider.counter("answer_tokens"), static_cast<int64_t>(n - 3));
  // A description from elsewhere may allow more: the whole answer is read then.
  const FastFolder other;
  const PolicyProvider described(R"({"model_family":"pi0","backend":"cpu","precision":"f32",)"
                                 R"("policy_dir":")" +
                                 other.path() + R"(","model_path":")" + file +
                                 R"(","mmproj_path":")" + file + "\"}");
  ASSERT_TRUE(described.ok());
  stage_robot(described, pair());
  EXPECT_FALSE(described.tick().empty());
  EXPECT_EQ(described.counter("answer_tokens"), static_cast<int64_t>(n));
}

TEST(FastFace, a_single_file_without_a_part_is_refused_by_the_name_of_the_part) {
  const FastFolder folder;
  const std::string file = converted(folder, "one.gguf"), bad = folder.path() + "/bad.gguf";
  const std::pair<GgufEdit, const char*> rows[] = {
      {{.key = kGgufActionTokensKey}, "outrider.action_tokens is missing"},
      {{.key = kGgufActionRulesKey}, "outrider.action_tokens.processor is missing"},
      {{.key = kGgufActionTokensKey, .text = "{\"model\":"}, "action_tokens/tokenizer.json"},
      {{.key = kGgufActionRulesKey, .text = R"({"scale":0,"min_token":0})"}, "scale is 0"},
      {{.key = kGgufPolicyKey}, "outrider.policy"},
      {{.key = "pi0_fast.n_action_steps", .value = 11}, "horizon is 10"},
      {{.key = "pi0_fast.max_answer_tokens", .value = 1025}, "max_answer_tokens"},
      {{.key = "pi0_fast.block_count", .value = 1}, "block_count is 1"},
      {{.tensor = "output_norm.weight"}, "output_norm.weight"}};
  for (const auto& [edit, says] : rows) {
    edit_gguf(file, bad, edit);
    EXPECT_NE(refused(by_file(bad)).find(says), std::string::npos)
        << says << ": " << refused(by_file(bad));
  }
  const std::string plain =
      R"({"model_family":"pi0","backend":"cpu","n_views":2,"image_height":56,"image_width":56,)"
      R"("image_channels":3,"action_steps":10,"action_dim":6,"model_path":")" +
      file + R"(","mmproj_path":")" + file + "\"}";
  EXPECT_NE(refused(plain).find("PI0-FAST, which has no face in normalised units"),
            std::string::npos)
      << refused(plain);
}

TEST(FastFace, describes_its_contract_as_strict_json) {
  const FastFolder folder({.prefix = "model."});
  const PolicyProvider provider(folder.config());
  ASSERT_TRUE(provider.ok());
  const auto json = Json::parse(provider.description());
  ASSERT_TRUE(json) << json.error().text << provider.description();
  EXPECT_EQ(json.value().find("family")->text(), "PI0-FAST");
  EXPECT_EQ(json.value().find("action_tokens")->find("most_id")->integer(), kFastMostId);
  EXPECT_EQ(json.value().find("black_slots")->items()[0].text(), "base_1_rgb");
  EXPECT_EQ(json.value().find("cameras")->items()[1].find("slot")->text(), "wrist_0_rgb");
}

TEST(FastFace, what_does_not_fit_is_refused_at_open) {
  const FastFolder folder;
  EXPECT_NE(refused(folder.config(R"(,"num_steps":5)")).find("no Euler steps"), std::string::npos);
  EXPECT_NE(refused(folder.config(R"(,"numerics":"jetson-pi")")).find("jetson-pi"),
            std::string::npos);
  for (const auto& [more, says] :
       {std::pair<const char*, const char*>{R"(,"family":"pi05")", "family is PI0.5"},
        {R"(,"action_tokens":{"most":1025})", "0..1024"},
        {R"(,"action_tokens":{"undecodable":"guess"})", "undecodable"},
        {R"(,"action_tokens":{"tokenizer":"nowhere"})", "nowhere"},
        {R"(,"model":{"head_dim":32,"vision_heads":3,"action_dim":5})", "5"}}) {
    FastSpec spec;
    spec.more = more;
    if (std::string(more).find("\"model\"") != std::string::npos) {
      // A second "model" would be a repeated key: written by hand.
      const FastFolder other;
      std::string text = R"({"cameras":[{"name":"top","slot":"base_0_rgb"}],"state":{"fields":[)"
                         R"({"name":"j","size":6}]},"actions":{"size":6},"tokenizer":)"
                         R"("tokenizer.gguf","horizon":10)" +
                         spec.more + "}";
      write_text(other.path() + "/policy.json", text);
      EXPECT_NE(refused(other.config()).find(says), std::string::npos) << refused(other.config());
      continue;
    }
    const FastFolder other(spec);
    EXPECT_NE(refused(other.config()).find(says), std::string::npos) << refused(other.config());
  }
  std::filesystem::remove_all(folder.path() + "/fast");
  EXPECT_NE(refused(folder.config()).find("physical-intelligence/fast"), std::string::npos);
  // A vocabulary of another length: ids are counted from its end.
  const FastFolder longer;
  std::string text =
      R"({"cameras":[{"name":"top","slot":"base_0_rgb"}],"state":{"fields":[{"name":)"
      R"("j","size":6}]},"actions":{"size":6},"horizon":10,"model":{"head_dim":32,)"
      R"("vision_heads":3},"tokenizer":")" +
      tiny_pair(PiFamily::kPi05).policy + "\"}";
  write_text(longer.path() + "/policy.json", text);
  PolicyProvider same_length(longer.config());
  EXPECT_TRUE(same_length.ok()) << "the pair's own vocabulary has the same length";
}

}  // namespace
}  // namespace outrider::test
