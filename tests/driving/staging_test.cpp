// The history of a queued graph against a plain transcription of the rules: every queue a list of
// rows of values, shifted by one at each push, sampled and pooled value by value; halves converted
// by arithmetic on doubles. Long random sequences with failed frames, resets, new sessions, NaN.
#include "driving/staging/staging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <random>

#include "driving/facts.h"
#include "support/hot_counter.h"

namespace outrider::driving::test {
namespace {

namespace hot_counter = ::outrider::test::hot_counter;

// ---- the transcription --------------------------------------------------------------------------

// A float as a half holds it, still as a float: round to nearest even by a scaled rint, NaN kept
// with sign and the upper ten bits of what it carries.
uint16_t half_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00 | (bits >> 13 & 0x3FF));
  const double a = std::fabs(static_cast<double>(value));
  if (a >= 65520.0) return static_cast<uint16_t>(sign | 0x7C00);
  if (a < std::ldexp(1.0, -14))
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::rint(std::ldexp(a, 24))));
  int exponent;
  (void)std::frexp(a, &exponent);                          // a = m 2^exponent, m in [0.5, 1)
  double units = std::rint(std::ldexp(a, 11 - exponent));  // 1024..2048
  if (units == 2048) {
    units = 1024;
    ++exponent;
  }
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((exponent + 14) << 10) |
                               (static_cast<uint16_t>(units) & 0x3FF));
}
float value_of(uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31 && mantissa != 0) {
    const uint32_t bits = uint32_t(half & 0x8000) << 16 | 0x7F800000u | uint32_t(mantissa) << 13;
    float nan;
    std::memcpy(&nan, &bits, 4);
    return nan;
  }
  if (exponent == 31) return sign * INFINITY;
  return sign * static_cast<float>(exponent == 0 ? std::ldexp(mantissa, -24)
                                                 : std::ldexp(1024 + mantissa, exponent - 25));
}

using Row = std::vector<uint16_t>;
using Queue = std::deque<Row>;

class Plain {
 public:
  explicit Plain(const Spec& spec) : s_(spec) { reset(); }
  void reset() {
    img_ = big_ = Queue(static_cast<size_t>(s_.frame_skip * (s_.n_frames - 1) + 1),
                        Row(static_cast<size_t>(6 * s_.height * s_.width), 0));
    features_ = Queue(static_cast<size_t>(s_.frame_skip * s_.n_feature_rows),
                      Row(static_cast<size_t>(s_.feature_floats), 0));
    desire_ = Queue(static_cast<size_t>(s_.frame_skip * s_.n_desire_rows),
                    Row(static_cast<size_t>(s_.n_desire), 0));
    hello();
  }
  void hello() { hidden_ = Row(static_cast<size_t>(s_.feature_floats), 0); }
  void keep(const std::vector<float>& hidden) {
    for (size_t i = 0; i < hidden.size(); ++i) hidden_[i] = half_bits(hidden[i]);
  }
  void push(const std::vector<uint8_t>& frames, const std::vector<float>& desire) {
    const size_t view = img_[0].size();
    Row road(view), wide(view), wish;
    for (size_t i = 0; i < view; ++i) {
      road[i] = half_bits(frames[i]);
      wide[i] = half_bits(frames[view + i]);
    }
    for (const float d : desire) wish.push_back(half_bits(d));
    shift(img_, road);
    shift(big_, wide);
    shift(desire_, wish);
    shift(features_, hidden_);
  }
  Row img() const { return every_skip(img_); }
  Row big_img() const { return every_skip(big_); }
  Row features() const { return every_skip(features_); }
  Row desire() const {
    Row out;
    const auto skip = static_cast<size_t>(s_.frame_skip);
    for (size_t group = 0; group < desire_.size(); group += skip)
      for (size_t i = 0; i < desire_[0].size(); ++i) {
        uint16_t most = desire_[group][i];
        for (size_t k = 1; k < skip; ++k) {
          const uint16_t next = desire_[group + k][i];
          const float a = value_of(most), b = value_of(next);
          if (std::isnan(a)) break;                 // the first NaN stays
          if (std::isnan(b) || b > a) most = next;  // equal values: the earlier
        }
        out.push_back(most);
      }
    return out;
  }

