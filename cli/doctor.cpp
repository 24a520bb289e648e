#include "cli/doctor.h"

#include <algorithm>
#include <cerrno>

#include "kernels/self_test.h"

namespace outrider::cli {
namespace {

Check ok(const char* name, std::string found) {
  return {name, std::move(found), "", "", Health::kOk};
}
Check advice(const char* name, std::string found, std::string wanted, std::string fix) {
  return {name, std::move(found), std::move(wanted), std::move(fix), Health::kAdvice};
}

Check check_features(const Machine& m) {
  const bool wide = std::ranges::any_of(m.features, [](const std::string& f) {
    return f == "avx2" || f == "avx512f" || f == "asimd";
  });
  std::string list;
  for (const std::string& feature : m.features) list += (list.empty() ? "" : " ") + feature;
  if (wide) return ok("CPU features", list);
  return advice("CPU features", list.empty() ? "none known" : list, "avx2 and fma, or asimd",
                "the scalar kernels run, many times slower; use a CPU with vector instructions");
}

Check check_threads(const Machine& m) {
  if (m.quota_cpus > 0 && m.quota_cpus < m.n_allowed)
    return advice(
        "threads", m.threads_why, "a quota of whole CPUs",
        "raise the container's CPU limit: a throttled thread misses deadlines for a whole period");
  return ok("threads", m.threads_why);
}

Check check_memlock(const Machine& m) {
  if (m.memlock_bytes < 0) return ok("memory lock", "unlimited");
  if (m.memlock_bytes >= int64_t{1} << 30)
    return ok("memory lock", bytes_text(static_cast<uint64_t>(m.memlock_bytes)));
  return advice("memory lock", bytes_text(static_cast<uint64_t>(m.memlock_bytes)), "unlimited",
                "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service file: swapped pages "
                "stall a tick");
}

Check check_rtprio(const Machine& m) {
  if (m.rtprio != 0)
    return ok("real-time priority", m.rtprio < 0 ? "unlimited" : std::to_string(m.rtprio));
  return advice("real-time priority", "not allowed", "50 or more",
                "rtprio in /etc/security/limits.conf, or LimitRTPRIO=50 in the service file");
}

Check check_huge_pages(const Machine& m) {
  if (m.huge_pages == "always" || m.huge_pages == "madvise") return ok("huge pages", m.huge_pages);
  return advice("huge pages", m.huge_pages.empty() ? "not readable" : m.huge_pages,
                "madvise or always", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

Check check_clock(const Machine& m) {
  if (m.clock_source == "hpet" || m.clock_source == "acpi_pm")
    return advice(
        "clock source", m.clock_source, "tsc, kvm-clock or arch_sys_counter",
        "reading this clock costs microseconds; see why the kernel left the fast one (dmesg)");
  return ok("clock source", m.clock_source.empty() ? "not readable" : m.clock_source);
}

Check check_governor(const Machine& m) {
  if (m.governor.empty())
    return ok("frequency governor", "not readable here (virtual machine or fixed clock)");
  if (m.governor == "performance") return ok("frequency governor", m.governor);
  return advice("frequency governor", m.governor, "performance",
                "cpupower frequency-set -g performance: a clock that must rise first makes the "
                "tick after a pause slow");
}

Check check_memory(const Machine& m) {
  const std::string text =
      fmt::format("{} of {} available", bytes_text(m.free_bytes), bytes_text(m.memory_bytes));
  if (m.free_bytes >= uint64_t{1} << 30) return ok("memory", text);
  return advice("memory", text, "1 GB or more available",
                "close other programs, or take a smaller model");
}

}  // namespace

std::vector<Check> check_machine(const Machine& m) {
  return {check_features(m), check_threads(m),    check_memory(m), check_memlock(m),
          check_rtprio(m),   check_huge_pages(m), check_clock(m),  check_governor(m)};
}

Check check_usb(const link::usb::UsbFacts& usb) {
  std::string found;
  for (const std::string& controller : usb.device_controllers)
    found += (found.empty() ? "device controller " : ", ") + controller;
  if (found.empty()) found = "no device controller (cannot be the device of a USB link)";
  found += "; " + std::to_string(usb.n_host_buses) + " host buses";
  for (const auto& device : usb.devices) {
    found += ", Outrider device " + (device.serial.empty() ? "(no serial)" : device.serial) +
             " at " + device.name;
    if (!device.usable)
      return advice("USB", found, "a device with a link interface",
                    "restart the link program on the device");
    if (!device.openable)
      return advice("USB", found, "a device that this user may open",
                    link::usb::explain_open(device, EACCES, {}).text);
  }
  return ok("USB", found);
}

Check check_kernels() {
  const auto good = self_test();
  if (good) return ok("kernels", "every table computes what the scalar one does");
  return {"kernels", good.error().text, "the scalar table's values within rounding",
          "this processor, its emulation or this build computes wrong results: run no policy on it",
          Health::kBroken};
}

Report checks_report(const std::vector<Check>& checks) {
  Report rows = Report::array();
  for (const Check& check : checks)
    rows.push_back({{"name", check.name},
                    {"found", check.found},
                    {"ok", check.health == Health::kOk},
                    {"wanted", check.wanted.empty() ? Report(nullptr) : Report(check.wanted)},
                    {"fix", check.fix.empty() ? Report(nullptr) : Report(check.fix)}});
  return rows;
}

}  // namespace outrider::cli
