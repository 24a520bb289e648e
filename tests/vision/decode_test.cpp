#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "encode.h"
#include "support/temp_dir.h"
#include "vision/image.h"

namespace outrider {
namespace {

using test::Bytes;
using test::JpegKind;
using test::PngKind;

Result<Image> decode(const Bytes& file, uint64_t max_pixels = 1 << 20) {
  return decode_image(std::as_bytes(std::span(file)), "camera.png", max_pixels);
}

Bytes noise(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(n);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  return bytes;
}

int n_samples(int colour_type) {
  switch (colour_type) {
    case 2:
      return 3;
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 1;
  }
}

// Sample `i` of a packed row as the file stores it, 1 to 16 bits, big endian.
int sample(const uint8_t* row, int bit_depth, int i) {
  if (bit_depth == 16) return row[2 * i] << 8 | row[2 * i + 1];
  const int bit = i * bit_depth;
  return row[bit / 8] >> (8 - bit_depth - bit % 8) & ((1 << bit_depth) - 1);
}

// The level between 0 and 255 nearest to value / (2^bits - 1).
uint8_t to_8_bits(int value, int bit_depth) {
  const int max = (1 << bit_depth) - 1;
  return uint8_t((value * 255 + max / 2) / max);
}

Bytes expected_rgb(const PngKind& kind, int width, int height, const Bytes& rows) {
  const int n = n_samples(kind.colour_type);
  const size_t row_bytes = rows.size() / size_t(height);
  Bytes rgb;
  for (int y = 0; y < height; ++y) {
    const uint8_t* row = rows.data() + size_t(y) * row_bytes;
    for (int x = 0; x < width; ++x) {
      if (kind.colour_type == 3) {
        uint8_t entry[3];
        test::palette_entry(sample(row, kind.bit_depth, x), entry);
        rgb.insert(rgb.end(), entry, entry + 3);
        continue;
      }
      for (int c = 0; c < 3; ++c) {
        const int at = x * n + (n < 3 ? 0 : c);
        rgb.push_back(to_8_bits(sample(row, kind.bit_depth, at), kind.bit_depth));
      }
    }
  }
  return rgb;
}

Bytes rows_for(const PngKind& kind, int width, int height, uint32_t seed) {
  const int row_bits = width * n_samples(kind.colour_type) * kind.bit_depth;
  return noise(size_t((row_bits + 7) / 8 * height), seed);
}

// Every colour type with every depth that the format allows, plain, interlaced and see-through.
std::vector<PngKind> every_kind() {
  std::vector<PngKind> kinds;
  const std::pair<int, std::vector<int>> allowed[] = {
      {0, {1, 2, 4, 8, 16}}, {2, {8, 16}}, {3, {1, 2, 4, 8}}, {4, {8, 16}}, {6, {8, 16}}};
  for (const auto& [colour_type, depths] : allowed) {
    for (const int depth : depths) {
      for (const bool interlaced : {false, true}) {
        kinds.push_back({colour_type, depth, interlaced, false});
        if (colour_type < 4) kinds.push_back({colour_type, depth, interlaced, true});
      }
    }
  }
  return kinds;
}

std::string text_of(const PngKind& kind) {
  return "colour type " + std::to_string(kind.colour_type) + " depth " +
         std::to_string(kind.bit_depth) + (kind.interlaced ? " interlaced" : "") +
         (kind.transparency ? " tRNS" : "");
}

TEST(DecodePng, every_kind_and_small_size_gives_the_pixels_that_were_written) {
  for (const PngKind& kind : every_kind()) {
    for (const auto& [width, height] : {std::pair{1, 1}, {2, 1}, {1, 3}, {7, 5}, {8, 8}, {33, 9}}) {
      const Bytes rows = rows_for(kind, width, height, uint32_t(width));
      const auto image = decode(test::write_png(kind, width, height, rows));
      ASSERT_TRUE(image) << text_of(kind) << ": " << image.error().message();
      EXPECT_EQ(image.value().width, width);
      EXPECT_EQ(image.value().height, height);
      ASSERT_EQ(image.value().rgb, expected_rgb(kind, width, height, rows))
          << text_of(kind) << " " << width << "x" << height;
    }
  }
}

TEST(DecodePng, a_file_cut_anywhere_is_refused) {
  for (const PngKind& kind : {PngKind{2, 8}, PngKind{6, 16, true}, PngKind{3, 4, false, true}}) {
    const Bytes file = test::write_png(kind, 9, 7, rows_for(kind, 9, 7, 1));
    for (size_t n = 0; n < file.size(); ++n) {
      const auto image = decode(Bytes(file.begin(), file.begin() + long(n)));
      ASSERT_FALSE(image) << n << " of " << file.size();
      EXPECT_EQ(image.code(), Code::kNotFound) << n;
      EXPECT_NE(image.error().message().find("camera.png"), std::string_view::npos) << n;
    }
  }
}

TEST(DecodePng, one_flipped_bit_anywhere_is_refused) {
  const PngKind kind{2, 8};
  const Bytes file = test::write_png(kind, 5, 4, rows_for(kind, 5, 4, 2));
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    Bytes flipped = file;
    flipped[bit / 8] ^= uint8_t(1 << bit % 8);
    ASSERT_FALSE(decode(flipped)) << "byte " << bit / 8 << " bit " << bit % 8;
  }
}

TEST(DecodePng, a_size_above_the_limit_is_refused_before_memory_is_taken) {
  const PngKind kind{2, 8};
  Bytes file = test::write_png(kind, 4, 4, rows_for(kind, 4, 4, 3));
  EXPECT_TRUE(decode(file, 16));
  EXPECT_EQ(decode(file, 15).code(), Code::kShape);
  test::forge_png_size(&file, 0x7fffffff, 0x7fffffff);
  const auto image = decode_image(std::as_bytes(std::span(file)), "huge.png");
  ASSERT_FALSE(image);
  EXPECT_EQ(image.code(), Code::kShape);
  for (const char* word : {"huge.png", "2147483647", "67108864"}) {
    EXPECT_NE(image.error().message().find(word), std::string_view::npos) << image.error().text;
  }
}

TEST(DecodePng, a_size_that_the_file_cannot_hold_is_refused_before_memory_is_taken) {
  const PngKind kind{2, 8};
  Bytes file = test::write_png(kind, 4, 4, rows_for(kind, 4, 4, 3));
  test::forge_png_size(&file, 8000, 8000);  // 192 MB from a file of a hundred bytes
  const auto image = decode_image(std::as_bytes(std::span(file)), "bomb.png");
  ASSERT_FALSE(image);
  EXPECT_EQ(image.code(), Code::kNotFound);
  EXPECT_NE(image.error().message().find("too short"), std::string_view::npos);
}

TEST(DecodePng, the_best_packed_picture_is_not_taken_for_a_forged_one) {
  const PngKind kind{0,
                     1};  // all black, one bit a pixel: as near to the limit of deflate as it goes
  const auto image = decode(test::write_png(kind, 8192, 4096, Bytes(1024 * 4096)), 1 << 25);
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image.value().rgb, Bytes(8192 * 4096 * 3));
}

