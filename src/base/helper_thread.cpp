#include "base/helper_thread.h"

#include <pthread.h>
#include <sched.h>

#include <cstddef>

namespace outrider {

void become_helper_thread() noexcept {
  const pthread_t self = pthread_self();
  sched_param param = {};
  int policy = SCHED_OTHER;
  if (pthread_getschedparam(self, &policy, &param) == 0 &&
      (policy == SCHED_FIFO || policy == SCHED_RR)) {
    param.sched_priority = 0;
    (void)pthread_setschedparam(self, SCHED_OTHER, &param);
  }
  cpu_set_t set;
  if (pthread_getaffinity_np(self, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) return;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(self, sizeof set,
                               &set);  // the kernel leaves what is not allowed out
}

}  // namespace outrider
