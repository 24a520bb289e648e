// Two ends in one process, found by name. The name lives in the kernel (an abstract local socket
// that carries the process number), not in a table: a provider and the program that loaded it hold
// separate copies of this code and still meet. Nobody outside the process is let in.
#pragma once
#include <utility>

#include "link/transport/transport.h"

namespace outrider::link {

Result<std::unique_ptr<Transport>> connect_loopback(const Endpoint& endpoint, int64_t deadline_ns);
Result<std::unique_ptr<Listener>> listen_loopback(const Endpoint& endpoint);

// [setup] Both ends at once, without a name. Errors: kDevice.
Result<std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>>> loopback_pair();

}  // namespace outrider::link
