#include "owner/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstring>

#include "base/env.h"

namespace outrider::owner {
namespace {

int64_t number_of(const char* text) {
  int64_t value = 0;
  if (text == nullptr) return 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc() && at == end && value > 0 ? value : 0;
}

}  // namespace

Notify::Notify(std::string socket, int64_t watchdog_us, int64_t watchdog_pid, int64_t pid)
    : socket_(std::move(socket)) {
  constexpr int64_t kMostUs = int64_t{24} * 3600 * 1'000'000;
  if (socket_.empty()) return;
  fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool ours = watchdog_pid == 0 || watchdog_pid == pid;
  if (watchdog_us > 0 && watchdog_us <= kMostUs && ours) beat_ns_ = watchdog_us * 1000 / 2;
}

Notify Notify::from_environment() {
  const char* socket = env_notify_socket();
  return Notify(socket != nullptr ? socket : "", number_of(env_watchdog_usec()),
                number_of(env_watchdog_pid()), ::getpid());
}

Notify::~Notify() {
  if (fd_ >= 0) ::close(fd_);
}

bool Notify::say(std::string_view state) const noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (fd_ < 0 || socket_.size() >= sizeof address.sun_path ||
      (socket_[0] != '/' && socket_[0] != '@'))
    return false;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto n_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  return ::sendto(fd_, state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  n_bytes) == static_cast<ssize_t>(state.size());
}

}  // namespace outrider::owner
