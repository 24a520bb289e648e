#include "link/store/upload.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "link/store/journal.h"
#include "link/store/store_state.h"

namespace outrider::store {
namespace {

unsigned long long ull(uint64_t value) {
  return value;
}

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

struct Upload::State {
  explicit State(Store::State& owner) : store(owner) {}

  Error failed(const char* doing, const std::string& path, int cause);
  Result<void> add_piece(std::span<const std::byte> bytes);
  Result<void> note_chunk();
  Result<void> sync();
  Result<bool> read_chunk(const ChunkDigest& chunk);
  Result<void> resume(const OnProgress& on_progress);
  Result<void> verify(const OnProgress& on_progress);
  Result<void> publish_locked();
  void drop();

  Store::State& store;
  EntryInfo info;
  File data, journal;
  Sha256 chunk;  // of the bytes since the last chunk's end
  std::vector<std::pair<uint64_t, ChunkDigest>> unsafe_chunks;  // digested, not yet in the journal
  uint64_t next = 0, safe = 0;
  bool is_published = false, is_over = false;

  JournalKey key() const { return {info.sha256, info.n_bytes, store.limit.chunk_bytes}; }
  std::string folder() const { return partial_of(info.sha256); }
  std::string data_path() const { return folder() + kData; }
};

Upload::Upload(std::unique_ptr<State> state) : state_(std::move(state)) {}
Upload::Upload(Upload&&) noexcept = default;
Upload& Upload::operator=(Upload&& other) noexcept {
  if (this != &other) {
    Upload ended(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}
Upload::~Upload() {
  if (state_ && !state_->is_over) (void)state_->sync();
}
const EntryInfo& Upload::info() const {
  return state_->info;
}
bool Upload::published() const {
  return state_->is_published;
}
uint64_t Upload::next_offset() const {
  return state_->next;
}
uint64_t Upload::safe_bytes() const {
  return state_->safe;
}

// The partial file goes, so that the machine has its room back.
void Upload::State::drop() {
  is_over = true;
  if (auto lock = store.lock_folder(); lock && lock.value().is_open())
    (void)store.erase_locked(folder(), info.sha256);
  data.reset();
  journal.reset();
}

// The upload is over. When the room ended the partial goes too.
Error Upload::State::failed(const char* doing, const std::string& path, int cause) {
  is_over = true;
  const Error error = io_error(store.files, doing, path, cause);
  if (!is_no_room(cause)) return error;
  FreeSpace space;
  (void)store.files.space(&space);
  drop();
  return make_error(Code::kNoMemory,
                    "%s; %llu of %llu bytes were here, %llu are free: the partial file was "
                    "deleted; make room and push it again",
                    error.text, ull(next), ull(info.n_bytes), ull(space.bytes));
}

Result<void> Upload::State::note_chunk() {
  auto digest = chunk.hex();
  if (!digest) return digest.error();
  unsafe_chunks.push_back(
      {(next - 1) / store.limit.chunk_bytes, {next, std::move(digest.value())}});
  return {};
}

// Inside one chunk.
Result<void> Upload::State::add_piece(std::span<const std::byte> bytes) {
  const int cause = write_all(store.files, data.handle(), next, bytes);
  if (cause != 0) return failed("write", data_path(), cause);
  chunk.add(bytes);
  next += bytes.size();
  if (next % store.limit.chunk_bytes != 0 && next != info.n_bytes) return {};
  OUTRIDER_TRY(note_chunk());
  chunk = Sha256();
  return next - safe >= store.limit.sync_bytes || next == info.n_bytes ? sync() : Result<void>{};
}

// First the bytes, then their digests: a digest never speaks of bytes that are not safe.
Result<void> Upload::State::sync() {
  if (safe == next) return {};
  if (int cause = store.files.sync(data.handle()); cause != 0)
    return failed("flush", data_path(), cause);
  if (next % store.limit.chunk_bytes != 0 && next != info.n_bytes) OUTRIDER_TRY(note_chunk());
  for (const auto& [index, digest] : unsafe_chunks) {
    const auto slot = encode_slot(key(), index, digest);
    const int cause = write_all(store.files, journal.handle(), index * kSlotBytes, slot);
    if (cause != 0) return failed("write", folder() + kJournal, cause);
  }
  if (const int cause = store.files.sync(journal.handle()); cause != 0)
    return failed("flush", folder() + kJournal, cause);
  unsafe_chunks.clear();
  safe = next;
  return {};
}

// Are the bytes from next to chunk.end those of the digest? Then `chunk` holds their state.
Result<bool> Upload::State::read_chunk(const ChunkDigest& wanted) {
  Sha256 digest;
  std::vector<std::byte> buffer(kReadBytes);
  for (uint64_t at = next; at < wanted.end;) {
    size_t n = 0;
    const auto piece = std::span(buffer).first(
        static_cast<size_t>(std::min<uint64_t>(wanted.end - at, buffer.size())));
    const int cause = store.files.read(data.handle(), at, piece, &n);
    if (cause != 0 || n == 0) return false;  // unreadable: it is written anew
    digest.add(piece.first(n));
    at += n;
  }
  auto hex = digest.hex();
  if (!hex) return hex.error();
  if (hex.value() != wanted.sha256) return false;
  chunk = std::move(digest);
  return true;
}

// Takes over what the digests vouch for and cuts off the rest.
Result<void> Upload::State::resume(const OnProgress& on_progress) {
  while (next < info.n_bytes && next % store.limit.chunk_bytes == 0) {
    if (on_progress && !on_progress({Stage::kCheck, next, info.n_bytes})) {
      is_over = true;
      return make_error(Code::kNotReady, "store: given up in check at byte %llu of %llu", ull(next),
                        ull(info.n_bytes));
    }
    std::array<std::byte, kSlotBytes> bytes;
    const uint64_t index = next / store.limit.chunk_bytes;
    if (read_all(store.files, journal.handle(), index * kSlotBytes, bytes) != 0) break;
    const auto slot = decode_slot(key(), index, bytes);
    if (!slot) break;
    auto good = read_chunk(*slot);
    if (!good) return good.error();
    if (!good.value()) break;
    next = slot->end;
    if (next % store.limit.chunk_bytes == 0 || next == info.n_bytes) chunk = Sha256();
  }
  int cause = store.files.truncate(data.handle(), next);
  // Cutting gives room behind the end back, so it is taken afterwards.
  if (cause == 0) cause = store.files.reserve(data.handle(), info.n_bytes);
  if (cause == 0 || cause == EOPNOTSUPP) cause = store.files.sync(data.handle());
  if (cause == 0) cause = store.files.sync(journal.handle());
  if (cause != 0) return failed("taking room for", data_path(), cause);
  safe = next;
  return {};
}

Result<void> Upload::write(uint64_t offset, std::span<const std::byte> bytes) {
  State& state = *state_;
  const std::string& sha256 = state.info.sha256;
  if (state.is_over || state.is_published)
    return make_error(Code::kInvalid, "store: %.16s: the upload %s", sha256.c_str(),
                      state.is_over ? "has failed: begin it again" : "is complete");
  if (bytes.size() > kMaxWriteBytes)
    return make_error(Code::kInvalid, "store: %.16s: %zu bytes at once, at most %zu are allowed",
                      sha256.c_str(), bytes.size(), kMaxWriteBytes);
  if (offset > state.next)
    return make_error(Code::kInvalid, "store: %.16s: bytes at offset %llu, the next wanted is %llu",
                      sha256.c_str(), ull(offset), ull(state.next));
  if (bytes.size() > state.info.n_bytes - offset)
    return make_error(Code::kInvalid,
                      "store: %.16s: %zu bytes at offset %llu go beyond the declared %llu",
                      sha256.c_str(), bytes.size(), ull(offset), ull(state.info.n_bytes));
  bytes = bytes.subspan(static_cast<size_t>(std::min<uint64_t>(state.next - offset, bytes.size())));
  while (!bytes.empty()) {
    const uint64_t chunk_bytes = state.store.limit.chunk_bytes;
    const uint64_t room = chunk_bytes - state.next % chunk_bytes;
    const auto piece = bytes.first(static_cast<size_t>(std::min<uint64_t>(room, bytes.size())));
    OUTRIDER_TRY(state.add_piece(piece));
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<void> Upload::sync() {
  if (state_->is_published) return {};
  if (state_->is_over)
    return make_error(Code::kInvalid, "store: %.16s: the upload has failed: begin it again",
                      state_->info.sha256.c_str());
  return state_->sync();
}

// All bytes read back. Whoever changed the file meanwhile would show in its look.
Result<void> Upload::State::verify(const OnProgress& on_progress) {
  Files& files = store.files;
  FileInfo before, after;
  int cause = files.sync(data.handle());
  if (cause == 0) cause = files.info(data.handle(), &before);
  if (cause != 0) return io_error(files, "close", data_path(), cause);
  wait_settled(files, before);
  auto found =
      hash_file(files, data.handle(), data_path(), info.n_bytes, Stage::kVerify, on_progress);
  if (!found) return found.error();
  if (cause = files.info(data.handle(), &after); cause != 0)
    return io_error(files, "examine", data_path(), cause);
  if (found.value() != info.sha256) {
    drop();
    return make_error(Code::kNotFound,
                      "store: sha256 of the %llu bytes received is %s, wanted %s: the partial file "
                      "was deleted; push it again",
                      ull(info.n_bytes), found.value().c_str(), info.sha256.c_str());
  }
  const bool same = look_of(before) == look_of(after) && after.size_bytes == info.n_bytes;
  if (!same)
    return make_error(Code::kNotReady, "store: %.16s changed while it was read; finish it again",
                      info.sha256.c_str());
  if (is_settled(after, files.wall_ns())) info.checked = look_of(after);
  store.remember(look_of(after), true);
  return {};
}

Result<void> Upload::State::publish_locked() {
  for (const std::string& companion : info.companions)
    OUTRIDER_TRY(store.need_companion_locked(companion, info.sha256));
  OUTRIDER_TRY(replace_text(store.files, folder(), kInfo + 1, info_text(info)));
  if (const int cause = store.files.rename(folder(), info.sha256); cause != 0)
    return io_error(store.files, "publish", folder(), cause);
  is_over = true;  // until the new name is safe
  data.reset();
  journal.reset();
  if (const int cause = store.files.sync_folder(""); cause != 0)
    return io_error(store.files, "flush", "", cause);
  is_published = true;
  (void)store.files.unlink(info.sha256 + kJournal);
  if (store.limit.keep_models != 0) (void)store.prune_locked(store.limit.keep_models);
  return {};
}

Result<void> Upload::finish(const OnProgress& on_progress) {
  State& state = *state_;
  if (state.is_published) return {};
  OUTRIDER_TRY(sync());
  if (state.next != state.info.n_bytes)
    return make_error(Code::kInvalid, "store: %.16s: %llu of %llu bytes are here",
                      state.info.sha256.c_str(), ull(state.next), ull(state.info.n_bytes));
  OUTRIDER_TRY(state.verify(on_progress));
  auto lock = state.store.lock_folder();
  if (!lock) return lock.error();
  return state.publish_locked();
}

Result<Upload> Store::begin_upload(const EntryInfo& wanted, const OnProgress& on_progress) {
  OUTRIDER_TRY(check_info(wanted));
  OUTRIDER_TRY(settle_published(wanted, on_progress));
  auto state = std::make_unique<Upload::State>(*state_);
  state->info = wanted;
  state->info.checked.clear();
  {
    auto lock = state_->lock_folder();
    if (!lock) return lock.error();
    OUTRIDER_TRY(state_->clean_locked());
    auto published = state_->take_published_locked(wanted);
    if (!published) return published.error();
    state->is_published = published.value();
    if (!state->is_published)
      OUTRIDER_TRY(state_->open_partial_locked(state->info, &state->data, &state->journal));
  }
  if (state->is_published) {
    state->next = state->safe = wanted.n_bytes;
    return Upload(std::move(state));
  }
  OUTRIDER_TRY(state->resume(on_progress));
  return Upload(std::move(state));
}

}  // namespace outrider::store
