// Proof that what the link would send is what the program has just written, not what it wrote
// before: caches, snapshots and dead imports all look right in the first frame.
#pragma once
#include <functional>

#include "tandem/memory/link_warp.h"

namespace outrider::memory {

// What the probe works with. Two frames of `frame_bytes` are taken from `frames` once, used for all
// rounds and freed at the end, together with their imports.
struct ProbeParts {
  MemoryDevice* frames = nullptr;
  size_t frame_bytes = 0;
  int rounds = 8;  // at least 8: each round is another content in the same two frames
  // Writes the content of a round into a frame (view 0 road, 1 wide).
  std::function<void(int round, uint32_t view, std::span<std::byte> frame)> fill;
  // What the warp of these frames is, byte for byte, with the state's scalars as they are.
  std::function<void(std::span<const std::byte> road, std::span<const std::byte> wide,
                     std::span<std::byte> out)>
      reference;
};

inline constexpr int kLeastProbeRounds = 8;

// [setup] Runs the rounds through `warp`. Errors: kInvalid (parts), kNoMemory, kDevice: a run
// failed; kFailed: round r, byte i: value found, value wanted.
Result<void> probe_warp(LinkWarp& warp, const ProbeParts& parts);

}  // namespace outrider::memory
