// Commands on policies that know their robot: folders, policy.json, converted files. FC-05, FC-16,
// FC-18, FC-24.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "../support/checkpoint_writer.h"
#include "../support/fast_folder.h"
#include "base/json.h"
#include "cli/push.h"
#include "cli/report/png.h"
#include "cli/scene.h"
#include "models/pi_gguf.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;

// A checkpoint folder of openpi's kind around a made model, with a robot of six joints.
const std::string& folder() {
  static const std::string path = [] {
    const std::string dir = scratch("policy-folder");
    const std::string gguf = scratch("policy-model") + "/pi05.gguf";
    EXPECT_EQ(run({"make-model", "pi05", gguf}).status, 0);
    const std::string vision = gguf.substr(0, gguf.size() - 5) + "-mmproj.gguf";
    test::write_weights(dir, gguf, vision);
    const auto a = GgufFile::open(gguf.c_str()), b = GgufFile::open(vision.c_str());
    const auto config = read_pi_config(a.value(), b.value());
    EXPECT_TRUE(config);
    fs::create_directories(dir + "/assets/arm");
    write(dir + "/assets/arm/norm_stats.json", R"({"norm_stats":{"state":)" +
                                                   test::statistics_text(6) + R"(,"actions":)" +
                                                   test::statistics_text(6) + "}}");
    write(dir + "/policy.json",
          R"({"cameras":[{"name":"top","slot":"base_0_rgb"},)"
          R"({"name":"wrist","slot":"left_wrist_0_rgb","required":false}],)"
          R"("state":{"fields":[{"name":"joints","size":6,"unit":"rad"}]},)"
          R"("actions":{"size":6,"delta_mask":[5,-1]},"rate_hz":20,"tokenizer":")" +
              gguf + R"(","horizon":10,"model":{"head_dim":)" +
              std::to_string(config.value().backbone.head_dim) + R"(,"vision_heads":)" +
              std::to_string(config.value().vision.n_heads) + "}}");
    return dir;
  }();
  return path;
}

std::string picture(const std::string& name) {
  auto png = cli::encode_png(cli::Scene(56, 56).draw(cli::Camera::kFront, name == "a" ? 1 : 2));
  return write(scratch("policy-pictures") + "/" + name + ".png",
               {reinterpret_cast<const char*>(png.value().data()), png.value().size()});
}

std::vector<std::string> run_words(const std::string& policy) {
  return {"run",      policy,
          "--image",  "top=" + picture("a"),
          "--image",  "wrist=" + picture("b"),
          "--prompt", "pick up the red block",
          "--state",  "0.1,0.2,0.3,0.4,0.5,0.6",
          "--set",    "precision=f32",
          "--json"};
}

Outcome run_policy(const std::string& policy) {
  return run(run_words(policy));
}

