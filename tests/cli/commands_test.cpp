// Every command against real files and the scripted provider.
#include "cli/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "../support/shared_data.h"
#include "cli/help.h"
#include "cli/npy.h"
#include "cli/report/png.h"
#include "cli/scene.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

std::string picture(const std::string& name, int width, int height) {
  auto png = cli::encode_png(cli::Scene(width, height).draw(cli::Camera::kFront, 1));
  return write(scratch("pictures") + "/" + name,
               {reinterpret_cast<const char*>(png.value().data()), png.value().size()});
}

TEST(Help, lists_every_command_and_none_that_is_not_here) {
  const Outcome outcome = run({"help"});
  EXPECT_EQ(outcome.status, 0);
  for (const cli::Command* command : cli::commands())
    EXPECT_NE(outcome.out.find(command->name), std::string::npos);
  EXPECT_EQ(run({"--help"}).out, outcome.out);
}

TEST(Help, every_command_has_a_page_with_its_flags) {
  for (const cli::Command* command : cli::commands()) {
    const Outcome outcome = run({command->name, "--help"});
    EXPECT_EQ(outcome.status, 0) << command->name;
    for (const cli::Flag& flag : command->flags)
      EXPECT_NE(outcome.out.find(flag.name), std::string::npos) << flag.name;
    EXPECT_NE(outcome.out.find("--log-level"), std::string::npos) << command->name;
    EXPECT_EQ(run({"help", command->name}).out, outcome.out);
  }
}

TEST(Help, version_is_one_line) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.out.starts_with("outrider "));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
}

TEST(Reference, docs_page_equals_what_the_tables_say) {
  const std::string page = read(std::string(OUTRIDER_SOURCE_DIR) + "/docs/reference/cli.md");
  EXPECT_EQ(page, run({"help", "--markdown"}).out)
      << "run: outrider help --markdown > docs/reference/cli.md";
}

