// Every message, as a table. The reference page docs/reference/wire.md is made from these.
//
// A connection: HELLO, HELLO_REPLY, then OPEN and OPEN_REPLY for who wants a runtime (who measures
// or looks does without). The device asks, the host answers; answers carry the request id. What the
// host sends unasked is FAULT (an input that was refused later, an ownership that was lost) and
// BYE.
#pragma once
#include "link/wire/frame_messages.h"
#include "link/wire/model_messages.h"
#include "link/wire/session_messages.h"
#include "link/wire/store_messages.h"

namespace outrider::link::wire {

using Messages = std::tuple<Hello, HelloReply, Open, OpenReply, Input, Answer, Run, RunReply, Read,
                            ReadReply, Prepare, Ping, Pong, Probe, ProbeReply, Status, StatusReply,
                            Fault, Bye, StorePush, StoreState, StoreChunk, StoreEnd, StoreList,
                            StoreListReply, StoreRemove, PowerOff, OpenText>;

// Calls visit.template operator()<M>() for every message.
template <class Visit>
void for_each_message(Visit&& visit) {
  [&]<class... M>(std::tuple<M...>*) {
    (visit.template operator()<M>(), ...);
  }(static_cast<Messages*>(nullptr));
}

template <class M>
constexpr uint16_t type_of() {
  return M::wire_table().kind.type;
}

// A newer peer may add fields: so many bytes more than the table knows are taken, and skipped.
inline constexpr uint32_t kNewerRoomBytes = 4096;

// What is known of a type before a byte of it is kept; nullptr for a type of a newer peer.
struct MessageInfo {
  Kind kind;
  uint32_t max_body_bytes;
};
const MessageInfo* message_info(uint16_t type) noexcept;

// [setup] A line for people from a body, whatever it holds.
std::string print_body(uint16_t type, std::span<const std::byte> body);

// [setup] docs/reference/wire.md, whole.
std::string reference_page();

}  // namespace outrider::link::wire
