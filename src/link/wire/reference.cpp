// The reference page of the wire, from its tables.
#include "link/wire/messages.h"

namespace outrider::link::wire {
namespace {

const char* sender_name(Sender sender) {
  static constexpr const char* kNames[] = {"device", "host", "both"};
  return kNames[static_cast<size_t>(sender)];
}
const char* priority_name(Priority priority) {
  static constexpr const char* kNames[] = {"frame", "control", "telemetry"};
  return kNames[static_cast<size_t>(priority)];
}

void add_rows(std::string& page, const std::vector<FieldRow>& rows, const std::string& prefix) {
  for (const FieldRow& row : rows) {
    page += "| `" + prefix + row.name + "` | " + row.type + " | " + std::to_string(row.since) +
            " | " + row.help + " |\n";
    add_rows(page, row.record, prefix + row.name + "[].");
  }
}

std::string field_table(const std::vector<FieldRow>& rows) {
  std::string page = "| field | type | since | meaning |\n|---|---|---:|---|\n";
  add_rows(page, rows, "");
  return page;
}

std::string bytes_text(uint32_t bytes) {
  if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) return std::to_string(bytes >> 20) + " MiB";
  return std::to_string(bytes) + " bytes";
}

std::string overview() {
  std::string page =
      "| type | name | from | priority | body at most | payload at most |\n"
      "|---:|---|---|---|---:|---:|\n";
  for (uint16_t type = 0; type < 64; ++type) {
    const MessageInfo* info = message_info(type);
    if (info == nullptr) continue;
    page +=
        "| " + std::to_string(type) + " | `" + info->kind.name + "` | " +
        sender_name(info->kind.sender) + " | " + priority_name(info->kind.priority) + " | " +
        bytes_text(info->max_body_bytes) + " | " +
        (info->kind.max_payload_bytes == 0 ? "none" : bytes_text(info->kind.max_payload_bytes)) +
        " |\n";
  }
  return page;
}

constexpr const char* kIntroduction = R"(# The wire

What travels between `provider_link.so` on a device and `outrider serve` on a host. This page is made from the tables
in `src/link/wire/`; a test compares it.

Bytes are little endian, fixed width, without padding between fields. A text is a u16 length and its bytes. A list is
a u16 count and, for each record, a u16 length and the fields of the record. An enumeration of the ABI travels as its
number.

**Old and new peers.** The device says in HELLO which versions it speaks, the host answers the newest that both have.
Fields are only ever added at the end of a message or record, with the version that brought them (column "since"). A
sender leaves away what is newer than the version agreed on; a reader leaves absent fields at 0 and skips bytes behind
the last field it knows. A message of an unknown type is skipped by its length; with flag 1 it is answered with FAULT.

**Damage.** Every header carries its own CRC-32C and one of body and payload. A content that does not fit its CRC is
dropped whole, counted, and answered with FAULT when the sender waits. Where no header is found, bytes are taken away
one by one until there is one (at most 256 MiB in a row, then the connection ends). A lost INPUT is found by
`RUN.n_inputs`: the run is refused, never computed on an older input.

**Sizes** are known per type before anything is kept: a longer payload, or a body that is more than 4096 bytes longer
than the table (room for the fields of a newer peer), ends the connection. Buffers are sized by the runtime's own
ports, not by what a peer says.

**Priority.** On a connection with a runtime telemetry never waits in front of a frame: the host answers STATUS and
PROBE only while nothing else is on its way to the device, a PROBE_REPLY in pieces of at most 65,536 bytes, and STORE
messages are refused there. Between connections the system decides; a TCP connection with a runtime asks it for low
delay, one with an upload for throughput.

**Clocks.** Both sides stamp every message with their monotonic clock and send back the last stamp they received and
when. Four stamps give the offset of the two clocks, bounded by half of what the round trip cost; the estimate follows
every exchange.
)";

}  // namespace

std::string reference_page() {
  std::string page = kIntroduction;
  page += "\n## Header, " + std::to_string(kHeaderBytes) + " bytes\n\n";
  page += field_table(field_rows<Header>());
  page += "\n## Messages\n\n" + overview();
  for_each_message([&]<class M>() {
    const Kind kind = M::wire_table().kind;
    page += std::string("\n### ") + kind.name + ", type " + std::to_string(kind.type) + "\n\n" +
            kind.help + "\n\n" + field_table(field_rows<M>());
  });
  return page;
}

}  // namespace outrider::link::wire
