#include "owner/lender.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/printable.h"

namespace outrider::owner {
namespace {

Reply refusal(std::string detail, bool retry) {
  Reply reply;
  reply.detail = std::move(detail);
  reply.retry = retry;
  return reply;
}

bool somebody_listens(const sockaddr_un& address) {
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno == EAGAIN;
}

}  // namespace

Lender::~Lender() {
  if (listening_) ::unlink(path_.c_str());
}

Result<void> Lender::open(const std::string& path, mode_t mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto failed = [&](const char* step) {
    return make_error(Code::kDevice, "owner: %s: %s: %s", short_path(path).c_str(), step,
                      std::strerror(errno));
  };
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return failed("no place for a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) {
    errno = EADDRINUSE;
    if (!S_ISSOCK(info.st_mode) || somebody_listens(address)) return failed("taken");
    ::unlink(path.c_str());
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The file must never be more open than it shall be: made closed, then opened.
  const mode_t old_mask = ::umask(0777);
  const int bound =
      fd ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) : -1;
  const int cause = errno;
  ::umask(old_mask);
  errno = cause;
  if (bound != 0) return failed("cannot be made");
  if (::chmod(path.c_str(), mode) != 0 || ::listen(fd.get(), int{kMaxAskers}) != 0) {
    const Error error = failed("cannot be listened at");
    ::unlink(path.c_str());
    return error;
  }
  path_ = path;
  listening_ = std::move(fd);
  return {};
}

void Lender::poll_list(std::vector<pollfd>& list) const {
  if (listening_) list.push_back({listening_.get(), POLLIN, 0});
  for (const Asker& asker : askers_) list.push_back({asker.socket.get(), POLLIN, 0});
}

void Lender::serve(int64_t now_ns) {
  accept_all(now_ns);
  for (Asker& asker : askers_) hear(asker, now_ns);
  for (Asker& asker : askers_)
    if (asker.gone) take_back(asker, now_ns);
  askers_.remove_if([](const Asker& asker) { return asker.gone; });
}

void Lender::accept_all(int64_t now_ns) {
  while (listening_) {
    Fd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    if (askers_.size() >= kMaxAskers) continue;  // closed
    ucred peer{};
    socklen_t n = sizeof peer;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &n);
    askers_.push_back({std::move(fd), {}, peer.pid, false, false, now_ns});
  }
}

void Lender::hear(Asker& asker, int64_t now_ns) {
  char bytes[1024];
  for (int i = 0; i < 8 && !asker.gone; ++i) {
    // recv takes no descriptors: what a borrower passes is closed by the kernel.
    const ssize_t got = ::recv(asker.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      asker.gone = !asker.holds && now_ns - asker.heard_ns > kIdleAskerNs;
      return;
    }
    asker.heard_ns = now_ns;
    if (got <= 0) {
      asker.gone = true;
      return;
    }
    if (!asker.lines.add({bytes, static_cast<size_t>(got)})) {
      log_line(LogLevel::kWarn, "owner: pid %lld sent a line of more than %zu bytes",
               static_cast<long long>(asker.pid), kMaxLineBytes);
      asker.gone = true;
      return;
    }
    std::string line;
    while (!asker.gone && asker.lines.next(line)) answer(asker, line, now_ns);
  }
}

void Lender::answer(Asker& asker, const std::string& line, int64_t now_ns) {
  auto request = read_request(line);
  if (!request) {
    log_line(LogLevel::kWarn, "%s (pid %lld)", request.error().text,
             static_cast<long long>(asker.pid));
    return say(asker, refusal(request.error().text, false));
  }
  if (request.value().op == Op::kBorrow) return lend_to(asker, request.value().name);
  if (!asker.holds) return say(asker, refusal("the link is not lent to you", false));
  Reply reply;
  reply.ok = true;
  if (request.value().op == Op::kReturn) {
    asker.unused = request.value();
    asker.gone = true;  // nothing that it says after this counts
    return;
  }
  if (request.value().op == Op::kServer) {
    server_ = request.value().server;
    server_known_ = true;
  } else if (auto done = holder_->bounce(now_ns); !done) {
    reply = refusal(done.error().text, false);
  }
  say(asker, reply);
}

void Lender::lend_to(Asker& asker, const std::string& name) {
  if (asker.holds) return say(asker, refusal("the link is lent to you already", false));
  if (borrower_)
    return say(asker, refusal("the link is lent to " + borrower_->name + " (pid " +
                                  std::to_string(borrower_->pid) + ")",
                              true));
  const Borrower who{name, asker.pid};
  if (const Reply verdict = policy_(who); !verdict.ok) return say(asker, verdict);
  auto loan = holder_->lend();
  if (!loan) return say(asker, refusal(loan.error().text, loan.code() == Code::kNotReady));
  borrower_ = who;
  asker.holds = true;
  log_line(LogLevel::kInfo, "owner: lent to %s (pid %lld)", name.c_str(),
           static_cast<long long>(who.pid));
  say(asker, loan.value().reply,
      std::span(loan.value().descriptors).first(loan.value().n_descriptors));
}

void Lender::say(Asker& asker, const Reply& reply, std::span<const int> descriptors) {
  if (send_line(asker.socket.get(), to_line(reply), descriptors) != 0) asker.gone = true;
}

void Lender::take_back(Asker& asker, int64_t now_ns) {
  if (!asker.holds) return;
  asker.holds = false;
  log_line(LogLevel::kInfo, "owner: %s (pid %lld) returned the link", borrower_->name.c_str(),
           static_cast<long long>(borrower_->pid));
  borrower_.reset();
  if (asker.unused) return holder_->returned_unused(*asker.unused);
  holder_->take_back(now_ns);
}

void Lender::end_lease(int64_t now_ns) {
  for (Asker& asker : askers_) {
    if (!asker.holds) continue;
    take_back(asker, now_ns);
    asker.gone = true;
  }
  askers_.remove_if([](const Asker& asker) { return asker.gone; });
}

}  // namespace outrider::owner
