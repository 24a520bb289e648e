#include "cli/demo_cable.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace outrider::cli {
namespace {

sockaddr_in local(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool write_all(int fd, const char* data, ssize_t n) {
  while (n > 0) {
    const ssize_t sent = ::send(fd, data, static_cast<size_t>(n), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    n -= sent;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<DemoCable>> DemoCable::start(int host_port) {
  std::unique_ptr<DemoCable> cable(new DemoCable);
  cable->host_port_ = host_port;
  cable->listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = local(0);
  socklen_t bytes = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (cable->listener_ < 0 || ::bind(cable->listener_, raw, bytes) != 0 ||
      ::listen(cable->listener_, 4) != 0 || ::getsockname(cable->listener_, raw, &bytes) != 0)
    return make_error(Code::kFailed, "demo: no loopback socket: %s", std::strerror(errno));
  cable->port_ = ntohs(address.sin_port);
  cable->thread_ = std::thread([self = cable.get()] { self->run(); });
  return cable;
}

DemoCable::~DemoCable() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  tear(false);
  if (listener_ >= 0) ::close(listener_);
}

void DemoCable::tear(bool reset) {
  for (int* fd : {&device_, &host_}) {
    if (*fd < 0) continue;
    const linger now = {1, 0};  // close sends a reset
    if (reset) ::setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(*fd);
    *fd = -1;
  }
}

void DemoCable::connect_one() {
  const int device = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (device < 0) return;
  tear(false);  // a newer connection takes over
  device_ = device;
  host_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = local(host_port_);
  if (host_ < 0 ||
      ::connect(host_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return tear(true);
  send_at_once(device_);
  send_at_once(host_);
}

void DemoCable::pass(int from, int to, bool slow) {
  char block[65536];
  const ssize_t n = ::recv(from, block, sizeof block, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (slow && n > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kSlowMs));
  if (n <= 0 || !write_all(to, block, n)) tear(false);
}

void DemoCable::run() {
  while (!stop_) {
    const Mode mode = mode_;
    if (mode == Mode::kReset) tear(true);
    if (mode == Mode::kReset || mode == Mode::kSilent) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    pollfd wait[3] = {{listener_, POLLIN, 0}, {device_, POLLIN, 0}, {host_, POLLIN, 0}};
    if (::poll(wait, 3, 20) <= 0) continue;
    if (wait[1].revents != 0) pass(device_, host_, mode == Mode::kSlow);
    if (wait[2].revents != 0 && host_ >= 0) pass(host_, device_, false);
    if (wait[0].revents != 0) connect_one();
  }
}

}  // namespace outrider::cli
