// Files that must not be destroyed, claims that must hold, and texts that must not steer a
// terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/output.h"
#include "cli/report/png.h"
#include "cli/scene.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;

std::string vision_of(const std::string& policy) {
  return policy.substr(0, policy.size() - 5) + "-mmproj.gguf";
}

std::string picture() {
  auto png = cli::encode_png(cli::Scene(64, 48).draw(cli::Camera::kFront, 1));
  return write(scratch("hardening") + "/p.png",
               {reinterpret_cast<const char*>(png.value().data()), png.value().size()});
}

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> run_words() {
  return {"run", tiny_policy(), "--image", picture(), "--views",
          "1",   "--prompt",    "x",       "--state", "0"};
}

// A configuration of the tiny policy, with these members replaced.
std::string config_of(const std::string& name, const std::vector<std::string>& set = {}) {
  std::vector<std::string> words = {"bench", tiny_policy(), "--print-config", "--json"};
  for (const std::string& entry : set) words = with(words, {"--set", entry});
  const Outcome print = run(words);
  EXPECT_EQ(print.status, 0) << print.err;
  const Json json = document(print);
  std::string text = "{";
  for (const Json::Member& member : json.find("config")->members())
    text += (text.size() > 1 ? ", \"" : "\"") + member.name + "\": " +
            (member.value.is_string() ? "\"" + member.value.text() + "\"" : member.value.text());
  return write(scratch("hardening") + "/" + name, text + "}");
}

