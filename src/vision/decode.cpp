// PNG and JPEG to packed RGB. Files are hostile: sizes are checked before memory is taken.
#include <png.h>
#include <turbojpeg.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/mapped_file.h"
#include "vision/image.h"

namespace outrider {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint8_t kPngSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint8_t kJpegSignature[3] = {0xff, 0xd8, 0xff};

template <size_t kN>
bool starts_with(Bytes bytes, const uint8_t (&signature)[kN]) {
  return bytes.size() >= kN && std::memcmp(bytes.data(), signature, kN) == 0;
}

Error damaged(const char* name, const char* format, const char* why) {
  return make_error(Code::kNotFound, "image %s: damaged %s: %s; write the file again", name, format,
                    why);
}

// Width and height fit int32 and their product stays below the limit.
Result<void> check_size(const char* name, uint64_t width, uint64_t height, uint64_t max_pixels) {
  if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX ||
      width > max_pixels / height) {
    return make_error(Code::kShape,
                      "image %s: %llu x %llu pixels, allowed are 1 x 1 up to %llu pixels in all; "
                      "shrink the picture first",
                      name, static_cast<unsigned long long>(width),
                      static_cast<unsigned long long>(height),
                      static_cast<unsigned long long>(max_pixels));
  }
  return {};
}

Result<Image> make_image(const char* name, uint64_t width, uint64_t height) {
  try {
    Image image{int32_t(width), int32_t(height), {}};
    image.rgb.resize(size_t(width) * height * 3);
    return image;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "image %s: no memory for %llu x %llu pixels of 3 bytes",
                      name, static_cast<unsigned long long>(width),
                      static_cast<unsigned long long>(height));
  }
}

// libpng reports errors by longjmp. Its state lives here, outside the two functions that call
// setjmp; those hold nothing that has a destructor, so a jump skips none.
class PngReader {
 public:
  explicit PngReader(Bytes bytes) : rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  bool ready() const { return info_ != nullptr; }
  const char* why() const { return why_; }
  uint32_t width() const { return png_get_image_width(png_, info_); }
  uint32_t height() const { return png_get_image_height(png_, info_); }
  uint32_t bits_per_pixel() const {
    return uint32_t{png_get_bit_depth(png_, info_)} * png_get_channels(png_, info_);
  }
  bool read_header();
  bool read_pixels(uint8_t* rgb);

 private:
  static void on_error(png_structp png, png_const_charp text);
  static void on_warning(png_structp, png_const_charp) {}  // the library does not print
  static void on_read(png_structp png, png_bytep out, size_t n);

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  Bytes rest_;
  char why_[128] = "no reason given";
};

void PngReader::on_error(png_structp png, png_const_charp text) {
  auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(self->why_, sizeof self->why_, "%s", text);
  png_longjmp(png, 1);
}

void PngReader::on_read(png_structp png, png_bytep out, size_t n) {
  auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
  if (n > self->rest_.size()) png_error(png, "the file ends too early");
  std::memcpy(out, self->rest_.data(), n);
  self->rest_ = self->rest_.subspan(n);
}

bool PngReader::read_header() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_read_fn(png_, this, on_read);
  png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // check_size names our own limit
  png_read_info(png_, info_);
  return true;
}

bool PngReader::read_pixels(uint8_t* rgb) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_palette_to_rgb(png_);
  png_set_expand_gray_1_2_4_to_8(png_);
  png_set_scale_16(png_);
  png_set_strip_alpha(png_);
  png_set_gray_to_rgb(png_);
  const int n_passes = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  const size_t row_bytes = size_t{3} * png_get_image_width(png_, info_);
  if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "rows are not 3 bytes a pixel");

  const uint32_t n_rows = png_get_image_height(png_, info_);
  for (int pass = 0; pass < n_passes; ++pass) {
    for (uint32_t y = 0; y < n_rows; ++y) png_read_row(png_, rgb + y * row_bytes, nullptr);
  }
  png_read_end(png_, nullptr);  // the trailer and its checksum: a cut file is not a picture
  return true;
}