TEST(PolicyCommands, inspect_shows_the_contract_of_a_folder) {
  const Outcome outcome = run({"inspect", folder()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted :
       {"camera", "top goes to slot base_0_rgb", "wrist goes to slot left_wrist_0_rgb; masked out",
        "joints (6) rad", "masked actions are state + action", "quantile (6 dims",
        "assets/arm/norm_stats.json", "state in the text, at most 200 tokens", "runs it"})
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
  const auto json = Json::parse(run({"inspect", folder(), "--json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json.value().find("robot")->find("policy")->find("cameras")->items().size(), 2u);
}

TEST(PolicyCommands, FC18_doctor_prints_ports_units_slots_and_statistics) {
  const Outcome outcome = run({"doctor", folder()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* wanted :
       {"camera top goes to slot base_0_rgb", "slot right_wrist_0_rgb has no camera: masked out",
        "robot custom, 20 Hz", "state joints (6) rad", "dimensions 0 1 2 3 4 are state + action",
        "actions quantile (openpi): 6 dims", "required, robot"})
    EXPECT_NE(outcome.out.find(wanted), std::string::npos) << wanted << "\n" << outcome.out;
}

TEST(PolicyCommands, run_speaks_robot_units_and_names) {
  const Outcome outcome = run_policy(folder());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = Json::parse(outcome.out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json.value().find("units")->text(), "robot");
  EXPECT_EQ(json.value().find("actions")->items().size(), 10u);
  EXPECT_EQ(json.value().find("actions")->items()[0].items().size(), 6u);
}

TEST(PolicyCommands, FC16_pictures_need_the_names_of_cameras) {
  Outcome outcome = run({"run", folder(), "--image", picture("a"), "--image", picture("b"),
                         "--prompt", "x", "--state", "0,0,0,0,0,0"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("top, wrist"), std::string::npos) << outcome.err;
  outcome = run({"run", folder(), "--image", "Top=" + picture("a"), "--prompt", "x", "--state",
                 "0,0,0,0,0,0"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("no camera \"Top\""), std::string::npos) << outcome.err;
  outcome = run({"run", folder(), "--image", "top=" + picture("a"), "--image",
                 "top=" + picture("b"), "--prompt", "x"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("given twice"), std::string::npos) << outcome.err;
}

TEST(PolicyCommands, FC24_a_converted_file_gives_the_actions_of_its_folder) {
  const std::string out = scratch("policy-converted") + "/one.gguf";
  const Outcome converted = run({"convert", folder(), out, "--json"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  const auto json = Json::parse(converted.out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json.value().find("type")->text(), "F32");
  const Outcome by_folder = run_policy(folder()), by_file = run_policy(out);
  ASSERT_EQ(by_folder.status, 0) << by_folder.err;
  ASSERT_EQ(by_file.status, 0) << by_file.err;
  const auto a = Json::parse(by_folder.out), b = Json::parse(by_file.out);
  const auto rows = [](const Json& answer) {
    std::string text;
    for (const Json& row : answer.find("actions")->items())
      for (const Json& value : row.items()) text += value.text() + " ";
    return text;
  };
  EXPECT_EQ(rows(a.value()), rows(b.value()));
  EXPECT_EQ(run({"inspect", out}).status, 0);
  // Fewer bits: near, not equal.
  const std::string small = scratch("policy-converted") + "/small.gguf";
  ASSERT_EQ(run({"convert", folder(), small, "--type", "q8_0"}).status, 0);
  EXPECT_LT(fs::file_size(small), fs::file_size(out));
  const Outcome by_small = run_policy(small);
  ASSERT_EQ(by_small.status, 0) << by_small.err;
  EXPECT_NE(rows(Json::parse(by_small.out).value()), rows(a.value()));
  // The plain face still reads the file, as both halves of a pair.
  const Outcome plain = run({"inspect", folder(), "--print-config"});
  EXPECT_EQ(plain.status, 0);
  EXPECT_NE(plain.out.find("policy_dir"), std::string::npos);
}

TEST(PolicyCommands, a_converted_file_is_pushed_and_served_alone) {
  const std::string one = scratch("policy-pushed") + "/one.gguf";
  ASSERT_EQ(run({"convert", folder(), one}).status, 0);
  const auto plan = cli::plan_push(one, "", "");
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan.value().files.size(), 1u) << "there is no vision file to bring";
  EXPECT_EQ(plan.value().files[0].role, store::Role::kModel);
  const auto with_vision = cli::plan_push(one, one, "");
  ASSERT_FALSE(with_vision);
  EXPECT_NE(std::string(with_vision.error().text).find("--mmproj"), std::string::npos);
}

TEST(PolicyCommands, convert_refuses_what_is_no_checkpoint_and_leaves_nothing) {
  const std::string out = scratch("policy-refused") + "/x.gguf";
  EXPECT_EQ(run({"convert", "/nonexistent", out}).status, 1);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(run({"convert", folder(), out, "--type", "q3"}).status, 2);
  EXPECT_NE(run({"convert", folder(), folder() + "/model.safetensors"}).status, 0);
  EXPECT_TRUE(fs::exists(folder() + "/model.safetensors"));
}

TEST(PolicyCommands, FC05_tokens_are_those_of_the_policy) {
  const Outcome clean = run({"inspect", folder(), "--tokens", "pick up the red block", "--json"}),
                dirty =
                    run({"inspect", folder(), "--tokens", " pick_up the red block\n", "--json"});
  ASSERT_EQ(clean.status, 0) << clean.err;
  const auto a = Json::parse(clean.out), b = Json::parse(dirty.out);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a.value().find("text")->text(), b.value().find("text")->text());
  EXPECT_TRUE(a.value().find("text")->text().starts_with("Task: pick up the red block, State: "));
  const Outcome wrong = run({"inspect", folder(), "--tokens", "x", "--state", "1,2"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("exactly 6"), std::string::npos) << wrong.err;
}

TEST(PolicyCommands, bench_and_conform_take_a_folder) {
  const Outcome bench = run({"bench", folder(), "--ticks", "3", "--no-limits"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  const Outcome refused = run({"doctor", "/nonexistent/policy"});
  EXPECT_NE(refused.status, 0);
}

TEST(PolicyCommands, FC18_a_folder_without_statistics_is_refused_with_where_it_looked) {
  const std::string copy = scratch("policy-bare");
  fs::copy(folder(), copy, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::remove_all(copy + "/assets");
  const Outcome outcome = run({"inspect", copy});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("looked for"), std::string::npos) << outcome.err;
}

// A uint8 array in numpy's format.
std::string npy(const std::string& name, int64_t height, int64_t width, uint32_t seed) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" +
                       std::to_string(height) + ", " + std::to_string(width) + ", 3), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += static_cast<char>(0);
  bytes += header;
  for (int64_t i = 0; i < height * width * 3; ++i)
    bytes += static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return write(scratch("policy-arrays") + "/" + name + ".npy", bytes);
}

// The whole policy against an independent float64 program: every stage of a case that it made.
TEST(PolicyCommands, FC24_parity_with_cases_of_the_reference_program) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-numpy is not installed";
  const std::string dir = scratch("policy-parity");
  const std::string state = "0.1,0.2,0.3,0.4,0.5,0.6";
  const Outcome tokens =
      run({"inspect", folder(), "--tokens", "pick up the red block", "--state", state, "--json"});
  ASSERT_EQ(tokens.status, 0) << tokens.err;
  const std::string command =
      "/usr/bin/python3 " OUTRIDER_SOURCE_DIR "/tools/reference/policy_reference.py " + folder() +
      " " + dir + "/case --tokens " + write(dir + "/ids.json", tokens.out) +
      " --image top=" + npy("top", 56, 56, 1) + " --image wrist=" + npy("wrist", 56, 56, 2) +
      " --state " + state + " --prompt 'pick up the red block' > " + dir + "/log 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read(dir + "/log");
  Outcome outcome = run({"parity", folder(), dir + "/case", "--set", "precision=f32", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Json json = document(outcome);
  EXPECT_GT(json.find("stages")->items().size(), 25u);
  EXPECT_EQ(json.find("action_columns_max_abs")->items().size(), 6u);
  // A wrong rule is found where it begins.
  const std::string meta = read(dir + "/case/meta.json");
  std::string other = meta;
  other.replace(other.find("0.3"), 3, "0.9");
  write(dir + "/case/meta.json", other);
  outcome = run({"parity", folder(), dir + "/case", "--set", "precision=f32", "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(document(outcome).find("first_deviation")->text(), "tokens") << outcome.out;
}

// What a case of the reference program is made of.
struct Odd {
  const char* kind;  // of make-model
  int64_t height, width, horizon;
  std::vector<std::string> cameras;  // by slot
  const char* more = "";             // members of policy.json
};

std::string odd_folder(const std::string& name, const Odd& odd) {
  const std::string dir = scratch("policy-odd-" + name), made = dir + "/made.gguf";
  EXPECT_EQ(run({"make-model", odd.kind, made, "--seed", "77"}).status, 0);
  const std::string vision = dir + "/made-mmproj.gguf";
  test::write_weights(dir, made, vision);
  const auto a = GgufFile::open(made.c_str()), b = GgufFile::open(vision.c_str());
  const auto config = read_pi_config(a.value(), b.value());
  EXPECT_TRUE(config);
  fs::create_directories(dir + "/assets/arm");
  write(dir + "/assets/arm/norm_stats.json", R"({"norm_stats":{"state":)" +
                                                 test::statistics_text(7) + R"(,"actions":)" +
                                                 test::statistics_text(5) + "}}");
  std::string cameras;
  const char* slots[] = {"base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb"};
  for (size_t i = 0; i < odd.cameras.size(); ++i)
    cameras += (i > 0 ? ",{" : "{") + (R"("name":")" + odd.cameras[i]) + R"(","slot":")" +
               slots[i] + R"(","height":)" + std::to_string(odd.height) + R"(,"width":)" +
               std::to_string(odd.width) + "}";
  write(dir + "/policy.json",
        R"({"cameras":[)" + cameras +
            R"(],"state":{"fields":[{"name":"joints","size":7,"unit":"rad"}]},)"
            R"("actions":{"size":5,"delta_mask":[1,-2,2]},"tokenizer":"made.gguf","horizon":)" +
            std::to_string(odd.horizon) + R"(,"model":{"head_dim":)" +
            std::to_string(config.value().backbone.head_dim) + R"(,"vision_heads":)" +
            std::to_string(config.value().vision.n_heads) + "}" + odd.more + "}");
  return dir;
}

// Sizes that nothing else here has, in every precision: one row, one view, three views, pictures
// that are enlarged, shrunk, thin; both families, other steps, the state left out of the text.
TEST(PolicyCommands, FC24_parity_of_odd_sizes_in_every_precision) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-numpy is not installed";
  const Odd rows[] = {
      {"pi05", 33, 71, 1, {"top"}, R"(,"num_steps":1)"},
      {"pi0", 101, 59, 1, {"top", "left", "right"}, R"(,"num_steps":3)"},
      {"pi05", 57, 55, 13, {"a", "b", "c"}, R"(,"num_steps":7,"prompt":{"state_in_text":false})"},
      {"pi0", 5, 64, 3, {"only"}, R"(,"normalisation":{"state":"quantile","actions":"none"})"}};
  const std::string state = "0.11,-0.7,2.5,0,-3.25,0.5,1", text = "Stack_the cups";
  for (size_t i = 0; i < std::size(rows); ++i) {
    const Odd& odd = rows[i];
    const std::string dir = odd_folder(std::to_string(i), odd);
    const Outcome tokens = run({"inspect", dir, "--tokens", text, "--state", state, "--json"});
    ASSERT_EQ(tokens.status, 0) << tokens.err;
    std::string command =
        "/usr/bin/python3 " OUTRIDER_SOURCE_DIR "/tools/reference/policy_reference.py " + dir +
        " " + dir + "/case --tokens " + write(dir + "/ids.json", tokens.out) +
        " --noise-seed 123 --state=" + state + " --prompt '" + text + "'";
    for (size_t c = 0; c < odd.cameras.size(); ++c)
      command +=
          " --image " + odd.cameras[c] + "=" +
          npy("odd" + std::to_string(c), odd.height, odd.width, static_cast<uint32_t>(100 * i + c));
    ASSERT_EQ(std::system((command + " > " + dir + "/log 2>&1").c_str()), 0) << read(dir + "/log");
    for (const auto& [precision, bound] : {std::pair<const char*, const char*>{"f32", "0.0002"},
                                           {"bf16", "0.03"},
                                           {"int8", "0.2"}}) {
      const Outcome outcome = run({"parity", dir, dir + "/case", "--tolerance", bound, "--set",
                                   std::string("precision=") + precision, "--json"});
      EXPECT_EQ(outcome.status, 0) << i << " " << precision << outcome.out << outcome.err;
      EXPECT_EQ(document(outcome).find("action_columns_max_abs")->items().size(), 5u);
    }
    // One value of the case is changed: the first stage that it reaches is named.
    const std::string last = std::to_string(odd.cameras.size() - 1);
    for (const auto& [file, stage] :
         {std::pair<std::string, std::string>{"images.u8", "pixels_" + last},
          {"image_embd_" + last + ".bin", "image_embd_" + last},
          {"prefix_v_0.bin", "prefix_v_0"},
          {"noise.bin", "velocity_0"},
          {"actions.bin", "actions"}}) {
      const std::string path = dir + "/case/" + file, good = read(path);
      std::string bad = good;
      // Pictures: the middle of the last one. Else a float of size 4 in place of the last.
      if (file == "images.u8") {
        const auto middle = bad.size() - static_cast<size_t>(odd.height * odd.width * 3 / 2);
        for (size_t k = 0; k < 600 && middle + k < bad.size(); ++k)
          bad[middle + k] = static_cast<char>(bad[middle + k] + 128);
      } else {
        bad.replace(bad.size() - 4, 4, std::string("\0\0\x80\x40", 4));
      }
      write(path, bad);
      const Outcome outcome =
          run({"parity", dir, dir + "/case", "--set", "precision=f32", "--json"});
      EXPECT_EQ(outcome.status, 1) << i << " " << file;
      EXPECT_EQ(document(outcome).find("first_deviation")->text(), stage) << i << " " << file;
      write(path, good);
    }
  }
}

// PI0-FAST: the ids that the model writes, every logit, and the chunk they become.
TEST(PolicyCommands, FC24_parity_of_pi0_fast_with_the_reference_program) {
  const std::string dir = scratch("policy-fast"), made = scratch("policy-fast-model") + "/p.gguf";
  ASSERT_EQ(run({"make-model", "pi05", made, "--type", "f32"}).status, 0);
  test::write_fast_folder(dir, made, made.substr(0, made.size() - 5) + "-mmproj.gguf",
                          {.varied = true});
  const Outcome shown = run({"inspect", dir});
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* wanted :
       {"PI0-FAST", "in at most 256 tokens", "wrist goes to slot wrist_0_rgb; black"})
    EXPECT_NE(shown.out.find(wanted), std::string::npos) << wanted << "\n" << shown.out;
  EXPECT_NE(run({"doctor", dir}).out.find("slot base_1_rgb has no camera: black"),
            std::string::npos);
  // One file holds it too, and a file of PI0-FAST is no pair.
  const std::string one = scratch("policy-fast-one") + "/one.gguf";
  ASSERT_EQ(run({"convert", dir, one}).status, 0);
  const Outcome inside = run({"inspect", one});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_NE(inside.out.find("PI0-FAST"), std::string::npos) << inside.out;
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-numpy is not installed";
  const std::string state = "0.1,0.2,0.3,0.4,0.5,0.6", text = "Pick_up the RED block ";
  const Outcome tokens = run({"inspect", dir, "--tokens", text, "--state", state, "--json"});
  ASSERT_EQ(tokens.status, 0) << tokens.err;
  const std::string command =
      "/usr/bin/python3 " OUTRIDER_SOURCE_DIR "/tools/reference/policy_reference.py " + dir + " " +
      dir + "/case --tokens " + write(dir + "/ids.json", tokens.out) +
      " --image top=" + npy("top", 56, 56, 1) + " --image wrist=" + npy("wrist", 56, 56, 2) +
      " --state " + state + " --prompt '" + text + "' > " + dir + "/log 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read(dir + "/log");
  Outcome outcome = run({"parity", dir, dir + "/case", "--set", "precision=f32", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Json json = document(outcome);
  EXPECT_GT(json.find("stages")->items().size(), 25u);
  int n_logits = 0;
  for (const Json& stage : json.find("stages")->items())
    n_logits += stage.find("name")->text().starts_with("logits_");
  EXPECT_EQ(n_logits, static_cast<int>(test::fast_answer_ids({}).size()));
  outcome = run({"parity", one, dir + "/case", "--set", "precision=f32", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(document(outcome).find("stages")->items().size(), json.find("stages")->items().size());
}

}  // namespace
}  // namespace outrider::cli_test