TEST(Outputs, links_and_pipes_survive_every_flag_that_writes_a_file) {
  const std::string folder = scratch("outputs");
  const std::string bench_words[] = {"--ticks", "1", "--warmup", "1", "--idle", "0", "--no-limits"};
  const std::vector<std::string> bench =
      with({"bench", tiny_policy()}, {std::begin(bench_words), std::end(bench_words)});
  const std::vector<std::vector<std::string>> writers = {
      with(run_words(), {"--out"}), with(bench, {"--report"}), with(bench, {"--samples"})};
  int n = 0;
  for (const auto& words : writers) {
    const std::string target = folder + "/target" + std::to_string(n),
                      link = folder + "/link" + std::to_string(n),
                      pipe = folder + "/pipe" + std::to_string(n);
    ++n;
    fs::create_symlink(target, link);
    Outcome outcome = run(with(words, {link}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_GT(read(target).size(), 64u);
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const int keep = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    (void)::fcntl(keep, F_SETPIPE_SZ, 1 << 20);
    outcome = run(with(words, {pipe}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(fs::is_fifo(pipe));
    char byte[65];
    EXPECT_EQ(::read(keep, byte, sizeof byte), static_cast<ssize_t>(sizeof byte));
    ::close(keep);
  }
  const std::string page = folder + "/outrider-demo.html", target = folder + "/page";
  fs::create_symlink(target, page);
  EXPECT_EQ(run({"demo", "--seconds", "0.2", "--out", folder}).status, 0);
  EXPECT_TRUE(fs::is_symlink(page));
  EXPECT_NE(read(target).find("<"), std::string::npos);
  fs::create_symlink(folder + "/real.gguf", folder + "/model.gguf");
  EXPECT_EQ(run({"make-model", "pi05", folder + "/model.gguf"}).status, 0);
  EXPECT_TRUE(fs::is_symlink(folder + "/model.gguf"));
  EXPECT_EQ(read(folder + "/real.gguf").substr(0, 4), "GGUF");
}

TEST(Outputs, an_input_is_never_overwritten_and_one_file_is_not_two_outputs) {
  const std::string folder = scratch("collide"), policy = tiny_policy(), before = read(policy);
  const std::string link = folder + "/link", p = picture();
  fs::create_symlink(policy, link);
  const std::vector<std::string> bench = {"bench", policy, "--ticks", "1"};
  const std::vector<std::vector<std::string>> bad = {
      with(run_words(), {"--out", policy}),
      with(run_words(), {"--out", link}),
      with(run_words(), {"--out", vision_of(policy)}),
      with(run_words(), {"--out", p}),
      with(bench, {"--report", policy}),
      with(bench, {"--samples", vision_of(policy)}),
      with(bench, {"--samples", folder + "/a", "--report", folder + "/../collide/a"}),
  };
  for (const auto& words : bad) {
    const Outcome outcome = run(with(words, {"--json"}));
    EXPECT_EQ(outcome.status, 2) << words.back();
    EXPECT_EQ(document(outcome).find("error")->find("code")->integer(), -1) << outcome.err;
  }
  EXPECT_EQ(read(policy), before);
  EXPECT_FALSE(fs::exists(folder + "/a"));
}

TEST(Outputs, what_cannot_be_written_or_compared_is_refused_before_the_work) {
  const std::string folder = scratch("early");
  const std::vector<std::string> bench = {"bench", tiny_policy(), "--ticks", "1000000"};
  EXPECT_EQ(run(with(bench, {"--report", folder})).status, 2);
  EXPECT_EQ(run(with(bench, {"--samples", folder + "/none/x.csv"})).status, 2);
  EXPECT_EQ(run(with(bench, {"--compare", folder + "/none.json"})).status, 2);
  for (const char* text :
       {"[]", "{\"version\": 1}", "{\"version\": 2, \"stages\": [], \"total_ms\": {\"p50\": 1}}",
        "{\"version\": 1, \"stages\": [{}], \"total_ms\": {\"p50\": 1}}",
        "{\"version\": 1, \"stages\": [], \"total_ms\": {}}"}) {
    const Outcome outcome = run(with(bench, {"--compare", write(folder + "/old.json", text)}));
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_NE(outcome.err.find("--compare"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(run(with(run_words(), {"--out", folder})).status, 2);
}

TEST(MakeModel, a_failure_leaves_an_earlier_pair_untouched) {
  const std::string folder = scratch("pair"), policy = folder + "/m.gguf";
  ASSERT_EQ(run({"make-model", "pi05", policy, "--seed", "1"}).status, 0);
  const std::string a = read(policy), b = read(vision_of(policy));
  // A limit between the sizes of the two files: the vision file fits, the policy does not.
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = std::max(a.size(), b.size()) - 1;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Outcome full = run({"make-model", "pi05", policy, "--seed", "2", "--json"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(full.status, 2) << full.err;
  EXPECT_EQ(document(full).find("error")->find("code")->integer(), -5);
  EXPECT_EQ(read(policy), a);
  EXPECT_EQ(read(vision_of(policy)), b);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  fs::remove(policy);
  fs::create_directory(policy);
  EXPECT_EQ(run({"make-model", "pi05", policy, "--seed", "2"}).status, 2);
  EXPECT_EQ(read(vision_of(policy)), b);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
}

TEST(MakeModel, a_signal_leaves_no_partial_file) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string folder = scratch("signal" + std::to_string(signal));
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string program = std::string(OUTRIDER_BUILD_DIR) + "/bin/outrider",
                        out = folder + "/m.gguf";
      ::execl(program.c_str(), "outrider", "make-model", "pi05", out.c_str(), "--size", "full",
              nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 2000 && fs::is_empty(folder); ++i) ::usleep(5000);
    EXPECT_FALSE(fs::is_empty(folder));
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_TRUE(fs::is_empty(folder)) << signal;
  }
}

TEST(Inspect, never_says_runs_of_a_configuration_that_does_not_open) {
  const std::string config = config_of("good.json");
  const std::string p = picture();
  EXPECT_EQ(run({"inspect", config}).status, 0);
  EXPECT_EQ(run({"inspect", config, "--set", "cache_dir="}).status, 0);
  for (const char* set :
       {"backend=cuda",        "n_views=9",        "n_views=0",      "image_height=0",
        "image_width=65536",   "image_channels=4", "action_steps=3", "action_dim=x",
        "action_dim=33",       "precision=f64",    "numerics=maths", "n_threads=2000",
        "num_steps=1001",      "noise_seed=-1",    "reuse=maybe",    "pin_threads=1",
        "rt_priority=100",     "rope_bf16=yes",    "policy_dir=x",   "mmproj_path=none.gguf",
        "model_path=none.gguf"}) {
    for (const std::string& file : {config, tiny_policy()}) {
      const Outcome opened = run({"doctor", file, "--set", set});
      EXPECT_NE(opened.status, 0) << set;
      const Outcome outcome = run({"inspect", file, "--set", set, "--json"});
      EXPECT_NE(outcome.status, 0) << set << " " << outcome.out;
      const Json json = document(outcome);
      EXPECT_TRUE(json.find("runs") == nullptr || !json.find("runs")->boolean()) << set;
    }
  }
}

TEST(Inspect, refuses_tokens_in_the_words_of_the_run) {
  const auto reason = [](const Outcome& outcome) {
    const std::string text = document(outcome).find("error")->find("text")->text();
    const size_t end = text.rfind(" (code");
    return text.substr(0, end);
  };
  const auto both = [&](const std::string& prompt, const std::string& state) {
    const Outcome ran = run({"run", tiny_policy(), "--image", picture(), "--views", "1", "--prompt",
                             prompt, "--state", state, "--json"});
    const Outcome told =
        run({"inspect", tiny_policy(), "--tokens", prompt, "--state", state, "--json"});
    EXPECT_EQ(told.status, 1) << told.err;
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(reason(ran).find(reason(told)), std::string::npos) << reason(ran) << "\n"
                                                                 << reason(told);
  };
  both(std::string(16385, 'x'), "0");
  both("x", "0,0,0,0,0,0,0,0,1");
  std::string long_text;
  for (int i = 0; i < 2000; ++i) long_text += "\xC3\xA9";
  both(long_text, "0");
  EXPECT_EQ(run({"inspect", tiny_policy(), "--tokens", ""}).status, 1);
  const std::string narrow = scratch("narrow") + "/pi0.gguf";  // seven values an action
  ASSERT_EQ(run({"make-model", "pi0", narrow}).status, 0);
  EXPECT_EQ(run({"inspect", narrow, "--tokens", "x"}).status, 0);
  EXPECT_EQ(run({"inspect", tiny_policy(), "--tokens", "x", "--state", "nan"}).status,
            run({"run", tiny_policy(), "--state", "nan"}).status);
}

TEST(FC22, run_delivers_no_value_that_is_not_finite) {
  if (fake_provider().empty()) GTEST_SKIP() << "the scripted provider was not built";
  const std::string config = fake_config("\"require_inputs\": 0, \"nan_at\": 1, \"nan_index\": 5"),
                    out = scratch("nan") + "/a.npy";
  const Outcome outcome = run(
      {"run", config, "--provider", fake_provider(), "--image", picture(), "--out", out, "--json"});
  EXPECT_NE(outcome.status, 0);
  const Outcome plain = run({"run", config, "--provider", fake_provider(), "--out", out, "--json"});
  EXPECT_EQ(plain.status, 1) << plain.err;
  EXPECT_EQ(document(plain).find("error")->find("code")->integer(), -8);
  EXPECT_NE(plain.err.find("value 5 "), std::string::npos) << plain.err;
  EXPECT_FALSE(fs::exists(out));
}

TEST(FC49, a_provider_that_prints_does_not_break_the_document) {
  if (fake_provider().empty()) GTEST_SKIP() << "the scripted provider was not built";
  const Outcome outcome = run({"run", fake_config("\"require_inputs\": 0, \"open_print\": 1"),
                               "--provider", fake_provider(), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  document(outcome);
  const Json version = document(run({"--version", "--json"}));
  EXPECT_NE(version.find("outrider"), nullptr);
}

TEST(Terminal, shown_escapes_what_steers_a_terminal_and_keeps_what_people_read) {
  EXPECT_EQ(cli::shown("caf\xC3\xA9 \xE6\x9D\xAF"), "caf\xC3\xA9 \xE6\x9D\xAF");
  EXPECT_EQ(cli::shown(std::string_view("a\0\n\x1b[31m\x7f", 9)), "a\\x00\\x0a\\x1b[31m\\x7f");
  EXPECT_EQ(cli::shown("\xC2\x9B"), "\\xc2\\x9b") << "a control code of two bytes";
  EXPECT_EQ(cli::shown("\xE2\x80\xAE"), "\\xe2\\x80\\xae") << "right to left";
  EXPECT_EQ(cli::shown("\xFF\xC0\xAF"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(cli::shown("abcdef", 4), "abcd...");
}

TEST(Terminal, no_control_byte_of_a_path_or_prompt_reaches_a_text) {
  const std::string evil = std::string("e\x1b[31m\xC2\x9B\nvil\xff");
  const std::string folder = scratch("evil") + "/" + evil;
  fs::create_directories(folder);
  const std::string policy = folder + "/m.gguf", junk = write(folder + "/junk.gguf", "junk");
  write(policy, read(tiny_policy()));
  write(vision_of(policy), read(vision_of(tiny_policy())));
  const std::vector<std::vector<std::string>> all = {
      {"inspect", policy},
      {"inspect", junk},
      {"inspect", folder + "/none.gguf"},
      {"inspect", policy, "--markdown"},
      {"run", policy, "--image", picture(), "--prompt", evil},
      {"run", tiny_policy(), "--set", evil + "=1"},
      {"bench", policy},
      {"bench", tiny_policy(), "--compare", folder + "/x"},
      {"bench", tiny_policy(), "--report", folder + "/none/x"},
      {"parity", policy, folder},
      {"doctor", policy},
      {"make-model", evil, "x"},
      {"make-model", "pi05", folder + "/made.gguf"},
      {evil},
      {"inspect", "--" + evil},
      {"inspect", tiny_policy(), "--tokens", "a\x1b[31m\xC2\x9B"},
  };
  for (const auto& words : all) {
    const Outcome outcome = run(words);
    for (const std::string& text : {outcome.out, outcome.err}) {
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << words[0] << " " << text;
      EXPECT_EQ(text.find("\xC2\x9B"), std::string::npos) << words[0] << " " << text;
      EXPECT_EQ(text.find('\xff'), std::string::npos) << words[0];
      EXPECT_EQ(text.find("\nvil"), std::string::npos) << words[0];
    }
  }
  const Outcome refused = run({"bench", policy, "--print-config"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("rename"), std::string::npos) << refused.err;
}

TEST(Codes, a_file_that_is_missing_is_minus_two_and_two_wherever_it_is_named) {
  const std::string gone = scratch("codes") + "/gone.gguf";
  const std::string no_model = config_of("nomodel.json"), no_vision = config_of("novision.json");
  const auto replace = [](const std::string& path, const std::string& from, const std::string& to) {
    std::string text = read(path);
    text.replace(text.find(from), from.size(), to);
    write(path, text);
  };
  replace(no_vision, vision_of(tiny_policy()), gone);
  replace(no_model, tiny_policy(), gone);
  for (const char* command : {"inspect", "run", "bench", "doctor"}) {
    for (const std::string& file : {gone, no_model, no_vision}) {
      std::vector<std::string> words = {command, file, "--json"};
      const Outcome outcome = run(words);
      EXPECT_EQ(outcome.status, 2) << command << " " << file << outcome.err;
      EXPECT_EQ(document(outcome).find("error")->find("code")->integer(), -2) << outcome.err;
    }
  }
  const std::string damaged =
      write(scratch("codes") + "/cut.gguf", read(tiny_policy()).substr(0, 5000));
  for (const char* command : {"inspect", "run", "bench", "doctor"}) {
    const Outcome outcome = run({command, damaged, "--json"});
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_EQ(document(outcome).find("error")->find("code")->integer(), -2);
  }
}

TEST(Run, tells_what_was_resized_and_padded) {
  const Outcome text = run(run_words());
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("1 picture was resized"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("1 view of 64x48"), std::string::npos) << text.err;
  const Outcome json = run(with(run_words(), {"--json"}));
  EXPECT_EQ(document(json).find("resized_views")->integer(), 1);
  EXPECT_EQ(document(json).find("padded_states")->integer(), 0);
}

}  // namespace
}  // namespace outrider::cli_test
