// TCP: no delay, keep-alive 5 s + 3 x 2 s, vectored writes. Bytes that were written and are not
// acknowledged within kUserTimeoutMs end the stream as gone.
#pragma once
#include "link/transport/socket_stream.h"
#include "link/transport/transport.h"

namespace outrider::link {

inline constexpr int kTcpKeepIdleS = 5, kTcpKeepIntervalS = 2, kTcpKeepProbes = 3;
inline constexpr int kTcpUserTimeoutMs = 10'000;
// One frame may wait in the kernel behind another; more is only age.
inline constexpr int kTcpSendBufferBytes = 1 << 20;

Result<std::unique_ptr<Transport>> connect_tcp(const Endpoint& endpoint, int64_t deadline_ns);
// A listening socket of one process that another one accepts from.
struct TcpSocket {
  Fd fd;
  std::string endpoint;  // with the port that the system chose
  bool local_only = false;
};
// Backlog 128, SO_REUSEADDR. Errors: as listen_transport.
Result<TcpSocket> bind_tcp(const Endpoint& endpoint);
// `fd` listens already.
Result<std::unique_ptr<Listener>> adopt_tcp(TcpSocket socket);
// `fd` is connected and does not block.
Result<std::unique_ptr<Transport>> adopt_tcp_stream(Fd fd);
Result<std::unique_ptr<Listener>> listen_tcp(const Endpoint& endpoint);

}  // namespace outrider::link
