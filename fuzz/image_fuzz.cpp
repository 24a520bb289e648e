// Pictures from anywhere: a PNG or JPEG file, and a view whose geometry, format and buffer are made
// up. Bytes: one that chooses (even: file, odd: view), then the file, or the view's header and
// pixels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "vision/image.h"
#include "vision/resize.h"

namespace {

using namespace outrider;

constexpr uint64_t kMaxPixels = 1 << 18;  // per input: keeps a run fast

void require(bool holds) {
  if (!holds) std::abort();
}

// Every rule into a frame of frame_width x frame_height. Exact-size buffers: the sanitizer sees a
// byte too far on either end.
void resize(const std::vector<uint8_t>& rgb, int width, int height, int frame_width,
            int frame_height) {
  const size_t n = size_t(frame_width) * size_t(frame_height) * 3;
  const auto out = std::make_unique<uint8_t[]>(n);
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    auto made = Resizer::make(rule, width, height, frame_width, frame_height);
    if (!made) continue;
    const ContentRect rect = made.value().content();
    require(rect.x >= 0 && rect.y >= 0 && rect.width > 0 && rect.height > 0);
    require(rect.x + rect.width <= frame_width && rect.y + rect.height <= frame_height);
    made.value().run(rgb.data(), out.get());
  }
  const auto floats = std::make_unique<float[]>(n);
  if (resize_torch(rgb.data(), width, height, floats.get(), frame_width, frame_height)) {
    for (size_t i = 0; i < n; ++i) require(floats[i] >= -1 && floats[i] <= 1);
  }
}

void decode(std::span<const uint8_t> bytes) {
  const auto image = decode_image(std::as_bytes(bytes), "fuzz", kMaxPixels);
  if (!image) {
    require(!image.error().message().empty());
    return;
  }
  const Image& found = image.value();
  require(found.width > 0 && found.height > 0);
  require(uint64_t(found.width) * uint64_t(found.height) <= kMaxPixels);
  require(found.rgb.size() == size_t(found.width) * size_t(found.height) * 3);
  resize(found.rgb, found.width, found.height, 24, 17);
}

void put_be32(std::vector<uint8_t>* out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(uint8_t(value >> shift));
}

void put_chunk(std::vector<uint8_t>* png, const char* type, const std::vector<uint8_t>& body) {
  put_be32(png, uint32_t(body.size()));
  const size_t begin = png->size();
  png->insert(png->end(), type, type + 4);
  png->insert(png->end(), body.begin(), body.end());
  uint32_t crc = 0xffffffffu;
  for (size_t i = begin; i < png->size(); ++i) {
    crc ^= (*png)[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  put_be32(png, ~crc);
}

// A zlib stream of stored blocks: any bytes can be packed without a packer.
std::vector<uint8_t> stored(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> out = {0x78, 0x01};
  uint32_t a = 1, b = 0;
  for (const uint8_t byte : bytes) a = (a + byte) % 65521, b = (b + a) % 65521;
  do {
    const size_t n = std::min<size_t>(bytes.size(), 65535);
    const bool last = n == bytes.size();
    for (const size_t v : {size_t(last), n & 0xff, n >> 8, ~n & 0xff, ~n >> 8 & 0xff}) {
      out.push_back(uint8_t(v));
    }
    out.insert(out.end(), bytes.begin(), bytes.begin() + long(n));
    bytes = bytes.subspan(n);
  } while (!bytes.empty());
  put_be32(&out, b << 16 | a);
  return out;
}

// Five bytes of header (width, height, depth, colour type, interlace), palette length, then rows.
void decode_built_png(std::span<const uint8_t> bytes) {
  if (bytes.size() < 6) return;
  constexpr uint8_t kDepths[] = {1, 2, 4, 8, 16, 3}, kColours[] = {0, 2, 3, 4, 6, 1};
  std::vector<uint8_t> png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  put_chunk(&png, "IHDR",
            {0, 0, 0, bytes[0], 0, 0, 0, bytes[1], kDepths[bytes[2] % 6], kColours[bytes[3] % 6], 0,
             0, uint8_t(bytes[4] % 3)});
  const auto rows = bytes.subspan(6);
  const size_t n_palette = std::min<size_t>(bytes[5], rows.size());
  const std::vector<uint8_t> head(rows.begin(), rows.begin() + long(n_palette));
  if (n_palette > 0) put_chunk(&png, "PLTE", head);
  if (n_palette % 2 == 1) put_chunk(&png, "tRNS", head);
  put_chunk(&png, "IDAT", stored(rows));
  put_chunk(&png, "IEND", {});
  decode(png);
}

struct ViewHeader {
  uint32_t format;
  int32_t width, height, stride_bytes;
  uint8_t frame_width, frame_height;
  uint8_t lie;  // one in eight claims more bytes than there are, and must not be converted
};

void view(std::span<const uint8_t> bytes) {
  ViewHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto rest = bytes.subspan(sizeof header);
  const std::vector<uint8_t> pixels(rest.begin(), rest.end());  // its own block: no byte behind it
  const bool lie = header.lie % 8 == 0;
  const ImageView picture{PixelFormat(header.format),
                          pixels.data(),
                          lie ? UINT64_MAX : pixels.size(),
                          header.width,
                          header.height,
                          header.stride_bytes};
  const auto checked = check_image(picture, "fuzz");
  if (!checked) {
    require(!checked.error().message().empty());
    return;
  }
  (void)looks_like_float_buffer(picture);
  if (lie) return;
  std::vector<uint8_t> rgb(size_t(picture.width) * size_t(picture.height) * 3);
  to_rgb(picture, rgb.data());
  resize(rgb, picture.width, picture.height, header.frame_width + 1, header.frame_height + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      decode(bytes);
      break;
    case 1:
      decode_built_png(bytes);
      break;
    default:
      view(bytes);
  }
  return 0;
}