 private:
  static void shift(Queue& queue, const Row& row) {
    queue.pop_front();
    queue.push_back(row);
  }
  Row every_skip(const Queue& queue) const {
    Row out;
    for (size_t i = 0; i < queue.size(); i += static_cast<size_t>(s_.frame_skip))
      out.insert(out.end(), queue[i].begin(), queue[i].end());
    return out;
  }
  Spec s_;
  Queue img_, big_, features_, desire_;
  Row hidden_;
};

// ---- the rig ------------------------------------------------------------------------------------

struct Array {
  DType dtype;
  std::vector<std::byte> bytes;
  Array(DType type, size_t n)
      : dtype(type),
        bytes(n * (type == DType::kF32   ? 4
                   : type == DType::kF16 ? 2
                                         : 1)) {}
  Target target() { return {dtype, bytes.data()}; }
};
// What an input of that type must hold.
std::vector<std::byte> as_type(const Row& row, DType dtype) {
  Array out(dtype, row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    const float value = value_of(row[i]);
    if (dtype == DType::kF32) std::memcpy(out.bytes.data() + 4 * i, &value, 4);
    if (dtype == DType::kF16) std::memcpy(out.bytes.data() + 2 * i, &row[i], 2);
    if (dtype == DType::kU8) out.bytes[i] = static_cast<std::byte>(value);
  }
  return out.bytes;
}

struct Rig {
  Rig(const SmallSizes& sizes, DType image, DType other)
      : spec(small_queued(sizes)),
        img(image, static_cast<size_t>(spec.n_frames * spec.view_bytes())),
        big(image, img.bytes.size() / (image == DType::kF32   ? 4
                                       : image == DType::kF16 ? 2
                                                              : 1)),
        features(other, static_cast<size_t>(spec.n_feature_rows * spec.feature_floats)),
        desire(other, static_cast<size_t>(spec.n_desire_rows * spec.n_desire)),
        staging(std::move(
            Staging::make(spec, {img.target(), big.target(), features.target(), desire.target()})
                .value())) {}
  void expect_equal(const Plain& plain, const std::string& where) const {
    ASSERT_EQ(img.bytes, as_type(plain.img(), img.dtype)) << where;
    ASSERT_EQ(big.bytes, as_type(plain.big_img(), big.dtype)) << where;
    ASSERT_EQ(features.bytes, as_type(plain.features(), features.dtype)) << where;
    ASSERT_EQ(desire.bytes, as_type(plain.desire(), desire.dtype)) << where;
  }
  Spec spec;
  Array img, big, features, desire;
  std::unique_ptr<Staging> staging;
};

// Values that halves treat in different ways.
float odd_float(std::mt19937& rng) {
  const uint32_t kind = rng() % 12;
  const auto bits = [](uint32_t b) {
    float f;
    std::memcpy(&f, &b, 4);
    return f;
  };
  switch (kind) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return bits(0x7FC00000u | (rng() & 0x3FFFFFu));  // quiet NaN
    case 3:
      return bits(0xFFC00000u | (rng() & 0x3FFFFFu));  // negative one
    case 4:
      return INFINITY;
    case 5:
      return -INFINITY;
    case 6:
      return bits(rng());  // anything
    case 7:
      return 65519.996f + static_cast<float>(rng() % 3) * 0.004f;  // around the largest half
    case 8:
      return static_cast<float>(rng() % 2048) * 0x1p-25f;  // subnormal halves, ties
    case 9:
      return 1.0f + static_cast<float>(rng() % 64) * 0x1p-12f;  // ties
    default:
      return static_cast<float>(static_cast<int>(rng() % 5) - 2);
  }
}
float quiet(float f) {  // conversions between float types make a NaN quiet
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (std::isnan(f)) bits |= 0x400000u;
  std::memcpy(&f, &bits, 4);
  return f;
}

