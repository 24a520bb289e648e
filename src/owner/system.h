// Everything that the owner daemon asks of the machine, behind one interface: files (parameters,
// sysfs, its own records), processes and the clock. Tests give a double over a folder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider::owner {

class System {
 public:
  virtual ~System() = default;
  virtual int64_t now_ns() = 0;  // CLOCK_MONOTONIC
  virtual std::string boot_id() = 0;
  virtual int64_t pid() = 0;  // of this process
  virtual void pause(int64_t n_ns) = 0;
  virtual int64_t start_ticks(int64_t pid) = 0;  // -1: no such process

  // 0 or -errno.
  // At most kMaxFileBytes (else -EFBIG) of a plain file; a trailing newline is removed.
  virtual int read(const std::string& path, std::string& text) = 0;
  // One write into a file that is there: sysfs, /proc/sys.
  virtual int write(const std::string& path, std::string_view text) = 0;
  // The whole file, replaced at once; readers see the old one or the new one. `safe`: on the disk
  // before it returns, and private (mode 0600); else 0644.
  virtual int replace(const std::string& path, std::string_view text, bool safe) = 0;
  virtual int remove(const std::string& path) = 0;

  // A child in a process group of its own, standard input closed, output to `log` (appended; "":
  // nowhere). Its pid or -errno.
  virtual int64_t spawn(const std::vector<std::string>& argv, const std::string& log) = 0;
  virtual int64_t group(int64_t pid) = 0;  // process group of a process; -1: none
  virtual int signal_group(int64_t pid, int signal) = 0;
  // Its exit status, 128 + signal when it was killed; nullopt: it runs.
  virtual std::optional<int> reap(int64_t pid) = 0;
};

inline constexpr size_t kMaxFileBytes = 65536;

System& linux_system();

}  // namespace outrider::owner
