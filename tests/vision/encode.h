// Writers of small PNG and JPEG files for the tests: every kind that the decoder must take.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider::test {

using Bytes = std::vector<uint8_t>;

struct PngKind {
  int colour_type = 2;  // as in the file: 0 gray, 2 RGB, 3 palette, 4 gray + alpha, 6 RGB + alpha
  int bit_depth = 8;
  bool interlaced = false;
  bool transparency = false;  // a tRNS chunk
};

// The palette of colour type 3: entry i is (i, 255 - i, 7 i) modulo 256.
void palette_entry(int i, uint8_t* rgb);

// rows: n_rows packed rows in the file's own layout (16-bit samples big endian).
Bytes write_png(const PngKind& kind, int width, int height, const Bytes& rows);

struct JpegKind {
  bool progressive = false;
  bool gray = false;
  bool cmyk = false;
};
// pixels: packed RGB, or CMYK with four bytes a pixel; quality 100, no chroma subsampling.
Bytes write_jpeg(const JpegKind& kind, int width, int height, const Bytes& pixels);

// Overwrites width and height in a PNG's first chunk and mends the checksum.
void forge_png_size(Bytes* png, uint32_t width, uint32_t height);

}  // namespace outrider::test