TEST(DecodePng, a_size_of_zero_is_refused) {
  const PngKind kind{2, 8};
  Bytes file = test::write_png(kind, 4, 4, rows_for(kind, 4, 4, 3));
  test::forge_png_size(&file, 0, 4);
  EXPECT_EQ(decode(file).code(), Code::kNotFound);
}

// ------------------------------------------------------------------------------------- JPEG

Bytes smooth(int width, int height, bool gray = false) {
  Bytes rgb;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) rgb.push_back(uint8_t(60 + 2 * x + y + (gray ? 0 : 20 * c)));
    }
  }
  return rgb;
}

TEST(DecodeJpeg, baseline_progressive_and_gray_give_the_picture_back) {
  for (const bool progressive : {false, true}) {
    for (const bool gray : {false, true}) {
      for (const auto& [width, height] : {std::pair{1, 1}, {8, 8}, {17, 9}, {40, 30}}) {
        const Bytes rgb = smooth(width, height, gray);
        const auto image = decode(test::write_jpeg({progressive, gray}, width, height, rgb));
        ASSERT_TRUE(image) << image.error().message();
        ASSERT_EQ(image.value().rgb.size(), rgb.size());
        // Quality 100 rounds luma, two chromas and their coefficients to whole steps. Blue hears of
        // its chroma 1.772 times: (0.5 + 0.5) * (1 + 1.772) plus the last rounding is below 4.
        for (size_t i = 0; i < rgb.size(); ++i) ASSERT_NEAR(image.value().rgb[i], rgb[i], 4) << i;
      }
    }
  }
}

