#include "vision/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "count_news.h"

namespace outrider {
namespace {

using Bytes = std::vector<uint8_t>;

struct Size {
  int width, height;
};

Bytes noise(Size size, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size_t(size.width) * size_t(size.height) * 3);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  return bytes;
}

// Slow changes, so that rounding, not noise, decides the levels.
Bytes ramp(Size size) {
  Bytes bytes;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < 3; ++c) bytes.push_back(uint8_t((x * (c + 1) + y * (3 - c)) / 2));
    }
  }
  return bytes;
}

Bytes run(ResizeRule rule, const Bytes& src, Size from, Size to) {
  auto resizer = Resizer::make(rule, from.width, from.height, to.width, to.height);
  EXPECT_TRUE(resizer) << resizer.error().message();
  if (!resizer) return {};
  const size_t n = size_t(to.width) * size_t(to.height) * 3;
  Bytes guarded(n + 2, 0xa5);
  resizer.value().run(src.data(), guarded.data() + 1);
  EXPECT_EQ(guarded.front(), 0xa5);
  EXPECT_EQ(guarded.back(), 0xa5);
  return {guarded.begin() + 1, guarded.end() - 1};
}

// ---------------------------------------------------------------- oracles, after the text alone

// pi-policy.md 3.1, variant A: one axis, n_lines lines of n_in values `step` apart.
Bytes pil_axis(const Bytes& in, int n_in, int n_out, int n_lines, bool horizontal) {
  if (n_in == n_out) return in;
  Bytes out(size_t(n_out) * size_t(n_lines) * 3);
  const double scale = double(n_in) / n_out, f = std::max(scale, 1.0), support = f;
  for (int o = 0; o < n_out; ++o) {
    const double c = (o + 0.5) * scale;
    const int lo = std::max(int(c - support + 0.5), 0), hi = std::min(int(c + support + 0.5), n_in);
    std::vector<double> w;
    for (int x = 0; x < hi - lo; ++x)
      w.push_back(std::max(0.0, 1 - std::abs((x + lo - c + 0.5) / f)));
    double total = 0;
    for (double each : w) total += each;
    for (int line = 0; line < n_lines; ++line) {
      for (int ch = 0; ch < 3; ++ch) {
        int64_t sum = int64_t{1} << 21;
        for (int x = 0; x < hi - lo; ++x) {
          const int at = horizontal ? line * n_in + lo + x : (lo + x) * n_lines + line;
          sum += int64_t(w[size_t(x)] / total * 4194304 + 0.5) * in[size_t(at) * 3 + size_t(ch)];
        }
        const int to = horizontal ? line * n_out + o : o * n_lines + line;
        out[size_t(to) * 3 + size_t(ch)] = uint8_t(std::clamp<int64_t>(sum >> 22, 0, 255));
      }
    }
  }
  return out;
}

// The exact values of a triangle-filtered content picture before rounding, in double throughout.
std::vector<double> triangle_weights(int n_in, int n_out, int o) {
  const double inverse = double(n_in) / n_out, ks = std::max(inverse, 1.0);
  const double sample = (o + 0.5) * inverse - 0.5;
  std::vector<double> w;
  double total = 0;
  for (int i = 0; i < n_in; ++i) {
    w.push_back(std::max(0.0, 1 - std::abs(sample - i) / ks));
    total += w.back();
  }
  for (double& each : w) each /= total;
  return w;
}

