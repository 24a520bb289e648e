// The script of the fake provider: one flat JSON object, strict like every open configuration.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace outrider::fake {

struct FakeConfig {
  std::string model_family;           // "fake"; the only required key
  std::string plan = "infer";         // "infer", "split", "diamond" or "step" (no plan)
  std::string fault;                  // a row of broken.cpp: what is wrong with the runtime
  std::string null_verbs;             // comma list of verbs left NULL
  std::string last_error = "normal";  // or "null", "long", "garbage"
  std::string open_reason;            // left in the host's sink when open_code is set
  int64_t n_views = 1, image_height = 4, image_width = 6;
  int64_t action_steps = 4, action_dim = 3;
  int64_t trace = 0;           // 1: port 6, a log of every stage that ever ran
  int64_t own_ports = 1;       // 0: the ports of a policy alone, without echo, pixels and trace
  int64_t require_inputs = 1;  // 0: a run works without any
  int64_t fail_at = 0;         // tick (1 is the first) whose stage fail_stage fails with fail_code
  int64_t fail_code = -8, fail_stage = 0;
  int64_t nan_at = 0;  // tick whose actions hold a NaN at nan_index
  int64_t nan_index = 1;
  int64_t throw_at = 0;                // tick that throws; the fake's own guard turns it into -8
  int64_t raw_throw_at = 0;            // tick that throws through the C border
  int64_t sleep_ms = 0;                // every stage takes at least this long
  int64_t stall_at = 0, stall_ms = 0;  // this one tick takes so much longer
  int64_t open_sleep_ms = 0, input_sleep_ms = 0;  // so do open and set_input
  int64_t crash_at = 0;                           // tick that ends the process with SIGABRT
  int64_t exit_at = 0;                            // tick that ends it with status 0
  int64_t alloc_in_tick = 0, lock_in_tick = 0, write_in_tick = 0;  // forbidden acts per tick
  int64_t print_in_tick = 0;   // lines written to standard output per tick
  int64_t overrun_bytes = 0;   // outputs claim to be this much longer than what was stored
  int64_t leak_bytes = 0;      // lost in every tick, to show that a memory test can fail
  int64_t open_code = 0;       // open fails with this
  int64_t open_silent = 0;     // leave no reason, as a provider of other people does
  int64_t open_alloc_mb = 0;   // open takes this much memory
  int64_t open_print = 0;      // open writes to stdout, to show that a test can see it
  int64_t identity_pad = -1;   // 0 or more: a pair "pad" of so many bytes in the identity
  int64_t manifest_bytes = 0;  // more than 0: a manifest of so many
  int64_t release_fd = -1;     // one byte is written there when the last reference goes
};

// Errors: kInvalid (unknown key, wrong type, out of range).
Result<FakeConfig> parse_config(const char* json);

}  // namespace outrider::fake
