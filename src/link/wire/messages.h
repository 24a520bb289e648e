// Every message, as a table. The reference page docs/reference/wire.md is made from this file.
//
// A connection: HELLO, HELLO_REPLY, then OPEN and OPEN_REPLY for who wants a runtime (who measures
// or looks does without). The device asks, the host answers; answers carry the request id. What the
// host sends unasked is FAULT (an input that was refused later, an ownership that was lost) and
// BYE.
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

enum class Role : uint8_t { kOwner, kObserver };
enum class TakeOver : uint8_t { kNever, kWhenSilent, kAlways };

struct Open {
  Text<255> model;
  uint8_t role = 0, take_over = 1;
  static constexpr auto wire_table() {
    return table(
        {"OPEN", 3, Sender::kDevice, Priority::kControl, 0, "Asks for a runtime."},
        field<&Open::model>("model", "name in the host's configuration, or SHA-256 of the weights"),
        field<&Open::role>("role", "0 owner, 1 observer (status only)", {.max = 1}),
        field<&Open::take_over>("take_over",
                                "when every instance has an owner: 0 answer busy, 1 take one whose "
                                "owner is silent, 2 take one",
                                {.max = 2}));
  }
  bool operator==(const Open&) const = default;
};

struct Dim {
  int64_t size = 0;
  static constexpr auto wire_table() { return record(field<&Dim::size>("size", "-1: variable")); }
  bool operator==(const Dim&) const = default;
};

struct Port {
  Text<96> name;
  uint32_t modality = 0, dtype = 0, layout = 0, direction = 0, update = 0, required = 0;
  uint32_t cadence_hint_hz = 0;
  FixedList<Dim, 16> shape;
  uint64_t max_bytes = 0;
  static constexpr auto wire_table() {
    return record(field<&Port::name>("name", "as in the descriptor"),
                  field<&Port::modality>("modality", "as in the descriptor"),
                  field<&Port::dtype>("dtype", "as in the descriptor"),
                  field<&Port::layout>("layout", "as in the descriptor"),
                  field<&Port::direction>("direction", "as in the descriptor", {.max = 1}),
                  field<&Port::update>("update", "as in the descriptor", {.max = 2}),
                  field<&Port::required>("required", "as in the descriptor"),
                  field<&Port::cadence_hint_hz>("cadence_hint_hz", "as in the descriptor"),
                  field<&Port::shape>("shape", "as in the descriptor"),
                  field<&Port::max_bytes>("max_bytes",
                                          "longest payload the host takes or sends for this port",
                                          {.max = kMaxPayloadBytes}));
  }
  bool operator==(const Port&) const = default;
};

struct StageIndex {
  uint32_t index = 0;
  static constexpr auto wire_table() {
    return record(field<&StageIndex::index>("index", "an earlier stage"));
  }
  bool operator==(const StageIndex&) const = default;
};

struct Stage {
  Text<255> name;
  uint32_t executor_ref = 0;
  FixedList<StageIndex, 64> after;
  static constexpr auto wire_table() {
    return record(field<&Stage::name>("name", "as in the plan"),
                  field<&Stage::executor_ref>("executor_ref", "as in the plan"),
                  field<&Stage::after>("after", "as in the plan"));
  }
  bool operator==(const Stage&) const = default;
};

struct OpenReply {
  int32_t code = 0;
  Line text;
  uint32_t epoch = 0;
  uint8_t has_step = 0, has_manifest = 0;
  uint64_t fingerprint = 0;
  List<Port, kMaxPorts> ports;
  List<Stage, kMaxStages> stages;
  LongText<65000> identity, manifest;
  uint32_t silence_ms = 0;
  static constexpr auto wire_table() {
    return table(
        {"OPEN_REPLY", 4, Sender::kHost, Priority::kControl, 0,
         "The runtime as it is on the host, for the device to mirror."},
        field<&OpenReply::code>("code", "0, or why there is no runtime (ABI status; -7: busy)"),
        field<&OpenReply::text>("text", "the reason in one line"),
        field<&OpenReply::epoch>("epoch", "owner epoch of this device from here on"),
        field<&OpenReply::has_step>("has_step", "1: RUN with kind 1 is answered", {.max = 1}),
        field<&OpenReply::has_manifest>("has_manifest", "1: there is a manifest", {.max = 1}),
        field<&OpenReply::fingerprint>("fingerprint", "FNV-1a 64 of the identity"),
        field<&OpenReply::ports>("ports", "all ports, in order"),
        field<&OpenReply::stages>("stages", "all opaque stages, in order; none: step only"),
        field<&OpenReply::identity>("identity", "the identity text, whole"),
        field<&OpenReply::manifest>("manifest", "the manifest"),
        field<&OpenReply::silence_ms>("silence_ms",
                                      "an owner that sends nothing for so long may lose the "
                                      "runtime to another device"));
  }
  bool operator==(const OpenReply&) const = default;
};

