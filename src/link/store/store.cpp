#include "link/store/store.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/printable.h"
#include "link/store/posix_files.h"
#include "link/store/store_state.h"

namespace outrider::store {
namespace {

constexpr int64_t kLockPauseNs = 2'000'000;
constexpr int64_t kSettlePauseNs = 20'000'000, kSettleWaitNs = 3'200'000'000;
constexpr size_t kMaxLooks = 4096;

unsigned long long ull(uint64_t value) {
  return value;
}

bool names_suffix(std::string_view name, std::string_view suffix) {
  return name.size() == 64 + suffix.size() && is_sha256(name.substr(0, 64)) &&
         name.ends_with(suffix);
}

}  // namespace

const char* state_name(EntryState state) {
  switch (state) {
    case EntryState::kPublished:
      return "published";
    case EntryState::kUnchecked:
      return "unchecked";
    case EntryState::kPartial:
      return "partial";
    case EntryState::kDamaged:
      return "damaged";
  }
  return "?";
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;
const Limits& Store::limits() const {
  return state_->limit;
}

Result<Store> Store::open(const std::string& folder, const Limits& limits) {
  auto files = open_posix_files(folder);
  if (!files) return files.error();
  auto store = open(*files.value(), limits);
  if (store) store.value().state_->owned_files = std::move(files.value());
  return store;
}

Result<Store> Store::open(Files& files, const Limits& limits) {
  if (limits.chunk_bytes == 0 || limits.max_entries == 0)
    return make_error(Code::kInvalid,
                      "store: chunk_bytes is %llu and max_entries %u, wanted 1 or more",
                      ull(limits.chunk_bytes), limits.max_entries);
  Store store(std::make_unique<State>(files, limits));
  OUTRIDER_TRY(store.clean());
  return store;
}

Result<void> Store::clean() {
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  return lock.value().is_open() ? state_->clean_locked() : Result<void>{};
}

Result<std::vector<Entry>> Store::list() const {
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  return state_->list_locked(lock.value().is_open());
}

Result<Entry> Store::find(std::string_view name_or_sha256) const {
  auto entries = list();
  if (!entries) return entries.error();
  const bool by_digest = is_sha256(name_or_sha256);
  for (const Entry& entry : entries.value()) {
    const bool whole =
        entry.state == EntryState::kPublished || entry.state == EntryState::kUnchecked;
    if (by_digest ? entry.info.sha256 == name_or_sha256
                  : whole && entry.info.role == Role::kModel && entry.info.name == name_or_sha256)
      return entry;
  }
  return make_error(Code::kNotFound, "store: no %s %s among %zu files in %s",
                    by_digest ? "file of sha256" : "model named", printable(name_or_sha256).c_str(),
                    entries.value().size(), short_path(state_->files.path_of("")).c_str());
}

Result<Lease> Store::lease(std::string_view sha256) {
  if (!is_sha256(sha256))
    return make_error(Code::kInvalid, "store: sha256 is \"%s\", wanted 64 lower-case hex digits",
                      printable(sha256, 70).c_str());
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  return state_->lease_locked(std::string(sha256), true);
}

Result<void> Store::check(std::string_view sha256, bool deep, const OnProgress& on_progress) {
  if (!is_sha256(sha256))
    return make_error(Code::kInvalid, "store: sha256 is \"%s\", wanted 64 lower-case hex digits",
                      printable(sha256, 70).c_str());
  State& state = *state_;
  const std::string folder(sha256), data = folder + kData;
  Lease lease;  // keeps it there while it is read
  {
    auto lock = state.lock_folder();
    if (!lock) return lock.error();
    auto taken = state.lease_locked(folder, false);
    if (!taken) return taken.error();
    lease = std::move(taken.value());
  }
  FileInfo before, after;
  if (const int cause = state.files.info(lease.file_.handle(), &before); cause != 0)
    return io_error(state.files, "examine", data, cause);
  if (!deep && state.is_checked(lease.info_, before)) return {};
  wait_settled(state.files, before);
  auto found = hash_file(state.files, lease.file_.handle(), data, before.size_bytes, Stage::kVerify,
                         on_progress);
  if (!found) return found.error();
  if (const int cause = state.files.info(lease.file_.handle(), &after); cause != 0)
    return io_error(state.files, "examine", data, cause);
  const std::string look = look_of(after);
  if (look != look_of(before))
    return make_error(Code::kNotReady, "store: %.16s changed while it was read; check it again",
                      folder.c_str());
  const bool good = found.value() == sha256;
  state.remember(look, good);
  EntryInfo info = lease.info_;
  info.checked = good && is_settled(after, state.files.wall_ns()) ? look : "";
  if (auto lock = state.lock_folder();
      lock && lock.value().is_open() && info.checked != lease.info_.checked)
    (void)replace_text(state.files, folder, kInfo + 1, info_text(info));
  if (good) return {};
  return make_error(Code::kNotFound,
                    "store: the bytes of %s are not those of its name: their sha256 is %s; remove "
                    "it and push it again",
                    folder.c_str(), found.value().c_str());
}

Result<void> Store::remove(std::string_view sha256) {
  if (!is_sha256(sha256))
    return make_error(Code::kInvalid, "store: sha256 is \"%s\", wanted 64 lower-case hex digits",
                      printable(sha256, 70).c_str());
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  auto entries = state_->list_locked(lock.value().is_open());
  if (!entries) return entries.error();
  return state_->remove_locked(std::string(sha256), entries.value());
}

Result<size_t> Store::prune(size_t keep_models) {
  auto lock = state_->lock_folder();
  if (!lock) return lock.error();
  return state_->prune_locked(keep_models);
}

Result<std::vector<std::string>> Store::surplus(size_t keep_models) const {
  auto entries = list();
  if (!entries) return entries.error();
  std::vector<std::string> out;
  size_t n_models = 0;
  for (const Entry& entry : entries.value())
    if (entry.state != EntryState::kPartial && entry.state != EntryState::kDamaged &&
        entry.info.role == Role::kModel && ++n_models > keep_models && entry.in_use)
      out.push_back(entry.info.sha256);
  return out;
}

void wait_settled(Files& files, const FileInfo& file) {
  // When its clock is odd we go on: what is found is then not remembered.
  for (int64_t waited_ns = 0; waited_ns < kSettleWaitNs; waited_ns += kSettlePauseNs) {
    if (is_settled(file, files.wall_ns())) return;
    files.pause_ns(kSettlePauseNs);
  }
}

Result<void> Store::State::lock_patiently(const File& file) {
  for (int64_t waited_ns = 0;; waited_ns += kLockPauseNs) {
    const int cause = files.lock(file.handle(), LockHow::kExclusive);
    if (cause == 0) return {};
    if (cause != EWOULDBLOCK) return io_error(files, "lock", "lock", cause);
    if (waited_ns >= limit.lock_wait_ns)
      return make_error(
          Code::kNotReady, "store: another operation has held %s for %lld ms; try again",
          short_path(files.path_of("lock")).c_str(), static_cast<long long>(waited_ns / 1'000'000));
    files.pause_ns(kLockPauseNs);
  }
}

Result<File> Store::State::lock_folder() {
  int handle = -1;
  int cause = files.open("lock", OpenHow::kCreate, &handle);
  if (cause == EROFS || cause == EACCES) {
    cause = files.open("lock", OpenHow::kRead, &handle);
    if (cause == ENOENT) return File();
  }
  if (cause != 0) return io_error(files, "open", "lock", cause);
  File file(files, handle);
  OUTRIDER_TRY(lock_patiently(file));
  return file;
}

int Store::State::folder_there(const std::string& folder) {
  FileInfo found;
  if (const int cause = files.info(folder, &found); cause != 0) return cause;
  return found.is_folder ? 0 : ENOTDIR;
}

Result<EntryInfo> Store::State::info_of(const std::string& folder, const std::string& sha256) {
  auto text = read_text(files, folder + kInfo, kMaxInfoBytes);
  if (!text) return text.error();
  auto info = read_info(text.value());
  if (!info) return info.error();
  if (info.value().sha256 != sha256)
    return make_error(Code::kInvalid, "store: %s speaks of another file, %.16s",
                      short_path(files.path_of(folder + kInfo)).c_str(),
                      info.value().sha256.c_str());
  return info;
}

Result<std::vector<std::string>> Store::State::names_locked() {
  std::vector<std::string> names;
  // Two states of one name, the lock, and room for what somebody left here.
  const size_t max_names = 3 * size_t{limit.max_entries} + 64;
  const int cause = files.list("", max_names, &names);
  if (cause == E2BIG)
    return make_error(Code::kNoMemory, "store: more than %zu names in %s: remove what is not its",
                      max_names, short_path(files.path_of("")).c_str());
  if (cause != 0) return io_error(files, "list", "", cause);
  return names;
}

bool Store::State::is_in_use(const std::string& folder) {
  int handle = -1;
  if (files.open(folder + kData, OpenHow::kRead, &handle) != 0) return false;
  const File file(files, handle);
  return files.lock(handle, LockHow::kExclusive) == EWOULDBLOCK;
}

Entry Store::State::entry_locked(const std::string& sha256, const std::string& folder,
                                 bool probe_use) {
  Entry entry;
  entry.info.sha256 = sha256;
  entry.state = EntryState::kDamaged;
  entry.in_use = probe_use && is_in_use(folder);
  FileInfo data, text;
  const bool has_data = files.info(folder + kData, &data) == 0 && data.is_file;
  if (has_data) entry.have_bytes = data.size_bytes;
  if (has_data) entry.used_wall_ns = data.mtime_ns;
  auto info = info_of(folder, sha256);
  if (!info) return entry;
  entry.info = std::move(info.value());
  if (files.info(folder + kInfo, &text) == 0)
    entry.used_wall_ns = std::max(entry.used_wall_ns, text.mtime_ns);
  if (folder != sha256) {
    entry.state = EntryState::kPartial;
  } else if (has_data && data.size_bytes == entry.info.n_bytes) {
    entry.state = is_checked(entry.info, data) ? EntryState::kPublished : EntryState::kUnchecked;
  }
  return entry;
}

Result<std::vector<Entry>> Store::State::list_locked(bool probe_use) {
  auto names = names_locked();
  if (!names) return names.error();
  std::vector<Entry> entries;
  for (const std::string& name : names.value()) {
    if (!is_sha256(name) && !names_suffix(name, ".part")) continue;
    const int there = folder_there(name);
    if (there == ENOENT || there == ENOTDIR) continue;  // a link or a file: not ours
    entries.push_back(entry_locked(name.substr(0, 64), name, probe_use));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.used_wall_ns != b.used_wall_ns ? a.used_wall_ns > b.used_wall_ns
                                            : a.info.sha256 < b.info.sha256;
  });
  return entries;
}

Result<Lease> Store::State::lease_locked(const std::string& sha256, bool checked_only) {
  const int there = folder_there(sha256);
  if (there == ENOENT) {
    const bool partial = folder_there(partial_of(sha256)) == 0;
    return make_error(Code::kNotFound, "store: %.16s is not there%s", sha256.c_str(),
                      partial ? ", only a part of it: push it again to complete it" : "");
  }
  if (there != 0) return io_error(files, "open", sha256, there);
  auto info = info_of(sha256, sha256);
  if (!info) return info.error();
  const std::string data = sha256 + kData;
  auto file = open_file(files, data, OpenHow::kRead);
  if (!file) return file.error();
  FileInfo found;
  if (const int cause = files.info(file.value().handle(), &found); cause != 0)
    return io_error(files, "examine", data, cause);
  if (found.size_bytes != info.value().n_bytes)
    return make_error(Code::kNotFound,
                      "store: %.16s has %llu bytes, wanted %llu; remove it and push it again",
                      sha256.c_str(), ull(found.size_bytes), ull(info.value().n_bytes));
  if (checked_only) OUTRIDER_TRY(is_checked(info.value(), found));
  if (const int cause = files.lock(file.value().handle(), LockHow::kShared); cause != 0)
    return cause == EWOULDBLOCK
               ? make_error(Code::kNotReady, "store: %.16s is being changed; try again",
                            sha256.c_str())
               : io_error(files, "lock", data, cause);
  Lease lease;
  lease.info_ = std::move(info.value());
  lease.path_ = files.path_of(data);
  lease.file_ = std::move(file.value());
  if (!checked_only) return lease;
  for (const std::string& companion : lease.info_.companions) {
    auto taken = lease_locked(companion, true);
    if (!taken) return taken.error();
    lease.companions_.push_back(std::move(taken.value()));
  }
  touch_locked(sha256);
  return lease;
}

// The time of use, for prune. A disk that cannot be written does without.
void Store::State::touch_locked(const std::string& sha256) {
  if (auto text = open_file(files, sha256 + kInfo, OpenHow::kReadWrite); text)
    (void)files.touch(text.value().handle());
}

std::optional<bool> Store::State::remembered(const std::string& look) {
  const std::lock_guard guard(looks_mutex);
  const auto found = looks.find(look);
  return found == looks.end() ? std::nullopt : std::optional(found->second);
}

void Store::State::remember(const std::string& look, bool good) {
  const std::lock_guard guard(looks_mutex);
  if (looks.size() >= kMaxLooks) looks.clear();
  looks[look] = good;
}

Result<void> Store::State::is_checked(const EntryInfo& info, const FileInfo& file) {
  const std::string look = look_of(file);
  const auto known = remembered(look);
  if (known.has_value() ? *known : info.checked == look) return {};
  return make_error(Code::kNotReady,
                    "store: %.16s %s; check it first, or remove it and push it again",
                    info.sha256.c_str(),
                    known.has_value()      ? "does not have the bytes of its name"
                    : info.checked.empty() ? "was never checked"
                                           : "changed since it was checked");
}

}  // namespace outrider::store
