#include "link/provision/store_session.h"

#include <algorithm>

#include "base/log.h"

namespace outrider::link {
namespace {

Result<void> sent(bool good) {
  if (good) return {};
  return make_error(Code::kFailed, "store: the peer is lost");
}

wire::StoreEntry to_wire(const store::Entry& entry) {
  wire::StoreEntry out;
  out.sha256.assign(entry.info.sha256);
  out.n_bytes = entry.info.n_bytes;
  out.have_bytes = entry.have_bytes;
  out.name.assign(entry.info.name);
  out.role = static_cast<uint8_t>(entry.info.role);
  out.state = static_cast<uint8_t>(entry.state);
  out.in_use = entry.in_use ? 1 : 0;
  out.used_wall_ns = entry.used_wall_ns;
  for (const std::string& companion : entry.info.companions)
    out.companions.add().sha256.assign(companion);
  return out;
}

template <class M, class Then>
Result<void> with(std::span<const std::byte> body, Then&& then) {
  M message;
  if (auto read = wire::decode(body, message); !read) return read.error();
  return then(message);
}

}  // namespace

bool StoreSession::takes(uint16_t type) {
  return type == wire::type_of<wire::StorePush>() || type == wire::type_of<wire::StoreChunk>() ||
         type == wire::type_of<wire::StoreEnd>() || type == wire::type_of<wire::StoreList>() ||
         type == wire::type_of<wire::StoreRemove>();
}

Result<void> StoreSession::take(uint16_t type, uint64_t request_id, std::span<const std::byte> body,
                                std::span<const std::byte> payload) {
  using namespace wire;
  if (type == type_of<StorePush>())
    return with<StorePush>(body, [&](const StorePush& m) { return push(m, request_id); });
  if (type == type_of<StoreChunk>())
    return with<StoreChunk>(body, [&](const StoreChunk& m) { return chunk(m, payload); });
  if (type == type_of<StoreEnd>())
    return with<StoreEnd>(body, [&](const StoreEnd& m) { return end(m, request_id); });
  if (type == type_of<StoreList>())
    return with<StoreList>(body, [&](const StoreList&) { return list(request_id); });
  if (type == type_of<StoreRemove>())
    return with<StoreRemove>(body, [&](const StoreRemove& m) { return remove(m, request_id); });
  return make_error(Code::kInvalid, "store: message type %u is none of the store's", type);
}

wire::StoreState StoreSession::state_now() const {
  wire::StoreState state;
  state.stage = static_cast<uint8_t>(store::Stage::kReceive);
  state.window_bytes = kWindowBytes;
  if (!upload_) return state;
  state.is_published = upload_->published() ? 1 : 0;
  state.n_done = state.next_offset = upload_->next_offset();
  state.n_total = upload_->info().n_bytes;
  state.safe_bytes = upload_->safe_bytes();
  return state;
}

store::OnProgress StoreSession::progress_to(uint64_t request_id) {
  return [this, request_id, last_ns = clock_.now_ns()](const store::Progress& progress) mutable {
    if (clock_.now_ns() - last_ns < kProgressNs) return true;
    last_ns = clock_.now_ns();
    wire::StoreState state = state_now();
    state.stage = static_cast<uint8_t>(progress.stage);
    state.n_done = progress.n_done;
    state.n_total = progress.n_total;
    return replies_.reply(state, request_id);
  };
}

// After a failure the upload is over; what is safe stays in the store.
Result<void> StoreSession::answer(const Result<void>& outcome, bool is_answer,
                                  uint64_t request_id) {
  wire::StoreState state = state_now();
  state.is_answer = is_answer || !outcome ? 1 : 0;
  if (!outcome) {
    log_line(LogLevel::kWarn, "store: an upload failed: %s", outcome.error().text);
    state.code = to_abi(outcome.code());
    state.text.assign(outcome.error().message());
    upload_.reset();
  }
  return sent(replies_.reply(state, request_id));
}

Result<void> StoreSession::push(const wire::StorePush& push, uint64_t request_id) {
  upload_.reset();  // a new one on the same connection ends the one before
  push_request_ = request_id;
  store::EntryInfo info;
  info.sha256 = push.sha256.view();
  info.n_bytes = push.n_bytes;
  info.name = push.name.view();
  info.role = static_cast<store::Role>(push.role);
  for (const wire::Digest& companion : push.companions.records())
    info.companions.emplace_back(companion.sha256.view());
  auto upload = store_.begin_upload(info, progress_to(request_id));
  if (!upload) return answer(upload.error(), true, request_id);
  upload_.emplace(std::move(upload.value()));
  return answer({}, true, request_id);
}

Result<void> StoreSession::chunk(const wire::StoreChunk& chunk,
                                 std::span<const std::byte> payload) {
  if (!upload_) return {};  // its end was told; chunks that were on their way are dropped
  const auto written = upload_->write(chunk.offset, payload);
  return answer(written, false, push_request_);
}

Result<void> StoreSession::end(const wire::StoreEnd& end, uint64_t request_id) {
  if (!upload_)
    return answer(make_error(Code::kInvalid, "store: STORE_END without an upload: push first"),
                  true, request_id);
  if (end.n_bytes != upload_->info().n_bytes)
    return answer(make_error(Code::kInvalid, "store: STORE_END tells %llu bytes, STORE_PUSH %llu",
                             static_cast<unsigned long long>(end.n_bytes),
                             static_cast<unsigned long long>(upload_->info().n_bytes)),
                  true, request_id);
  const auto finished = upload_->finish(progress_to(request_id));
  const auto told = answer(finished, true, request_id);
  upload_.reset();
  return told;
}

Result<void> StoreSession::list(uint64_t request_id) {
  wire::StoreListReply reply;
  const auto entries = store_.list();
  if (!entries) {
    reply.code = to_abi(entries.code());
    reply.text.assign(entries.error().message());
    return sent(replies_.reply(reply, request_id));
  }
  const auto& all = entries.value();
  const size_t n = std::min<size_t>(all.size(), wire::kMaxStoreEntries);
  for (size_t i = 0; i < n; ++i) reply.entries.add() = to_wire(all[i]);
  reply.n_more = static_cast<uint32_t>(all.size() - n);
  return sent(replies_.reply(reply, request_id));
}

Result<void> StoreSession::remove(const wire::StoreRemove& remove, uint64_t request_id) {
  wire::Answer reply;
  if (const auto removed = store_.remove(remove.sha256.view()); !removed) {
    reply.code = to_abi(removed.code());
    reply.text.assign(removed.error().message());
  }
  return sent(replies_.reply(reply, request_id));
}

}  // namespace outrider::link
