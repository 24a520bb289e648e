#include "support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/temp_dir.h"

namespace outrider::cli_test {
namespace fs = std::filesystem;

namespace {

constexpr int kTimeoutMs = 60000;

std::string program() {
  return std::string(OUTRIDER_BUILD_DIR) + "/bin/outrider";
}

[[noreturn]] void become(const std::vector<std::string>& words, const RunOptions& options, int out,
                         int err) {
  ::dup2(out, 1);
  ::dup2(err, 2);
  if (options.close_stdout) ::close(1);
  if (options.stdout_path != nullptr) ::dup2(::open(options.stdout_path, O_WRONLY), 1);
  if (!options.stdin_path.empty()) ::dup2(::open(options.stdin_path.c_str(), O_RDONLY), 0);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  for (const std::string& entry : options.environment)
    ::setenv(entry.substr(0, entry.find('=')).c_str(), entry.substr(entry.find('=') + 1).c_str(),
             1);
  std::vector<char*> argv = {const_cast<char*>("outrider")};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(program().c_str(), argv.data());
  ::_exit(127);
}

// Both pipes to their ends, or until the time is over.
void drain(int out, int err, Outcome& outcome) {
  pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[2] = {&outcome.out, &outcome.err};
  for (int open = 2; open > 0;) {
    if (::poll(fds, 2, kTimeoutMs) <= 0) return;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        texts[i]->append(buffer, static_cast<size_t>(n));
        continue;
      }
      fds[i].fd = -1;
      --open;
    }
  }
}

}  // namespace

Outcome run(const std::vector<std::string>& words, const RunOptions& options) {
  int out[2], err[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(err, O_CLOEXEC), 0);
  if (options.break_pipe) ::close(out[0]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    become(words, options, out[1], err[1]);
  }
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  if (options.break_pipe) out[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  drain(out[0], err[0], outcome);
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) == 0) {
    ::usleep(300000);
    if (::waitpid(child, &status, WNOHANG) == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
  }
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Json document(const Outcome& outcome) {
  auto json = Json::parse(outcome.out);
  EXPECT_TRUE(json) << json.error().text << "\n" << outcome.out << "\n" << outcome.err;
  if (!json) return {};
  const Json* version = json.value().find("version");
  EXPECT_TRUE(version != nullptr && version->is_integer() && version->integer() == 1)
      << outcome.out;
  return json.value();
}

std::string scratch(const std::string& name) {
  const std::string folder = test::temp_file(name);
  fs::create_directories(folder);
  return folder;
}

std::string write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string fake_provider() {
  const std::string path = std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_fake.so";
  return fs::exists(path) ? path : "";
}

std::string fake_config(const std::string& more) {
  static int n = 0;
  return write(scratch("fake") + "/" + std::to_string(n++) + ".json",
               "{\"model_family\": \"fake\"" + (more.empty() ? "" : ", " + more) + "}");
}

std::string tiny_policy() {
  static const std::string path = [] {
    const std::string file = scratch("model") + "/tiny.gguf";
    const Outcome made = run({"make-model", "pi05", file, "--type", "f32"});
    EXPECT_EQ(made.status, 0) << made.err;
    return made.status == 0 ? file : std::string();
  }();
  return path;
}

}  // namespace outrider::cli_test
