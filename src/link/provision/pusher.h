// The device's side of an upload: one file into a host's store, over one connection.
//
// Cut anywhere, push again on a new connection: it goes on where the host is. Every wait has a
// deadline; the host is alive as long as it says something.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "link/store/progress.h"
#include "link/wire/messages.h"

namespace outrider::link {

// A connection after its hello. Errors of all: kNotReady (the deadline passed), kFailed (the
// connection is lost), kInvalid (the peer breaks a rule, or answered FAULT).
class StoreLink {
 public:
  virtual Result<void> send(const wire::StorePush& push, uint64_t request_id,
                            int64_t deadline_ns) = 0;
  virtual Result<void> send(const wire::StoreChunk& chunk, std::span<const std::byte> payload,
                            int64_t deadline_ns) = 0;
  virtual Result<void> send(const wire::StoreEnd& end, uint64_t request_id,
                            int64_t deadline_ns) = 0;
  virtual uint64_t next_request() = 0;
  // The next STORE_STATE of this connection.
  virtual Result<wire::StoreState> receive(int64_t deadline_ns) = 0;

 protected:
  ~StoreLink() = default;
};

// What is pushed, read piece by piece: a file that changes meanwhile is an error, not a fault of
// the process.
class PushBytes {
 public:
  virtual uint64_t size() const = 0;
  // n bytes from `at` on, valid until the next call. Errors: kFailed (cannot be read, or shorter
  // than it was).
  virtual Result<std::span<const std::byte>> read(uint64_t at, size_t n) = 0;

 protected:
  ~PushBytes() = default;
};

class MemoryBytes final : public PushBytes {
 public:
  explicit MemoryBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<std::span<const std::byte>> read(uint64_t at, size_t n) override {
    return bytes_.subspan(at, n);
  }

 private:
  std::span<const std::byte> bytes_;
};

struct PushFile {
  std::string sha256;  // of all bytes
  std::string name;
  uint8_t role = 0;
  std::vector<std::string> companions;
};

struct PushLimits {
  int64_t silence_ns = 10'000'000'000;  // a host that says nothing for so long is lost
  int64_t stall_ns = 30'000'000'000;    // one that talks and does nothing for so long, too
  uint32_t chunk_bytes = 256u << 10;    // of one message
};

struct Pushed {
  uint64_t sent_bytes = 0;  // over this connection
  uint64_t resumed_at = 0;  // what the host had
  bool was_there = false;   // published before; nothing was sent
};

// Errors: the host's own (its code and text), or those of the link with the byte at which it was
// lost: "link: timeout in upload at byte N of M", or of `bytes`. `on_progress` false: kNotReady.
Result<Pushed> push_file(StoreLink& link, const PushFile& file, PushBytes& bytes,
                         const PushLimits& limits, const Clock& clock,
                         const store::OnProgress& on_progress = {});

}  // namespace outrider::link
