// The system calls of system.h.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/clock.h"
#include "base/log.h"
#include "base/output_file.h"
#include "owner/system.h"
#include "record/process.h"

extern "C" char** environ;

namespace outrider::owner {
namespace {

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? -errno : -EIO;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

class LinuxSystem final : public System {
 public:
  int64_t now_ns() override { return MonotonicClock().now_ns(); }
  std::string boot_id() override { return record::boot_id(); }
  int64_t pid() override { return ::getpid(); }
  void pause(int64_t n_ns) override {
    const timespec time{n_ns / 1'000'000'000, n_ns % 1'000'000'000};
    ::nanosleep(&time, nullptr);
  }
  int64_t start_ticks(int64_t pid) override { return record::start_ticks_of(pid); }
  int read(const std::string& path, std::string& text) override;
  int write(const std::string& path, std::string_view text) override;
  int replace(const std::string& path, std::string_view text, bool safe) override;
  int remove(const std::string& path) override { return ::unlink(path.c_str()) == 0 ? 0 : -errno; }
  int64_t spawn(const std::vector<std::string>& argv, const std::string& log) override;
  int64_t group(int64_t pid) override { return ::getpgid(static_cast<pid_t>(pid)); }
  int signal_group(int64_t pid, int signal) override {
    return ::kill(static_cast<pid_t>(-pid), signal) == 0 ? 0 : -errno;
  }
  std::optional<int> reap(int64_t pid) override {
    int status = 0;
    const pid_t got = ::waitpid(static_cast<pid_t>(pid), &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return std::nullopt;
    if (got < 0) return 127;  // not ours any more
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
};

int LinuxSystem::read(const std::string& path, std::string& text) {
  text.clear();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -errno;
  struct stat info {};
  int error = ::fstat(fd, &info) != 0 ? -errno : S_ISREG(info.st_mode) ? 0 : -EINVAL;
  char part[4096];
  while (error == 0) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = -errno;
    if (got <= 0) break;
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) error = -EFBIG;
  }
  ::close(fd);
  if (error != 0) text.clear();
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return error;
}

int LinuxSystem::write(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -errno;
  const ssize_t put = ::write(fd, text.data(), text.size());
  const int error = put == static_cast<ssize_t>(text.size()) ? 0 : put < 0 ? -errno : -EIO;
  ::close(fd);
  return error;
}

int LinuxSystem::replace(const std::string& path, std::string_view text, bool safe) {
  std::string temporary = path + ".part-XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return -errno;
  int error = write_all(fd, text);
  if (error == 0 && !safe && ::fchmod(fd, 0644) != 0) error = -errno;
  if (error == 0 && safe && ::fsync(fd) != 0) error = -errno;
  ::close(fd);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = -errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  const int folder =
      safe ? ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  return 0;
}

int64_t LinuxSystem::spawn(const std::vector<std::string>& argv, const std::string& log) {
  if (argv.empty()) return -EINVAL;
  // Opened here: a child that waits at a pipe would hold its parent too.
  int out = -1;
  if (!log.empty()) {
    auto opened = open_in_place(log, InPlace::kStream, 0644);
    if (!opened) {
      log_line(LogLevel::kError, "owner: log_file: %s", opened.error().text);
      return -EIO;
    }
    out = opened.value();
    (void)::fcntl(out, F_SETFL, O_APPEND);
  }
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  if (out >= 0)
    posix_spawn_file_actions_adddup2(&files, out, 1);
  else
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  // The daemon waits for its signals with all of them blocked: a child must not inherit that.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0], &files, &how, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  if (out >= 0) ::close(out);
  return error == 0 ? child : -error;
}

}  // namespace

System& linux_system() {
  static LinuxSystem system;
  return system;
}

}  // namespace outrider::owner
