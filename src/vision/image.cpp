#include "vision/image.h"

#include <bit>
#include <cstring>

#include "base/assert.h"

namespace outrider {
namespace {

// The loops below move whole pixels as one little-endian word.
static_assert(std::endian::native == std::endian::little);

uint64_t row_bytes(const ImageView& view) {
  return uint64_t(view.width) * pixel_channels(view.format);
}

uint64_t stride_of(const ImageView& view) {
  return view.stride_bytes == 0 ? row_bytes(view) : uint64_t(view.stride_bytes);
}

// Sides are below 2^31 and a pixel has at most 4 bytes: 4 * (2^31 - 1)^2 still fits in 64 bits.
uint64_t needed_bytes(const ImageView& view) {
  return (uint64_t(view.height) - 1) * stride_of(view) + row_bytes(view);
}

uint32_t keep(uint32_t p) {
  return p;
}
uint32_t swap_red_blue(uint32_t p) {
  return (p & 0x0000ff00u) | (p & 0xffu) << 16 | (p >> 16 & 0xffu);
}

uint32_t load_u32(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// One row of 3- or 4-byte pixels. Every pixel but the last is read and written as four bytes; the
// surplus byte written is the next pixel's red, stored again in the next step. The last pixel is
// moved by single bytes: nothing before or after the row is touched.
template <size_t kChannels, uint32_t (*kMap)(uint32_t)>
void convert_row(const uint8_t* in, size_t n_pixels, uint8_t* out) {
  static_assert(kChannels == 3 || kChannels == 4);
  for (size_t i = 0; i + 1 < n_pixels; ++i) {
    const uint32_t pixel = kMap(load_u32(in + i * kChannels));
    std::memcpy(out + i * 3, &pixel, sizeof pixel);
  }
  const uint8_t* last = in + (n_pixels - 1) * kChannels;
  const uint32_t pixel = kMap(uint32_t{last[0]} | uint32_t{last[1]} << 8 | uint32_t{last[2]} << 16);
  std::memcpy(out + (n_pixels - 1) * 3, &pixel, 3);
}

void spread_gray_row(const uint8_t* in, size_t n_pixels, uint8_t* out) {
  for (size_t i = 0; i + 1 < n_pixels; ++i) {
    const uint32_t pixel = in[i] * 0x01010101u;
    std::memcpy(out + i * 3, &pixel, sizeof pixel);
  }
  std::memset(out + (n_pixels - 1) * 3, in[n_pixels - 1], 3);
}

void copy_row(const uint8_t* in, size_t n_pixels, uint8_t* out) {
  std::memcpy(out, in, n_pixels * 3);
}

using RowConverter = void (*)(const uint8_t* in, size_t n_pixels, uint8_t* out);

RowConverter row_converter(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb8:
      return copy_row;
    case PixelFormat::kBgr8:
      return convert_row<3, swap_red_blue>;
    case PixelFormat::kRgba8:
      return convert_row<4, keep>;
    case PixelFormat::kBgra8:
      return convert_row<4, swap_red_blue>;
    case PixelFormat::kGray8:
      return spread_gray_row;
  }
  return nullptr;
}

}  // namespace

uint32_t pixel_channels(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb8:
    case PixelFormat::kBgr8:
      return 3;
    case PixelFormat::kRgba8:
    case PixelFormat::kBgra8:
      return 4;
    case PixelFormat::kGray8:
      return 1;
  }
  return 0;
}

Result<void> check_image(const ImageView& view, const char* what) {
  if (pixel_channels(view.format) == 0) {
    return make_error(Code::kInvalid,
                      "%s: pixel format %d, allowed are 0 (RGB8), 1 (BGR8), 2 (RGBA8), 3 (BGRA8) "
                      "and 4 (GRAY8)",
                      what, int(view.format));
  }
  if (view.data == nullptr) {
    return make_error(Code::kInvalid, "%s: data is null; hand in the first pixel's address", what);
  }
  if (view.width <= 0 || view.height <= 0) {
    return make_error(Code::kInvalid, "%s: %d x %d pixels, width and height must be above 0", what,
                      view.width, view.height);
  }
  if (view.stride_bytes < 0) {
    return make_error(Code::kInvalid,
                      "%s: stride %d bytes is negative; copy a bottom-up picture the right way up, "
                      "or use 0 for packed rows",
                      what, view.stride_bytes);
  }
  if (view.stride_bytes != 0 && uint64_t(view.stride_bytes) < row_bytes(view)) {
    return make_error(Code::kInvalid,
                      "%s: stride %d bytes is below one row, %d pixels of %u bytes = %llu; is the "
                      "width or the pixel format wrong?",
                      what, view.stride_bytes, view.width, pixel_channels(view.format),
                      static_cast<unsigned long long>(row_bytes(view)));
  }
  if (view.n_bytes < needed_bytes(view)) {
    return make_error(Code::kInvalid,
                      "%s: %llu bytes given, %llu needed for %d x %d pixels of %u bytes with a "
                      "stride of %llu; are width and height exchanged?",
                      what, static_cast<unsigned long long>(view.n_bytes),
                      static_cast<unsigned long long>(needed_bytes(view)), view.width, view.height,
                      pixel_channels(view.format),
                      static_cast<unsigned long long>(stride_of(view)));
  }
  return {};
}

bool looks_like_float_buffer(const ImageView& view) noexcept {
  // The packed size may itself need 64 bits, eight times it might not fit: divide instead.
  const uint64_t packed = uint64_t(view.height) * row_bytes(view);
  const uint64_t stride = stride_of(view);
  for (const uint64_t factor : {4, 8}) {
    const bool size_fits = view.n_bytes % factor == 0 && view.n_bytes / factor == packed;
    // A wider stride explains the bytes: one of several cameras side by side in a larger frame.
    if (size_fits && stride == row_bytes(view)) return true;
  }
  return false;
}

void to_rgb(const ImageView& view, uint8_t* rgb) noexcept {
  OUTRIDER_ASSERT(view.width > 0 && view.height > 0 && view.stride_bytes >= 0);
  OUTRIDER_ASSERT(view.data != nullptr && view.n_bytes >= needed_bytes(view));
  const RowConverter convert = row_converter(view.format);
  OUTRIDER_ASSERT(convert != nullptr);

  const auto* in = static_cast<const uint8_t*>(view.data);
  const size_t width = size_t(view.width), height = size_t(view.height), stride = stride_of(view);
  if (stride == row_bytes(view)) {  // packed: the whole picture is one long row
    convert(in, width * height, rgb);
    return;
  }
  for (size_t y = 0; y < height; ++y) convert(in + y * stride, width, rgb + y * width * 3);
}

void scale_pixels(const uint8_t* u8, size_t n, float* out) noexcept {
  for (size_t i = 0; i < n; ++i) out[i] = float(u8[i]) / 255.0f * 2.0f - 1.0f;
}

}  // namespace outrider
