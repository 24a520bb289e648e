// Settings of the system that the owner changes, and puts back: at its stop, and at its next start
// when it was killed.
//
// The old value is on the disk before the new one is written. A setting that somebody else changed
// after us is left as it is, and told; unless we died before we could look at what the kernel made
// of our value. A record of another boot is dropped: the kernel has its own values again.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "owner/system.h"

namespace outrider::owner {

class Settings {
 public:
  // `journal`: path of the record. `roots`: nothing outside these folders is ever written, whatever
  // the record says; empty: /sys/ and /proc/sys/.
  Settings(System& system, std::string journal, std::vector<std::string> roots = {});

  // [setup] Puts back what an owner that was killed had changed. How many.
  Result<int> recover();
  // Changes a setting. The first old value is kept when it is set again. Errors: kInvalid (outside
  // the roots), kNotFound (there is no such setting here), kFailed (no record could be kept, or the
  // system refuses; nothing stays changed).
  Result<void> set(const std::string& path, const std::string& value);
  // As set, unless the setting is a number that is as large already.
  Result<void> raise(const std::string& path, const std::string& value);
  // Errors: kFailed (refused; it stays in the record).
  Result<void> restore(const std::string& path);
  // In the reverse order of the changes. How many could not be put back.
  int restore_all();
  bool changed(const std::string& path) const;
  size_t n_changed() const { return entries_.size(); }

 private:
  struct Entry {
    std::string path, old_value;
    std::string restore_path, restore_value;  // the same, or the ratio that stood for a zero
    std::string wanted, seen;                 // seen "": not looked at yet
  };
  Result<void> save() const;
  Result<void> load(std::vector<Entry>& entries);
  Result<void> put_back(const Entry& entry);
  bool allowed(const std::string& path) const;
  System& system_;
  const std::string journal_;
  std::vector<std::string> roots_;
  std::vector<Entry> entries_;
};

}  // namespace outrider::owner