std::vector<double> triangle(const Bytes& in, Size from, Size to) {
  std::vector<double> tall(size_t(to.height) * size_t(from.width) * 3), out;
  for (int y = 0; y < to.height; ++y) {
    const auto w = triangle_weights(from.height, to.height, y);
    for (int i = 0; i < from.width * 3; ++i) {
      double sum = 0;
      for (int r = 0; r < from.height; ++r)
        sum += w[size_t(r)] * in[size_t(r * from.width * 3 + i)];
      tall[size_t(y * from.width * 3 + i)] = sum;
    }
  }
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      const auto w = triangle_weights(from.width, to.width, x);
      for (int c = 0; c < 3; ++c) {
        double sum = 0;
        for (int i = 0; i < from.width; ++i) {
          sum += w[size_t(i)] * tall[size_t((y * from.width + i) * 3 + c)];
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

template <class T>
std::vector<T> frame(const std::vector<T>& content, ContentRect rect, Size to, T bar) {
  std::vector<T> out(size_t(to.width) * size_t(to.height) * 3, bar);
  for (int y = 0; y < rect.height; ++y) {
    std::copy_n(content.begin() + y * rect.width * 3, rect.width * 3,
                out.begin() + ((rect.y + y) * to.width + rect.x) * 3);
  }
  return out;
}

struct Case {
  Size from, to;
  ContentRect rect;  // for the double rules and kJetsonPi alike
};

// Rectangles worked out by hand: sides / max ratio, truncated; offsets halved, rounded down.
const Case kCases[] = {
    {{20, 12}, {16, 16}, {0, 3, 16, 9}},
    {{5, 7}, {16, 16}, {2, 0, 11, 16}},
    {{40, 30}, {16, 16}, {0, 2, 16, 12}},
    {{32, 32}, {24, 24}, {0, 0, 24, 24}},
    {{16, 16}, {16, 16}, {0, 0, 16, 16}},
    {{13, 21}, {10, 10}, {2, 0, 6, 10}},
    {{20, 15}, {11, 8}, {0, 0, 10, 8}},
    {{1, 1}, {7, 5}, {1, 0, 5, 5}},
    {{2, 2}, {1, 1}, {0, 0, 1, 1}},
    {{33, 17}, {33, 40}, {0, 11, 33, 17}},
    {{80, 48}, {56, 56}, {0, 11, 56, 33}},
    {{200, 100}, {10, 10}, {0, 2, 10, 5}},
    {{300, 200}, {297, 299}, {0, 50, 297, 198}},
};

TEST(ResizePil, equals_the_definition_bit_for_bit) {
  for (const Case& c : kCases) {
    for (const Bytes& src : {noise(c.from, 3), ramp(c.from), Bytes(noise(c.from, 3).size(), 255)}) {
      Bytes content = pil_axis(src, c.from.width, c.rect.width, c.from.height, true);
      content = pil_axis(content, c.from.height, c.rect.height, c.rect.width, false);
      EXPECT_EQ(run(ResizeRule::kPil, src, c.from, c.to), frame(content, c.rect, c.to, uint8_t{0}))
          << c.from.width << "x" << c.from.height << " -> " << c.to.width << "x" << c.to.height;
    }
  }
}

// How far rounding can move a value before the last step, in gray levels, with half unit u. A
// sample position comes from three rounded steps: off by 3 u * side. That moves the up to 2 ks
// weights under the triangle by 3 u * side / ks each, and their sum by as much again: 12 u * side
// of 255 levels for each axis. Weights and sums round fewer than 4 times a tap besides.
double slack_of(Size from, double u) {
  const int sides = from.width + from.height;
  return 255 * u * (12 * sides + 4 * sides);
}
constexpr double kFloatUnit = 0x1p-24, kDoubleUnit = 0x1p-53;

// Exact where the value is further from a half than rounding can move it; either neighbour else.
void expect_rounded(const Bytes& found, const std::vector<double>& exact, ContentRect rect, Size to,
                    double slack) {
  int n_ties = 0;
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      const bool inside =
          x >= rect.x && x < rect.x + rect.width && y >= rect.y && y < rect.y + rect.height;
      for (int c = 0; c < 3; ++c) {
        const int level = found[size_t((y * to.width + x) * 3 + c)];
        if (!inside) {
          ASSERT_EQ(level, 0) << x << "," << y;
          continue;
        }
        const double value = exact[size_t(((y - rect.y) * rect.width + x - rect.x) * 3 + c)];
        n_ties += std::abs(value - std::floor(value) - 0.5) < slack;
        ASSERT_NEAR(level, value, 0.5 + slack) << x << "," << y;
      }
    }
  }
  EXPECT_LT(n_ties * 2, rect.width * rect.height * 3) << "too little was decided by this picture";
}

TEST(ResizeJetsonPi, equals_the_definition_where_rounding_does_not_decide) {
  for (const Case& c : kCases) {
    const Bytes src = noise(c.from, 11);
    const auto exact = triangle(src, c.from, {c.rect.width, c.rect.height});
    SCOPED_TRACE(std::to_string(c.from.width) + "x" + std::to_string(c.from.height));
    expect_rounded(run(ResizeRule::kJetsonPi, src, c.from, c.to), exact, c.rect, c.to,
                   slack_of(c.from, kFloatUnit));
  }
}

TEST(ResizeJax, equals_the_definition_where_rounding_does_not_decide) {
  for (const Case& c : kCases) {
    const Bytes src = noise(c.from, 12);
    const auto exact = triangle(src, c.from, {c.rect.width, c.rect.height});
    SCOPED_TRACE(std::to_string(c.from.width) + "x" + std::to_string(c.from.height));
    expect_rounded(run(ResizeRule::kJax, src, c.from, c.to), exact, c.rect, c.to,
                   slack_of(c.from, 2 * kDoubleUnit));  // the oracle rounds too
  }
}

// 2 x 1 -> 1 x 1 has the weights 1/2 and 1/2: every sum of an odd pair is an exact half.
TEST(Resize, exact_halves_go_to_even_under_jax_and_up_under_pil_and_jetson) {
  for (int v = 0; v < 255; ++v) {
    const uint8_t low = uint8_t(v), high = uint8_t(v + 1);
    const Bytes src = {low, low, low, high, high, high, low, low, low, high, high, high};
    const int even = v % 2 == 0 ? v : v + 1;
    EXPECT_EQ(run(ResizeRule::kJax, src, {2, 2}, {1, 1}), Bytes(3, uint8_t(even))) << v;
    EXPECT_EQ(run(ResizeRule::kJetsonPi, src, {2, 2}, {1, 1}), Bytes(3, high)) << v;
    EXPECT_EQ(run(ResizeRule::kPil, src, {2, 2}, {1, 1}), Bytes(3, high)) << v;
  }
}

TEST(ResizeJetsonPi, the_view_of_the_recorded_case_is_resampled_as_the_text_says) {
  const char* shared = std::getenv("OUTRIDER_SHARED");
  const std::string root = shared ? shared : OUTRIDER_SOURCE_DIR "/../shared";
  std::ifstream file(root + "/golden/pi05_resize_one_view/images.u8", std::ios::binary);
  if (!file) GTEST_SKIP() << "no golden/pi05_resize_one_view under " << root;
  const Bytes src{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(src.size(), 80u * 48 * 3);
  for (const int side : {56, 224}) {
    const auto fit = fit_content(ResizeRule::kJetsonPi, 80, 48, side, side);
    ASSERT_TRUE(fit);
    const auto exact = triangle(src, {80, 48}, {fit.value().width, fit.value().height});
    expect_rounded(run(ResizeRule::kJetsonPi, src, {80, 48}, {side, side}), exact, fit.value(),
                   {side, side}, slack_of({80, 48}, kFloatUnit));
  }
}

// ------------------------------------------------------------------------------------- torch

TEST(ResizeTorch, equals_bilinear_interpolation_between_pixel_centres) {
  for (const Case& c : kCases) {
    const Bytes src = noise(c.from, 21);
    std::vector<double> content;
    for (int y = 0; y < c.rect.height; ++y) {
      for (int x = 0; x < c.rect.width; ++x) {
        const double sx = std::max((x + 0.5) * c.from.width / c.rect.width - 0.5, 0.0);
        const double sy = std::max((y + 0.5) * c.from.height / c.rect.height - 0.5, 0.0);
        const int x0 = int(sx), y0 = int(sy);
        const int x1 = std::min(x0 + 1, c.from.width - 1), y1 = std::min(y0 + 1, c.from.height - 1);
        for (int ch = 0; ch < 3; ++ch) {
          const auto at = [&](int px, int py) {
            return src[size_t((py * c.from.width + px) * 3 + ch)] / 127.5 - 1;
          };
          const double above = at(x0, y0) + (sx - x0) * (at(x1, y0) - at(x0, y0));
          const double below = at(x0, y1) + (sx - x0) * (at(x1, y1) - at(x0, y1));
          content.push_back(above + (sy - y0) * (below - above));
        }
      }
    }
    const auto expected = frame(content, c.rect, c.to, -1.0);
    std::vector<float> found(expected.size(), 9.0f);
    ASSERT_TRUE(resize_torch(src.data(), c.from.width, c.from.height, found.data(), c.to.width,
                             c.to.height));
    // A position below 512 in f32 is off by at most 3 half units of 2^-15 (scale, product, half),
    // and neighbours differ by at most 2, on each axis; the blend itself adds less than 1e-6.
    constexpr double kTolerance = 2 * 2 * 1.5 * 0x1p-15 + 1e-6;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], kTolerance) << i;
  }
}

