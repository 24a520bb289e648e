#include "link/server/peer_store.h"

namespace outrider::link {

static_assert(wire::Probe::kMaxBytes >= wire::kMaxStoreChunkBytes,
              "a chunk is taken before and after OPEN");

std::span<std::byte> PeerStore::place() {
  if (!session_.is_uploading()) return {};
  if (chunk_ == nullptr) chunk_.reset(new std::byte[wire::kMaxStoreChunkBytes]);
  return {chunk_.get(), wire::kMaxStoreChunkBytes};
}

Result<void> PeerStore::take(const wire::Incoming& in) {
  return session_.take(in.header.type, in.header.request_id, in.body, in.payload);
}

template <class M>
bool PeerStore::send(const M& message, uint64_t request_id) {
  const int64_t due = clock_.now_ns() + send_ns_;
  return channel_.send(message, {request_id, 0, 0, 0}, {}, due) == Io::kDone;
}

bool PeerStore::reply(const wire::StoreState& state, uint64_t request_id) {
  return send(state, request_id);
}
bool PeerStore::reply(const wire::StoreListReply& list, uint64_t request_id) {
  return send(list, request_id);
}
bool PeerStore::reply(const wire::Answer& answer, uint64_t request_id) {
  return send(answer, request_id);
}

}  // namespace outrider::link
