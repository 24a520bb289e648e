// How many threads are worth having here: what affinity, container quota and cores allow.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outrider {

struct CpuBudget {
  uint32_t n_threads = 1;       // min of the three below, at least 1
  uint32_t n_allowed_cpus = 0;  // affinity mask of the calling thread
  uint32_t n_cores = 0;         // physical cores among them: hyper-threads count once
  double quota_cpus = 0;        // smallest cgroup quota on the way to the root; 0: none
  std::string reason;           // one line: which of them decided, and all three numbers
};

struct CpuSources {
  std::string root;  // put before /proc and /sys: tests script a machine
  std::optional<std::vector<uint32_t>> allowed_cpus;  // nullopt: sched_getaffinity
};

// [setup] Never fails: what cannot be read does not limit. Reads cgroup v2 (cpu.max) and v1
// (cpu.cfs_quota_us), each level from this process's group up to the mounted root.
CpuBudget cpu_budget(const CpuSources& sources = {});

// [setup] Thread count for a setting where <= 0 means "all that this process may use". More than
// the budget is the caller's wish and is granted up to kMaxThreads; `warning` says what it costs.
inline constexpr uint32_t kMaxThreads = 1024;
struct ThreadChoice {
  uint32_t n_threads = 1;
  std::string warning;  // empty: none
};
ThreadChoice choose_threads(int64_t wanted, const CpuBudget& budget);

}  // namespace outrider
