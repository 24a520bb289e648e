#include "vision/image.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>

namespace outrider {
namespace {

constexpr PixelFormat kFormats[] = {PixelFormat::kRgb8, PixelFormat::kBgr8, PixelFormat::kRgba8,
                                    PixelFormat::kBgra8, PixelFormat::kGray8};

// Bytes that end exactly where the next page must not be read, in every build.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t n) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    mapped_ = (n + page - 1) / page * page + page;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = base_ + mapped_ - page - n;
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(base_, mapped_); }
  uint8_t* data() const { return data_; }

 private:
  size_t mapped_ = 0;
  uint8_t *base_ = nullptr, *data_ = nullptr;
};

std::vector<uint8_t> noise(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  return bytes;
}

// Byte offsets of red, green and blue inside a pixel, written out by hand.
struct Order {
  int r, g, b;
};
Order order_of(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgb8:
      return {0, 1, 2};
    case PixelFormat::kBgr8:
      return {2, 1, 0};
    case PixelFormat::kRgba8:
      return {0, 1, 2};
    case PixelFormat::kBgra8:
      return {2, 1, 0};
    case PixelFormat::kGray8:
      return {0, 0, 0};
  }
  return {};
}

std::vector<uint8_t> to_rgb_by_hand(const ImageView& view) {
  const auto* in = static_cast<const uint8_t*>(view.data);
  const int channels = int(pixel_channels(view.format));
  const int64_t stride = view.stride_bytes ? view.stride_bytes : int64_t{view.width} * channels;
  const Order order = order_of(view.format);
  std::vector<uint8_t> rgb;
  for (int y = 0; y < view.height; ++y) {
    for (int x = 0; x < view.width; ++x) {
      const uint8_t* pixel = in + y * stride + x * channels;
      for (const int at : {order.r, order.g, order.b}) rgb.push_back(pixel[at]);
    }
  }
  return rgb;
}

// The result with one sentinel byte on each side, which must survive.
std::vector<uint8_t> convert(const ImageView& view) {
  const size_t n = size_t(view.width) * size_t(view.height) * 3;
  std::vector<uint8_t> guarded(n + 2, 0xa5);
  to_rgb(view, guarded.data() + 1);
  EXPECT_EQ(guarded.front(), 0xa5);
  EXPECT_EQ(guarded.back(), 0xa5);
  return {guarded.begin() + 1, guarded.end() - 1};
}

// A picture in `format` from packed RGB; gray takes the red channel.
std::vector<uint8_t> encode(PixelFormat format, const std::vector<uint8_t>& rgb, uint8_t alpha) {
  const size_t channels = pixel_channels(format);
  const Order order = order_of(format);
  std::vector<uint8_t> out(rgb.size() / 3 * channels, alpha);
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    if (channels == 1) {
      out[i] = rgb[i * 3];
      continue;
    }
    out[i * channels + size_t(order.r)] = rgb[i * 3];
    out[i * channels + size_t(order.g)] = rgb[i * 3 + 1];
    out[i * channels + size_t(order.b)] = rgb[i * 3 + 2];
  }
  return out;
}

ImageView view_of(PixelFormat format, const std::vector<uint8_t>& bytes, int width, int height,
                  int stride = 0) {
  return {format, bytes.data(), bytes.size(), width, height, stride};
}

void expect_refused(const ImageView& view, std::initializer_list<const char*> words) {
  const auto checked = check_image(view, "images[1]");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.code(), Code::kInvalid);
  const std::string text(checked.error().message());
  EXPECT_NE(text.find("images[1]"), std::string::npos) << text;
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << text << "\n" << word;
}

// ------------------------------------------------------------------------------------- FC-12

TEST(FC12, a_float_or_double_buffer_handed_in_as_bytes_is_flagged) {
  const std::vector<uint8_t> bytes(8 * 20 * 10 * 4);
  for (const PixelFormat format : kFormats) {
    const uint64_t row = 20 * pixel_channels(format), packed = row * 10;
    ImageView view{format, bytes.data(), 0, 20, 10, 0};
    for (const uint64_t factor : {4, 8}) {
      for (const uint64_t stride : {uint64_t{0}, row}) {
        view.n_bytes = packed * factor;
        view.stride_bytes = int32_t(stride);
        ASSERT_TRUE(check_image(view, "image"));
        EXPECT_TRUE(looks_like_float_buffer(view)) << factor << " stride " << stride;
      }
    }
  }
}

TEST(FC12, bytes_of_any_other_size_are_not_flagged) {
  const std::vector<uint8_t> bytes(8 * 20 * 10 * 3 + 8);
  for (uint64_t n = 600; n <= 4808; ++n) {
    const ImageView view{PixelFormat::kRgb8, bytes.data(), n, 20, 10, 0};
    ASSERT_TRUE(check_image(view, "image"));
    ASSERT_EQ(looks_like_float_buffer(view), n == 2400 || n == 4800) << n;
  }
}

