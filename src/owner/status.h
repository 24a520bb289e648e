// The owner's status record: one small JSON file, written by the owner alone, replaced whole with
// every step, so that its time is the heartbeat. And its reader.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "owner/borrow/protocol.h"
#include "record/process.h"

namespace outrider::owner {

inline constexpr int64_t kHeartbeatNs = 3'000'000'000;  // older: the owner is dead or hangs

struct Status {
  // Of the writer; filled in by status_text().
  std::string boot_id, session;
  int64_t pid = 0, start_ticks = 0, mono_ns = 0;
  // What it tells.
  std::string mode = "off";  // off, usb, tcp
  bool parked = false;
  Medium medium = Medium::kNone;          // what is held
  std::string endpoint;                   // "usb:SERIAL" or "tcp://..."
  bool present = false, program = false;  // a far end, and its program
  int64_t speed_mbit_s = 0;
  std::string borrower;  // "": nobody
  int64_t borrower_pid = 0;
  bool worker = false, unfinished = false;  // the provisioning run
  bool power_off = false;                   // the far end is being asked
  bool stopping = false;
  int64_t n_settings = 0;  // of the system, changed now
  bool sleeps = false;     // the far end said so in its last hello
  std::string error;       // "": none
};

// One line with its newline; below 4 KiB.
std::string status_text(const Status& status);

struct OwnerView {
  bool alive = false;  // the writer lives, and its heart beat within kHeartbeatNs
  Status status;       // only when alive; else as it is made
};
// Believes nothing that is not proven. Never throws.
OwnerView read_status(std::string_view text, const record::Place& place);

// What people are shown: off, unavailable, waiting, connected, lent, provisioning, power off.
const char* shown_state(const OwnerView& view);

}  // namespace outrider::owner
