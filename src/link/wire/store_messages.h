// Model files: pushed in chunks, listed, removed.
#pragma once
#include "link/wire/session_messages.h"

namespace outrider::link::wire {

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

}  // namespace outrider::link::wire
