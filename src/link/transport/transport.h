// An ordered, reliable stream of bytes between two machines, or between two ends in one process.
// Knows nothing of messages: what travels and how it is framed is the business of link/wire.
//
// Kinds: TCP (tcp.h), USB bulk, in-process loopback (loopback.h), and wrappers such as the secure
// channel, which are Transports over a Transport.
//
// Threads. One thread at a time calls send, one at a time (the same or another) calls receive;
// shut() and facts() may be called by any thread at any time. No call but the making of a
// transport allocates.
//
// Time. Every wait takes a point in time of CLOCK_MONOTONIC in ns (base/clock.h). A point in the
// past still makes one attempt that does not wait. kForever waits until shut().
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace outrider::link {

inline constexpr int64_t kForever = INT64_MAX;

// What an operation on a stream ended with. Everything but kDone and kLate is final.
enum class Io : uint8_t {
  kDone,    // all of it (send), or at least one byte (receive)
  kLate,    // the deadline passed; what was moved until then is counted and kept
  kClosed,  // the peer ended the stream in order, everything before it was delivered
  kReset,   // the peer or the system broke the stream: process gone, connection reset
  kGone,    // the medium itself is gone: interface down, no route, cable pulled
  kShut,    // shut() on this end
  kBroken,  // what came is not what a peer of this kind sends (secure channel: failed proof; USB:
            // off the grid); the stream can no longer be trusted
};
const char* io_name(Io io);  // "done", "late", "closed", "reset", "gone", "shut", "broken"

struct Moved {
  Io io = Io::kDone;
  size_t bytes = 0;  // moved by this call, also when io is not kDone
};

enum class TransportKind : uint8_t { kLoopback, kTcp, kUsb };
const char* kind_name(TransportKind kind);  // "loopback", "tcp", "usb"

// What is known about a stream. Fixed from its making on.
struct TransportFacts {
  TransportKind kind = TransportKind::kLoopback;
  char peer[96] = {};  // "127.0.0.1:40312", "usb:0123ABCD", "loopback:bench": for people
  // Every message that is sent must be filled up to a multiple of this (1: no rule). A sender pads,
  // a receiver learns the padding from the message itself.
  uint32_t pad_grid_bytes = 1;
  bool peer_is_local = false;  // same machine: loopback address or same process
  bool encrypted = false;      // a secure channel, or a medium that nobody else can reach (usb)
  uint32_t speed_mbit_s = 0;   // nominal speed of the medium, 0: unknown
};

// A piece of memory to be sent, in order. Empty pieces are allowed.
using Piece = std::span<const std::byte>;

enum class Urgency : uint8_t { kBulk, kNormal, kUrgent };  // models; unknown yet; frames

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  // shut(), then frees. No other call may be running.
  virtual ~Transport() = default;

  // [hot] Sends the pieces one after the other as one write where the medium can (any number of
  // pieces). Returns when all bytes were taken (kDone), or at the deadline with the number that
  // was: these are on their way for good and the caller continues after them. Once it returned the
  // pieces belong to the caller again. Nothing is copied in user space by TCP.
  virtual Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept = 0;

  // [hot] Waits until at least one byte is there, then takes what is there, at most into.size().
  // `into` must not be empty. Nothing that arrived is ever lost by a deadline.
  virtual Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept = 0;

  // [any] Ends the stream: calls that are waiting return kShut soon (at most 50 ms), later ones at
  // once. The peer reads what was sent before and then kClosed or kReset. May be called many times.
  virtual void shut() noexcept = 0;

  virtual const TransportFacts& facts() const noexcept = 0;

  // [any] Bytes that send took and that did not reach the peer's system yet, as far as the medium
  // tells; 0 where it does not.
  virtual size_t unsent_bytes() const noexcept { return 0; }
  // [any] Bytes that send copied from memory to memory in this process so far. (Encryption reads
  // every byte and writes another one elsewhere: that is counted only where it had to be gathered
  // first.)
  virtual uint64_t copied_bytes() const noexcept { return 0; }
  // [any] What this stream carries, so that the system puts one stream before another where several
  // share a cable. Media with one stream do nothing.
  virtual void set_urgency(Urgency) noexcept {}
};

// Waits for peers at one endpoint. One thread accepts; shut() from any thread.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;

  // The next peer. Errors: kNotReady (the deadline passed), kInvalid (shut down), kDevice (the
  // system refuses for now, with its words; the listener lives on and may be asked again).
  virtual Result<std::unique_ptr<Transport>> accept(int64_t deadline_ns) = 0;
  virtual void shut() noexcept = 0;
  // As a peer would write it, with the port that the system chose: "tcp://127.0.0.1:40123".
  virtual const std::string& endpoint() const noexcept = 0;
  virtual bool local_only() const noexcept = 0;  // no other machine can reach it
};

// "tcp://HOST:PORT" (HOST may be a name, an IPv4 address or [an IPv6 address]; PORT 0 only to
// listen), "usb:SERIAL" (empty serial: the only device there is), "loopback:NAME".
struct Endpoint {
  TransportKind kind = TransportKind::kLoopback;
  std::string host;   // tcp: without brackets
  uint16_t port = 0;  // tcp
  std::string name;   // usb: serial; loopback: name, 1 to 64 of [A-Za-z0-9._-]

  std::string text() const;  // the way it is written
};
// Errors: kInvalid with what was found and the three forms.
Result<Endpoint> parse_endpoint(std::string_view text);

// [setup] Connects. `deadline_ns` bounds everything including the look-up of the name. Errors:
// kNotFound (nobody there: refused, no such name, no such device), kNotReady (deadline), kDevice
// (no route, interface down), kUnsupported (kind not in this build), each with endpoint and cause.
Result<std::unique_ptr<Transport>> connect_transport(const Endpoint& endpoint, int64_t deadline_ns);

// [setup] Errors: kInvalid (address in use, not ours, not resolvable), kUnsupported.
Result<std::unique_ptr<Listener>> listen_transport(const Endpoint& endpoint);

// How a kind is provided: connect and listen go through this table, so that a build without a kind
// says so. A module that brings a kind registers it once before the first use ([setup], not thread
// safe against connect and listen). tcp and loopback are always there.
struct TransportMaker {
  TransportKind kind = TransportKind::kUsb;
  Result<std::unique_ptr<Transport>> (*connect)(const Endpoint&, int64_t deadline_ns) = nullptr;
  Result<std::unique_ptr<Listener>> (*listen)(const Endpoint&) = nullptr;
};
void register_transport(const TransportMaker& maker);

// CLOCK_MONOTONIC now, the time base of every deadline here.
int64_t steady_now_ns() noexcept;

}  // namespace outrider::link