// ------------------------------------------------------------------------------------- FC-17

struct Letterbox {
  Size from;
  ContentRect rect;
};
const Letterbox kInto224[] = {
    {{640, 480}, {0, 28, 224, 168}},  {{480, 640}, {28, 0, 168, 224}},
    {{1280, 720}, {0, 49, 224, 126}}, {{224, 224}, {0, 0, 224, 224}},
    {{223, 224}, {0, 0, 223, 224}},   {{224, 221}, {0, 1, 224, 221}},
};

bool inside(ContentRect r, int i) {
  const int x = i / 3 % 224, y = i / 3 / 224;
  return x >= r.x && x < r.x + r.width && y >= r.y && y < r.y + r.height;
}

TEST(FC17, bars_are_zero_and_a_white_picture_stays_white_under_every_8_bit_rule) {
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    for (const Letterbox& box : kInto224) {
      const Bytes white(size_t(box.from.width) * size_t(box.from.height) * 3, 255);
      const Bytes out = run(rule, white, box.from, {224, 224});
      ASSERT_EQ(out.size(), 224u * 224 * 3);
      for (int i = 0; i < 224 * 224 * 3; ++i) {
        ASSERT_EQ(out[size_t(i)], inside(box.rect, i) ? 255 : 0)
            << "rule " << int(rule) << " " << box.from.width << "x" << box.from.height << " at "
            << i;
      }
    }
  }
}

