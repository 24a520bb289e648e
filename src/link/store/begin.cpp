// What has to hold before the first byte of an upload.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/printable.h"
#include "link/store/store_state.h"

namespace outrider::store {
namespace {

unsigned long long ull(uint64_t value) {
  return value;
}

// A partial's folder, its lock file's share, text and journal.
constexpr uint64_t kInodesNeeded = 8;

Error foreign(const Files& files, const std::string& folder) {
  return make_error(Code::kInvalid,
                    "store: %s is no folder of the store (a link?): remove it by "
                    "hand",
                    short_path(files.path_of(folder)).c_str());
}

}  // namespace

// A published file that changed is read now; one that proves damaged goes. Without the lock, as it
// may take long.
Result<void> Store::settle_published(const EntryInfo& wanted, const OnProgress& on_progress) {
  {
    auto lock = state_->lock_folder();
    if (!lock) return lock.error();
    if (state_->folder_there(wanted.sha256) != 0) return {};
  }
  auto checked = check(wanted.sha256, false, on_progress);
  if (checked) return {};
  const Code code = checked.code();
  if (code != Code::kNotFound && code != Code::kInvalid) return checked.error();
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  if (state_->folder_there(wanted.sha256) != 0) return {};
  if (state_->is_in_use(wanted.sha256))
    return make_error(Code::kNotReady,
                      "store: %.16s is damaged but in use: push it again when it "
                      "is free",
                      wanted.sha256.c_str());
  return state_->erase_locked(wanted.sha256, wanted.sha256);
}

Result<void> Store::State::need_companion_locked(const std::string& companion,
                                                 const std::string& sha256) {
  if (folder_there(companion) == 0 && info_of(companion, companion)) return {};
  return make_error(Code::kNotFound,
                    "store: %.16s needs %.16s, which is not there: push that first", sha256.c_str(),
                    companion.c_str());
}

// True: it is published, and its name, role and companions are those wanted.
Result<bool> Store::State::take_published_locked(const EntryInfo& wanted) {
  const int there = folder_there(wanted.sha256);
  if (there == ENOENT) return false;
  if (there == ENOTDIR) return foreign(files, wanted.sha256);
  if (there != 0) return io_error(files, "examine", wanted.sha256, there);
  auto info = info_of(wanted.sha256, wanted.sha256);
  if (!info) return info.error();
  if (info.value().n_bytes != wanted.n_bytes)
    return make_error(Code::kInvalid, "store: %.16s has %llu bytes, not the declared %llu",
                      wanted.sha256.c_str(), ull(info.value().n_bytes), ull(wanted.n_bytes));
  for (const std::string& companion : wanted.companions)
    OUTRIDER_TRY(need_companion_locked(companion, wanted.sha256));
  EntryInfo merged = wanted;
  merged.checked = info.value().checked;
  if (info_text(merged) != info_text(info.value()))
    OUTRIDER_TRY(replace_text(files, wanted.sha256, kInfo + 1, info_text(merged)));
  // Whoever published it may have died before its name was safe.
  if (const int cause = files.sync_folder(""); cause != 0)
    return io_error(files, "flush", "", cause);
  touch_locked(wanted.sha256);
  return true;
}

Result<void> Store::State::need_room_locked(const EntryInfo& wanted, uint64_t allocated_bytes) {
  FreeSpace space;
  if (const int cause = files.space(&space); cause != 0)
    return io_error(files, "examine", "", cause);
  const uint64_t missing = wanted.n_bytes - std::min(allocated_bytes, wanted.n_bytes);
  if (space.bytes < limit.reserve_bytes || space.bytes - limit.reserve_bytes < missing)
    return make_error(Code::kNoMemory,
                      "store: %.16s needs %llu more bytes and a reserve of %llu, %llu are free in "
                      "%s: remove models or make room",
                      wanted.sha256.c_str(), ull(missing), ull(limit.reserve_bytes),
                      ull(space.bytes), short_path(files.path_of("")).c_str());
  if (space.inodes < kInodesNeeded)
    return make_error(Code::kNoMemory,
                      "store: %llu inodes are free in %s, wanted %llu: delete some files",
                      ull(space.inodes), short_path(files.path_of("")).c_str(), ull(kInodesNeeded));
  return {};
}

Result<void> Store::State::need_place_locked(const EntryInfo& wanted) {
  if (wanted.n_bytes > limit.max_file_bytes)
    return make_error(Code::kNoMemory, "store: %.16s has %llu bytes, max_file_bytes allows %llu",
                      wanted.sha256.c_str(), ull(wanted.n_bytes), ull(limit.max_file_bytes));
  for (const std::string& companion : wanted.companions)
    OUTRIDER_TRY(need_companion_locked(companion, wanted.sha256));
  auto entries = list_locked(false);
  if (!entries) return entries.error();
  const auto& all = entries.value();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Entry& entry) {
    return entry.info.sha256 == wanted.sha256;
  });
  if (!known && all.size() >= limit.max_entries)
    return make_error(Code::kNoMemory,
                      "store: %zu files are here, max_entries allows %u: remove some", all.size(),
                      limit.max_entries);
  return {};
}

// The data file locked, the journal open, the identity safe on the disk. What a partial of another
// size had is cut off.
Result<void> Store::State::open_partial_locked(const EntryInfo& wanted, File* data, File* journal) {
  const std::string folder = partial_of(wanted.sha256);
  OUTRIDER_TRY(need_place_locked(wanted));
  const int there = folder_there(folder);
  if (there == ENOTDIR) return foreign(files, folder);
  if (there != 0 && there != ENOENT) return io_error(files, "examine", folder, there);
  if (there == 0 && is_in_use(folder))
    return make_error(Code::kNotReady,
                      "store: %.16s is being uploaded by another peer; try again when it is done",
                      wanted.sha256.c_str());
  FileInfo found;
  (void)files.info(folder + kData, &found);
  OUTRIDER_TRY(need_room_locked(wanted, found.allocated_bytes));
  auto filled = fill_partial_locked(wanted, there == 0, data, journal);
  if (filled) return {};
  data->reset();
  journal->reset();
  if (filled.code() == Code::kNoMemory || there == ENOENT)
    (void)erase_locked(folder, wanted.sha256);
  return filled;
}

Result<void> Store::State::fill_partial_locked(const EntryInfo& wanted, bool is_there, File* data,
                                               File* journal) {
  const std::string folder = partial_of(wanted.sha256);
  if (!is_there) {
    if (const int cause = files.make_folder(folder); cause != 0)
      return io_error(files, "make", folder, cause);
  }
  const auto old = info_of(folder, wanted.sha256);
  const bool same = old && old.value().n_bytes == wanted.n_bytes;
  for (auto [file, name] : {std::pair{data, kData}, std::pair{journal, kJournal}}) {
    auto opened = open_file(files, folder + name, OpenHow::kCreate);
    if (!opened) return opened.error();
    *file = std::move(opened.value());
    const int cause = same ? 0 : files.truncate(file->handle(), 0);
    if (cause != 0) return io_error(files, "cut", folder + name, cause);
  }
  if (const int cause = files.lock(data->handle(), LockHow::kExclusive); cause != 0)
    return io_error(files, "lock", folder + kData, cause);
  // Makes the names of all three safe as well.
  OUTRIDER_TRY(replace_text(files, folder, kInfo + 1, info_text(wanted)));
  if (const int cause = files.sync_folder(""); cause != 0)
    return io_error(files, "flush", "", cause);
  return {};
}

}  // namespace outrider::store
