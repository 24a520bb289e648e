// How a picture of any size becomes the frames that a vision tower reads.
// Source: gguf-models.md D.1 to D.3.
#pragma once
#include <cstdint>
#include <span>

#include "models/vlm_config.h"
#include "models/vlm_tower.h"
#include "vision/image.h"

namespace outrider {

// Longest side that is accepted.
inline constexpr int64_t kMaxPictureSide = 65535;

// Frames lie in one block of packed RGB: the tiled picture (tile_columns x tile_rows frames, cut
// where the tower reads), then the one frame of the whole.
struct PicturePlan {
  int64_t source_width = 0, source_height = 0;
  int64_t frame_width = 0, frame_height = 0;
  int64_t tile_columns = 0, tile_rows = 0;  // 0: the whole alone
  int64_t frame_tokens = 0;
  int64_t token_columns = 0;  // of a frame

  int64_t n_frames() const { return tile_columns * tile_rows + 1; }
  int64_t n_tokens() const { return n_frames() * frame_tokens; }
  int64_t n_bytes() const { return n_frames() * frame_width * frame_height * 3; }
};

// [hot] Sides 1 .. kMaxPictureSide (asserted).
PicturePlan plan_picture(const VlmConfig& config, int64_t width, int64_t height) noexcept;

// [hot] pixels: plan.n_bytes(). The view passed check_image and is of the plan's source size.
void read_picture(const VlmConfig& config, const PicturePlan& plan, const ImageView& view,
                  uint8_t* pixels) noexcept;

// [hot] Frame i of what read_picture wrote: the tiles row by row, last the whole.
VlmFrame frame_at(const PicturePlan& plan, const uint8_t* pixels, int64_t i) noexcept;

}  // namespace outrider
