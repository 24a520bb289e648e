// The texts of an OPEN_REPLY that are too long for one message.
#pragma once
#include "link/client/connection.h"

namespace outrider::link {

// [setup] Takes the OPEN_TEXT messages that belong to `reply`, the good answer to `request_id`,
// until both texts are whole. Memory grows with what comes, not with what was announced.
// False: `why` says what came instead; the connection is of no use.
bool receive_texts(Connection& connection, uint64_t request_id, wire::OpenReply& reply,
                   int64_t deadline_ns, LinkError& why);

}  // namespace outrider::link