TEST(FC17, bars_are_minus_one_once_and_nothing_leaves_the_interval_under_torch) {
  for (const Letterbox& box : kInto224) {
    const Bytes white(size_t(box.from.width) * size_t(box.from.height) * 3, 255);
    std::vector<float> out(224 * 224 * 3, 9.0f);
    ASSERT_TRUE(resize_torch(white.data(), box.from.width, box.from.height, out.data(), 224, 224));
    for (int i = 0; i < 224 * 224 * 3; ++i) {
      if (inside(box.rect, i)) {
        // (1 - p) + p of 1 may round down by one unit on each axis, never above 1.
        ASSERT_NEAR(out[size_t(i)], 1.0, 0x1p-22) << i;
        ASSERT_LE(out[size_t(i)], 1.0f);
      } else {
        ASSERT_EQ(out[size_t(i)], -1.0f) << i;
      }
    }
  }
}

TEST(FC17, a_sliver_keeps_one_column_under_every_rule) {
  const Bytes white(3 * 1000 * 3, 255);
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    const Bytes out = run(rule, white, {3, 1000}, {224, 224});
    for (int i = 0; i < 224 * 224 * 3; ++i) {
      ASSERT_EQ(out[size_t(i)], inside({111, 0, 1, 224}, i) ? 255 : 0) << i;
    }
  }
  std::vector<float> floats(224 * 224 * 3);
  ASSERT_TRUE(resize_torch(white.data(), 3, 1000, floats.data(), 224, 224));
  for (int i = 0; i < 224 * 224 * 3; ++i) {
    ASSERT_EQ(floats[size_t(i)], inside({111, 0, 1, 224}, i) ? 1.0f : -1.0f) << i;
  }
}

