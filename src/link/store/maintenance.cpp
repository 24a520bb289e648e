// Removing, pruning and cleaning up.
#include <algorithm>
#include <cerrno>

#include "link/store/store_state.h"

namespace outrider::store {
namespace {

bool is_whole(const Entry& entry) {
  return entry.state != EntryState::kPartial;
}

bool is_damaged(const Entry& entry) {
  return entry.state == EntryState::kDamaged;
}

bool needs(const Entry& entry, const std::string& sha256) {
  const auto& list = entry.info.companions;
  return std::find(list.begin(), list.end(), sha256) != list.end();
}

}  // namespace

Result<void> Store::State::erase_locked(const std::string& folder, const std::string& sha256) {
  const std::string gone = gone_of(sha256);
  OUTRIDER_TRY(erase_folder(files, gone));
  if (const int cause = files.rename(folder, gone); cause != 0)
    return io_error(files, "rename", folder, cause);
  // Only then is it certain that no half of it comes back.
  if (const int cause = files.sync_folder(""); cause != 0)
    return io_error(files, "flush", "", cause);
  return erase_folder(files, gone);
}

Result<void> Store::State::remove_locked(const std::string& sha256,
                                         const std::vector<Entry>& entries) {
  bool found = false;
  for (const Entry& entry : entries) {
    if (is_whole(entry) && needs(entry, sha256))
      return make_error(Code::kNotReady, "store: %.16s is needed by %.16s: remove that first",
                        sha256.c_str(), entry.info.sha256.c_str());
    if (entry.info.sha256 != sha256) continue;
    found = true;
    if (entry.in_use)
      return make_error(Code::kNotReady, "store: %.16s is %s; try again when it is done",
                        sha256.c_str(), is_whole(entry) ? "in use" : "being uploaded");
  }
  if (!found) return make_error(Code::kNotFound, "store: %s is not there", sha256.c_str());
  for (const std::string& folder : {sha256, partial_of(sha256)}) {
    const int there = folder_there(folder);
    if (there == ENOENT || there == ENOTDIR) continue;
    if (there != 0) return io_error(files, "examine", folder, there);
    OUTRIDER_TRY(erase_locked(folder, sha256));
  }
  return {};
}

// Goes on after a failure and tells the first.
Result<size_t> Store::State::prune_locked(size_t keep_models) {
  auto listed = list_locked(true);
  if (!listed) return listed.error();
  std::vector<Entry>& entries = listed.value();
  size_t n_models = 0, n_removed = 0;
  Result<void> outcome;
  const auto erase = [&](const Entry& entry) {
    auto erased = erase_locked(entry.info.sha256, entry.info.sha256);
    if (!erased && outcome) outcome = erased;
    n_removed += erased ? 1 : 0;
    return static_cast<bool>(erased);
  };
  std::erase_if(entries, [&](const Entry& entry) {
    if (!is_whole(entry) || is_damaged(entry) || entry.info.role != Role::kModel) return false;
    return ++n_models > keep_models && !entry.in_use && erase(entry);
  });
  const auto damaged = std::find_if(entries.begin(), entries.end(), is_damaged);
  if (damaged != entries.end() && outcome)
    outcome = make_error(Code::kNotFound,
                         "store: %.16s is damaged, so what it needs is not known and stays: remove "
                         "it or push it again",
                         damaged->info.sha256.c_str());
  const int64_t old_ns = files.wall_ns() - limit.stale_ns;
  for (const Entry& entry : entries) {
    if (damaged != entries.end() || !is_whole(entry) || entry.info.role == Role::kModel) continue;
    if (entry.in_use || entry.used_wall_ns > old_ns) continue;
    const bool needed = std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return needs(other, entry.info.sha256);  // uploads under way count too
    });
    if (!needed) (void)erase(entry);
  }
  if (!outcome) return outcome.error();
  return n_removed;
}

void Store::State::clean_partial_locked(const std::string& folder, const std::string& sha256) {
  if (is_in_use(folder)) return;
  int64_t touched_ns = INT64_MIN;
  for (const char* name : {kData, kInfo, kJournal}) {
    FileInfo found;
    if (files.info(folder + name, &found) == 0) touched_ns = std::max(touched_ns, found.mtime_ns);
  }
  const bool stale = touched_ns < files.wall_ns() - limit.stale_ns;
  // Begun, but the power went before its identity was safe: nothing can be resumed.
  const Code info = info_of(folder, sha256).code();
  const bool nameless = info == Code::kNotFound || info == Code::kInvalid;
  if (stale || nameless) (void)erase_locked(folder, sha256);
}

Result<void> Store::State::clean_locked() {
  auto names = names_locked();
  if (!names) return names.error();
  for (const std::string& name : names.value()) {
    const std::string sha256 = name.substr(0, 64);
    if (!is_sha256(sha256) || folder_there(name) != 0) continue;
    if (name == gone_of(sha256)) (void)erase_folder(files, name);
    if (name == partial_of(sha256)) clean_partial_locked(name, sha256);
    if (name == sha256) files.unlink(name + kJournal);
  }
  return {};
}

}  // namespace outrider::store
