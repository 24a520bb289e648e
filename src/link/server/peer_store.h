// The store's part of one connection: takes the STORE messages, sends what the store answers.
//
// A connection uses either a runtime or uploads: a push takes the thread that receives for as long
// as a whole file is read. Made only where a store is configured.
#pragma once
#include <atomic>
#include <memory>
#include <span>

#include "link/provision/store_session.h"
#include "link/wire/channel.h"

namespace outrider::link {

class PeerStore final : private StoreReplies {
 public:
  // All outlive it. A reply that the peer does not take within send_ns ends the upload.
  PeerStore(store::Store& store, wire::Channel& channel, const Clock& clock, int64_t send_ns)
      : channel_(channel), clock_(clock), send_ns_(send_ns), session_(store, *this, clock) {}

  // Where the payload of a STORE_CHUNK goes; taken with the first one of a running upload. Empty
  // without an upload: such chunks are thrown away.
  std::span<std::byte> place();

  // A message of StoreSession::takes(type). Errors: kInvalid (breaks a rule of the messages),
  // kFailed (the peer is lost).
  Result<void> take(const wire::Incoming& in);

  bool is_uploading() const { return session_.is_uploading(); }

 private:
  template <class M>
  bool send(const M& message, uint64_t request_id);
  bool reply(const wire::StoreState& state, uint64_t request_id) override;
  bool reply(const wire::StoreListReply& list, uint64_t request_id) override;
  bool reply(const wire::Answer& answer, uint64_t request_id) override;

  wire::Channel& channel_;
  const Clock& clock_;
  const int64_t send_ns_;
  std::unique_ptr<std::byte[]> chunk_;
  StoreSession session_;  // last: an upload that ends on the way down is made safe first
};

}  // namespace outrider::link