Result<Image> decode_png(Bytes bytes, const char* name, uint64_t max_pixels) {
  PngReader reader(bytes);
  if (!reader.ready()) return make_error(Code::kNoMemory, "image %s: libpng has no memory", name);
  if (!reader.read_header()) return damaged(name, "PNG", reader.why());
  const uint64_t width = reader.width(), height = reader.height();
  OUTRIDER_TRY(check_size(name, width, height, max_pixels));
  // Deflate never packs tighter than 1032 to 1. A header that claims more than the file can hold is
  // caught here, before its size becomes an allocation.
  constexpr uint64_t kMaxDeflateRatio = 1032;
  if (width * height * reader.bits_per_pixel() / 8 / kMaxDeflateRatio > bytes.size()) {
    return damaged(name, "PNG", "the file is too short for the size in its header");
  }
  auto image = make_image(name, width, height);
  if (!image) return image;
  if (!reader.read_pixels(image.value().rgb.data())) return damaged(name, "PNG", reader.why());
  return image;
}

class JpegReader {
 public:
  JpegReader() : tj_(tjInitDecompress()) {}
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() {
    if (tj_ != nullptr) tjDestroy(tj_);
  }
  tjhandle get() const { return tj_; }
  const char* why() const { return tjGetErrorStr2(tj_); }

 private:
  tjhandle tj_;
};

Result<Image> decode_jpeg(Bytes bytes, const char* name, uint64_t max_pixels) {
  const JpegReader reader;
  if (reader.get() == nullptr) {
    return make_error(Code::kNoMemory, "image %s: libjpeg-turbo has no memory", name);
  }
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colour_space = 0;
  if (tjDecompressHeader3(reader.get(), data, bytes.size(), &width, &height, &subsampling,
                          &colour_space) != 0) {
    return damaged(name, "JPEG", reader.why());
  }
  if (width <= 0 || height <= 0) return damaged(name, "JPEG", "it holds no picture");
  OUTRIDER_TRY(check_size(name, uint64_t(width), uint64_t(height), max_pixels));
  if (colour_space == TJCS_CMYK || colour_space == TJCS_YCCK) {
    return make_error(Code::kUnsupported,
                      "image %s: a JPEG in CMYK (a printer's file); save it as RGB or gray", name);
  }
  auto image = make_image(name, uint64_t(width), uint64_t(height));
  if (!image) return image;
  // A warning means missing or damaged data that the decoder would paint over; a robot must not act
  // on invented pixels. The number of scans is bounded against files made to take minutes.
  constexpr int kFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT;
  if (tjDecompress2(reader.get(), data, bytes.size(), image.value().rgb.data(), width, width * 3,
                    height, TJPF_RGB, kFlags) != 0) {
    return damaged(name, "JPEG", reader.why());
  }
  return image;
}

}  // namespace

Result<Image> decode_image(Bytes bytes, const char* name, uint64_t max_pixels) {
  if (starts_with(bytes, kPngSignature)) return decode_png(bytes, name, max_pixels);
  if (starts_with(bytes, kJpegSignature)) return decode_jpeg(bytes, name, max_pixels);
  unsigned head[4] = {};
  for (size_t i = 0; i < 4 && i < bytes.size(); ++i) head[i] = std::to_integer<unsigned>(bytes[i]);
  return make_error(
      Code::kNotFound,
      "image %s: neither PNG nor JPEG, %zu bytes beginning %02x %02x %02x %02x; hand in "
      "a PNG or JPEG file",
      name, bytes.size(), head[0], head[1], head[2], head[3]);
}

Result<Image> load_image(const char* path, uint64_t max_pixels) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  return decode_image(file.value().bytes(), path, max_pixels);
}

}  // namespace outrider
