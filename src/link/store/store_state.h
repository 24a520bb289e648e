// What store.cpp, maintenance.cpp and upload.cpp share. Functions named `..._locked` want the
// folder's lock held by the caller.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "link/store/entry_files.h"
#include "link/store/store.h"

namespace outrider::store {

// Names inside the store's folder.
inline constexpr const char* kData = "/data";
inline constexpr const char* kInfo = "/info.json";
inline constexpr const char* kJournal = "/journal";
inline std::string partial_of(const std::string& sha256) {
  return sha256 + ".part";
}
inline std::string gone_of(const std::string& sha256) {
  return sha256 + ".gone";
}

// Until a change from now on would show in its times: 0.1 s after the last one, at most 3.2 s.
void wait_settled(Files& files, const FileInfo& file);

struct Store::State {
  State(Files& used, const Limits& limits) : files(used), limit(limits) {}

  // Held while the object lives. Not open: a read-only disk without a lock file, where nothing
  // changes. kNotReady after Limits::lock_wait_ns.
  Result<File> lock_folder();
  Result<void> lock_patiently(const File& file);

  // A folder named like this: 0, ENOENT, ENOTDIR when something else has that name, or another
  // errno.
  int folder_there(const std::string& folder);
  Result<EntryInfo> info_of(const std::string& folder, const std::string& sha256);
  Result<std::vector<std::string>> names_locked();
  Result<std::vector<Entry>> list_locked(bool probe_use);
  Entry entry_locked(const std::string& sha256, const std::string& folder, bool probe_use);
  bool is_in_use(const std::string& folder);

  // Before an upload.
  Result<bool> take_published_locked(const EntryInfo& wanted);
  Result<void> need_companion_locked(const std::string& companion, const std::string& sha256);
  Result<void> need_place_locked(const EntryInfo& wanted);
  Result<void> need_room_locked(const EntryInfo& wanted, uint64_t allocated_bytes);
  Result<void> open_partial_locked(const EntryInfo& wanted, File* data, File* journal);
  Result<void> fill_partial_locked(const EntryInfo& wanted, bool is_there, File* data,
                                   File* journal);

  // First the name, then the bytes. `folder` is a published or a partial one.
  Result<void> erase_locked(const std::string& folder, const std::string& sha256);
  Result<void> remove_locked(const std::string& sha256, const std::vector<Entry>& entries);
  Result<size_t> prune_locked(size_t keep_models);
  Result<void> clean_locked();
  void clean_partial_locked(const std::string& folder, const std::string& sha256);
  Result<Lease> lease_locked(const std::string& sha256, bool checked_only);

  void touch_locked(const std::string& sha256);

  // Memory of this process, for disks that cannot be written: is a file of this look good?
  std::optional<bool> remembered(const std::string& look);
  void remember(const std::string& look, bool good);
  // Fails closed: kNotReady unless the bytes are known to be those of the digest.
  Result<void> is_checked(const EntryInfo& info, const FileInfo& file);

  std::unique_ptr<Files> owned_files;
  Files& files;
  const Limits limit;
  std::mutex looks_mutex;
  std::map<std::string, bool> looks;
};

}  // namespace outrider::store
