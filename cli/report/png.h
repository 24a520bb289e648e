// A picture as PNG bytes, and any bytes as base64: for pages that need no other file.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "vision/image.h"

namespace outrider::cli {

// Errors: kInvalid (size and pixels disagree), kFailed (the encoder refused).
Result<std::vector<std::byte>> encode_png(const Image& image);
std::string base64(std::span<const std::byte> bytes);
// "data:image/png;base64,..."
Result<std::string> png_uri(const Image& image);

}  // namespace outrider::cli
