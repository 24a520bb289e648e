// The camera warp that the small model runs in every frame, and the one function that starts it.
#pragma once
#include <cstdint>
#include <span>

#include "tandem/memory/import_cache.h"
#include "tandem/memory/program.h"

namespace outrider::memory {

struct CameraFrame {
  uint32_t stream = 0;  // 0 road, 1 wide
  const std::byte* data = nullptr;
  size_t bytes = 0;         // of the whole allocation
  uint64_t generation = 0;  // of the allocation
};

// A model's own live objects. Whoever starts a warp reads them as they are at that moment; nobody
// keeps a copy. A model may replace `scalars` and `queues` between two frames.
struct WarpState {
  std::shared_ptr<Program> program;
  ImportCache* imports = nullptr;     // nullptr: the device reads any memory
  std::span<const float> scalars;     // transforms and whatever else the capture packs with them
  std::span<const std::byte> queues;  // empty: the program keeps none
};

// Names of the arguments, in the order in which a warp is captured. "queues" only where there are
// some.
inline constexpr const char* kWarpArguments[] = {"frame_road", "frame_wide", "scalars", "queues"};

// [hot] Starts the warp of these two frames: the ONLY place that does, for the model's own run and
// for the link alike. Both frames may be the same buffer. Errors: those of Program::start; kDevice:
// a frame cannot be imported.
Code warp_frames(WarpState& state, const CameraFrame& road, const CameraFrame& wide) noexcept;

}  // namespace outrider::memory
