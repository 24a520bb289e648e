// Image views in the five pixel formats, conversion to packed RGB, decode, resize.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace outrider {

enum class PixelFormat : uint32_t { kRgb8, kBgr8, kRgba8, kBgra8, kGray8 };
uint32_t pixel_channels(PixelFormat format);

// A picture somebody else owns. stride_bytes 0 means tightly packed; the last row needs no padding.
struct ImageView {
  PixelFormat format = PixelFormat::kRgb8;
  const void* data = nullptr;
  uint64_t n_bytes = 0;
  int32_t width = 0, height = 0;
  int32_t stride_bytes = 0;
};

// Errors: kInvalid naming the field, the value and what is allowed (format number, null data, size
// <= 0, stride below a row or negative, bytes below what the geometry needs, without overflow).
// No heap on success.
Result<void> check_image(const ImageView& view, const char* what);

// [hot] To packed RGB, width * height * 3 bytes. BGR swaps, alpha is dropped, gray is replicated.
// The view must have passed check_image.
void to_rgb(const ImageView& view, uint8_t* rgb) noexcept;

struct Image {  // packed RGB
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};
// [setup] PNG and JPEG through libpng and libjpeg-turbo; the first bytes decide. 16-bit PNG is reduced
// to 8, palettes and gray are expanded, alpha is dropped, EXIF orientation is not applied.
// Errors: kNotFound (missing, damaged, neither format), kShape (above max_pixels; the limit is named).
Result<Image> decode_image(std::span<const std::byte> bytes, const char* name,
                           uint64_t max_pixels = uint64_t{64} << 20);
Result<Image> load_image(const char* path, uint64_t max_pixels = uint64_t{64} << 20);

}  // namespace outrider