TEST(FC17, the_content_rectangle_is_told_before_any_pixel_is_moved) {
  for (const Letterbox& box : kInto224) {
    for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
      auto made = Resizer::make(rule, box.from.width, box.from.height, 224, 224);
      ASSERT_TRUE(made);
      EXPECT_EQ(made.value().content_x(), box.rect.x);
      EXPECT_EQ(made.value().content_y(), box.rect.y);
      EXPECT_EQ(made.value().content_width(), box.rect.width);
      EXPECT_EQ(made.value().content_height(), box.rect.height);
    }
  }
}

// 29 / (29 / 224) is 223.99999999999997 in double and 224 in f32; 39 is the other way round.
TEST(FC17, the_truncation_of_a_rounded_quotient_follows_the_reference) {
  EXPECT_EQ(fit_content(ResizeRule::kPil, 29, 29, 224, 224).value().width, 223);
  EXPECT_EQ(fit_content(ResizeRule::kJetsonPi, 29, 29, 224, 224).value().width, 224);
  EXPECT_EQ(fit_content(ResizeRule::kPil, 39, 39, 224, 224).value().width, 224);
  EXPECT_EQ(fit_content(ResizeRule::kJetsonPi, 39, 39, 224, 224).value().width, 223);
}

// ------------------------------------------------------------------------------------- the object

TEST(Resizer, sizes_out_of_range_are_refused_and_named) {
  const int limits[][4] = {{0, 5, 5, 5},     {5, 0, 5, 5},
                           {5, 5, 0, 5},     {5, 5, 5, 0},
                           {-1, 5, 5, 5},    {65536, 5, 5, 5},
                           {5, 65536, 5, 5}, {5, 5, 65536, 5},
                           {5, 5, 5, 65536}, {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}};
  for (const auto& s : limits) {
    for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
      const auto refused = Resizer::make(rule, s[0], s[1], s[2], s[3]);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.code(), Code::kShape);
      EXPECT_NE(refused.error().message().find("65535"), std::string_view::npos);
    }
  }
}

TEST(Resizer, a_rule_that_gives_floats_or_none_is_refused) {
  for (const auto rule : {ResizeRule::kTorch, ResizeRule(4), ResizeRule(255)}) {
    EXPECT_EQ(Resizer::make(rule, 8, 8, 4, 4).code(), Code::kInvalid);
  }
}

TEST(Resizer, the_longest_sides_allowed_work) {
  const Bytes white(65535 * 3, 255);
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    EXPECT_EQ(run(rule, Bytes(3, 255), {1, 1}, {1, 65535})[32767 * 3], 255);
    EXPECT_EQ(run(rule, white, {65535, 1}, {65535, 1}), white);
    EXPECT_EQ(run(rule, white, {65535, 1}, {65535, 2}).size(), white.size() * 2);
  }
  // One output pixel that every source pixel reaches: the sum of all weights must not overflow.
  EXPECT_EQ(run(ResizeRule::kJetsonPi, white, {65535, 1}, {1, 1}), Bytes(3, 255));
}

TEST(Resizer, a_picture_of_the_frames_size_is_copied_untouched) {
  const Bytes src = noise({224, 224}, 9);
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    EXPECT_EQ(run(rule, src, {224, 224}, {224, 224}), src);
  }
}

TEST(Resizer, run_takes_no_heap_and_gives_the_same_bytes_again) {
  const Bytes src = noise({320, 200}, 4);
  Bytes first(112 * 112 * 3), second(112 * 112 * 3, 77);
  for (const ResizeRule rule : {ResizeRule::kPil, ResizeRule::kJax, ResizeRule::kJetsonPi}) {
    auto made = Resizer::make(rule, 320, 200, 112, 112);
    ASSERT_TRUE(made);
    Resizer moved = std::move(made.value());
    const long before = test::n_news;
    moved.run(src.data(), first.data());
    moved.run(src.data(), second.data());
    EXPECT_EQ(test::n_news, before);
    EXPECT_EQ(first, second);
  }
}

}  // namespace
}  // namespace outrider
