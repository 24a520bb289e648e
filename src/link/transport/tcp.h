// TCP: no delay, keep-alive 5 s + 3 x 2 s, vectored writes. Bytes that were written and are not
// acknowledged within kUserTimeoutMs end the stream as gone.
#pragma once
#include "link/transport/transport.h"

namespace outrider::link {

inline constexpr int kTcpKeepIdleS = 5, kTcpKeepIntervalS = 2, kTcpKeepProbes = 3;
inline constexpr int kTcpUserTimeoutMs = 10'000;
// One frame may wait in the kernel behind another; more is only age.
inline constexpr int kTcpSendBufferBytes = 1 << 20;

Result<std::unique_ptr<Transport>> connect_tcp(const Endpoint& endpoint, int64_t deadline_ns);
// Backlog 16, SO_REUSEADDR.
Result<std::unique_ptr<Listener>> listen_tcp(const Endpoint& endpoint);

}  // namespace outrider::link
