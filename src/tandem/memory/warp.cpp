#include "tandem/memory/warp.h"

#include "outrider/frt_v1.h"

namespace outrider::memory {

Code warp_frames(WarpState& state, const CameraFrame& road, const CameraFrame& wide) noexcept {
  const CameraFrame* frames[] = {&road, &wide};
  Argument arguments[4];
  int64_t shapes[4];
  for (size_t i = 0; i < 2; ++i) {
    uint64_t import = 0;
    if (state.imports != nullptr) {
      import = state.imports->get(
          {frames[i]->stream, frames[i]->data, frames[i]->bytes, frames[i]->generation});
      if (import == 0) return Code::kDevice;
    }
    shapes[i] = static_cast<int64_t>(frames[i]->bytes);
    arguments[i] = {kWarpArguments[i], FRT_DTYPE_U8,     {&shapes[i], 1},
                    frames[i]->data,   frames[i]->bytes, import};
  }
  shapes[2] = static_cast<int64_t>(state.scalars.size());
  arguments[2] = {kWarpArguments[2],
                  FRT_DTYPE_F32,
                  {&shapes[2], 1},
                  state.scalars.data(),
                  state.scalars.size_bytes(),
                  0};
  shapes[3] = static_cast<int64_t>(state.queues.size());
  arguments[3] = {kWarpArguments[3],   FRT_DTYPE_U8,        {&shapes[3], 1},
                  state.queues.data(), state.queues.size(), 0};
  return state.program->start(std::span(arguments).first(state.queues.empty() ? 3 : 4));
}

}  // namespace outrider::memory
