#include "encode.h"

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>

#include <stdexcept>

namespace outrider::test {
namespace {

// An error of the writer is a mistake of the test: it ends the test by an exception, which passes
// through libpng's frames without harm because they hold nothing of C++.
[[noreturn]] void on_error(png_structp, png_const_charp text) {
  throw std::logic_error(text);
}
void on_warning(png_structp, png_const_charp) {}
void on_write(png_structp png, png_bytep data, size_t n) {
  auto* file = static_cast<Bytes*>(png_get_io_ptr(png));
  file->insert(file->end(), data, data + n);
}
void on_flush(png_structp) {}

uint32_t crc32(const uint8_t* data, size_t n) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

void put_be32(uint8_t* out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = uint8_t(value >> (24 - 8 * i));
}

void write_palette(png_structp png, png_infop info, const PngKind& kind) {
  const int n = 1 << kind.bit_depth;
  std::vector<png_color> palette(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    uint8_t rgb[3];
    palette_entry(i, rgb);
    palette[size_t(i)] = {rgb[0], rgb[1], rgb[2]};
  }
  png_set_PLTE(png, info, palette.data(), n);
}

void write_transparency(png_structp png, png_infop info, const PngKind& kind) {
  png_byte alphas[2] = {0, 128};
  png_color_16 colour = {};  // black is see-through
  png_set_tRNS(png, info, alphas, kind.colour_type == 3 ? 2 : 0, &colour);
}

}  // namespace

void palette_entry(int i, uint8_t* rgb) {
  rgb[0] = uint8_t(i), rgb[1] = uint8_t(255 - i), rgb[2] = uint8_t(7 * i);
}

Bytes write_png(const PngKind& kind, int width, int height, const Bytes& rows) {
  Bytes file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, on_warning);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, on_write, on_flush);
  png_set_IHDR(png, info, png_uint_32(width), png_uint_32(height), kind.bit_depth, kind.colour_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  if (kind.colour_type == 3) write_palette(png, info, kind);
  if (kind.transparency) write_transparency(png, info, kind);
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  EXPECT_EQ(rows.size(), row_bytes * size_t(height));
  std::vector<png_bytep> pointers;
  for (int y = 0; y < height; ++y) {
    pointers.push_back(const_cast<png_bytep>(rows.data() + size_t(y) * row_bytes));
  }
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

Bytes write_jpeg(const JpegKind& kind, int width, int height, const Bytes& pixels) {
  tjhandle tj = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long n = 0;
  const int rc = tjCompress2(tj, pixels.data(), width, 0, height, kind.cmyk ? TJPF_CMYK : TJPF_RGB,
                             &data, &n, kind.gray ? TJSAMP_GRAY : TJSAMP_444, 100,
                             TJFLAG_ACCURATEDCT | (kind.progressive ? TJFLAG_PROGRESSIVE : 0));
  EXPECT_EQ(rc, 0) << tjGetErrorStr2(tj);
  Bytes file(data, data + n);
  tjFree(data);
  tjDestroy(tj);
  return file;
}

void forge_png_size(Bytes* png, uint32_t width, uint32_t height) {
  uint8_t* header = png->data() + 12;  // behind the signature and the chunk's length: "IHDR"
  put_be32(header + 4, width);
  put_be32(header + 8, height);
  put_be32(header + 17, crc32(header, 17));
}

}  // namespace outrider::test