struct View {
  uint32_t struct_size = 0, pixel_format = 0;
  uint64_t bytes = 0, timestamp_ns = 0;
  int32_t width = 0, height = 0, stride_bytes = 0;
  uint32_t sent_bytes = 0;
  uint8_t has_data = 0;
  static constexpr auto wire_table() {
    return record(field<&View::struct_size>("struct_size", "as in the caller's view"),
                  field<&View::pixel_format>("pixel_format", "as in the caller's view"),
                  field<&View::bytes>("bytes", "of the picture as it is sent"),
                  field<&View::timestamp_ns>("timestamp_ns", "as in the caller's view"),
                  field<&View::width>("width", "as in the caller's view"),
                  field<&View::height>("height", "as in the caller's view"),
                  field<&View::stride_bytes>("stride_bytes", "of the picture as it is sent"),
                  field<&View::sent_bytes>("sent_bytes", "its part of the payload",
                                           {.max = kMaxPayloadBytes}),
                  field<&View::has_data>("has_data", "0: the caller's view has no usable picture",
                                         {.max = 1}));
  }
  bool operator==(const View&) const = default;
};

enum class InputForm : uint8_t { kBytes, kViews, kNothing };

struct Input {
  uint32_t port = 0;
  uint8_t form = 0;
  uint64_t bytes = 0;
  FixedList<View, kMaxViews> views;
  static constexpr auto wire_table() {
    return table(
        {"INPUT", 5, Sender::kDevice, Priority::kFrame, kMaxPayloadBytes,
         "One set_input. The payload is read straight into the port's place on the host; a newer "
         "one for the same port replaces one that still waits there. With flag 2 the host answers "
         "ANSWER at once; without it a refusal comes as FAULT and fails the next RUN."},
        field<&Input::port>("port", "index, also of a port that does not exist"),
        field<&Input::form>("form",
                            "0 the payload is the data; 1 the views below and their pictures one "
                            "behind the other; 2 the caller gave no usable data: the host makes "
                            "the same refused call",
                            {.max = 2}),
        field<&Input::bytes>("bytes", "as in the call"), field<&Input::views>("views", "form 1"));
  }
  bool operator==(const Input&) const = default;
};

struct Answer {
  int32_t code = 0;
  Line text;
  static constexpr auto wire_table() {
    return table({"ANSWER", 6, Sender::kHost, Priority::kFrame, 0, "What a verb returned."},
                 field<&Answer::code>("code", "ABI status of the runtime"),
                 field<&Answer::text>("text", "its last_error after a failure"));
  }
  bool operator==(const Answer&) const = default;
};

struct Run {
  uint8_t kind = 0;
  uint32_t executor_ref = 0;
  uint64_t budget_ns = 0, push = 0;
  uint32_t n_inputs = 0;
  static constexpr auto wire_table() {
    return table(
        {"RUN", 7, Sender::kDevice, Priority::kFrame, 0, "Runs one stage or the whole request."},
        field<&Run::kind>("kind", "0 one stage, 1 step", {.max = 1}),
        field<&Run::executor_ref>("executor_ref", "of the stage, as published"),
        field<&Run::budget_ns>("budget_ns",
                               "the device waits so long; a run that has not begun by then is "
                               "dropped; 0: no limit"),
        field<&Run::push>("push", "bit p: send output port p with the reply when it is ready"),
        field<&Run::n_inputs>("n_inputs",
                              "INPUT messages the device sent in this epoch; fewer on the host "
                              "means that one was lost, and the run is refused"));
  }
  bool operator==(const Run&) const = default;
};

struct Pushed {
  uint32_t port = 0, bytes = 0;
  static constexpr auto wire_table() {
    return record(
        field<&Pushed::port>("port", "index"),
        field<&Pushed::bytes>("bytes", "its part of the payload", {.max = kMaxPayloadBytes}));
  }
  bool operator==(const Pushed&) const = default;
};

struct RunReply {
  int32_t code = 0;
  Line text;
  int64_t received_ns = 0, started_ns = 0, ended_ns = 0;
  uint32_t n_replaced = 0;
  FixedList<Pushed, kMaxPushPorts> outputs;
  static constexpr auto wire_table() {
    return table({"RUN_REPLY", 8, Sender::kHost, Priority::kFrame, kMaxPayloadBytes,
                  "The end of a run, with the outputs that were asked for one behind the other."},
                 field<&RunReply::code>("code", "ABI status of the runtime"),
                 field<&RunReply::text>("text", "its last_error after a failure"),
                 field<&RunReply::received_ns>("received_ns", "when RUN came, host clock"),
                 field<&RunReply::started_ns>("started_ns", "when the runtime began, host clock"),
                 field<&RunReply::ended_ns>("ended_ns", "when it ended, host clock"),
                 field<&RunReply::n_replaced>(
                     "n_replaced", "inputs of this epoch that a newer one replaced in the queue"),
                 field<&RunReply::outputs>("outputs", "what the payload holds, in order"));
  }
  bool operator==(const RunReply&) const = default;
};

