// One file on its way into the store. Belongs to one thread at a time; outlived by its Store.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "link/store/store.h"

namespace outrider::store {

class Upload {
 public:
  Upload(Upload&&) noexcept;
  Upload& operator=(Upload&&) noexcept;
  // Not finished: what came so far is made safe (as far as the disk still works) and stays for a
  // later begin_upload.
  ~Upload();

  const EntryInfo& info() const;
  bool published() const;
  // The next byte wanted. 0 at a fresh start, info().n_bytes when all are here.
  uint64_t next_offset() const;
  // What would survive a loss of power now. Behind by less than Limits::sync_bytes + chunk_bytes.
  uint64_t safe_bytes() const;

  // Bytes before next_offset() are passed over (a repeated message). Refused with nothing changed,
  // kInvalid: a gap, more than kMaxWriteBytes, beyond n_bytes, after a failure, when published.
  // kNoMemory: the disk is full; the partial is deleted so that the machine has room again.
  // kFailed: the disk failed; what is safe stays. After either the upload is over.
  Result<void> write(uint64_t offset, std::span<const std::byte> bytes);
  // Makes all bytes so far safe, down to the last one: call it when a peer is lost.
  Result<void> sync();
  // Reads all bytes back, compares them with the digest and publishes. A wrong digest deletes the
  // partial: kNotFound with both digests. kInvalid when bytes are missing. Any other failure, or
  // `on_progress` giving up, leaves the whole partial for another finish or begin_upload.
  Result<void> finish(const OnProgress& on_progress = {});

 private:
  friend class Store;
  struct State;
  explicit Upload(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace outrider::store
