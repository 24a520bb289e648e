#include "base/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string_view>

namespace outrider {
namespace {

// Machines with thousands of mounts have long mountinfo files; the rest are a line or two.
constexpr size_t kMaxFileBytes = size_t{4} << 20;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[4096];
  while (file && text.size() < kMaxFileBytes) {
    file.read(block, sizeof block);
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<int64_t> to_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, cause] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (cause != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

bool has_word(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  const auto octal = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out.push_back(static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 |
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// One mounted hierarchy of control groups: what it shows, and where.
struct Mount {
  bool v2 = false;
  std::string shown_root, point;
};

// Line: id parent major:minor root point options [tags...] - type source super-options
std::vector<Mount> cpu_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2";
    if (!v2 && !(dash[1] == "cgroup" && has_word(dash[3], "cpu"))) continue;
    mounts.push_back({v2, unescape(fields[3]), unescape(fields[4])});
  }
  return mounts;
}

// Line: id:controllers:path; v2 has id 0 and no controllers.
std::optional<std::string> group_path(const std::string& cgroup, bool v2) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : has_word(controllers, "cpu")) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

std::optional<double> quota_of(const std::string& folder, bool v2) {
  std::optional<int64_t> quota, period;
  if (v2) {
    const std::string text = read_file(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    const auto words = split(std::string_view(text).substr(0, text.find('\n')), ' ');
    if (words.size() == 2) quota = to_int(words[0]), period = to_int(words[1]);
  } else {
    quota = to_int(read_file(folder + "/cpu.cfs_quota_us"));  // -1: none
    period = to_int(read_file(folder + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// The tightest quota from this process's group up to the root of the mount. A container may see a
// group path of the outside that the mount does not show: then the mount's root is its group.
double tightest_quota(const std::string& root) {
  const std::string cgroup = read_file(root + "/proc/self/cgroup");
  double tightest = 0;
  for (const Mount& mount : cpu_mounts(read_file(root + "/proc/self/mountinfo"))) {
    const std::optional<std::string> group = group_path(cgroup, mount.v2);
    if (!group) continue;
    std::string below = *group;
    if (mount.shown_root != "/") {
      const bool inside =
          below.starts_with(mount.shown_root) &&
          (below.size() == mount.shown_root.size() || below[mount.shown_root.size()] == '/');
      below = inside ? below.substr(mount.shown_root.size()) : "";
    }
    if (below.starts_with("/..") || below == "/") below.clear();
    for (;;) {
      const auto quota = quota_of(root + mount.point + below, mount.v2);
      if (quota && (tightest == 0 || *quota < tightest)) tightest = *quota;
      if (below.empty()) break;
      below.resize(std::min(below.rfind('/'), below.size() - 1));
    }
  }
  return tightest;
}

std::vector<uint32_t> affinity() {
  struct FreeSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  // The kernel refuses a set smaller than its own; no kernel is built for more than this.
  for (int n_cpus = 1024; n_cpus <= 1 << 16; n_cpus *= 4) {
    const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(n_cpus));
    const size_t set_bytes = CPU_ALLOC_SIZE(n_cpus);
    if (!set || sched_getaffinity(0, set_bytes, set.get()) != 0) continue;
    std::vector<uint32_t> cpus;
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, set_bytes, set.get())) cpus.push_back(static_cast<uint32_t>(cpu));
    }
    return cpus;
  }
  return {0};
}

// CPUs of one core list the same siblings; one whose list cannot be read counts as a core.
uint32_t count_cores(const std::string& root, const std::vector<uint32_t>& cpus) {
  std::set<std::string> cores;
  for (const uint32_t cpu : cpus) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = read_file(folder + "thread_siblings_list");
    if (siblings.empty()) siblings = read_file(folder + "core_cpus_list");
    cores.insert(siblings.empty() ? "cpu " + std::to_string(cpu) : siblings);
  }
  return static_cast<uint32_t>(cores.size());
}

std::string explain(const CpuBudget& budget, const char* decider) {
  char quota[48] = "no cpu quota";
  if (budget.quota_cpus > 0) {
    std::snprintf(quota, sizeof quota, "cpu quota %.2f", budget.quota_cpus);
  }
  char line[200];
  std::snprintf(line, sizeof line, "%u thread%s: %s (%u cpus allowed, %u cores, %s)",
                budget.n_threads, budget.n_threads == 1 ? "" : "s", decider, budget.n_allowed_cpus,
                budget.n_cores, quota);
  return line;
}

}  // namespace

CpuBudget cpu_budget(const CpuSources& sources) {
  const std::vector<uint32_t> cpus = sources.allowed_cpus ? *sources.allowed_cpus : affinity();
  CpuBudget budget;
  budget.n_allowed_cpus = static_cast<uint32_t>(cpus.size());
  budget.n_cores = count_cores(sources.root, cpus);
  budget.quota_cpus = tightest_quota(sources.root);

  budget.n_threads = std::max(1u, budget.n_cores);
  const char* decider =
      budget.n_cores < budget.n_allowed_cpus ? "one per physical core" : "one per allowed cpu";
  if (budget.quota_cpus > 0 && budget.quota_cpus < budget.n_threads) {
    budget.n_threads = std::max(1u, static_cast<uint32_t>(budget.quota_cpus));
    decider = "the cgroup's cpu quota decides";
  }
  budget.reason = explain(budget, decider);
  return budget;
}

ThreadChoice choose_threads(int64_t wanted, const CpuBudget& budget) {
  if (wanted <= 0) return {budget.n_threads, ""};
  ThreadChoice choice;
  choice.n_threads = static_cast<uint32_t>(std::min<int64_t>(wanted, kMaxThreads));
  if (choice.n_threads > budget.n_threads) {
    char line[320];
    std::snprintf(line, sizeof line,
                  "n_threads %lld is above what this process may use and will be slower; use 0 for "
                  "%s",
                  static_cast<long long>(wanted), budget.reason.c_str());
    choice.warning = line;
  }
  return choice;
}

}  // namespace outrider