struct Read {
  uint32_t port = 0;
  uint64_t capacity = 0;
  uint8_t null_out = 0, null_written = 0;
  static constexpr auto wire_table() {
    return table(
        {"READ", 9, Sender::kDevice, Priority::kFrame, 0, "One get_output that was not pushed."},
        field<&Read::port>("port", "index, also of a port that does not exist"),
        field<&Read::capacity>("capacity", "as in the call"),
        field<&Read::null_out>("null_out", "1: out was NULL", {.max = 1}),
        field<&Read::null_written>("null_written", "1: written was NULL", {.max = 1}));
  }
  bool operator==(const Read&) const = default;
};

struct ReadReply {
  int32_t code = 0;
  uint64_t written = 0;
  Line text;
  static constexpr auto wire_table() {
    return table({"READ_REPLY", 10, Sender::kHost, Priority::kFrame, kMaxPayloadBytes,
                  "What get_output returned; the payload is the output."},
                 field<&ReadReply::code>("code", "ABI status of the runtime"),
                 field<&ReadReply::written>("written", "as the runtime set it"),
                 field<&ReadReply::text>("text", "its last_error after a failure"));
  }
  bool operator==(const ReadReply&) const = default;
};

struct Prepare {
  uint32_t graph = 0;
  uint64_t key = 0;
  static constexpr auto wire_table() {
    return table({"PREPARE", 11, Sender::kDevice, Priority::kControl, 0,
                  "The verb of that name; answered with ANSWER."},
                 field<&Prepare::graph>("graph", "as in the call"),
                 field<&Prepare::key>("key", "as in the call"));
  }
  bool operator==(const Prepare&) const = default;
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
  uint32_t received_bytes = 0;
  static constexpr auto wire_table() {
    return table({"PROBE_REPLY", 15, Sender::kHost, Priority::kTelemetry, Probe::kMaxBytes,
                  "The payload is zeros."},
                 field<&ProbeReply::received_bytes>("received_bytes", "payload that came"));
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

inline constexpr uint16_t kMaxStoreEntries = 1024;
inline constexpr uint32_t kMaxStoreChunkBytes = 1u << 20;

struct Digest {
  Text<64> sha256;
  static constexpr auto wire_table() {
    return record(field<&Digest::sha256>("sha256", "64 lower-case hex digits"));
  }
  bool operator==(const Digest&) const = default;
};

struct StorePush {
  Text<64> sha256;
  uint64_t n_bytes = 0;
  Text<200> name;
  uint8_t role = 0;
  FixedList<Digest, 8> companions;
  static constexpr auto wire_table() {
    return table({"STORE_PUSH", 20, Sender::kDevice, Priority::kTelemetry, 0,
                  "Starts or goes on with the upload of one file. Answered with STORE_STATE, which "
                  "says from where on. Needs no OPEN; one upload at a time on a connection."},
                 field<&StorePush::sha256>("sha256", "of the whole file, 64 lower-case hex digits"),
                 field<&StorePush::n_bytes>("n_bytes", "of the whole file"),
                 field<&StorePush::name>("name", "a label for people; never part of a path"),
                 field<&StorePush::role>("role", "0 model, 1 projector, 2 other", {.max = 2}),
                 field<&StorePush::companions>("companions",
                                               "files the model needs; they are there already"));
  }
  bool operator==(const StorePush&) const = default;
};

struct StoreState {
  int32_t code = 0;
  Line text;
  uint8_t is_answer = 0, is_published = 0, stage = 0;
  uint64_t n_done = 0, n_total = 0, next_offset = 0, safe_bytes = 0;
  uint32_t window_bytes = 0;
  static constexpr auto wire_table() {
    return table({"STORE_STATE", 21, Sender::kHost, Priority::kTelemetry, 0,
                  "Where an upload stands: the answer to STORE_PUSH and STORE_END, after chunks, "
                  "and now and "
                  "then during long work. Carries the request id of STORE_PUSH or STORE_END."},
                 field<&StoreState::code>("code", "0, or why the upload is over (ABI status)"),
                 field<&StoreState::text>("text", "the reason in one line"),
                 field<&StoreState::is_answer>(
                     "is_answer", "0: still at work or a chunk was taken; 1: done", {.max = 1}),
                 field<&StoreState::is_published>(
                     "is_published", "1: the file is whole, checked and usable", {.max = 1}),
                 field<&StoreState::stage>(
                     "stage", "0 checking what is there, 1 receiving, 2 verifying", {.max = 2}),
                 field<&StoreState::n_done>("n_done", "bytes of this stage"),
                 field<&StoreState::n_total>("n_total", "of"),
                 field<&StoreState::next_offset>("next_offset", "the next byte wanted"),
                 field<&StoreState::safe_bytes>("safe_bytes", "what a loss of power would leave"),
                 field<&StoreState::window_bytes>(
                     "window_bytes", "the device sends no byte at or behind next_offset + this"));
  }
  bool operator==(const StoreState&) const = default;
};

struct StoreChunk {
  uint64_t offset = 0;
  static constexpr auto wire_table() {
    return table({"STORE_CHUNK", 22, Sender::kDevice, Priority::kTelemetry, kMaxStoreChunkBytes,
                  "Bytes of the file, in order. Repeated bytes are passed over, a gap ends the "
                  "upload. Each is answered with a STORE_STATE that is no answer."},
                 field<&StoreChunk::offset>("offset", "of the payload in the file"));
  }
  bool operator==(const StoreChunk&) const = default;
};

struct StoreEnd {
  uint64_t n_bytes = 0;
  static constexpr auto wire_table() {
    return table({"STORE_END", 23, Sender::kDevice, Priority::kTelemetry, 0,
                  "All bytes were sent: compare with the digest and publish. Answered with "
                  "STORE_STATE."},
                 field<&StoreEnd::n_bytes>("n_bytes", "as in STORE_PUSH"));
  }
  bool operator==(const StoreEnd&) const = default;
};

struct StoreList {
  uint32_t reserved = 0;
  static constexpr auto wire_table() {
    return table({"STORE_LIST", 24, Sender::kDevice, Priority::kTelemetry, 0,
                  "Asks what the host keeps. Needs no OPEN."},
                 field<&StoreList::reserved>("reserved", "0"));
  }
  bool operator==(const StoreList&) const = default;
};

struct StoreEntry {
  Text<64> sha256;
  uint64_t n_bytes = 0, have_bytes = 0;
  Text<200> name;
  uint8_t role = 0, state = 0, in_use = 0;
  int64_t used_wall_ns = 0;
  FixedList<Digest, 8> companions;
  static constexpr auto wire_table() {
    return record(
        field<&StoreEntry::sha256>("sha256", "of the file"),
        field<&StoreEntry::n_bytes>("n_bytes", "of the whole file; 0: not known"),
        field<&StoreEntry::have_bytes>("have_bytes", "that are there"),
        field<&StoreEntry::name>("name", "as it was pushed"),
        field<&StoreEntry::role>("role", "0 model, 1 projector, 2 other", {.max = 2}),
        field<&StoreEntry::state>("state",
                                  "0 published, 1 changed since it was checked, 2 partial, "
                                  "3 damaged",
                                  {.max = 3}),
        field<&StoreEntry::in_use>("in_use", "1: leased or being uploaded", {.max = 1}),
        field<&StoreEntry::used_wall_ns>("used_wall_ns", "last use, the host's wall clock, ns"),
        field<&StoreEntry::companions>("companions", "files the model needs"));
  }
  bool operator==(const StoreEntry&) const = default;
};

struct StoreListReply {
  int32_t code = 0;
  Line text;
  List<StoreEntry, kMaxStoreEntries> entries;
  uint32_t n_more = 0;
  static constexpr auto wire_table() {
    return table({"STORE_LIST_REPLY", 25, Sender::kHost, Priority::kTelemetry, 0,
                  "Files of the host's store, last used first."},
                 field<&StoreListReply::code>("code", "0, or why there is no list (ABI status)"),
                 field<&StoreListReply::text>("text", "the reason in one line"),
                 field<&StoreListReply::entries>("entries", "the files"),
                 field<&StoreListReply::n_more>("n_more", "further ones that are not listed"));
  }
  bool operator==(const StoreListReply&) const = default;
};

struct StoreRemove {
  Text<64> sha256;
  static constexpr auto wire_table() {
    return table({"STORE_REMOVE", 26, Sender::kDevice, Priority::kTelemetry, 0,
                  "Removes a file, whole or partial; answered with ANSWER (-7: in use)."},
                 field<&StoreRemove::sha256>("sha256", "of the file"));
  }
  bool operator==(const StoreRemove&) const = default;
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

using Messages =
    std::tuple<Hello, HelloReply, Open, OpenReply, Input, Answer, Run, RunReply, Read, ReadReply,
               Prepare, Ping, Pong, Probe, ProbeReply, Status, StatusReply, Fault, Bye, StorePush,
               StoreState, StoreChunk, StoreEnd, StoreList, StoreListReply, StoreRemove, PowerOff>;

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