TEST(Staging, worked_check_of_the_sampling_rules) {
  // One value a row; pushing 1, 2, 3, ...
  const SmallSizes sizes{4, 2, 1, 1, {1, 3, 1}, 3, 1};
  Rig rig(sizes, DType::kF32, DType::kF32);
  const auto floats = [](const Array& a, size_t n) {
    std::vector<float> values(n);
    std::memcpy(values.data(), a.bytes.data(), 4 * n);
    return values;
  };
  for (int t = 1; t <= 12; ++t) {
    const std::vector<std::byte> frames(12, static_cast<std::byte>(t));
    const float now = static_cast<float>(t);
    rig.staging->keep_hidden(&now);  // so that row t of the features is t
    rig.staging->stage(frames.data(), &now);
    const auto img = floats(rig.img, 12);
    if (t == 5) {
      EXPECT_EQ(img[0], 1);
      EXPECT_EQ(img[6], 5);
    }
    if (t == 8) {
      EXPECT_EQ(img[0], 4);
      EXPECT_EQ(img[11], 8);
    }
  }
  EXPECT_EQ(floats(rig.features, 3), (std::vector<float>{1, 5, 9}));
  EXPECT_EQ(floats(rig.desire, 3), (std::vector<float>{4, 8, 12}));
}

TEST(Staging, I15_the_maximum_of_a_group_follows_numpy) {
  const auto nan_of = [](uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  };
  const float one_nan = nan_of(0x7FC02000u), other_nan = nan_of(0xFFC04000u);
  const struct {
    float group[4];
    uint16_t wanted;
  } rows[] = {{{1, 3, 2, -4}, 0x4200},
              {{0.0f, -0.0f, -0.0f, -1}, 0x0000},
              {{-0.0f, 0.0f, 0.0f, -1}, 0x8000},  // of equal values the earlier
              {{-1, -0.0f, 0.0f, -INFINITY}, 0x8000},
              {{5, one_nan, INFINITY, 7}, 0x7E01},
              {{5, one_nan, other_nan, 7}, 0x7E01},  // of two the first
              {{other_nan, one_nan, 5, 7}, 0xFE02},
              {{5, INFINITY, 7, other_nan}, 0xFE02},
              {{-INFINITY, -INFINITY, -65504, -65504}, 0xFBFF}};
  for (const auto& row : rows) {
    Rig rig({4, 2, 1, 1, {1, 3, 1}, 1, 1}, DType::kU8, DType::kF16);
    const std::vector<std::byte> frames(12);
    for (const float value : row.group) rig.staging->stage(frames.data(), &value);
    uint16_t got = 0;
    std::memcpy(&got, rig.desire.bytes.data(), sizeof got);
    EXPECT_EQ(got, row.wanted) << row.group[0] << " " << row.group[1] << " " << row.group[2] << " "
                               << row.group[3];
  }
}

TEST(Staging, halves_of_the_transcription_are_those_of_the_project) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto h = static_cast<uint16_t>(half);
    const float a = value_of(h), b = f16_to_f32(h);
    EXPECT_EQ(std::memcmp(&a, &b, 4), 0) << half;
  }
  std::mt19937 rng(5);
  for (int i = 0; i < 200000; ++i) {
    const float f = odd_float(rng);
    ASSERT_EQ(half_bits(f), f32_to_f16(f)) << f;
  }
}

TEST(Staging, FC22_random_sequences_are_bit_exact) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937 rng(seed);
    const auto up_to = [&](int64_t n) { return 1 + static_cast<int64_t>(rng()) % n; };
    SmallSizes sizes{up_to(6), up_to(4), up_to(3), up_to(3), {1, up_to(4), up_to(3), up_to(3)},
                     up_to(4), up_to(8)};
    if (seed == 1) sizes = {4, 2, 2, 3, {1, 3, 5}, 3, 8};
    constexpr DType kImage[] = {DType::kU8, DType::kF16, DType::kF32};
    Rig rig(sizes, kImage[seed % 3], seed % 2 == 0 ? DType::kF16 : DType::kF32);
    Plain plain(rig.spec);
    std::vector<uint8_t> frames(static_cast<size_t>(rig.spec.frames_bytes()));
    std::vector<float> desire(static_cast<size_t>(rig.spec.n_desire)),
        hidden(static_cast<size_t>(rig.spec.feature_floats));
    const auto addresses = rig.staging->addresses();
    for (int frame = 0; frame < 150; ++frame) {
      const uint32_t event = rng() % 40;
      if (event == 0) {
        rig.staging->reset();
        plain.reset();
      } else if (event == 1) {
        rig.staging->forget_hidden();
        plain.hello();
      }
      if (event != 2) {  // else a replay: the frame before comes again
        for (uint8_t& b : frames) b = static_cast<uint8_t>(rng());
        for (float& d : desire) d = quiet(odd_float(rng));
      }
      rig.staging->stage(std::as_bytes(std::span(frames)).data(), desire.data());
      plain.push(frames, desire);
      rig.expect_equal(plain, "seed " + std::to_string(seed) + " frame " + std::to_string(frame));
      if (::testing::Test::HasFatalFailure()) return;
      if (event != 3) {  // else the frame failed: hidden state as before
        for (float& h : hidden) h = quiet(odd_float(rng));
        rig.staging->keep_hidden(hidden.data());
        plain.keep(hidden);
      }
    }
    EXPECT_EQ(rig.staging->addresses(), addresses);
  }
}

