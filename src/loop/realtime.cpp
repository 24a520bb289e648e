#include "loop/realtime.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace outrider::loop {
namespace {

std::string limit_text(int which) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0) return "?";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

}  // namespace

Grant take_priority(int priority) {
  Grant grant{priority > 0, false, {}};
  if (!grant.asked) return grant;
  sched_param param = {};
  param.sched_priority = priority;
  const int failed = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
  grant.given = failed == 0;
  if (failed != 0)
    grant.why = "SCHED_FIFO " + std::to_string(priority) + ": " + std::strerror(failed) +
                " (limit rtprio is " + limit_text(RLIMIT_RTPRIO) +
                "; raise it in /etc/security/limits.conf or grant CAP_SYS_NICE)";
  return grant;
}

Grant lock_memory() {
  Grant grant{true, false, {}};
  grant.given = ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0;
  if (!grant.given)
    grant.why = std::string("mlockall: ") + std::strerror(errno) + " (limit memlock is " +
                limit_text(RLIMIT_MEMLOCK) +
                " bytes; raise it in /etc/security/limits.conf or grant CAP_IPC_LOCK)";
  return grant;
}

void unlock_memory() {
  ::munlockall();
}

Grant take_processor(int cpu) {
  Grant grant{cpu >= 0, false, {}};
  if (!grant.asked) return grant;
  cpu_set_t set;
  CPU_ZERO(&set);
  int failed = EINVAL;
  if (cpu < CPU_SETSIZE) {
    CPU_SET(static_cast<size_t>(cpu), &set);
    failed = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
  grant.given = failed == 0;
  if (failed != 0) grant.why = "processor " + std::to_string(cpu) + ": " + std::strerror(failed);
  return grant;
}

void exact_timers() {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

}  // namespace outrider::loop