TEST(FC12, a_quarter_of_a_larger_frame_is_not_taken_for_floats) {
  // The upper left 320 x 240 of 640 x 480: four times the bytes, but rows of 640 pixels.
  const std::vector<uint8_t> frame(640 * 480 * 3);
  const ImageView view{PixelFormat::kRgb8, frame.data(), frame.size(), 320, 240, 1920};
  ASSERT_TRUE(check_image(view, "image"));
  EXPECT_FALSE(looks_like_float_buffer(view));
}

TEST(FC14, one_of_four_cameras_side_by_side_is_not_taken_for_floats) {
  const std::vector<uint8_t> frame(4 * 56 * 56 * 3);
  const ImageView view{PixelFormat::kRgb8, frame.data(), frame.size(), 56, 56, 4 * 56 * 3};
  ASSERT_TRUE(check_image(view, "image"));
  EXPECT_FALSE(looks_like_float_buffer(view));
}

TEST(FC12, sizes_near_the_end_of_64_bits_do_not_wrap_into_a_match) {
  const uint8_t byte = 0;
  ImageView view{PixelFormat::kGray8, &byte, UINT64_MAX, INT32_MAX, INT32_MAX, 0};
  ASSERT_TRUE(check_image(view, "image"));
  EXPECT_FALSE(looks_like_float_buffer(view));
  view.n_bytes = uint64_t{INT32_MAX} * INT32_MAX * 4;  // fits
  EXPECT_TRUE(looks_like_float_buffer(view));
  view.n_bytes *= 2;  // wraps
  EXPECT_FALSE(looks_like_float_buffer(view));
}

TEST(FC12, every_pixel_value_scales_to_the_interval_from_minus_one_to_one) {
  std::vector<uint8_t> u8(256);
  for (int i = 0; i < 256; ++i) u8[size_t(i)] = uint8_t(i);
  std::vector<float> scaled(256, 7.0f);
  scale_pixels(u8.data(), u8.size(), scaled.data());
  EXPECT_EQ(scaled[0], -1.0f);
  EXPECT_EQ(scaled[255], 1.0f);
  for (int i = 0; i < 256; ++i) {
    // Three roundings of values up to 2: at most 3 half units of 2^-23.
    EXPECT_NEAR(scaled[size_t(i)], i / 127.5 - 1, 1.5 * 0x1p-23) << i;
    EXPECT_TRUE(i == 0 || scaled[size_t(i)] > scaled[size_t(i) - 1]) << i;
  }
}

// ------------------------------------------------------------------------------------- FC-13

TEST(FC13, pure_colours_and_a_ramp_give_the_same_rgb_in_every_format) {
  std::vector<uint8_t> rgb = {255, 0, 0, 0, 255, 0, 0, 0, 255};
  for (int v = 0; v < 256; ++v) rgb.insert(rgb.end(), 3, uint8_t(v));
  const int width = int(rgb.size() / 3);
  for (const PixelFormat format : kFormats) {
    if (format == PixelFormat::kGray8) continue;
    for (const int alpha : {0, 128, 255}) {
      const auto bytes = encode(format, rgb, uint8_t(alpha));
      EXPECT_EQ(convert(view_of(format, bytes, width, 1)), rgb)
          << "format " << int(format) << " alpha " << alpha;
    }
  }
}

TEST(FC13, gray_is_replicated) {
  std::vector<uint8_t> gray(256), rgb;
  for (int v = 0; v < 256; ++v) {
    gray[size_t(v)] = uint8_t(v);
    rgb.insert(rgb.end(), 3, uint8_t(v));
  }
  EXPECT_EQ(convert(view_of(PixelFormat::kGray8, gray, 16, 16)), rgb);
}

TEST(FC13, an_unknown_format_is_refused_and_the_allowed_ones_are_named) {
  const std::vector<uint8_t> bytes(64);
  for (const uint32_t number : {5u, 6u, 255u, 0x7fffffffu, 0xffffffffu}) {
    const auto format = PixelFormat(number);
    EXPECT_EQ(pixel_channels(format), 0u);
    expect_refused(view_of(format, bytes, 2, 2),
                   {("pixel format " + std::to_string(int(number))).c_str(), "RGB8", "GRAY8"});
  }
}

TEST(ToRgb, equals_the_definition_for_every_format_width_and_stride) {
  for (const PixelFormat format : kFormats) {
    const int channels = int(pixel_channels(format));
    for (int width = 1; width <= 37; ++width) {
      for (const int padding : {0, 1, 2, 3, 5, 64}) {
        for (const int height : {1, 2, 5}) {
          const int stride = width * channels + padding;
          const size_t needed = size_t(stride) * size_t(height - 1) + size_t(width * channels);
          const GuardedBytes exact(needed);  // ends at a page that must not be read
          const auto bytes = noise(needed, uint32_t(width * 100 + padding));
          std::memcpy(exact.data(), bytes.data(), needed);
          const ImageView view{format, exact.data(), needed, width, height, stride};
          ASSERT_TRUE(check_image(view, "image"));
          ASSERT_EQ(convert(view), to_rgb_by_hand(view))
              << "format " << int(format) << " " << width << "x" << height << " +" << padding;
        }
      }
    }
  }
}