TEST(MakeModel, writes_the_pair_and_the_same_bytes_for_the_same_seed) {
  const std::string folder = scratch("make");
  const Outcome first =
      run({"make-model", "pi0", folder + "/a.gguf", "--type", "q8_0", "--seed", "5", "--json"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(document(first).find("vision")->find("path")->text(), folder + "/a-mmproj.gguf");
  ASSERT_EQ(run({"make-model", "pi0", folder + "/b.gguf", "--type", "q8_0", "--seed", "5"}).status,
            0);
  EXPECT_EQ(read(folder + "/a.gguf"), read(folder + "/b.gguf"));
  ASSERT_EQ(run({"make-model", "pi0", folder + "/c.gguf", "--type", "q8_0", "--seed", "6"}).status,
            0);
  EXPECT_NE(read(folder + "/a.gguf"), read(folder + "/c.gguf"));
}

TEST(MakeModel, refuses_kinds_and_types_in_words) {
  EXPECT_NE(run({"make-model", "driving", "x.onnx", "--type", "f16"}).err.find("f32"),
            std::string::npos);
  EXPECT_NE(run({"make-model", "pi5", "x.gguf"}).err.find("pi05"), std::string::npos);
  EXPECT_NE(run({"make-model", "pi05", "x.gguf", "--type", "q3"}).err.find("q4_k"),
            std::string::npos);
  EXPECT_EQ(run({"make-model", "pi05", scratch("make") + "/none/x.gguf"}).status, 2);
}

TEST(Inspect, tells_family_and_why_and_that_this_build_runs_it) {
  const Outcome outcome = run({"inspect", tiny_policy(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  EXPECT_EQ(json.find("family")->find("name")->text(), "PI0.5");
  EXPECT_NE(json.find("family")->find("why")->text().find("output_norm_dense"), std::string::npos);
  EXPECT_TRUE(json.find("runs")->boolean());
  EXPECT_GT(json.find("parameters")->integer(), 1000);
  EXPECT_GT(json.find("memory")->find("f32_bytes")->integer(), 0);
  EXPECT_NE(run({"inspect", tiny_policy()}).out.find("PI0.5"), std::string::npos);
  EXPECT_TRUE(run({"inspect", tiny_policy(), "--markdown"}).out.starts_with("| "));
}

TEST(Inspect, a_policy_without_its_vision_file_does_not_run_and_says_which_is_wanted) {
  const std::string lonely = scratch("lonely") + "/lonely.gguf";
  write(lonely, read(tiny_policy()));
  const Outcome outcome = run({"inspect", lonely, "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(document(outcome).find("why_not")->text().find("lonely-mmproj.gguf"),
            std::string::npos);
}

TEST(Inspect, several_possible_vision_files_are_listed_not_chosen) {
  const std::string folder = scratch("several");
  write(folder + "/base.gguf", read(tiny_policy()));
  const std::string vision =
      read(tiny_policy().substr(0, tiny_policy().size() - 5) + "-mmproj.gguf");
  write(folder + "/base-one-mmproj.gguf", vision);
  EXPECT_EQ(run({"inspect", folder + "/base.gguf"}).status, 0);
  write(folder + "/base-two-mmproj.gguf", vision);
  const Outcome outcome = run({"bench", folder + "/base.gguf", "--print-config"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("base-one-mmproj.gguf"), std::string::npos);
  EXPECT_NE(outcome.err.find("base-two-mmproj.gguf"), std::string::npos);
}

TEST(FC05, the_check_command_shows_raw_ids_and_warns_of_a_line_break_at_the_end) {
  const auto ids_of = [](const std::string& text, bool warns) {
    const Outcome outcome = run({"inspect", tiny_policy(), "--tokens", text, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json json = document(outcome);
    EXPECT_EQ(!json.find("warnings")->items().empty(), warns) << text;
    EXPECT_EQ(outcome.err.find("line break") != std::string::npos, warns) << text;
    std::vector<int64_t> ids;
    for (const Json& id : json.find("ids")->items()) ids.push_back(id.integer());
    return ids;
  };
  const auto clean = ids_of("pick up the cup", false);
  EXPECT_EQ(clean.front(), 2);
  for (const char* odd : {"pick up the cup\n", "pick up the cup\r\n", "pick up the cup\n\n"})
    EXPECT_NE(ids_of(odd, true), clean) << "nothing may be stripped";
  EXPECT_NE(ids_of("Pick up the cup", false), clean);
}

TEST(Run, prints_the_chunk_and_writes_it_as_npy) {
  const std::string a = picture("a.png", 64, 48), out = scratch("run") + "/actions.npy";
  const Outcome outcome =
      run({"run", tiny_policy(), "--image", a, "--image", a, "--prompt", "pick up the cup",
           "--state", "0,0.1,0.2,0,0,0,0,0", "--out", out, "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  auto array = cli::read_npy(out);
  ASSERT_TRUE(array) << array.error().text;
  ASSERT_EQ(array.value().shape.size(), 2u);
  const auto& rows = json.find("actions")->items();
  ASSERT_EQ(static_cast<int64_t>(rows.size()), array.value().shape[0]);
  float first = 0;
  std::memcpy(&first, array.value().bytes.data(), sizeof first);
  EXPECT_EQ(static_cast<float>(rows[0].items()[0].number()), first);
  EXPECT_EQ(json.find("units")->text(), "normalised");
}

TEST(Run, the_seed_changes_the_chunk_and_the_same_seed_does_not) {
  const std::string a = picture("a.png", 64, 48);
  auto chunk = [&](const char* seed) {
    return run({"run", tiny_policy(), "--image", a, "--image", a, "--prompt", "x", "--state", "0",
                "--seed", seed})
        .out;
  };
  auto table = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(table(chunk("41")), table(chunk("41")));
  EXPECT_NE(table(chunk("41")), table(chunk("42")));
}

TEST(Run, refuses_a_wrong_count_of_pictures_unequal_sizes_and_missing_inputs) {
  const std::string a = picture("a.png", 64, 48), b = picture("b.png", 48, 64);
  EXPECT_NE(run({"run", tiny_policy(), "--image", a, "--prompt", "x"})
                .err.find("1 picture, n_views is 2"),
            std::string::npos);
  EXPECT_NE(
      run({"run", tiny_policy(), "--image", a, "--image", b, "--prompt", "x"}).err.find("one size"),
      std::string::npos);
  EXPECT_NE(run({"run", tiny_policy(), "--prompt", "x"}).err.find("--image"), std::string::npos);
  EXPECT_NE(run({"run", tiny_policy(), "--image", a, "--image", a}).err.find("--prompt"),
            std::string::npos);
  for (const char* state : {"nan", "1,inf", "", "1,,2"})
    EXPECT_EQ(
        run({"run", tiny_policy(), "--image", a, "--image", a, "--prompt", "x", "--state", state})
            .status,
        2)
        << state;
  EXPECT_EQ(run({"run", tiny_policy(), "--image", a, "--prompt", "x", "--views", "1"}).status, 0);
}

TEST(FC12, float_pictures_are_refused_with_the_range_that_is_wanted) {
  const std::vector<float> pixels(2 * 8 * 8 * 3, 0.5f);
  const std::vector<int64_t> shape = {2, 8, 8, 3};
  const std::string path = scratch("fc12") + "/pixels.npy";
  ASSERT_TRUE(cli::write_npy(path, pixels, shape));
  const Outcome outcome =
      run({"run", tiny_policy(), "--input", "images=" + path, "--prompt", "x", "--json"});
  EXPECT_EQ(outcome.status, 2);
  const Json json = document(outcome);
  EXPECT_NE(json.find("error")->find("text")->text().find("0 to 255"), std::string::npos);
}

TEST(Bench, document_has_the_keys_that_scripts_rely_on) {
  const Outcome outcome =
      run({"bench", tiny_policy(), "--ticks", "5", "--idle", "0", "--no-limits", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  for (const char* limit : {"f32_gops", "bf16_gops", "int8_gops", "read_gbs"})
    for (const char* side : {"one", "all"})
      EXPECT_NE(json.find("limits")->find(limit)->find(side), nullptr) << limit;
  ASSERT_GE(json.find("stages")->items().size(), 1u);
  for (const Json& stage : json.find("stages")->items()) {
    for (const char* key : {"name", "ms", "gflop", "gops", "gbs", "percent_of_limit"})
      EXPECT_NE(stage.find(key), nullptr) << key;
    for (const char* key : {"p50", "p95", "p99", "max"})
      EXPECT_NE(stage.find("ms")->find(key), nullptr) << key;
    EXPECT_GT(stage.find("gflop")->number(), 0);
  }
  for (const char* key :
       {"total_ms", "open_ms", "rss_bytes", "threads", "kernel_table", "first_ms", "machine"})
    EXPECT_NE(json.find(key), nullptr) << key;
  for (const char* key : {"minor_faults", "major_faults", "waits", "preemptions"})
    EXPECT_GE(json.find("events")->find(key)->integer(), 0) << key;
  EXPECT_TRUE(json.find("jitter")->is_null());  // needs a p99, and that 100 samples
  EXPECT_TRUE(json.find("total_ms")->find("p99")->is_null());
  EXPECT_EQ(json.find("total_ms")->find("n")->integer(), 5);
  EXPECT_EQ(json.find("checksum")->find("outputs_different")->integer(), 0);
  EXPECT_GT(json.find("rss_bytes")->integer(), 1 << 20);
}

TEST(Bench, compares_with_its_own_old_document_and_writes_page_and_samples) {
  const std::string folder = scratch("bench");
  const Outcome old =
      run({"bench", tiny_policy(), "--ticks", "3", "--idle", "0", "--no-limits", "--json"});
  write(folder + "/old.json", old.out);
  const Outcome outcome = run({"bench", tiny_policy(), "--ticks", "3", "--idle", "0", "--no-limits",
                               "--json", "--compare", folder + "/old.json", "--report",
                               folder + "/bench.html", "--samples", folder + "/samples.csv"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GE(document(outcome).find("compare")->find("rows")->items().size(), 2u);
  EXPECT_NE(read(folder + "/bench.html").find("<svg"), std::string::npos);
  const std::string csv = read(folder + "/samples.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_EQ(run({"bench", tiny_policy(), "--ticks", "1", "--idle", "0", "--no-limits", "--compare",
                 write(folder + "/bad.json", "{\"a\": 1}")})
                .status,
            2);
}

TEST(FC51, a_stalled_provider_shows_as_late_ticks_counted_from_their_intended_start) {
  const std::string provider = fake_provider();
  if (provider.empty()) GTEST_SKIP() << "the scripted provider was not built";
  // Every stage takes 30 ms and ticks are due every 20 ms: each tick is later than the one before.
  const Outcome outcome =
      run({"bench",
           fake_config("\"sleep_ms\": 30, \"n_views\": 1, \"image_height\": 4, \"image_width\": 6"),
           "--provider", provider, "--ticks", "20", "--hz", "50", "--idle", "0", "--no-limits",
           "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  const Json* rate = json.find("rate");
  EXPECT_EQ(rate->find("late")->integer(), 20);
  EXPECT_GT(rate->find("latency_from_intended_start_ms")->find("max")->number(), 200);
  EXPECT_LT(json.find("total_ms")->find("p50")->number(), 100);
}

TEST(FC51, an_output_that_changes_for_equal_inputs_fails_the_bench) {
  const std::string provider = fake_provider();
  if (provider.empty()) GTEST_SKIP() << "the scripted provider was not built";
  const Outcome outcome =
      run({"bench",
           fake_config("\"nan_at\": 5, \"n_views\": 1, \"image_height\": 4, \"image_width\": 6"),
           "--provider", provider, "--ticks", "6", "--idle", "0", "--no-limits", "--json"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
}

TEST(FC33, first_warm_up_steady_and_after_idle_are_reported_apart) {
  const Outcome outcome = run({"bench", tiny_policy(), "--ticks", "5", "--warmup", "3", "--idle",
                               "0.2", "--no-limits", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  EXPECT_GT(json.find("first_ms")->number(), 0);
  EXPECT_EQ(json.find("warmup_ms")->items().size(), 3u);
  EXPECT_GT(json.find("after_idle_ms")->number(), 0);
  EXPECT_EQ(json.find("total_ms")->find("n")->integer(), 5);
}

TEST(Doctor, tells_the_machine_and_with_a_model_its_contract) {
  const Outcome bare = run({"doctor", "--json"});
  ASSERT_EQ(bare.status, 0) << bare.err;
  EXPECT_GE(document(bare).find("checks")->items().size(), 5u);
  const Outcome outcome = run({"doctor", tiny_policy(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  const Json* contract = json.find("contract");
  ASSERT_NE(contract, nullptr);
  EXPECT_EQ(contract->find("ports")->items().size(), 4u);
  EXPECT_EQ(contract->find("cameras")->items().size(), 2u);
  EXPECT_EQ(contract->find("cameras")->items()[0].find("slot")->text(), "base");
  EXPECT_TRUE(contract->find("same_output_twice")->boolean());
}

TEST(Conform, our_provider_passes_and_the_last_line_counts) {
  const std::string config = scratch("conform") + "/config.json";
  const Outcome print = run({"bench", tiny_policy(), "--print-config", "--json"});
  const Json json = document(print);
  std::string text = "{";
  for (const Json::Member& member : json.find("config")->members())
    text += (text.size() > 1 ? ", \"" : "\"") + member.name + "\": " +
            (member.value.is_string() ? "\"" + member.value.text() + "\"" : member.value.text());
  write(config, text + "}");
  const std::string provider = std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_gguf.so";
  const Outcome outcome = run({"conform", provider, config});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with(" passed, 0 failed\n")) << outcome.out;
  const Outcome as_json = run({"conform", provider, config, "--json"});
  EXPECT_EQ(document(as_json).find("failed")->integer(), 0);
  EXPECT_GT(document(as_json).find("passed")->integer(), 20);
}

TEST(Conform, a_library_that_is_no_provider_fails_with_a_document) {
  const Outcome outcome =
      run({"conform", std::string(OUTRIDER_BUILD_DIR) + "/bin/outrider", fake_config(), "--json"});
  EXPECT_EQ(outcome.status, 1);
  document(outcome);
}

TEST(Demo, runs_without_arguments_and_leaves_one_page_and_no_model) {
  const std::string folder = scratch("demo");
  const Outcome outcome = run({"demo", "--seconds", "0.6", "--json"},
                              {.environment = {"TMPDIR=" + scratch("demo-tmp")}, .folder = folder});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(document(outcome).find("ticks")->integer(), 12);
  const std::string page = read(folder + "/outrider-demo.html");
  EXPECT_NE(page.find("data:image/png;base64,"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(scratch("demo-tmp")));
  EXPECT_EQ(run({"demo", "--out", folder + "/none"}).status, 2);
}

// ---- parity against recorded cases
// ---------------------------------------------------------------

// The model files of a recorded case, written by the reference generator; "" when it does not run
// here.
std::string generated_policy(const std::string& folder) {
  auto meta = Json::parse(read(folder + "/meta.json"));
  if (!meta) return "";
  const Json* policy = meta.value().find("policy");
  const std::string command = policy->find("make_gguf")->text(),
                    file = policy->find("file")->text();
  const std::string out = scratch("golden-" + file);
  if (!std::filesystem::exists(out + "/" + file)) {
    const std::string line = "/usr/bin/python3 '" + test::shared_dir() + "/tools/" +
                             command.substr(0, command.find(' ')) + "'" +
                             command.substr(command.find(' ')) + " --out '" + out +
                             "' >/dev/null 2>&1";
    if (std::system(line.c_str()) != 0) return "";
  }
  return out + "/" + file;
}

class Fc24 : public testing::TestWithParam<const char*> {};

TEST_P(Fc24, every_stage_of_a_recorded_case_is_within_its_tolerance) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  const std::string policy = generated_policy(folder);
  if (policy.empty())
    GTEST_SKIP() << "the reference generator does not run here (python3-numpy missing?)";
  const Outcome good = run({"parity", policy, folder, "--set", "numerics=jetson-pi", "--set",
                            "precision=f32", "--json"});
  EXPECT_EQ(good.status, 0) << good.err << good.out;
  const Json json = document(good);
  EXPECT_GE(json.find("stages")->items().size(), 5u);
  // Other noise: everything before the first velocity still agrees.
  const Outcome bad = run({"parity", policy, folder, "--set", "numerics=jetson-pi", "--set",
                           "noise_seed=42", "--json"});
  EXPECT_EQ(bad.status, 1);
  const std::string first = document(bad).find("first_deviation")->text();
  EXPECT_TRUE(first == "velocity_0" || first == "actions") << first;
}
INSTANTIATE_TEST_SUITE_P(Recorded, Fc24,
                         testing::Values("pi05_two_views", "pi05_resize_one_view",
                                         "pi05_three_views_f16", "pi05_padded_state_q8",
                                         "pi0_two_views", "pi0_one_view_no_state_f16"),
                         [](const auto& tested) { return std::string(tested.param); });

class Fc24Reference : public testing::TestWithParam<const char*> {};

TEST_P(Fc24Reference, every_stage_of_a_recorded_case_is_within_its_tolerance) {
  OUTRIDER_NEED_SHARED(folder, std::string("golden/") + GetParam());
  const Outcome outcome = run({"parity", "-", folder, "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
  EXPECT_GE(document(outcome).find("stages")->items().size(), 3u);
}
INSTANTIATE_TEST_SUITE_P(Recorded, Fc24Reference,
                         testing::Values("openpi-pi05-a", "openpi-pi0-a", "openpi-pi0-b",
                                         "openpi-pi05-b-ropebf16"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// A recording with bfloat16 activations states no tolerance of its own; what it is for is the
// actions.
TEST(FC24, actions_of_a_bfloat16_recording_are_judged_by_its_wider_bound) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b-bf16");
  EXPECT_EQ(run({"parity", "-", folder, "--stage", "actions"}).status, 0);
  EXPECT_EQ(run({"parity", "-", folder, "--stage", "actions", "--tolerance", "2e-4"}).status, 1);
}

TEST(FC24, a_case_of_the_reference_policy_passes_and_a_tolerance_of_zero_names_the_first_stage) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b");
  const Outcome good = run({"parity", "-", folder, "--json"});
  ASSERT_EQ(good.status, 0) << good.err;
  EXPECT_TRUE(document(good).find("passed")->boolean());
  const Outcome bad = run({"parity", "-", folder, "--tolerance", "1e-12", "--json"});
  EXPECT_EQ(bad.status, 1);
  const Json json = document(bad);
  EXPECT_TRUE(json.find("first_deviation")->is_string());
  EXPECT_NE(bad.err.find(json.find("first_deviation")->text()), std::string::npos);
}

TEST(FC24, a_precision_set_for_a_case_without_configuration_is_used_and_checked) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b");
  const auto worst = [&](const char* setting) {
    const Outcome outcome =
        run({"parity", "-", folder, "--stage", "actions", "--set", setting, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return document(outcome).find("stages")->items().at(0).find("max_abs")->number();
  };
  EXPECT_GT(worst("precision=bf16"), 100 * worst("precision=f32"));
  EXPECT_EQ(run({"parity", "-", folder, "--set", "precision=nonsense"}).status, 2);
  EXPECT_EQ(run({"parity", "-", folder, "--set", "numerics=reference"}).status, 2);
}

TEST(FC24, a_case_that_compares_nothing_is_a_failure) {
  OUTRIDER_NEED_SHARED(folder, "golden/openpi-pi05-b");
  EXPECT_EQ(run({"parity", "-", folder, "--stage", "no_such_stage"}).status, 1);
}

// A case folder of plain arrays, made from the runtime's own answer.
TEST(FC24, a_case_of_ones_own_from_plain_arrays_passes_and_a_changed_value_fails) {
  const std::string folder = scratch("own-case"), a = picture("case.png", 64, 48);
  const std::string out = folder + "/actions.npy";
  const std::string policy = tiny_policy();
  const Outcome made = run({"run", policy, "--image", a, "--image", a, "--prompt", "pick",
                            "--state", "0,0,0,0,0,0,0,0", "--out", out, "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  const auto shape = cli::read_npy(out).value().shape;
  auto image = load_image(a.c_str());
  const std::string pixels(reinterpret_cast<const char*>(image.value().rgb.data()),
                           image.value().rgb.size());
  write(folder + "/images.u8", pixels + pixels);
  write(folder + "/meta.json",
        "{\"kind\": \"pi05\", \"views\": 2, \"width\": 64, \"height\": 48, \"prompt\": \"pick\", "
        "\"state\": null, \"action_steps\": " +
            std::to_string(shape[0]) + ", \"action_dim\": " + std::to_string(shape[1]) +
            ", \"tolerance_max_abs\": 1e-6}");
  const Outcome good =
      run({"parity", policy, folder, "--json", "--report", folder + "/parity.html"});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(document(good).find("stages")->items()[0].find("max_abs")->number(), 0);
  EXPECT_NE(read(folder + "/parity.html").find("<table>"), std::string::npos);
  std::string bytes = read(out);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 0x40);
  write(out, bytes);
  const Outcome bad = run({"parity", policy, folder, "--json"});
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(document(bad).find("first_deviation")->text(), "actions");
  write(folder + "/images.u8", pixels);
  EXPECT_EQ(run({"parity", policy, folder}).status, 1) << "half of the pictures are missing";
}

}  // namespace
}  // namespace outrider::cli_test
