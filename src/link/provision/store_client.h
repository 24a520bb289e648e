// The device's end of the STORE messages over one Connection: the StoreLink of push_file, the list,
// the removal. One thread.
#pragma once
#include "link/client/connection.h"
#include "link/provision/pusher.h"

namespace outrider::link {

class StoreClient final : public StoreLink {
 public:
  // A connection whose host answered with kFeatureStore; outlives the client.
  explicit StoreClient(Connection& connection) : connection_(connection) {
    connection_.channel().transport().set_urgency(Urgency::kBulk);  // frames go first on a cable
  }

  Result<void> send(const wire::StorePush& push, uint64_t request_id, int64_t deadline_ns) override;
  Result<void> send(const wire::StoreChunk& chunk, std::span<const std::byte> payload,
                    int64_t deadline_ns) override;
  Result<void> send(const wire::StoreEnd& end, uint64_t request_id, int64_t deadline_ns) override;
  uint64_t next_request() override { return connection_.next_request(); }
  Result<wire::StoreState> receive(int64_t deadline_ns) override;

  // Errors: those of StoreLink, and the host's own with its code and text (`refused()`).
  Result<wire::StoreListReply> list(int64_t deadline_ns);
  Result<void> remove(std::string_view sha256, int64_t deadline_ns);

  // The last error is what the host answered; otherwise the link failed.
  bool refused() const { return refused_; }

 private:
  template <class M>
  Result<void> send_one(const M& message, uint64_t request_id, std::span<const std::byte> payload,
                        int64_t deadline_ns);
  // The next message of a type, others are passed over.
  template <class M>
  Result<void> receive_one(M& out, int64_t deadline_ns);
  Error fault(const wire::Incoming& in);

  Connection& connection_;
  bool refused_ = false;
};

}  // namespace outrider::link