// ------------------------------------------------------------------------------------- FC-14

TEST(FC14, padded_rows_give_what_a_packed_copy_gives) {
  constexpr int kWidth = 1640, kHeight = 1232;
  for (const int stride : {4920, 4928, 5056}) {
    const size_t needed =
        size_t(stride) * (kHeight - 1) + kWidth * 3;  // the last row has no padding
    const GuardedBytes padded(needed);
    const auto bytes = noise(needed, uint32_t(stride));
    std::memcpy(padded.data(), bytes.data(), needed);
    std::vector<uint8_t> packed;
    for (int y = 0; y < kHeight; ++y) {
      packed.insert(packed.end(), padded.data() + y * stride,
                    padded.data() + y * stride + kWidth * 3);
    }
    const ImageView view{PixelFormat::kRgb8, padded.data(), needed, kWidth, kHeight, stride};
    ASSERT_TRUE(check_image(view, "image"));
    EXPECT_EQ(convert(view), packed) << stride;
    EXPECT_EQ(convert(view_of(PixelFormat::kRgb8, packed, kWidth, kHeight)), packed);
  }
}

TEST(FC14, a_buffer_one_byte_short_is_refused_with_both_numbers) {
  const std::vector<uint8_t> bytes(4928 * 1232);
  const uint64_t needed = uint64_t{4928} * 1231 + 4920;
  ImageView view{PixelFormat::kRgb8, bytes.data(), needed, 1640, 1232, 4928};
  EXPECT_TRUE(check_image(view, "image"));
  view.n_bytes = needed - 1;
  expect_refused(view, {std::to_string(needed).c_str(), std::to_string(needed - 1).c_str()});
}

TEST(FC14, a_stride_below_one_row_or_negative_is_refused) {
  const std::vector<uint8_t> bytes(100000);
  for (const PixelFormat format : kFormats) {
    const int row = 100 * int(pixel_channels(format));
    EXPECT_TRUE(check_image(view_of(format, bytes, 100, 50, row), "image"));
    EXPECT_TRUE(check_image(view_of(format, bytes, 100, 50, 0), "image"));
    expect_refused(view_of(format, bytes, 100, 50, row - 1),
                   {std::to_string(row - 1).c_str(), std::to_string(row).c_str()});
    expect_refused(view_of(format, bytes, 100, 50, 1), {"stride 1 "});
    expect_refused(view_of(format, bytes, 100, 50, -row), {"negative"});
    expect_refused(view_of(format, bytes, 100, 50, INT32_MIN), {"negative", "-2147483648"});
  }
}

TEST(FC14, width_or_height_of_zero_or_less_is_refused) {
  const std::vector<uint8_t> bytes(100);
  for (const int side : {0, -1, INT32_MIN}) {
    expect_refused(view_of(PixelFormat::kRgb8, bytes, side, 2), {std::to_string(side).c_str()});
    expect_refused(view_of(PixelFormat::kRgb8, bytes, 2, side), {std::to_string(side).c_str()});
  }
}

TEST(FC14, a_null_pointer_is_refused) {
  expect_refused({PixelFormat::kRgb8, nullptr, 100, 2, 2, 0}, {"null"});
}

TEST(FC14, sizes_whose_product_passes_32_bits_are_computed_in_full) {
  const std::vector<uint8_t> bytes(100);
  // 65536 * 65536 * 4 is 0 in 32 bits; 2147483647^2 * 4 passes 63 bits.
  expect_refused(view_of(PixelFormat::kRgba8, bytes, 65536, 65536), {"17179869184", "100"});
  expect_refused(view_of(PixelFormat::kRgba8, bytes, INT32_MAX, INT32_MAX),
                 {"18446744056529682436"});
  expect_refused(view_of(PixelFormat::kGray8, bytes, 1, INT32_MAX, INT32_MAX),
                 {"4611686011984936963"});
}

TEST(FC14, exchanged_width_and_height_are_caught_where_the_stride_tells) {
  const std::vector<uint8_t> bytes(1640 * 3 * 1232);
  expect_refused(view_of(PixelFormat::kRgb8, bytes, 1640, 1232, 1232 * 3), {"3696", "4920"});
  expect_refused(view_of(PixelFormat::kRgb8, bytes, 1232, 1640, 1640 * 3),
                 {"bytes given", "needed"});
}

TEST(FC14, a_window_into_a_larger_frame_equals_the_cut_out_copy) {
  const auto frame = noise(64 * 48 * 3, 5);
  const uint8_t* corner = frame.data() + (7 * 64 + 11) * 3;
  const uint64_t rest = uint64_t(frame.data() + frame.size() - corner);
  const ImageView window{PixelFormat::kRgb8, corner, rest, 20, 10, 64 * 3};
  ASSERT_TRUE(check_image(window, "image"));
  EXPECT_EQ(convert(window), to_rgb_by_hand(window));
}

}  // namespace
}  // namespace outrider
