#include "cli/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "base/cpu_budget.h"
#include "base/input_file.h"
#include "cli/version.h"

namespace outrider::cli {
namespace {

// First kilobytes of a kernel file; empty when there is none.
std::string read_small(const char* path) {
  std::string text = read_file_begin(path, 1 << 16);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Value of "key : value" or "key: value kB" in a kernel table.
std::string field(const std::string& text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    if (line.starts_with(key)) {
      const size_t colon = line.find(':');
      if (colon != std::string_view::npos) {
        std::string_view value = line.substr(colon + 1);
        while (!value.empty() && (value[0] == ' ' || value[0] == '\t')) value.remove_prefix(1);
        return std::string(value);
      }
    }
    at = end + 1;
  }
  return {};
}

uint64_t kilobytes(const std::string& text) {
  int64_t n = 0;
  return read_integer(std::string_view(text).substr(0, text.find(' ')), n) && n > 0
             ? static_cast<uint64_t>(n) * 1024
             : 0;
}

std::vector<std::string> kernel_features(const std::string& cpuinfo) {
  static constexpr const char* kWanted[] = {
      "avx",         "avx2",        "fma",      "f16c",     "avx512f",  "avx512bw", "avx512vl",
      "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "asimd",    "asimdhp",
      "asimddp",     "bf16",        "i8mm",     "sve",      "sve2"};
  const std::string flags = " " + field(cpuinfo, "flags") + field(cpuinfo, "Features") + " ";
  std::vector<std::string> out;
  for (const char* name : kWanted)
    if (flags.find(" " + std::string(name) + " ") != std::string::npos) out.emplace_back(name);
  return out;
}

int64_t limit_of(int which) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(limit.rlim_cur);
}

// "always [madvise] never" -> "madvise"
std::string chosen(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == std::string::npos || close == std::string::npos
             ? text
             : text.substr(open + 1, close - open - 1);
}

}  // namespace

std::string this_build() {
#if defined(__clang__)
  std::string build =
      fmt::format("outrider {}, clang {}.{}", kVersion, __clang_major__, __clang_minor__);
#else
  std::string build = fmt::format("outrider {}, g++ {}.{}", kVersion, __GNUC__, __GNUC_MINOR__);
#endif
#if !defined(__OPTIMIZE__)
  build += ", not optimised";
#endif
  return build;
}

Machine this_machine() {
  Machine m;
  const std::string cpuinfo = read_small("/proc/cpuinfo");
  m.cpu = field(cpuinfo, "model name");
  if (m.cpu.empty()) m.cpu = field(cpuinfo, "CPU part");
  m.features = kernel_features(cpuinfo);
  m.n_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const CpuBudget budget = cpu_budget();
  m.n_allowed = static_cast<int>(budget.n_allowed_cpus);
  m.quota_cpus = budget.quota_cpus;
  m.n_threads = static_cast<int>(budget.n_threads);
  m.threads_why = budget.reason;
  m.governor = read_small("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  m.clock_source = read_small("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  m.huge_pages = chosen(read_small("/sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string memory = read_small("/proc/meminfo");
  m.memory_bytes = kilobytes(field(memory, "MemTotal"));
  m.free_bytes = kilobytes(field(memory, "MemAvailable"));
  m.memlock_bytes = limit_of(RLIMIT_MEMLOCK);
  m.rtprio = limit_of(RLIMIT_RTPRIO);
  utsname name = {};
  if (::uname(&name) == 0) m.os = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  m.build = this_build();
  return m;
}

Report machine_report(const Machine& m) {
  auto known = [](const std::string& text) {
    return text.empty() ? Report(nullptr) : Report(text);
  };
  return {{"cpu", known(m.cpu)},
          {"features", m.features},
          {"cpus_online", m.n_online},
          {"cpus_allowed", m.n_allowed},
          {"cpu_quota", m.quota_cpus > 0 ? Report(m.quota_cpus) : Report(nullptr)},
          {"threads", m.n_threads},
          {"threads_why", m.threads_why},
          {"governor", known(m.governor)},
          {"clock_source", known(m.clock_source)},
          {"huge_pages", known(m.huge_pages)},
          {"memory_bytes", m.memory_bytes},
          {"memory_available_bytes", m.free_bytes},
          {"memlock_limit_bytes", m.memlock_bytes < 0 ? Report(nullptr) : Report(m.memlock_bytes)},
          {"rtprio_limit", m.rtprio < 0 ? Report(nullptr) : Report(m.rtprio)},
          {"os", m.os},
          {"build", m.build}};
}

uint64_t resident_bytes() {
  return kilobytes(field(read_small("/proc/self/status"), "VmRSS"));
}

SystemEvents system_events() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw};
}

std::string bytes_text(uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes >= 1000000000u) return fmt::format("{:.2f} GB", n / 1e9);
  if (bytes >= 1000000u) return fmt::format("{:.1f} MB", n / 1e6);
  if (bytes >= 1000u) return fmt::format("{:.1f} kB", n / 1e3);
  return fmt::format("{} bytes", bytes);
}

}  // namespace outrider::cli
