// How long something took, less what the machine withheld meanwhile: the time in which threads of
// this process could run and something else ran, and in which a sleeper was woken late. A bound on
// it says something about the code; the same bound on the clock on the wall fails when the machine
// does other work.
#pragma once
#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "support/witness.h"

namespace outrider::test {

// Of all threads of this process that live, how long they stood in the queue of a processor.
inline int64_t queued_ns() {
  int64_t sum = 0;
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* task = ::readdir(tasks)) {
    const std::string path = std::string("/proc/self/task/") + task->d_name + "/schedstat";
    std::FILE* file = task->d_name[0] == '.' ? nullptr : std::fopen(path.c_str(), "r");
    if (file == nullptr) continue;
    long long ran = 0, queued = 0;
    if (std::fscanf(file, "%lld %lld", &ran, &queued) == 2) sum += queued;
    std::fclose(file);
  }
  ::closedir(tasks);
  return sum;
}

class OwnTime {
 public:
  // Since it was made. Threads that ended meanwhile take their share of the queue with them, so
  // the answer may be too long, never too short by more than threads waited side by side.
  int64_t ns() {
    const int64_t wall_ns = clock_.now_ns() - begin_ns_;
    late_ns_ += witness_.take_sum_ns();
    return wall_ns - std::max<int64_t>(late_ns_, queued_ns() - queued_before_ns_);
  }

  void restart() {
    witness_.take_sum_ns();
    late_ns_ = 0;
    queued_before_ns_ = queued_ns();
    begin_ns_ = clock_.now_ns();
  }

 private:
  MonotonicClock clock_;
  Witness witness_;
  int64_t late_ns_ = 0;
  int64_t queued_before_ns_ = queued_ns();
  int64_t begin_ns_ = clock_.now_ns();
};

}  // namespace outrider::test
