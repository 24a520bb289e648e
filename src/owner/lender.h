// The socket at which borrowers ask. One lease at a time; the connection is the lease, so a
// borrower that is killed returns what it had. No thread: the owner's loop polls.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "owner/borrow/fd_pass.h"
#include "owner/holder.h"

namespace outrider::owner {

inline constexpr size_t kMaxAskers = 16;  // connections; the next one is closed at once
inline constexpr int64_t kIdleAskerNs = 15'000'000'000;  // has nothing and asks for nothing

struct Borrower {
  std::string name;
  int64_t pid = 0;
};

class Lender {
 public:
  // Says why not, and whether to ask again; ok: lend.
  using Policy = std::function<Reply(const Borrower& asker)>;
  Lender(Holder& holder, Policy policy) : holder_(&holder), policy_(std::move(policy)) {}
  ~Lender();

  // [setup] Takes the place of a socket that a dead owner left, never of a living one. `mode` of
  // the socket's file: who may ask. Errors: kDevice.
  Result<void> open(const std::string& path, mode_t mode);
  // [setup] Another holder; nothing may be lent.
  void hold(Holder& holder) { holder_ = &holder; }

  void poll_list(std::vector<pollfd>& list) const;
  // Answers what waits. `now_ns` of the system's clock.
  void serve(int64_t now_ns);
  // Ends the lease: its connection is closed, what was lent is taken back.
  void end_lease(int64_t now_ns);
  const std::optional<Borrower>& borrower() const { return borrower_; }
  const ServerFacts& server() const { return server_; }
  bool server_known() const { return server_known_; }

 private:
  struct Asker {
    Fd socket;
    LineReader lines;
    int64_t pid = 0;
    bool holds = false, gone = false;
    int64_t heard_ns = 0;
    std::optional<Request> unused = {};  // said that it did nothing with the loan
  };
  void accept_all(int64_t now_ns);
  void hear(Asker& asker, int64_t now_ns);
  void answer(Asker& asker, const std::string& line, int64_t now_ns);
  void lend_to(Asker& asker, const std::string& name);
  void say(Asker& asker, const Reply& reply, std::span<const int> descriptors = {});
  void take_back(Asker& asker, int64_t now_ns);

  Holder* holder_;
  const Policy policy_;
  std::string path_;
  Fd listening_;
  std::list<Asker> askers_;
  std::optional<Borrower> borrower_;
  ServerFacts server_;
  bool server_known_ = false;
};

}  // namespace outrider::owner
