// What this machine and this process are: for doctor, and for the head of every measurement.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/output.h"

namespace outrider::cli {

struct Machine {
  std::string cpu;                    // "model name" as the kernel tells it
  std::vector<std::string> features;  // those that kernels care for
  int n_online = 0, n_allowed = 0;    // CPUs online; CPUs this process may run on
  double quota_cpus = 0;              // cgroup CPU quota, 0: none
  int n_threads = 1;                  // what a runtime takes when nothing is said
  std::string threads_why;
  std::string governor, clock_source, huge_pages, os, build;
  uint64_t memory_bytes = 0, free_bytes = 0;
  int64_t memlock_bytes = 0, rtprio = 0;  // limits; -1: unlimited
};
Machine this_machine();
std::string this_build();  // "outrider 0.1.0, g++ 12.2"
Report machine_report(const Machine& machine);

// Resident memory of this process, now.
uint64_t resident_bytes();

// What the system did to this process so far, all of its threads.
struct SystemEvents {
  int64_t minor_faults = 0, major_faults = 0;  // pages that had to be found, or read
  int64_t waits = 0, preemptions = 0;          // context switches: wanted, not wanted
};
SystemEvents system_events();

std::string bytes_text(uint64_t bytes);  // "1.4 GB"

}  // namespace outrider::cli
