// A folder of model files keyed by SHA-256. Below the messages: no sockets, no threads.
//
//   FOLDER/lock                  taken for the moment of every change, by all processes
//   FOLDER/<sha256>/             a published file: `data`, `info.json`
//   FOLDER/<sha256>.part/        an upload: `data`, `info.json`, `journal` (digest of each chunk)
//   FOLDER/<sha256>.gone/        being deleted
//
// Publishing and removing are each one rename inside FOLDER. After a loss of power at any moment a
// file is either wholly there, with the right bytes, or not there; an upload goes on from its last
// synced chunk. Names, roles and sizes come from peers: none of them is ever part of a path.
//
// Safe to call from several threads and processes. Every wait has a deadline (Limits).
// Errors of all: kInvalid (argument, order, something foreign in the folder), kNotFound (not
// there, or its bytes are not those of its name), kNotReady (in use, being uploaded, locked: try
// again), kNoMemory (disk full, a limit), kFailed (the system refused: path and cause).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "link/store/files.h"
#include "link/store/info.h"
#include "link/store/limits.h"
#include "link/store/progress.h"

namespace outrider::store {

enum class EntryState : uint8_t {
  kPublished,  // whole; unchanged since its bytes were compared with the digest
  kUnchecked,  // whole; changed or never compared since: `check` reads it
  kPartial,    // an upload, running or cut
  kDamaged,    // its info.json is unreadable or its size is wrong: push it again or remove it
};
const char* state_name(EntryState state);  // "published" "unchecked" "partial" "damaged"

struct Entry {
  EntryInfo info;  // sha256 always; the rest when the state is not kDamaged
  EntryState state = EntryState::kPartial;
  uint64_t have_bytes = 0;   // of the data file
  int64_t used_wall_ns = 0;  // last lease, begin_upload or write
  bool in_use = false;       // leased or being uploaded, by whatever process
};

// A published file in use: it is not removed while this object lives, in any process.
class Lease {
 public:
  const EntryInfo& info() const { return info_; }
  const std::string& path() const { return path_; }  // of the bytes, for reading
  // The same of its companions, in the order of info().companions.
  const std::vector<Lease>& companions() const { return companions_; }

 private:
  friend class Store;
  EntryInfo info_;
  std::string path_;
  File file_;
  std::vector<Lease> companions_;
};

class Upload;

class Store {
 public:
  // Makes the folder (mode 0700) when it is missing; refuses one that others may write. Deletes
  // what a loss of power left half deleted and partials older than Limits::stale_ns. A folder on a
  // read-only disk can be listed and leased from.
  static Result<Store> open(const std::string& folder, const Limits& limits = {});
  // The same over any files; `files` outlives the store and everything that came from it.
  static Result<Store> open(Files& files, const Limits& limits);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  // Starts or goes on with an upload. The identity is sha256 and n_bytes: a partial of another size
  // is dropped and begun from zero. What is there already is read and compared with its chunk
  // digests first; bytes that do not agree are dropped. Companions must be published already.
  // One uploader at a time per file: kNotReady for the second. Already published: an Upload that is
  // `published()` at once, with name, role and companions brought up to date.
  // A published file that proves damaged is removed and begun from zero, unless it is leased.
  Result<Upload> begin_upload(const EntryInfo& info, const OnProgress& on_progress = {});

  Result<std::vector<Entry>> list() const;  // by time of use, newest first
  // By sha256, or by name: the last used published model of that name. kNotFound.
  Result<Entry> find(std::string_view name_or_sha256) const;

  // Opens it for use, with all its companions. Fails closed: a file that changed since its bytes
  // were compared is refused with kNotReady until check() has read it.
  Result<Lease> lease(std::string_view sha256);
  // Compares the bytes with the digest: only when the file changed since, or always (`deep`).
  // kNotFound with both digests when they differ; the file stays and is not leased any more.
  Result<void> check(std::string_view sha256, bool deep, const OnProgress& on_progress = {});

  // Published or partial. kNotReady when in use or when a published model needs it.
  Result<void> remove(std::string_view sha256);
  // Keeps the n last used models and what they need; those in use stay and count. Companions that
  // no model needs go once they are older than Limits::stale_ns. Returns the number removed.
  Result<size_t> prune(size_t keep_models);
  // sha256 of the models that prune(keep_models) would remove if nobody had them open.
  Result<std::vector<std::string>> surplus(size_t keep_models) const;

  // Deletes what a loss of power left half deleted and stale partials. open and begin_upload do it.
  Result<void> clean();

  const Limits& limits() const;

 private:
  friend class Upload;
  struct State;
  explicit Store(std::unique_ptr<State> state);
  Result<void> settle_published(const EntryInfo& wanted, const OnProgress& on_progress);
  std::unique_ptr<State> state_;
};

}  // namespace outrider::store
