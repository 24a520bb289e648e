#include "host/conform_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace outrider::host {
namespace {

constexpr int kPollMs = 50;
constexpr double kSecondNs = 1e9, kWaitEveryS = 1;
// More than this a provider cannot write to standard output: its write fails then.
constexpr off_t kMaxStdoutBytes = 65536;
constexpr int kLostParent = 120;  // exit status of a child that nobody listens to

// Shared by both processes. The provider can spoil it: nothing here is trusted to be a call.
struct Watch {
  std::atomic<int64_t> since_ns;  // the last time a call began or ended
  std::atomic<uint8_t> call;
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

struct Resources {
  int ends[2] = {-1, -1};  // pipe: the child tells
  int stdout_fd = -1;
  Watch* watch = nullptr;

  Resources() = default;
  Resources(const Resources&) = delete;
  ~Resources() {
    for (const int fd : {ends[0], ends[1], stdout_fd})
      if (fd >= 0) ::close(fd);
    if (watch != nullptr) ::munmap(watch, sizeof *watch);
  }
  bool take() {
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    void* page =
        ::mmap(nullptr, sizeof(Watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    watch = new (page) Watch{};
    stdout_fd = ::memfd_create("provider-stdout", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return stdout_fd >= 0 && ::ftruncate(stdout_fd, kMaxStdoutBytes) == 0 &&
           ::fcntl(stdout_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0;
  }
};

// ---- the child: "S" when a check starts, "R<outcome><detail>" when it has ended, "E" at the end
// ---

void tell(int fd, std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(kLostParent);
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

[[noreturn]] void be_child(const Resources& with, const std::string& provider,
                           const std::string& config, const ConformOptions& given) {
  ::setpgid(0, 0);  // what it starts is ended with it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_THP_DISABLE, 1);  // memory is counted in pages, not in steps of 2 MiB
  ::dup2(with.stdout_fd, 1);
  const MonotonicClock clock;
  const int fd = with.ends[1];
  ConformOptions options = given;
  options.stdout_fd = with.stdout_fd;
  options.on_call = [&](ProviderCall call) {
    with.watch->call = static_cast<uint8_t>(call);
    with.watch->since_ns = clock.now_ns();
  };
  options.on_start = [&](const char*) { tell(fd, "S"); };
  options.on_check = [&](const ConformCheck& check) {
    tell(fd, std::string("R") + static_cast<char>('0' + static_cast<int>(check.outcome)) +
                 check.detail);
  };
  (void)conform(provider, config, options);
  tell(fd, "E");
  ::_exit(0);
}

// ---- the parent
// ----------------------------------------------------------------------------------

class Listener {
 public:
  Listener(const ConformOptions& options, const ConformChildOptions& child, const Watch& watch)
      : options_(options), child_(child), watch_(watch), names_(conform_check_names()) {}

  void hear(std::string_view bytes) {
    text_.append(bytes);
    size_t at = 0;
    for (size_t end; (end = text_.find('\n', at)) != std::string::npos; at = end + 1)
      hear_line(std::string_view(text_).substr(at, end - at));
    text_.erase(0, at);
  }
  // True once a call, or the suite between two calls, has taken too long.
  bool overdue() const { return call_s() > child_.call_timeout_s; }
  void wait() {
    const double check_s = static_cast<double>(clock_.now_ns() - check_since_ns_) / kSecondNs;
    if (!child_.on_wait || check_s < child_.quiet_s || check_s < next_wait_s_) return;
    next_wait_s_ = check_s + kWaitEveryS;
    child_.on_wait({names_[current()], check_s, call(), call_s()});
  }
  // The report with what became of the child: `how` is "" when it came to its end.
  ConformReport finish(const std::string& how) {
    if (!ended_ && !how.empty()) {
      if (n_done_ == names_.size()) {  // after the last check: nothing of it was to happen
        report_.checks.pop_back();
        report_.passed = report_.failed = report_.skipped = 0;
        for (auto checks = std::exchange(report_.checks, {}); auto& check : checks)
          report_.add(std::move(check));
        --n_done_;
      }
      const std::string culprit = names_[n_done_];
      add(ConformOutcome::kFailed, how);
      while (n_done_ < names_.size())
        add(ConformOutcome::kSkipped, "the suite ended in the check \"" + culprit + "\"");
    }
    return std::move(report_);
  }
  std::string overdue_text() const {
    char text[160];
    std::snprintf(text, sizeof text, "%s did not return within %g s; the provider was killed",
                  call_name(call()), child_.call_timeout_s);
    return text;
  }
  bool ended() const { return ended_; }
  ProviderCall call() const { return static_cast<ProviderCall>(watch_.call.load()); }

 private:
  size_t current() const { return std::min(n_done_, names_.size() - 1); }
  double call_s() const {
    return static_cast<double>(clock_.now_ns() - watch_.since_ns.load()) / kSecondNs;
  }
  void hear_line(std::string_view line) {
    if (line.empty() || n_done_ >= names_.size()) {
      ended_ |= line == "E";
    } else if (line[0] == 'S') {
      check_since_ns_ = clock_.now_ns();
      next_wait_s_ = 0;
      if (options_.on_start) options_.on_start(names_[n_done_]);
    } else if (line[0] == 'R' && line.size() > 1 && line[1] >= '0' && line[1] <= '2') {
      add(static_cast<ConformOutcome>(line[1] - '0'), std::string(line.substr(2)));
    }
  }
  void add(ConformOutcome outcome, std::string detail) {
    report_.add({names_[n_done_++], outcome, std::move(detail)});
    if (options_.on_check) options_.on_check(report_.checks.back());
  }

  const ConformOptions& options_;
  const ConformChildOptions& child_;
  const Watch& watch_;
  const std::vector<const char*> names_;
  const MonotonicClock clock_;
  int64_t check_since_ns_ = clock_.now_ns();
  double next_wait_s_ = 0;
  std::string text_;
  ConformReport report_;
  size_t n_done_ = 0;
  bool ended_ = false;
};

// What is there to read. False at the end of the pipe.
bool read_some(int fd, Listener* listener) {
  char buffer[4096];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) listener->hear({buffer, static_cast<size_t>(n)});
  return n > 0 || (n < 0 && errno == EINTR);
}

bool has_died(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

// Until the child has ended or is overdue; true in the second case. A process that the provider
// started may hold the pipe open, so the pipe's end is not waited for.
bool listen(pid_t child, int fd, Listener* listener) {
  for (;;) {
    const bool died = has_died(child);  // asked before the pipe: nothing comes after
    for (pollfd ready{fd, POLLIN, 0}; ::poll(&ready, 1, died ? 0 : kPollMs) > 0;)
      if (!read_some(fd, listener)) {
        if (!died) ::poll(nullptr, 0, kPollMs);
        break;
      }
    if (died || listener->ended()) return false;
    if (listener->overdue()) return true;
    listener->wait();
  }
}

std::string how_it_ended(int status, const Listener& listener) {
  char text[200];
  if (WIFSIGNALED(status))
    std::snprintf(text, sizeof text, "the provider died of signal %d (%s) in %s", WTERMSIG(status),
                  strsignal(WTERMSIG(status)), call_name(listener.call()));
  else
    std::snprintf(text, sizeof text, "the provider ended the process with status %d in %s",
                  WEXITSTATUS(status), call_name(listener.call()));
  return text;
}

}  // namespace

ConformReport conform_in_child(const std::string& provider_path, const std::string& config_json,
                               const ConformOptions& options, const ConformChildOptions& child) {
  Resources with;
  const bool ready = with.take();
  static Watch none;
  Listener listener(options, child, ready ? *with.watch : none);
  std::fflush(stdout);  // else the child writes it a second time
  if (ready) with.watch->since_ns = MonotonicClock().now_ns();
  const pid_t pid = ready ? ::fork() : -1;
  if (pid < 0)
    return listener.finish(std::string("no process could be started for the suite: ") +
                           std::strerror(errno));
  if (pid == 0) be_child(with, provider_path, config_json, options);
  ::setpgid(pid, pid);  // whoever is first
  ::close(std::exchange(with.ends[1], -1));
  const bool overdue = listen(pid, with.ends[0], &listener);
  const std::string overdue_text = overdue ? listener.overdue_text() : "";
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return listener.finish(overdue ? overdue_text : how_it_ended(status, listener));
}

}  // namespace outrider::host
