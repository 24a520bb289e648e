// The device's end of frame datagrams: cuts one message into pieces and sends them to the port that
// a host offered. What is lost on the way is a frame that never ran.
#pragma once
#include "link/jetlink/datagram.h"
#include "link/transport/socket_stream.h"
#include "link/transport/transport.h"

namespace outrider::link::jetlink {

class FrameSender {
 public:
  // [setup] `peer`: TransportFacts::peer of the TCP connection; datagrams go to the same address.
  // Errors: kUnsupported (a medium without addresses), kDevice.
  static Result<FrameSender> open(const char* peer, uint16_t port, uint32_t token);

  // [hot] The message is what the stream would carry: head, payload, pad; at most kMostParts parts.
  // Waits for nothing: a system without room loses the frame, as a cable does. False: the system
  // refuses for good, nobody is there.
  static constexpr size_t kMostParts = 8;
  bool send(uint32_t seq, std::span<const Piece> message) noexcept;

 private:
  Fd fd_;
  uint32_t token_ = 0;
};

}  // namespace outrider::link::jetlink
