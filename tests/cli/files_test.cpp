// What is read stays, what cannot be written ends the command, and nobody waits at a pipe.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "link/serve_process.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;

std::string pipe_at(const std::string& path) {
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

std::vector<std::string> loop_of(const std::string& config, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"loop",    config,     "--provider", fake_provider(), "--size",
                                    "state=3", "--prompt", "go",         "--seconds",     "0.1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// ---- a graph whose weights lie beside it
// ---------------------------------------------------------

std::string part(int field, const std::string& bytes) {
  return std::string(1, static_cast<char>(field << 3 | 2)) +
         std::string(1, static_cast<char>(bytes.size())) + bytes;
}
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}
std::string port(const std::string& name) {
  const std::string shape = part(1, number(1, 4));
  return part(1, name) + part(2, part(1, number(1, 1) + part(2, shape)));
}
// y = x + w, w in weights.bin.
std::string graph_with_weights(const std::string& folder) {
  write(folder + "/weights.bin", std::string(16, '\0'));
  const std::string w = number(1, 4) + number(2, 1) + part(8, "w") +
                        part(13, part(1, "location") + part(2, "weights.bin")) + number(14, 1);
  const std::string graph = part(1, part(1, "x") + part(1, "w") + part(2, "y") + part(4, "Add")) +
                            part(2, "g") + part(5, w) + part(11, port("x")) + part(12, port("y"));
  return write(folder + "/graph.onnx",
               number(1, 8) + part(7, graph) + part(8, part(1, "") + number(2, 17)));
}

// ---- outputs
// -------------------------------------------------------------------------------------

TEST(Files, no_output_is_a_file_that_the_command_reads) {
  const std::string folder = scratch("files_read"), graph = graph_with_weights(folder);
  const std::string config = write(folder + "/config.json", "{\"model_family\": \"fake\"}");
  const std::string wrapped =
      write(folder + "/wrapped.json", "{\"model_family\": \"onnx\", \"model_path\": \"" + graph +
                                          "\", \"backend\": \"cpu\"}");
  fs::create_directories(folder + "/case");
  const std::string meta = write(folder + "/case/meta.json", "{\"kind\": \"pi05\"}"),
                    values = write(folder + "/case/images.u8", "values");
  const std::vector<std::string> bench = {"bench", graph, "--ticks", "1", "--no-limits"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(run(with(bench, {"--report", folder + "/page.html"})).status, 0) << "the graph is good";
  const std::vector<std::vector<std::string>> bad = {
      loop_of(config, {"--input", "stdin", "--actions", config}),
      loop_of(config, {"--report", config}),
      loop_of(config, {"--samples", config}),
      with(bench, {"--report", graph}),
      with(bench, {"--report", folder + "/weights.bin"}),
      {"bench", wrapped, "--samples", graph},
      {"loop", graph, "--input", "stdin", "--actions", graph},
      {"loop", wrapped, "--input", "stdin", "--actions", folder + "/weights.bin"},
      {"parity", graph, folder + "/case", "--report", values},
      {"parity", graph, folder + "/case", "--report", meta},
      {"parity", graph, folder + "/case", "--report", graph},
  };
  const auto state = [&] {
    std::string all;
    for (const std::string& file : {graph, config, wrapped, meta, values, folder + "/weights.bin"})
      all += read(file) + "|";
    return all;
  };
  const std::string before = state();
  for (const auto& words : bad) {
    const Outcome outcome = run(words, {.stdin_path = "/dev/null"});
    EXPECT_EQ(outcome.status, 2) << words[0] << " " << words.back();
    EXPECT_NE(outcome.err.find("would be overwritten"), std::string::npos)
        << words[0] << " " << words.back() << ": " << outcome.err;
  }
  const Outcome own =
      run(loop_of(config, {"--input", "stdin", "--actions", values}), {.stdin_path = values});
  EXPECT_EQ(own.status, 2) << own.err;
  EXPECT_NE(own.err.find("would be overwritten"), std::string::npos) << own.err;
  EXPECT_EQ(state(), before);
}

// A folder or a file that cannot be made is the environment's: status 2, whoever wanted it.
TEST(Files, what_cannot_be_made_or_written_is_the_environment) {
  const std::string folder = scratch("files_unreachable");
  const std::string below = write(folder + "/file", "no folder") + "/below",
                    config = write(folder + "/config.json", "{\"model_family\": \"fake\"}");
  const std::vector<std::vector<std::string>> bad = {
      {"serve", config, "--provider", fake_provider(), "--listen", "tcp://127.0.0.1:0", "--store",
       below},
      {"serve", "--jetlink", "--port", "0", "--cache", below},
      {"make-model", "pi05", below, "--size", "tiny"},
      loop_of(config, {"--input", "stdin", "--actions", below}),
      loop_of(config, {"--report", below}),
      loop_of(config, {"--samples", below}),
      {"bench", tiny_policy(), "--ticks", "1", "--no-limits", "--report", below},
  };
  for (const auto& words : bad) {
    const Outcome outcome = run(words, {.stdin_path = "/dev/null"});
    EXPECT_EQ(outcome.status, 2) << words[0] << " " << words.back() << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("file"), std::string::npos) << words[0] << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("Not a directory"), std::string::npos)
        << words[0] << ": " << outcome.err;
  }
}

