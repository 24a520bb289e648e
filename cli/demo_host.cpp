#include "cli/demo_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"

namespace outrider::cli {
namespace {

constexpr int64_t kStartNs = 20000000000, kEndNs = 2000000000;

// In the child: only calls that are safe after fork.
[[noreturn]] void become_host(const char* model_path, int out_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, 0);
  ::dup2(out_fd, 1);
  ::dup2(nothing, 2);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C ends the demo, which ends this process
  ::execl("/proc/self/exe", "outrider", "serve", model_path, "--listen", "tcp://127.0.0.1:0",
          "--threads", "1", "--json", static_cast<char*>(nullptr));
  ::_exit(127);
}

// One line of what it writes, or "" when time is over or it ended.
std::string read_line(int fd) {
  const MonotonicClock clock;
  const int64_t until_ns = clock.now_ns() + kStartNs;
  std::string line;
  char byte = 0;
  while (clock.now_ns() < until_ns && line.size() < 65536) {
    pollfd wait = {fd, POLLIN, 0};
    if (::poll(&wait, 1, 100) <= 0) continue;
    if (::read(fd, &byte, 1) != 1) return {};
    if (byte == '\n') return line;
    line += byte;
  }
  return {};
}

}  // namespace

Result<DemoHost> DemoHost::start(const std::string& model_path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return make_error(Code::kFailed, "demo: no pipe: %s", std::strerror(errno));
  DemoHost host;
  host.pid_ = ::fork();
  if (host.pid_ == 0) become_host(model_path.c_str(), ends[1]);
  ::close(ends[1]);
  const std::string line = host.pid_ > 0 ? read_line(ends[0]) : std::string();
  ::close(ends[0]);
  const std::string key = "tcp://127.0.0.1:";
  const size_t at = line.find(key);
  if (at == std::string::npos)
    return make_error(Code::kFailed, "demo: the host process did not begin to listen");
  host.port_ = std::atoi(line.c_str() + at + key.size());
  return host;
}

DemoHost::~DemoHost() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const MonotonicClock clock;
  const int64_t until_ns = clock.now_ns() + kEndNs;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (clock.now_ns() > until_ns) ::kill(pid_, SIGKILL);
    ::usleep(5000);
  }
}

}  // namespace outrider::cli
