// The host's side of the STORE messages: one object per connection, over a Store.
//
// Works on the thread that received the message and may take long (a resume or a whole file is
// read): STORE_STATE goes out now and then, so that the device knows that somebody is at work. A
// connection that pushes is no connection that ticks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "link/store/store.h"
#include "link/store/upload.h"
#include "link/wire/messages.h"

namespace outrider::link {

// Where answers go. False: the peer is lost, give the work up.
class StoreReplies {
 public:
  virtual bool reply(const wire::StoreState& state, uint64_t request_id) = 0;
  virtual bool reply(const wire::StoreListReply& list, uint64_t request_id) = 0;
  virtual bool reply(const wire::Answer& answer, uint64_t request_id) = 0;

 protected:
  ~StoreReplies() = default;
};

class StoreSession {
 public:
  static constexpr uint32_t kWindowBytes = 8u << 20;
  static constexpr int64_t kProgressNs = 250'000'000;

  // All three outlive the session.
  StoreSession(store::Store& store, StoreReplies& replies, const Clock& clock)
      : store_(store), replies_(replies), clock_(clock) {}
  // Makes what came so far safe; the next connection goes on there.
  ~StoreSession() = default;

  static bool takes(uint16_t type);
  // A message of such a type, its CRC checked. A malformed body: kInvalid, as every broken rule;
  // the caller answers FAULT. Everything else is answered here. Errors: kFailed when the peer is
  // lost.
  Result<void> take(uint16_t type, uint64_t request_id, std::span<const std::byte> body,
                    std::span<const std::byte> payload);

  bool is_uploading() const { return upload_.has_value(); }

 private:
  Result<void> push(const wire::StorePush& push, uint64_t request_id);
  Result<void> chunk(const wire::StoreChunk& chunk, std::span<const std::byte> payload);
  Result<void> end(const wire::StoreEnd& end, uint64_t request_id);
  Result<void> list(uint64_t request_id);
  Result<void> remove(const wire::StoreRemove& remove, uint64_t request_id);
  store::OnProgress progress_to(uint64_t request_id);
  wire::StoreState state_now() const;
  Result<void> answer(const Result<void>& outcome, bool is_answer, uint64_t request_id);

  store::Store& store_;
  StoreReplies& replies_;
  const Clock& clock_;
  std::optional<store::Upload> upload_;
  uint64_t push_request_ = 0;
};

}  // namespace outrider::link
