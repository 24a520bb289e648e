// The connection itself: hello, signs of life, measuring, looking, faults, goodbye, power off. And
// what all groups of messages share.
#pragma once
#include "link/wire/header.h"

namespace outrider::link::wire {

// Feature bits of both hellos; what is used is what both have.
inline constexpr uint64_t kFeaturePush = 1;   // outputs that were read before ride with RUN_REPLY
inline constexpr uint64_t kFeatureProbe = 2;  // PROBE is answered
inline constexpr uint64_t kFeatureStore =
    4;  // the host keeps models: the STORE messages are answered
inline constexpr uint64_t kFeaturePowerOff = 8;  // the host powers off when it is asked: POWER_OFF
inline constexpr uint64_t kFeatures = kFeaturePush | kFeatureProbe;

inline constexpr uint16_t kMaxPorts = 256, kMaxStages = 256, kMaxViews = 64;
inline constexpr uint16_t kMaxPushPorts = 64;  // ports 0..63 can be pushed

using Line = Text<511>;  // one line for people, as in base/result.h

struct Hello {
  uint16_t oldest_version = kOldestVersion, newest_version = kVersion;
  uint64_t features = kFeatures, client_id = 0;
  Text<64> name;
  Text<32> software;
  static constexpr auto wire_table() {
    return table(
        {"HELLO", 1, Sender::kDevice, Priority::kControl, 0, "First message of a connection."},
        field<&Hello::oldest_version>("oldest_version", "oldest wire version the device speaks"),
        field<&Hello::newest_version>("newest_version", "newest wire version the device speaks"),
        field<&Hello::features>("features", "feature bits of the device"),
        field<&Hello::client_id>("client_id",
                                 "random, the same for all connections of one opened runtime"),
        field<&Hello::name>("name", "the device, for people"),
        field<&Hello::software>("software", "product and version, for people"));
  }
  bool operator==(const Hello&) const = default;
};

struct HelloReply {
  int32_t code = 0;
  Line text;
  uint16_t version = 0;
  uint64_t features = 0, host_id = 0;
  Text<64> name;
  Text<32> software;
  static constexpr auto wire_table() {
    return table({"HELLO_REPLY", 2, Sender::kHost, Priority::kControl, 0,
                  "Version and features of this connection; after a code other than 0 it ends."},
                 field<&HelloReply::code>("code", "0, or why the host refuses (ABI status)"),
                 field<&HelloReply::text>("text", "the reason in one line"),
                 field<&HelloReply::version>("version", "newest version that both speak"),
                 field<&HelloReply::features>("features", "bits that both have"),
                 field<&HelloReply::host_id>("host_id", "random, new at every start of the host"),
                 field<&HelloReply::name>("name", "the host, for people"),
                 field<&HelloReply::software>("software", "product and version, for people"));
  }
  bool operator==(const HelloReply&) const = default;
};

struct Ping {
  uint32_t busy = 0;
  static constexpr auto wire_table() {
    return table({"PING", 12, Sender::kBoth, Priority::kControl, 0,
                  "Are you there? Answered with PONG by the receiving thread, also during a run."},
                 field<&Ping::busy>("busy", "0"));
  }
  bool operator==(const Ping&) const = default;
};

struct Pong {
  uint32_t busy_ms = 0;
  static constexpr auto wire_table() {
    return table({"PONG", 13, Sender::kBoth, Priority::kControl, 0, "Yes."},
                 field<&Pong::busy_ms>("busy_ms",
                                       "how long the run in progress has been at work; "
                                       "0: none"));
  }
  bool operator==(const Pong&) const = default;
};

struct Probe {
  uint32_t return_bytes = 0;
  static constexpr uint32_t kMaxBytes = 4u << 20;
  static constexpr auto wire_table() {
    return table(
        {"PROBE", 14, Sender::kDevice, Priority::kTelemetry, kMaxBytes,
         "For measuring: the payload is thrown away."},
        field<&Probe::return_bytes>("return_bytes", "payload wanted back", {.max = kMaxBytes}));
  }
  bool operator==(const Probe&) const = default;
};

struct ProbeReply {
  uint32_t received_bytes = 0, left_bytes = 0;
  static constexpr auto wire_table() {
    return table({"PROBE_REPLY", 15, Sender::kHost, Priority::kTelemetry, Probe::kMaxBytes,
                  "The payload is zeros. From version 2 on it comes in pieces."},
                 field<&ProbeReply::received_bytes>("received_bytes", "payload that came"),
                 field<&ProbeReply::left_bytes>(
                     "left_bytes",
                     "payload that is still to come, in further PROBE_REPLY of the same request",
                     {.since = 2, .max = Probe::kMaxBytes}));
  }
  bool operator==(const ProbeReply&) const = default;
};

struct Status {
  uint32_t reserved = 0;
  static constexpr auto wire_table() {
    return table({"STATUS", 16, Sender::kDevice, Priority::kTelemetry, 0,
                  "Asks how the host does. Needs no OPEN."},
                 field<&Status::reserved>("reserved", "0"));
  }
  bool operator==(const Status&) const = default;
};

struct Counter {
  Text<64> name;
  int64_t value = 0;
  static constexpr auto wire_table() {
    return record(field<&Counter::name>("name", "what is counted"),
                  field<&Counter::value>("value", "so far"));
  }
  bool operator==(const Counter&) const = default;
};

struct StatusReply {
  List<Counter, 256> counters;
  LongText<60000> json;
  static constexpr auto wire_table() {
    return table({"STATUS_REPLY", 17, Sender::kHost, Priority::kTelemetry, 0,
                  "Counters and one JSON document: models, owners, epochs, sizes, times."},
                 field<&StatusReply::counters>("counters", "of the server"),
                 field<&StatusReply::json>("json", "one JSON object"));
  }
  bool operator==(const StatusReply&) const = default;
};

// Why a FAULT or a BYE: also how a device names a loss.
enum class Cause : uint8_t {
  kNone,       // no loss
  kCable,      // the medium is gone
  kHost,       // the peer's process is gone, or refuses connections
  kBusy,       // the peer has no room, or the runtime belongs to somebody else
  kProtocol,   // what came breaks the rules of this page
  kDeadline,   // no answer in time
  kCorrupted,  // content_crc disagrees; the message was dropped
  kSecurity,   // no key, wrong key, plain where secrecy is asked for
  kStopped,    // the peer ends in order
};
inline constexpr uint8_t kLastCause = static_cast<uint8_t>(Cause::kStopped);
const char* cause_name(Cause cause);  // "none", "cable gone", "host gone", "host busy", ...

struct Fault {
  uint8_t cause = 0;
  int32_t code = 0;
  uint16_t about = 0;
  uint32_t port = 0;
  Line text;
  static constexpr auto wire_table() {
    return table({"FAULT", 18, Sender::kBoth, Priority::kControl, 0,
                  "Something went wrong with the request of the header, or, with request 0, with "
                  "the connection."},
                 field<&Fault::cause>("cause",
                                      "0 none, 1 cable, 2 host, 3 busy, 4 protocol, 5 deadline, 6 "
                                      "corrupted, 7 security, 8 stopped",
                                      {.max = kLastCause}),
                 field<&Fault::code>("code", "ABI status"),
                 field<&Fault::about>("about", "type of the message it is about; 0: none"),
                 field<&Fault::port>("port", "of an INPUT"),
                 field<&Fault::text>("text", "one line"));
  }
  bool operator==(const Fault&) const = default;
};

struct Bye {
  uint8_t cause = static_cast<uint8_t>(Cause::kStopped);
  Line text;
  static constexpr auto wire_table() {
    return table({"BYE", 19, Sender::kBoth, Priority::kControl, 0,
                  "The sender ends the connection after this message."},
                 field<&Bye::cause>("cause", "as in FAULT", {.max = kLastCause}),
                 field<&Bye::text>("text", "one line"));
  }
  bool operator==(const Bye&) const = default;
};

struct PowerOff {
  Text<200> reason;
  static constexpr auto wire_table() {
    return table(
        {"POWER_OFF", 27, Sender::kDevice, Priority::kControl, 0,
         "Asks the host to power off, because the device does. Answered with ANSWER before "
         "it happens (-3: this host does not). Needs no OPEN, waits for no run."},
        field<&PowerOff::reason>("reason", "one line for people"));
  }
  bool operator==(const PowerOff&) const = default;
};

}  // namespace outrider::link::wire
