#include "cli/report/png.h"

#include <png.h>

#include <algorithm>

namespace outrider::cli {

Result<std::vector<std::byte>> encode_png(const Image& image) {
  const size_t wanted = static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3;
  if (image.width <= 0 || image.height <= 0 || image.rgb.size() != wanted)
    return make_error(Code::kInvalid, "png: %dx%d picture with %zu bytes, wanted %zu", image.width,
                      image.height, image.rgb.size(), wanted);
  png_image head = {};
  head.version = PNG_IMAGE_VERSION;
  head.width = static_cast<png_uint_32>(image.width);
  head.height = static_cast<png_uint_32>(image.height);
  head.format = PNG_FORMAT_RGB;
  png_alloc_size_t n_bytes = PNG_IMAGE_PNG_SIZE_MAX(head);
  std::vector<std::byte> out(n_bytes);
  if (png_image_write_to_memory(&head, out.data(), &n_bytes, 0, image.rgb.data(), 0, nullptr) == 0)
    return make_error(Code::kFailed, "png: %s", head.message);
  out.resize(n_bytes);
  return out;
}

std::string base64(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    unsigned bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < n ? static_cast<unsigned>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

Result<std::string> png_uri(const Image& image) {
  auto png = encode_png(image);
  if (!png) return png.error();
  return "data:image/png;base64," + base64(png.value());
}

}  // namespace outrider::cli
