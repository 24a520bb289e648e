// Pictures into frames as vision-language models want them: two filters that sample at corner
// positions, with the aspect kept between black bars or stretched. Source: gguf-models.md D.1, D.3.
#pragma once
#include <cstdint>

#include "vision/image.h"
#include "vision/resize.h"

namespace outrider {

// kBilinear: sample x * (w - 1) / (new - 1), both steps as one multiply-add, truncated.
// kBicubic:  sample x * w / new, four neighbours clamped to the picture, rounded half away.
enum class FrameFilter : uint8_t { kBilinear, kBicubic };
enum class FrameFit : uint8_t { kBars, kStretch };

inline constexpr int kMaxFrameSide = 1 << 24;  // sizes are exact in f32 up to here

// Where the picture lies: the smaller of both f32 ratios, new sides rounded up and cut to the
// frame, the odd pixel right and below. Sides 1 .. kMaxFrameSide (asserted).
ContentRect frame_content(int src_width, int src_height, int dst_width, int dst_height) noexcept;

// [hot] Any format of `view` (which passed check_image) -> dst packed RGB [dst_height, dst_width,
// 3]. A picture of the frame's own size is copied. dst must not overlap the view. No heap.
void frame_picture(const ImageView& view, FrameFilter filter, FrameFit fit, int dst_width,
                   int dst_height, uint8_t* dst) noexcept;

}  // namespace outrider
