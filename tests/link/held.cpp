#include "link/held.h"

#include <dirent.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/clock.h"

namespace outrider::link::here {
namespace {

int64_t count_entries(const std::string& path) {
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return -1;
  int64_t n = -2;  // . and ..
  while (::readdir(dir) != nullptr) ++n;
  ::closedir(dir);
  return n;
}

}  // namespace

Held held_by(int pid) {
  const std::string root = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid));
  Held held;
  held.n_files = count_entries(root + "/fd");
  held.n_threads = count_entries(root + "/task");
  std::ifstream status(root + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) held.anonymous_kb = std::stoll(line.substr(8));
  return held;
}

Held settle(int pid, const Held& base, int64_t more_kb, int64_t within_ns) {
  const MonotonicClock clock;
  const int64_t end = clock.now_ns() + within_ns;
  for (;;) {
    const Held now = held_by(pid);
    const bool back = now.n_files <= base.n_files && now.n_threads <= base.n_threads &&
                      now.anonymous_kb <= base.anonymous_kb + more_kb;
    if (back || clock.now_ns() >= end) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace outrider::link::here
