// Image views in the five pixel formats, conversion to packed RGB, pixel scaling, decode.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace outrider {

enum class PixelFormat : uint32_t { kRgb8, kBgr8, kRgba8, kBgra8, kGray8 };
// Bytes of one pixel: 3, 3, 4, 4, 1; 0 for a number that is no format.
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
// No heap on success. `what` names the picture in the text, "images[1]" for instance.
Result<void> check_image(const ImageView& view, const char* what);

// True when the buffer is exactly 4 or 8 times what an 8-bit picture of this geometry takes and its
// rows lie packed: almost surely float or double values handed in as bytes. A window into a larger
// frame (a wider stride) is not taken for one. Reads no pixel, so
// the answer does not change from picture to picture. The view must have passed check_image.
bool looks_like_float_buffer(const ImageView& view) noexcept;

// [hot] To packed RGB, width * height * 3 bytes. BGR swaps, alpha is dropped, gray is replicated.
// Reads nothing past n_bytes. rgb must not alias the view. The view must have passed check_image.
void to_rgb(const ImageView& view, uint8_t* rgb) noexcept;

// [hot] What the vision towers read: (u8 / 255) * 2 - 1 in f32, so 0 is -1 and 255 is 1 exactly.
// Source: gguf-models B.5. n values in, n out; no mean, no deviation.
void scale_pixels(const uint8_t* u8, size_t n, float* out) noexcept;

struct Image {  // packed RGB
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};
// [setup] PNG and JPEG through libpng and libjpeg-turbo; the first bytes decide. 16-bit PNG is
// scaled to 8 (v / 257, rounded), palettes and gray are expanded, alpha is dropped, gamma, colour
// profiles and EXIF orientation are not applied. A file that is cut or damaged anywhere is refused
// whole. Errors: kNotFound (missing, damaged, neither format), kShape (above max_pixels; the limit
// is named), kUnsupported (a JPEG in CMYK), kNoMemory. Absent in compute-only builds.
Result<Image> decode_image(std::span<const std::byte> bytes, const char* name,
                           uint64_t max_pixels = uint64_t{64} << 20);
Result<Image> load_image(const char* path, uint64_t max_pixels = uint64_t{64} << 20);

}  // namespace outrider
