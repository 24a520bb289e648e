// A runtime is opened, and described: ports, stages, identity.
#pragma once
#include "link/wire/session_messages.h"

namespace outrider::link::wire {

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

// An identity or a manifest: its beginning is in OPEN_REPLY, from version 3 on the rest follows in
// OPEN_TEXT. A longer one is refused by the host.
inline constexpr uint16_t kTextPieceBytes = 65000;
inline constexpr uint32_t kMaxTextBytes = 4u << 20;
inline constexpr uint16_t kLongTextVersion = 3;
enum class WhichText : uint8_t { kIdentity, kManifest };

struct OpenReply {
  int32_t code = 0;
  Line text;
  uint32_t epoch = 0;
  uint8_t has_step = 0, has_manifest = 0;
  uint64_t fingerprint = 0;
  List<Port, kMaxPorts> ports;
  List<Stage, kMaxStages> stages;
  LongText<kTextPieceBytes> identity, manifest;  // once all of it came, whole
  uint32_t silence_ms = 0, identity_bytes = 0, manifest_bytes = 0;
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
        field<&OpenReply::identity>("identity", "the identity text, or its first 65000 bytes"),
        field<&OpenReply::manifest>("manifest", "the manifest, or its first 65000 bytes"),
        field<&OpenReply::silence_ms>("silence_ms",
                                      "an owner that sends nothing for so long may lose the "
                                      "runtime to another device"),
        field<&OpenReply::identity_bytes>(
            "identity_bytes", "of the whole identity text; what is not here follows in OPEN_TEXT",
            {.since = kLongTextVersion, .max = kMaxTextBytes}),
        field<&OpenReply::manifest_bytes>("manifest_bytes", "likewise of the manifest",
                                          {.since = kLongTextVersion, .max = kMaxTextBytes}));
  }
  bool operator==(const OpenReply&) const = default;
};

struct OpenText {
  uint8_t which = 0;
  uint32_t at_bytes = 0;
  LongText<kTextPieceBytes> text;
  static constexpr auto wire_table() {
    return table({"OPEN_TEXT", 28, Sender::kHost, Priority::kControl, 0,
                  "The next piece of a text that is too long for OPEN_REPLY, with its request id. "
                  "First the identity, then the manifest, each from front to end without a gap."},
                 field<&OpenText::which>("which", "0 identity, 1 manifest", {.max = 1}),
                 field<&OpenText::at_bytes>("at_bytes", "where in the whole text the piece begins",
                                            {.max = kMaxTextBytes}),
                 field<&OpenText::text>("text", "the piece, never empty"));
  }
  bool operator==(const OpenText&) const = default;
};

}  // namespace outrider::link::wire
