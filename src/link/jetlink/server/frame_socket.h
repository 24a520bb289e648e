// The UDP socket of frame datagrams of one connection.
#pragma once
#include <string>

#include "link/jetlink/datagram.h"
#include "link/jetlink/stream.h"
#include "link/transport/socket_stream.h"

namespace outrider::link::jetlink {

class FrameSocket {
 public:
  // [setup] On the local address of a connected TCP socket; only datagrams of its peer's address
  // count. Errors: kDevice.
  static Result<FrameSocket> open(int tcp_fd);
  // A new session of the client: a fresh token. 0 turns the datagrams off.
  void begin(uint32_t token) { assembler_.begin(token); }

  // [hot] Takes what is there without waiting. True: `out` is a message; its payload is valid until
  // the next call. `version` is that of the connection.
  bool read(Message& out, uint16_t version);
  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }

 private:
  Fd fd_;
  uint16_t port_ = 0;
  std::string peer_;  // the address' bytes
  Assembler assembler_;
  std::vector<std::byte> datagram_;
};

}  // namespace outrider::link::jetlink
