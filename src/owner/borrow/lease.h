// A borrower's side: the link of this device, lent by the owner daemon for as long as this object
// (and the process) lives.
#pragma once
#include <memory>
#include <string>

#include "link/transport/transport.h"
#include "owner/borrow/fd_pass.h"
#include "owner/borrow/protocol.h"

namespace outrider::owner {

inline constexpr int64_t kRetryNs = 250'000'000;     // between two askings
inline constexpr int64_t kBorrowNs = 8'000'000'000;  // and for how long

class Lease {
 public:
  // [setup] Asks until the owner lends, refuses for good, or `deadline_ns` (and at most kBorrowNs)
  // passes. Errors: kNotFound (no owner listens at this path), kNotReady (deadline, with the
  // owner's last reason), kDevice (refused for good), kInvalid (path, name, or an answer that is
  // none).
  static Result<Lease> borrow(const std::string& socket_path, std::string_view name,
                              int64_t deadline_ns);

  const Reply& facts() const { return facts_; }
  // Tells the owner what the far end said; off the bus and back on. Errors: kNotReady (no answer in
  // 5 s, 10 s: the loan is over), kDevice.
  Result<void> tell_server(const ServerFacts& server);
  Result<void> bounce();
  // [any] Before the lease ends: nothing was done with what was lent, the device may stay on the
  // bus. Without it the owner takes it off for a moment.
  void return_unused(bool enabled, bool opened, uint32_t n_sessions) noexcept;
  bool alive() const noexcept;  // the owner has not ended it

  // [setup] The next stream over what was lent; it keeps the lease and returns it when it ends. Of
  // several dials that wait (tcp) the newest is taken. Errors: as connect_transport.
  static Result<std::unique_ptr<link::Transport>> connect(Lease lease, int64_t deadline_ns);

 private:
  Result<Reply> ask(const Request& request, int64_t deadline_ns);
  Fd socket_;
  LineReader lines_;
  Reply facts_;
  std::vector<Fd> lent_;
  friend class LentStream;
};

// [setup] Endpoint "usb:" from now on: what an owner at this socket lends; where no owner listens,
// a gadget of this process as before.
void register_owned_usb(const std::string& socket_path = kDefaultSocket);

}  // namespace outrider::owner