TEST(Files, an_address_that_cannot_be_listened_on_is_the_environment) {
  const std::string folder = scratch("files_listen");
  const std::string config = write(folder + "/config.json", "{\"model_family\": \"fake\"}");
  for (const char* listen : {"tcp://999.1.1.1:1", "tcp://192.0.2.1:1", "tcp://127.0.0.1:99999"}) {
    const Outcome outcome =
        run({"serve", config, "--provider", fake_provider(), "--plaintext", "--listen", listen});
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(listen), std::string::npos) << outcome.err;
  }
}

TEST(Files, a_pipe_without_a_reader_ends_a_command_that_writes_and_stays) {
  const std::string folder = scratch("files_pipe"), out = pipe_at(folder + "/out.gguf");
  const std::vector<std::vector<std::string>> writers = {
      {"make-model", "llm", out},
      loop_of(fake_config(), {"--report", out}),
      loop_of(fake_config(), {"--input", "stdin", "--actions", out}),
      {"bench", tiny_policy(), "--ticks", "1", "--no-limits", "--report", out}};
  for (const auto& words : writers) {
    const Outcome outcome = run(words, {.stdin_path = "/dev/null"});
    EXPECT_EQ(outcome.status, 2) << words[0] << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("a pipe that nobody reads"), std::string::npos) << outcome.err;
  }
  EXPECT_TRUE(fs::is_fifo(out));
}

TEST(Files, a_pipe_in_the_place_of_a_file_that_is_read_ends_the_command) {
  const std::string folder = scratch("files_fifo"), key = pipe_at(folder + "/key");
  const std::string remote =
      write(folder + "/remote.json",
            "{\"model_family\": \"remote\", \"endpoint\": \"tcp://127.0.0.1:9\", \"model\": \"m\", "
            "\"key_file\": \"" +
                key + "\"}");
  const std::vector<std::vector<std::string>> readers = {
      {"serve", fake_config(), "--provider", fake_provider(), "--key-file", key},
      {"link", "check", "tcp://127.0.0.1:9", "--key-file", key},
      {"link", "push", "tcp://127.0.0.1:9", key},
      {"run", remote},
      {"run", key},
      {"inspect", key},
      {"conform", key, remote},
      {"conform", "--adapter", key},
      {"parity", tiny_policy(), key}};
  for (const auto& words : readers) {
    const Outcome outcome = run(words);
    EXPECT_TRUE(outcome.status == 1 || outcome.status == 2)
        << words[0] << " " << outcome.status << ": " << outcome.err;
    const std::string said = outcome.err + outcome.out;
    EXPECT_NE(said.find(words[0] == "conform" ? "not a regular file" : key), std::string::npos)
        << words[0] << ": " << said;
  }
  EXPECT_TRUE(fs::is_fifo(key));
}

// ---- serve
// ---------------------------------------------------------------------------------------

