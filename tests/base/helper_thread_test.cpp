// A helper made by a loop does not compete with it.
#include "base/helper_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <thread>

namespace outrider {
namespace {

struct Seen {
  int policy = -1, n_cpus = 0;
};
Seen seen_here() {
  Seen seen;
  sched_param param = {};
  pthread_getschedparam(pthread_self(), &seen.policy, &param);
  cpu_set_t set;
  pthread_getaffinity_np(pthread_self(), sizeof set, &set);
  seen.n_cpus = CPU_COUNT(&set);
  return seen;
}

// Runs in a thread of its own that is pinned to one processor and, where that is permitted,
// real-time; the helper is made by it.
Seen helper_of_a_loop(bool& realtime, int& n_allowed) {
  Seen seen;
  std::thread loop([&] {
    n_allowed = seen_here().n_cpus;
    cpu_set_t set;
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    size_t first = 0;
    while (first < CPU_SETSIZE && !CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    sched_param param = {};
    param.sched_priority = 1;
    realtime = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
    std::thread helper([&] {
      become_helper_thread();
      seen = seen_here();
    });
    helper.join();
  });
  loop.join();
  return seen;
}

TEST(HelperThread, leaves_the_priority_and_the_processor_of_the_loop_that_made_it) {
  bool realtime = false;
  int n_allowed = 0;
  const Seen seen = helper_of_a_loop(realtime, n_allowed);
  EXPECT_EQ(seen.policy, SCHED_OTHER) << (realtime ? "inherited" : "was not permitted anyway");
  EXPECT_GE(seen.n_cpus, n_allowed);
}

TEST(HelperThread, a_thread_that_inherited_nothing_stays_as_it_is) {
  std::thread plain([] {
    const Seen before = seen_here();
    become_helper_thread();
    EXPECT_EQ(seen_here().policy, before.policy);
    EXPECT_GE(seen_here().n_cpus, before.n_cpus);
  });
  plain.join();
}

}  // namespace
}  // namespace outrider
