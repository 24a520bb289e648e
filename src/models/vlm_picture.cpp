#include "models/vlm_picture.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "vision/frame.h"

namespace outrider {
namespace {

// All in f32, as the references decide it: a side that lies on a border falls the same way.
struct Sides {
  int64_t width, height;
};

Sides free_size(const VlmConfig& c, int64_t width, int64_t height) noexcept {
  const int64_t unit = c.patch_size * c.merge;
  const int64_t least = VlmConfig::kLeastTokens * unit * unit,
                most = VlmConfig::kMostTokens * unit * unit;
  const auto f = [](int64_t n) { return static_cast<float>(n); };
  const auto nearest = [&](int64_t side) {
    return std::max(unit, static_cast<int64_t>(std::floor(f(side) / f(unit) + 0.5f)) * unit);
  };
  const Sides near = {nearest(width), nearest(height)};
  if (near.width * near.height > most) {
    const float by = std::sqrt(f(width * height) / f(most));
    const auto smaller = [&](int64_t side) {
      return std::max(unit, static_cast<int64_t>(std::floor(f(side) / by / f(unit))) * unit);
    };
    return {smaller(width), smaller(height)};
  }
  if (near.width * near.height < least) {
    const float by = std::sqrt(f(least) / f(width * height));
    const auto larger = [&](int64_t side) {
      return static_cast<int64_t>(std::ceil(f(side) * by / f(unit))) * unit;
    };
    return {larger(width), larger(height)};
  }
  return near;
}

Sides tile_grid(const VlmConfig& c, int64_t width, int64_t height) noexcept {
  const auto f = [](int64_t n) { return static_cast<float>(n); };
  const float scale = std::min(f(c.longest) / f(width), f(c.longest) / f(height));
  const auto tiles = [&](int64_t side) {
    return static_cast<int64_t>(std::ceil(f(side) * scale / f(c.image_size)));
  };
  return {tiles(width), tiles(height)};
}

}  // namespace

PicturePlan plan_picture(const VlmConfig& c, int64_t width, int64_t height) noexcept {
  OUTRIDER_ASSERT(width >= 1 && width <= kMaxPictureSide);
  OUTRIDER_ASSERT(height >= 1 && height <= kMaxPictureSide);
  PicturePlan plan;
  plan.source_width = width;
  plan.source_height = height;
  plan.frame_width = plan.frame_height = c.image_size;
  plan.frame_tokens = c.most_tokens();
  plan.token_columns = c.tokens_a_side();
  if (!c.fixed_size()) {
    const Sides sides = free_size(c, width, height);
    plan.frame_width = sides.width;
    plan.frame_height = sides.height;
    plan.token_columns = sides.width / (c.patch_size * c.merge);
    plan.frame_tokens = plan.token_columns * (sides.height / (c.patch_size * c.merge));
  }
  if (c.kind == VlmKind::kIdefics3 && c.longest > 0) {
    const Sides grid = tile_grid(c, width, height);
    plan.tile_columns = grid.width;
    plan.tile_rows = grid.height;
  }
  return plan;
}

void read_picture(const VlmConfig& c, const PicturePlan& plan, const ImageView& view,
                  uint8_t* pixels) noexcept {
  OUTRIDER_ASSERT(view.width == plan.source_width && view.height == plan.source_height);
  const auto side = [](int64_t n) { return static_cast<int>(n); };
  const int width = side(plan.frame_width), height = side(plan.frame_height);
  if (plan.tile_columns > 0) {
    frame_picture(view, FrameFilter::kBicubic, FrameFit::kBars, side(plan.tile_columns) * width,
                  side(plan.tile_rows) * height, pixels);
    pixels += (plan.n_frames() - 1) * plan.frame_width * plan.frame_height * 3;
  }
  const FrameFit fit = c.kind == VlmKind::kIdefics3 ? FrameFit::kStretch : FrameFit::kBars;
  frame_picture(view, FrameFilter::kBilinear, fit, width, height, pixels);
}

VlmFrame frame_at(const PicturePlan& plan, const uint8_t* pixels, int64_t i) noexcept {
  OUTRIDER_ASSERT(i >= 0 && i < plan.n_frames());
  VlmFrame frame;
  frame.width = plan.frame_width;
  frame.height = plan.frame_height;
  frame.rgb = pixels;
  const int64_t stride = plan.tile_columns * plan.frame_width;
  if (i + 1 == plan.n_frames()) {
    frame.rgb += i * plan.frame_width * plan.frame_height * 3;
    return frame;
  }
  frame.stride = stride;
  frame.rgb += (i / plan.tile_columns * plan.frame_height * stride +
                i % plan.tile_columns * plan.frame_width) *
               3;
  return frame;
}

}  // namespace outrider
