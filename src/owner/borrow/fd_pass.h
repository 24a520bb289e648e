// Descriptors over a UNIX socket (SCM_RIGHTS).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "link/transport/socket_stream.h"

namespace outrider::owner {

using link::Fd;

// The line as one message, the descriptors with its first byte. Never waits. 0 or -errno; -EAGAIN:
// the peer does not read.
int send_line(int socket, std::string_view line, std::span<const int> descriptors = {}) noexcept;

// What is there. > 0 bytes added to `text`, 0: the peer is gone, -errno. Descriptors that come
// along are added to `taken` (close-on-exec); more than `max_descriptors`, and every one that
// arrives cut, are closed.
int receive_some(int socket, std::string& text, std::vector<Fd>& taken, size_t max_descriptors);

}  // namespace outrider::owner
