#include "link/serve_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"

namespace outrider::link::here {
namespace {

// After a fork: only system calls. The new clock is for children, so a program that replaces this
// one gets it (Linux 5.6: at exec).
void step_clock(const std::string& ahead) {
  constexpr int kNewTime = 0x80;  // CLONE_NEWTIME
  if (::unshare(kNewTime) != 0) ::_exit(126);
  const int offsets = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (offsets < 0 || ::write(offsets, ahead.data(), ahead.size()) < 0) ::_exit(126);
  ::close(offsets);
}

std::string first_line(int fd) {
  std::string line;
  for (char c = 0; c != '\n';) {
    pollfd ready = {fd, POLLIN, 0};
    if (::poll(&ready, 1, 30'000) <= 0 || ::read(fd, &c, 1) != 1) break;
    line += c;
  }
  return line;
}

}  // namespace

ServeProcess::ServeProcess(const std::vector<std::string>& words, int64_t clock_ahead_s) {
  std::vector<std::string> all = {std::string(OUTRIDER_BUILD_DIR) + "/bin/outrider", "serve"};
  all.insert(all.end(), words.begin(), words.end());
  all.push_back("--json");
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string ahead = "monotonic " + std::to_string(clock_ahead_s) + " 0\n";
  int out[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (clock_ahead_s != 0) step_clock(ahead);
    ::dup2(out[1], 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  line_ = first_line(out[0]);
  ::close(out[0]);
  auto json = Json::parse(line_);
  const Json* listening = json ? json.value().find("listening") : nullptr;
  if (listening != nullptr && !listening->items().empty()) endpoint_ = listening->items()[0].text();
}

ServeProcess::~ServeProcess() {
  say(SIGCONT);
  end(SIGKILL);
}

uint16_t ServeProcess::port() const {
  return static_cast<uint16_t>(std::stoi(endpoint_.substr(endpoint_.rfind(':') + 1)));
}

void ServeProcess::say(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

void ServeProcess::stop() const {
  say(SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

int ServeProcess::end(int signal) {
  if (pid_ <= 0) return -1;
  say(signal);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace outrider::link::here
