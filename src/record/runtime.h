// The runtime record of a tandem, as its readers see it: who leads, and whether that may be
// believed. Fields and rules: driving.md f.2. Its one writer is tandem/record.h.
#pragma once
#include <cstddef>
#include <string_view>

#include "record/process.h"

namespace outrider::record {

struct RuntimeView {
  std::string state = "unavailable";
  bool active = false;  // the lead leads, and its last output is not older than 250 ms
  int64_t handovers = 0;
  // How the camera warp reaches the link and why; "" where none was told.
  std::string warp_route, warp_reason;
  // While active only.
  std::string artifact_sha256, checkpoint;
  int64_t artifact_bytes = 0;
};

// Is this a record that a tandem wrote, now or before? Says nothing of whether it may be believed.
bool is_runtime_record(std::string_view text);
inline constexpr size_t kMaxRuntimeBytes = 16384;

// Believes nothing that is not proven fresh, of this boot and of a living process: everything else
// reads as unavailable and not active. Never throws.
RuntimeView read_runtime(std::string_view text, const Place& place);

}  // namespace outrider::record
