// A Transport over a connected stream socket: what TCP and the in-process loopback share.
#pragma once
#include <atomic>

#include "link/transport/transport.h"

namespace outrider::link {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class SocketStream final : public Transport {
 public:
  // The socket must not block (O_NONBLOCK).
  SocketStream(Fd fd, const TransportFacts& facts) : fd_(std::move(fd)), facts_(facts) {}
  ~SocketStream() override { shut(); }

  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override;
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override;
  void shut() noexcept override;
  const TransportFacts& facts() const noexcept override { return facts_; }
  size_t unsent_bytes() const noexcept override;  // TCP: what is not acknowledged
  void set_urgency(Urgency urgency) noexcept override;

 private:
  Io ended(int error) const noexcept;
  Io wait(short events, int64_t deadline_ns) const noexcept;

  Fd fd_;
  TransportFacts facts_;
  std::atomic<bool> shut_{false};
};

// A listening socket. `dress` turns an accepted descriptor into a Transport.
class SocketListener final : public Listener {
 public:
  using Dress = Result<std::unique_ptr<Transport>> (*)(Fd);
  // Errors of the two descriptors it makes: kDevice.
  static Result<std::unique_ptr<Listener>> make(Fd socket, std::string endpoint, bool local_only,
                                                Dress dress);
  SocketListener(Fd socket, Fd wake, std::string endpoint, bool local_only, Dress dress)
      : socket_(std::move(socket)),
        wake_(std::move(wake)),
        endpoint_(std::move(endpoint)),
        local_only_(local_only),
        dress_(dress) {}
  Result<std::unique_ptr<Transport>> accept(int64_t deadline_ns) override;
  void shut() noexcept override;
  const std::string& endpoint() const noexcept override { return endpoint_; }
  bool local_only() const noexcept override { return local_only_; }

 private:
  Fd socket_, wake_;
  std::string endpoint_;
  bool local_only_;
  Dress dress_;
};

// ppoll of one descriptor until the deadline. 1 ready, 0 late, -1 error in errno.
int wait_fd(int fd, short events, int64_t deadline_ns) noexcept;

}  // namespace outrider::link
