// What a borrower and the owner daemon say to each other: one JSON object a line over a UNIX stream
// socket. The connection is the lease: closing it, or dying, returns what was lent.
//
// Both sides read hostile bytes: a line has a limit, a field a range, an unknown operation is
// refused. Text that is written is printable ASCII.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "link/transport/usb/ffs_port.h"

namespace outrider::owner {

inline constexpr const char* kDefaultSocket = "/run/outrider/owner.sock";
inline constexpr size_t kMaxLineBytes = 4096, kMaxNameBytes = 64, kMaxTextBytes = 256;
inline constexpr size_t kMaxDescriptors = 2;

enum class Op : uint8_t {
  kBorrow,  // name
  kBounce,  // off the bus and back on: the only way to free a write that hangs
  kServer,  // what the far end said of itself
  kReturn,  // given back as it was lent: no session was begun, the device may stay on the bus
};

// Of the far end's hello.
struct ServerFacts {
  int64_t protocol = 0;       // 0 .. 65535
  int64_t sleep_after_s = 0;  // 0: does not sleep; at most 7 days
  std::string device, backend, software;
  bool operator==(const ServerFacts&) const = default;
};

struct Request {
  Op op = Op::kBorrow;
  std::string name;  // kBorrow: 1 to 64 of A-Z a-z 0-9 . _ -
  ServerFacts server;
  // kReturn: what the host did meanwhile.
  bool enabled = false, opened = false;
  int64_t n_sessions = 0;
};

enum class Medium : uint8_t { kNone, kUsb, kTcp };
const char* medium_name(Medium medium);  // "none", "usb", "tcp"

struct Reply {
  bool ok = false;
  bool retry = false;  // ask again in kRetryNs
  std::string detail;  // why not
  Medium medium = Medium::kNone;
  // kUsb: ep0 and the gadget's UDC attribute travel with the line.
  std::string gadget, mount, controller, controllers, serial;
  bool enabled = false, opened = false;  // by the host, at the time of lending
  int64_t n_sessions = 0;
  // kTcp: the listening socket travels with the line, and behind it a dial that waits.
  std::string endpoint;
  bool local_only = false;
};

std::string to_line(const Request& request);  // with its newline
std::string to_line(const Reply& reply);
// Without the newline. Errors: kInvalid, naming the field.
Result<Request> read_request(std::string_view line);
Result<Reply> read_reply(std::string_view line);

// Cuts a stream into lines; what is too long is refused before it is kept.
class LineReader {
 public:
  // False: a line is longer than kMaxLineBytes; the stream is of no more use.
  bool add(std::string_view bytes);
  bool next(std::string& line);  // false: none is complete

 private:
  std::string kept_;
};

// A JSON string of printable ASCII: other bytes become '?'.
std::string quoted(std::string_view text, size_t max_bytes = kMaxTextBytes);
bool is_name(std::string_view name);

}  // namespace outrider::owner