TEST(Files, a_power_off_file_that_is_no_wish_of_ours_is_refused_and_stays) {
  const std::string folder = scratch("files_wish"), wish = folder + "/wish";
  const std::vector<std::string> serve = {"serve",           fake_config(), "--provider",
                                          fake_provider(),   "--listen",    "tcp://127.0.0.1:0",
                                          "--power-off-file"};
  const auto refused = [&](const std::string& path, const std::string& what) {
    std::vector<std::string> words = serve;
    words.push_back(path);
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 2) << path;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
  };
  for (const char* text : {"", "my notes\n", "power off, asked by a: b\nand more\n"}) {
    refused(write(folder + "/notes", text), "stays as it is");
    EXPECT_EQ(read(folder + "/notes"), text);
  }
  write(folder + "/target", "power off, asked by a: b\n");
  fs::create_symlink("target", folder + "/link");
  refused(folder + "/link", "a symbolic link");
  refused(pipe_at(folder + "/pipe"), "a pipe");
  refused(folder, "a folder");
  EXPECT_TRUE(fs::is_symlink(folder + "/link") && fs::is_fifo(folder + "/pipe"));
  EXPECT_TRUE(fs::exists(folder + "/target"));
  write(wish, "power off, asked by a: b\n");
  std::vector<std::string> words(serve.begin() + 1, serve.end());
  words.push_back(wish);
  link::here::ServeProcess good(words);
  EXPECT_TRUE(good.is_there());
  EXPECT_FALSE(fs::exists(wish)) << "a wish of an earlier run is none of this one";
}

// A server without reader says on standard error where it listens, and its status tells.
TEST(Files, serve_says_when_the_line_with_its_endpoint_was_lost) {
  const std::string folder = scratch("files_serve");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"serve", fake_config(), "--provider", fake_provider(), "--listen",
                                 "tcp://127.0.0.1:0"},
        {"serve", "--jetlink", "--port", "0", "--cache", folder + "/cache"}}) {
    const std::string err = folder + "/err";
    fs::remove(err);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/full", O_WRONLY), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      std::vector<char*> argv = {const_cast<char*>("outrider")};
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execv((std::string(OUTRIDER_BUILD_DIR) + "/bin/outrider").c_str(), argv.data());
      ::_exit(127);
    }
    for (int i = 0; i < 1000 && read(err).find("listening on") == std::string::npos; ++i)
      ::usleep(10000);
    ::kill(child, SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
    EXPECT_NE(read(err).find("No space left on device"), std::string::npos) << read(err);
    EXPECT_NE(read(err).find("listening on tcp://127.0.0.1:"), std::string::npos) << read(err);
  }
}

// ---- standard output
// -----------------------------------------------------------------------------

// One status for all of them, whatever the command thinks of its work.
TEST(Files, an_answer_that_cannot_be_written_is_status_2_of_every_command) {
  const std::string folder = scratch("files_full"), model = folder + "/tiny.gguf";
  ASSERT_EQ(run({"make-model", "llm", model, "--type", "q8_0"}).status, 0);
  const std::string lines = write(folder + "/lines", "pick up the cup\nnow the block\n");
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"help"},
      {"doctor"},
      {"inspect", model},
      {"chat", model, "--max-tokens", "4"},
      {"run", model, "--prompt", "x", "--max-tokens", "4"},
      {"bench", tiny_policy(), "--ticks", "1", "--warmup", "1", "--idle", "0", "--no-limits"},
      {"make-model", "llm", folder + "/other.gguf"},
      loop_of(fake_config(), {"--rt-priority", "0", "--no-lock"})};
  for (std::vector<std::string> words : commands)
    for (const bool json : {false, true}) {
      if (json) words.push_back("--json");
      const Outcome outcome = run(words, {.stdout_path = "/dev/full", .stdin_path = lines});
      EXPECT_EQ(outcome.status, 2) << words[0] << (json ? " --json: " : ": ") << outcome.err;
      EXPECT_NE(outcome.err.find("standard output: No space left on device"), std::string::npos)
          << words[0] << ": " << outcome.err;
    }
}

TEST(Files, chat_makes_no_answers_that_nobody_can_read) {
  const std::string folder = scratch("files_chat"), model = folder + "/tiny.gguf";
  ASSERT_EQ(run({"make-model", "llm", model, "--type", "q8_0"}).status, 0);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "line\n";
  const std::string lines = write(folder + "/lines", many);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run({"chat", model}, {.stdin_path = lines, .break_pipe = true}).status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace outrider::cli_test