TEST(DecodeJpeg, a_file_cut_anywhere_is_refused) {
  for (const bool progressive : {false, true}) {
    const Bytes file = test::write_jpeg({progressive}, 20, 17, noise(20 * 17 * 3, 5));
    ASSERT_TRUE(decode(file));
    for (size_t n = 0; n < file.size(); ++n) {
      const auto image = decode(Bytes(file.begin(), file.begin() + long(n)));
      ASSERT_FALSE(image) << n << " of " << file.size() << (progressive ? " progressive" : "");
      EXPECT_EQ(image.code(), Code::kNotFound) << n << ": " << image.error().text;
    }
  }
}

TEST(DecodeJpeg, flipped_bits_give_a_picture_of_the_stated_size_or_an_error) {
  for (const bool progressive : {false, true}) {
    const Bytes file = test::write_jpeg({progressive}, 12, 9, smooth(12, 9));
    for (size_t bit = 0; bit < file.size() * 8; ++bit) {
      Bytes flipped = file;
      flipped[bit / 8] ^= uint8_t(1 << bit % 8);
      const auto image = decode(flipped);
      if (!image) continue;
      const auto& found = image.value();
      ASSERT_EQ(found.rgb.size(), size_t(found.width) * size_t(found.height) * 3) << bit;
    }
  }
}

TEST(DecodeJpeg, a_printers_file_in_cmyk_is_refused_in_words) {
  const auto image = decode(test::write_jpeg({false, false, true}, 8, 8, Bytes(8 * 8 * 4, 100)));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.code(), Code::kUnsupported);
  EXPECT_NE(image.error().message().find("CMYK"), std::string_view::npos);
}

TEST(DecodeJpeg, a_size_above_the_limit_is_refused) {
  const Bytes file = test::write_jpeg({}, 8, 8, smooth(8, 8));
  EXPECT_TRUE(decode(file, 64));
  EXPECT_EQ(decode(file, 63).code(), Code::kShape);
}

// ------------------------------------------------------------------------------------- both

TEST(DecodeImage, what_is_neither_png_nor_jpeg_is_refused_with_its_first_bytes) {
  for (const Bytes& file :
       {Bytes{}, Bytes{0xff}, Bytes{'G', 'I', 'F', '8', '9', 'a'}, Bytes(100, 0)}) {
    const auto image = decode(file);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.code(), Code::kNotFound);
    EXPECT_NE(image.error().message().find("neither PNG nor JPEG"), std::string_view::npos);
  }
  EXPECT_NE(decode({'G', 'I', 'F', '8'}).error().message().find("47 49 46 38"),
            std::string_view::npos);
}

TEST(DecodeImage, the_first_bytes_decide_not_the_name) {
  const Bytes file = test::write_jpeg({}, 8, 8, smooth(8, 8));
  EXPECT_TRUE(decode(file)) << "a JPEG called camera.png";
}

TEST(FC13, a_picture_from_a_file_equals_the_same_pixels_from_memory) {
  const test::TempDir folder;
  const Bytes rgb = noise(31 * 17 * 3, 8);
  const Bytes png = test::write_png({2, 8}, 31, 17, rgb);
  std::ofstream(folder.file("a.png"), std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), long(png.size()));

  const auto from_file = load_image(folder.file("a.png").c_str());
  const auto missing = load_image(folder.file("b.png").c_str());
  ASSERT_TRUE(from_file) << from_file.error().message();
  Bytes from_memory(rgb.size());
  to_rgb({PixelFormat::kRgb8, rgb.data(), rgb.size(), 31, 17, 0}, from_memory.data());
  EXPECT_EQ(from_file.value().rgb, from_memory);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