TEST(Staging, S17e_a_reset_is_a_fresh_start_bit_for_bit) {
  const SmallSizes sizes{4, 2, 2, 3, {1, 3, 5}, 3, 8};
  Rig used(sizes, DType::kF32, DType::kF32), fresh(sizes, DType::kF32, DType::kF32);
  std::mt19937 rng(9);
  std::vector<std::byte> frames(static_cast<size_t>(used.spec.frames_bytes()));
  std::vector<float> desire(8), hidden(5);
  const auto draw = [&] {
    for (std::byte& b : frames) b = static_cast<std::byte>(rng());
    for (float& d : desire) d = static_cast<float>(rng() % 3);
    for (float& h : hidden) h = static_cast<float>(rng() % 100);
  };
  for (int i = 0; i < 50; ++i) {
    draw();
    used.staging->stage(frames.data(), desire.data());
    used.staging->keep_hidden(hidden.data());
  }
  const auto addresses = used.staging->addresses();
  if (hot_counter::available()) hot_counter::arm();
  used.staging->reset();
  if (hot_counter::available()) {
    EXPECT_EQ(hot_counter::disarm().total(), 0u);
  }
  EXPECT_EQ(used.staging->addresses(), addresses);
  for (int i = 0; i < 30; ++i) {
    draw();
    for (Rig* rig : {&used, &fresh}) {
      rig->staging->stage(frames.data(), desire.data());
      rig->staging->keep_hidden(hidden.data());
    }
    ASSERT_EQ(used.img.bytes, fresh.img.bytes) << i;
    ASSERT_EQ(used.big.bytes, fresh.big.bytes) << i;
    ASSERT_EQ(used.features.bytes, fresh.features.bytes) << i;
    ASSERT_EQ(used.desire.bytes, fresh.desire.bytes) << i;
  }
}

TEST(Staging, refuses_element_types_that_a_driving_graph_does_not_have) {
  const Spec spec = small_queued({});
  const Target f32{DType::kF32, nullptr}, i64{DType::kI64, nullptr}, u8{DType::kU8, nullptr};
  EXPECT_EQ(Staging::make(spec, {i64, f32, f32, f32}).code(), Code::kUnsupported);
  EXPECT_EQ(Staging::make(spec, {u8, i64, f32, f32}).code(), Code::kUnsupported);
  EXPECT_EQ(Staging::make(spec, {u8, u8, u8, f32}).code(), Code::kUnsupported);
  EXPECT_EQ(Staging::make(spec, {u8, u8, f32, i64}).code(), Code::kUnsupported);
}

TEST(Staging, a_graph_without_hidden_state_has_zero_features) {
  GraphFacts facts = big_queued();
  facts.metadata[0].second = R"({"plan":[917,1907]})";
  const Spec spec = read_spec(facts, 4).value();
  Array img(DType::kU8, 2 * 196608), big(DType::kU8, 2 * 196608), features(DType::kF16, 32 * 16384),
      desire(DType::kF16, 33 * 8);
  auto staging =
      Staging::make(spec, {img.target(), big.target(), features.target(), desire.target()});
  ASSERT_TRUE(staging);
  const std::vector<std::byte> frames(393216, std::byte{3});
  const float wish[8] = {}, *none = nullptr;
  for (int i = 0; i < 20; ++i) {
    staging.value()->stage(frames.data(), wish);
    staging.value()->keep_hidden(none);
  }
  for (const std::byte b : features.bytes) ASSERT_EQ(b, std::byte{0});
}

}  // namespace
}  // namespace outrider::driving::test
