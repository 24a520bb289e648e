// The camera warp: golden values of driving.md b.6 and b.7, every kernel table against a slow
// oracle that follows the text, and what is refused.
#include "vision/warp.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "count_news.h"
#include "warp_oracle.h"

namespace outrider {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr WarpSampling kBoth[] = {WarpSampling::kNearest, WarpSampling::kBilinear};

std::vector<const char*> tables() {
  std::vector<const char*> all;
  for (const char* const* name = warp_kernel_names(); *name != nullptr; ++name)
    all.push_back(*name);
  return all;
}

std::span<const std::byte> as_bytes(const Bytes& v) {
  return std::as_bytes(std::span(v));
}
std::span<std::byte> as_room(Bytes& v) {
  return std::as_writable_bytes(std::span(v));
}

CameraWarp make(const WarpOptions& options) {
  auto warp = CameraWarp::make(options);
  EXPECT_TRUE(warp) << warp.error().message();
  return std::move(warp.value());
}

// ------------------------------------------------------------------------------------ golden
// values

constexpr Matrix3 kIdentity = {1, 0, 0, 0, 1, 0, 0, 0, 1};
constexpr Matrix3 kProjectiveNarrow = {3, .05f, -20, .02f, 2.9f, -30, 1e-5f, 2e-5f, 1};
constexpr Matrix3 kProjectiveWide = {1.5f, -.02f, 40.25f, .01f, 1.6f, -12.5f, -2e-5f, 1e-5f, 1};

// "9c3a3b40...": nine little-endian f32.
Matrix3 from_hex(const char* hex) {
  Matrix3 m{};
  for (size_t i = 0; i < 9; ++i) {
    uint32_t bits = 0;
    for (size_t b = 0; b < 4; ++b)
      bits |= static_cast<uint32_t>(std::stoul(std::string(hex + i * 8 + b * 2, 2), nullptr, 16))
              << 8 * b;
    std::memcpy(&m[i], &bits, 4);
  }
  return m;
}

constexpr const char* kRpyNarrow1928 =
    "9c3a3b407461a63c0d1b2e431c1d233c8f0b3b407d98cc43c1448a37fd54b83770927e3f";
constexpr const char* kRpyWide1928 =
    "b68ea33f0b002c3d376d1b441c1da33c9fdfa23fc41bc543c1440a38fd5438383c0d7c3f";
constexpr const char* kRpyNarrow1344 =
    "5ef6a13f51c56b3ceb07a5430f3ecd3b6f99a13f63ad9343c1448a37fd54b83770927e3f";
constexpr const char* kRpyWide1344 =
    "e2e7743f99a3ef3c8008d0430f3e4d3c2d7d733fe0c95f43c1440a38fd5438383c0d7c3f";

struct Golden {
  const char* name;
  int width, height;
  WarpSampling sampling;
  Matrix3 narrow, wide;
  uint32_t crc;
  uint64_t sum;
};

std::vector<Golden> goldens() {
  const auto nearest = WarpSampling::kNearest, bilinear = WarpSampling::kBilinear;
  const Matrix3 calibrated_narrow = {2.90989017f, 0, 219.06813f, 0, 2.90989017f,
                                     465.489227f, 0, 0,          1};
  const Matrix3 calibrated_wide = {1.24615383f, 0, 644.984619f, 0, 1.24615383f,
                                   414.833832f, 0, 0,           1};
  return {
      {"identity", 1928, 1208, nearest, kIdentity, kIdentity, 0x08e57d62, 50133284},
      {"calib 0", 1928, 1208, nearest, calibrated_narrow, calibrated_wide, 0xd4c801e2, 50137809},
      {"projective", 1928, 1208, nearest, kProjectiveNarrow, kProjectiveWide, 0x63d10101, 50133431},
      {"rpy", 1928, 1208, nearest, from_hex(kRpyNarrow1928), from_hex(kRpyWide1928), 0xdba785eb,
       50107730},
      {"identity", 1344, 760, nearest, kIdentity, kIdentity, 0xe3185433, 50135186},
      {"projective", 1344, 760, nearest, kProjectiveNarrow, kProjectiveWide, 0xb9a499a1, 50091856},
      {"rpy", 1344, 760, nearest, from_hex(kRpyNarrow1344), from_hex(kRpyWide1344), 0x59dd9c6b,
       50125484},
      {"rpy", 1928, 1208, bilinear, from_hex(kRpyNarrow1928), from_hex(kRpyWide1928), 0x08709248,
       50143160},
      {"rpy", 1344, 760, bilinear, from_hex(kRpyNarrow1344), from_hex(kRpyWide1344), 0xd9d418aa,
       50139900},
  };
}

TEST(CameraWarp, gives_the_golden_checksums_with_every_table) {
  for (const Golden& g : goldens()) {
    const DeviceFrame device = device_frame(g.width, g.height).value();
    const Bytes narrow = test::noise_frame(device.allocation_bytes, 1),
                wide = test::noise_frame(device.allocation_bytes, 2);
    for (const char* table : tables()) {
      auto pair =
          WarpPair::make({.camera = device.layout, .sampling = g.sampling, .kernels = table});
      ASSERT_TRUE(pair) << pair.error().message();
      ASSERT_EQ(pair.value().plane_bytes(), 393216u);
      Bytes out(393216);
      pair.value().set_transforms(g.narrow, g.wide);
      ASSERT_EQ(pair.value().run(as_bytes(narrow), as_bytes(wide), as_room(out)), Code::kOk);
      uint64_t sum = 0;
      for (const uint8_t byte : out) sum += byte;
      EXPECT_EQ(test::crc32(out.data(), out.size()), g.crc)
          << g.width << " " << g.name << " " << table;
      EXPECT_EQ(sum, g.sum) << g.width << " " << g.name << " " << table;
    }
  }
}

TEST(CameraWarp, gives_the_golden_checksum_of_every_channel) {
  const uint32_t wanted[12] = {0x00bb4f18, 0x37cd8df6, 0x2469a451, 0x5d1db2e0,
                               0x6cf05176, 0xcbedbd12, 0x6855ee2b, 0xf62842b6,
                               0x3eaf55eb, 0x3da162bc, 0x7e4d6837, 0x03ce045a};
  const DeviceFrame device = device_frame(1928, 1208).value();
  auto pair = WarpPair::make({.camera = device.layout});
  ASSERT_TRUE(pair);
  pair.value().set_transforms(from_hex(kRpyNarrow1928), from_hex(kRpyWide1928));
  const Bytes narrow = test::noise_frame(device.allocation_bytes, 1),
              wide = test::noise_frame(device.allocation_bytes, 2);
  Bytes out(393216);
  ASSERT_EQ(pair.value().run(as_bytes(narrow), as_bytes(wide), as_room(out)), Code::kOk);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(test::crc32(out.data() + i * 32768, 32768), wanted[i]) << "channel " << i;
}

// The worked example: camera 8x4, model 8x4, Y = 16 r + c, U = 100 + 10 r + c, V = 200 + 10 r + c.
Bytes toy_frame() {
  Bytes frame(8 * 6);
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < 8; ++c) frame[r * 8 + c] = static_cast<uint8_t>(16 * r + c);
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 4; ++c) {
      frame[32 + r * 8 + 2 * c] = static_cast<uint8_t>(100 + 10 * r + c);
      frame[32 + r * 8 + 2 * c + 1] = static_cast<uint8_t>(200 + 10 * r + c);
    }
  return frame;
}
constexpr Nv12Layout kToy = {8, 4, 8, 32};

TEST(CameraWarp, gives_the_worked_example) {
  const Matrix3 half = {1, 0, .5f, 0, 1, -1, 0, 0, 1},
                projective = {1, .25f, -.75f, .125f, .75f, .5f, .03125f, 0, 1};
  const struct {
    WarpSampling sampling;
    Matrix3 m;
    Bytes planes;
  } cases[] = {
      {WarpSampling::kNearest,
       kIdentity,
       {0,   2,   4,   6,   32,  34,  36,  38,  16,  18,  20,  22,  48,  50,  52,  54,
        1,   3,   5,   7,   33,  35,  37,  39,  17,  19,  21,  23,  49,  51,  53,  55,
        100, 101, 102, 103, 110, 111, 112, 113, 200, 201, 202, 203, 210, 211, 212, 213}},
      {WarpSampling::kNearest, half, {0,   2,   4,   6,   16,  18,  20,  22,  0,   2,   4,   6,
                                      32,  34,  36,  38,  2,   4,   6,   7,   18,  20,  22,  23,
                                      2,   4,   6,   7,   34,  36,  38,  39,  100, 101, 102, 103,
                                      100, 101, 102, 103, 200, 201, 202, 203, 200, 201, 202, 203}},
      {WarpSampling::kNearest,
       projective,
       {0,   17,  19,  20,  32,  34,  35,  37,  16,  17,  35,  37,  48,  50,  52,  53,
        16,  18,  20,  21,  33,  35,  36,  38,  16,  18,  36,  37,  49,  51,  52,  54,
        100, 101, 101, 112, 110, 111, 112, 112, 200, 201, 201, 212, 210, 211, 212, 212}},
      {WarpSampling::kBilinear,
       projective,
       {8,   13,  17,  21,  32,  36,  39,  42,  20,  24,  28,  32,  44,  47,  50,  52,
        10,  15,  19,  23,  34,  37,  41,  43,  22,  26,  30,  33,  45,  48,  51,  53,
        102, 104, 105, 107, 109, 111, 112, 112, 202, 204, 205, 207, 209, 211, 212, 212}},
  };
  const Bytes frame = toy_frame();
  for (const auto& c : cases)
    for (const char* table : tables()) {
      CameraWarp warp = make({kToy, 8, 4, c.sampling, table});
      warp.set_transform(c.m);
      Bytes out(48);
      ASSERT_EQ(warp.run(as_bytes(frame), as_room(out)), Code::kOk);
      EXPECT_EQ(out, c.planes) << table << " " << warp_sampling_name(c.sampling);
    }
}

TEST(CameraWarp, reads_a_device_frame_where_the_driver_put_it) {
  const struct {
    int width, height, stride;
    int64_t uv_offset;
    size_t picture, allocation;
  } cases[] = {{1928, 1208, 2048, 2490368, 3735552, 4804608},
               {1344, 760, 1408, 1081344, 1622016, 2428928},
               {2688, 1520, 2688, 4128768, 6193152, 7794688}};
  for (const auto& c : cases) {
    const auto frame = device_frame(c.width, c.height);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame.value().layout.stride, c.stride);
    EXPECT_EQ(frame.value().layout.uv_offset, c.uv_offset);
    EXPECT_EQ(frame.value().picture_bytes, c.picture);
    EXPECT_EQ(frame.value().allocation_bytes, c.allocation);
    EXPECT_LE(frame.value().layout.least_bytes(), c.picture);
  }
}

TEST(CameraWarp, makes_the_transform_of_a_calibration_bit_for_bit) {
  const struct {
    int width, height;
    CameraView view;
    const char* hex;
  } cases[] = {{1928, 1208, CameraView::kNarrow, kRpyNarrow1928},
               {1928, 1208, CameraView::kWide, kRpyWide1928},
               {1344, 760, CameraView::kNarrow, kRpyNarrow1344},
               {1344, 760, CameraView::kWide, kRpyWide1344}};
  for (const auto& c : cases) {
    const double f = device_focal_length(c.width, c.height, c.view).value();
    const auto m =
        model_transform(device_frame(c.width, c.height).value().layout, {f, 0, .02, -.015, c.view});
    ASSERT_TRUE(m) << m.error().message();
    const Matrix3 wanted = from_hex(c.hex);
    EXPECT_EQ(std::memcmp(m.value().data(), wanted.data(), sizeof wanted), 0) << c.hex;
  }
  const Nv12Layout camera = device_frame(1928, 1208).value().layout;
  EXPECT_EQ(model_transform(camera, {2648, 0, 0, 0, CameraView::kNarrow}).value(),
            goldens()[1].narrow);
  EXPECT_EQ(model_transform(camera, {567, 0, 0, 0, CameraView::kWide}).value(), goldens()[1].wide);
}

// --------------------------------------------------------------- every table against the oracle

std::vector<Matrix3> hard_transforms() {
  std::vector<Matrix3> all = {
      {},  // before the first calibration
      kIdentity,
      {-1, 0, 30, 0, -1, 20, 0, 0, 1},       // mirrored
      {1, 0, 1e30f, 0, 1, -1e30f, 0, 0, 1},  // all outside
      {1, 0, 0, 0, 1, 0, 0, 0, 0},           // c = 0 everywhere: infinities and 0 / 0
      {1, 0, 0, 0, 1, 0, 0, 0, -0.0f},
      {1, 0, 0, 0, 1, 0, .1f, 0, -1},  // c goes through 0 inside the frame
      {1, 0, 0, 0, 1, 0, 0, -.25f, 1},
      {1, 0, 0, 0, 1, 0, 0, 0, -1},      // behind the camera
      {1, 0, 0, 0, 1, 0, 0, 0, 1e-42f},  // a denormal
      {kNan, 0, 0, 0, 1, 0, 0, 0, 1},
      {1, 0, 0, 0, 1, 0, 0, 0, kNan},
      {kInf, 0, 0, 0, -kInf, 0, 0, 0, 1},
      {1, kInf, -kInf, 0, 1, 0, 0, 0, 1},
      {1, 0, 0, 0, 1, 0, 0, 0, kInf},
      {1, 0, 0, 0, 1, 0, kInf, 0, 1},
      {.5f, 0, .5f, 0, .5f, .5f, 0, 0, 1},  // halves everywhere
      {1, 0, -.5f, 0, 1, -.5f, 0, 0, 1},
      {3.4e38f, 3.4e38f, 0, 0, 3.4e38f, 3.4e38f, 0, 0, 1},
      {1.03125f, 0, 0, 0, 1.03125f, 0, 0, 0, 1},  // whole steps of 1/32
  };
  return all;
}

struct Sizes {
  int width, height, stride;
  int64_t gap;  // between luma and chroma
  int model_width, model_height;
};
constexpr Sizes kSizes[] = {
    {4, 4, 4, 0, 2, 2},       {4, 4, 5, 1, 4, 6},       {6, 8, 7, 3, 30, 2},
    {8, 4, 8, 0, 32, 4},      {64, 48, 64, 0, 34, 18},  {64, 48, 77, 5, 62, 10},
    {130, 66, 131, 0, 64, 8}, {36, 34, 37, 11, 66, 20}, {24, 10, 1001, 7, 98, 6}};

// Exactly as many bytes as a warp may read, at an address of any kind: a read behind them is seen
// by the address sanitizer, a use of what follows by the guard bytes.
struct Case {
  Case(const Sizes& s, WarpSampling sampling, uint32_t seed) {
    options.camera = {s.width, s.height, s.stride, int64_t{s.stride} * s.height + s.gap};
    options.model_width = s.model_width;
    options.model_height = s.model_height;
    options.sampling = sampling;
    std::mt19937 random(seed);
    frame.resize(options.camera.least_bytes());
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
  }
  Bytes run(CameraWarp& warp) const {
    Bytes guarded(warp.plane_bytes() + 2, 0xa5);
    EXPECT_EQ(warp.run(as_bytes(frame), as_room(guarded).subspan(1, warp.plane_bytes())),
              Code::kOk);
    EXPECT_EQ(guarded.front(), 0xa5);
    EXPECT_EQ(guarded.back(), 0xa5);
    return {guarded.begin() + 1, guarded.end() - 1};
  }
  WarpOptions options;
  Bytes frame;
};

void compare(const Case& c, const Matrix3& m, CameraWarp& warp) {
  warp.set_transform(m);
  const Bytes wanted = test::warp_oracle(c.options, c.frame.data(), m);
  ASSERT_EQ(c.run(warp), wanted) << warp.kernels() << " " << warp_sampling_name(c.options.sampling)
                                 << " camera " << c.options.camera.width << "x"
                                 << c.options.camera.height << " stride " << c.options.camera.stride
                                 << " model " << c.options.model_width << "x"
                                 << c.options.model_height << " [" << ::testing::PrintToString(m)
                                 << "]";
}

TEST(CameraWarp, every_table_equals_the_text_for_odd_sizes_and_degenerate_transforms) {
  for (const WarpSampling sampling : kBoth)
    for (const Sizes& sizes : kSizes) {
      Case c(sizes, sampling, 7);
      for (const char* table : tables()) {
        c.options.kernels = table;
        CameraWarp warp = make(c.options);
        for (const Matrix3& m : hard_transforms()) ASSERT_NO_FATAL_FAILURE(compare(c, m, warp));
      }
    }
}

TEST(CameraWarp, every_table_equals_the_text_for_random_transforms) {
  std::mt19937 random(11);
  const auto uniform = [&](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  };
  for (int round = 0; round < 600; ++round) {
    const Sizes& sizes = kSizes[static_cast<size_t>(round) % std::size(kSizes)];
    const auto w = static_cast<float>(sizes.width), h = static_cast<float>(sizes.height);
    const float zoom = uniform(0.1f, 4) * w / static_cast<float>(sizes.model_width);
    const Matrix3 m = {zoom,
                       uniform(-.3f, .3f),
                       uniform(-.2f * w, .5f * w),
                       uniform(-.3f, .3f),
                       zoom * uniform(.5f, 1.5f),
                       uniform(-.2f * h, .5f * h),
                       uniform(-.02f, .02f),
                       uniform(-.02f, .02f),
                       round % 7 == 0 ? uniform(-.2f, .2f) : 1.0f};
    for (const WarpSampling sampling : kBoth) {
      Case c(sizes, sampling, static_cast<uint32_t>(round));
      for (const char* table : tables()) {
        c.options.kernels = table;
        CameraWarp warp = make(c.options);
        ASSERT_NO_FATAL_FAILURE(compare(c, m, warp)) << "round " << round;
      }
    }
  }
}

// Random bits as numbers: denormals, infinities, NaN of every kind.
TEST(CameraWarp, every_table_equals_the_scalar_one_for_any_bits) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    Matrix3 m;
    for (float& value : m) {
      const uint32_t bits = static_cast<uint32_t>(random());
      std::memcpy(&value, &bits, 4);
    }
    const WarpSampling sampling = kBoth[round % 2];
    Case c(kSizes[static_cast<size_t>(round) % std::size(kSizes)], sampling,
           static_cast<uint32_t>(round));
    c.options.kernels = "scalar";
    CameraWarp scalar = make(c.options);
    scalar.set_transform(m);
    const Bytes wanted = c.run(scalar);
    for (const char* table : tables()) {
      c.options.kernels = table;
      CameraWarp warp = make(c.options);
      warp.set_transform(m);
      ASSERT_EQ(c.run(warp), wanted) << table << " round " << round;
    }
  }
}

// The device's sizes, whole pictures: what the small sweeps cannot show is the far end of a frame.
TEST(CameraWarp, FC14_a_frame_without_its_last_padding_is_read_to_its_last_pixel) {
  const DeviceFrame device = device_frame(1344, 760).value();
  // The whole picture in the model frame: every corner is met.
  const Matrix3 all = {1343.0f / 511, 0, 0, 0, 759.0f / 255, 0, 0, 0, 1};
  for (const WarpSampling sampling : kBoth) {
    Bytes whole = test::noise_frame(device.allocation_bytes, 3);
    const Bytes cut(whole.begin(),
                    whole.begin() + static_cast<ptrdiff_t>(device.layout.least_bytes()));
    // What is no picture must not matter.
    for (size_t y = 0; y < 760; ++y)
      for (size_t x = 1344; x < 1408; ++x) whole[y * 1408 + x] ^= 0xff;
    for (const char* table : tables()) {
      WarpOptions options{.camera = device.layout, .sampling = sampling, .kernels = table};
      CameraWarp warp = make(options);
      warp.set_transform(all);
      Bytes a(warp.plane_bytes()), b(warp.plane_bytes());
      ASSERT_EQ(warp.run(as_bytes(whole), as_room(a)), Code::kOk);
      ASSERT_EQ(warp.run(as_bytes(cut), as_room(b)), Code::kOk);
      EXPECT_EQ(a, b) << table;
      EXPECT_EQ(b, test::warp_oracle(options, cut.data(), all)) << table;
    }
  }
}

TEST(CameraWarp, FC14_every_legal_stride_gives_what_packed_rows_give) {
  const Matrix3 m = {1.7f, .05f, -2, .03f, 1.9f, 1.5f, 1e-3f, -2e-3f, 1};
  constexpr int kWidth = 40, kHeight = 24;
  Case packed({kWidth, kHeight, kWidth, 0, 34, 14}, WarpSampling::kNearest, 9);
  for (const WarpSampling sampling : kBoth) {
    packed.options.sampling = sampling;
    CameraWarp reference = make(packed.options);
    reference.set_transform(m);
    const Bytes wanted = packed.run(reference);
    for (const int more : {1, 2, 3, 24, 87, 1000}) {
      Case padded({kWidth, kHeight, kWidth + more, 0, 34, 14}, sampling, 10);
      for (int y = 0; y < kHeight * 3 / 2; ++y)
        std::copy_n(packed.frame.begin() + y * kWidth, kWidth,
                    padded.frame.begin() + y * (kWidth + more));
      for (const char* table : tables()) {
        padded.options.kernels = table;
        CameraWarp warp = make(padded.options);
        warp.set_transform(m);
        EXPECT_EQ(padded.run(warp), wanted) << table << " stride " << kWidth + more;
      }
    }
  }
}

// ------------------------------------------------------------------------------- the plan is kept

TEST(CameraWarp, computes_coordinates_once_for_every_transform_and_takes_no_heap) {
  CameraWarp warp = make({.camera = kToy, .model_width = 8, .model_height = 4});
  const Bytes frame = toy_frame();
  Bytes out(48), other(48);
  EXPECT_EQ(warp.n_computed(), 1) << "the zeros before the first calibration";
  ASSERT_EQ(warp.run(as_bytes(frame), as_room(out)), Code::kOk);
  EXPECT_EQ(out, [] {
    Bytes corner(32, 0);
    corner.resize(40, 100);
    corner.resize(48, 200);
    return corner;
  }()) << "pixel (0, 0) everywhere";
  const long before = test::n_news;
  for (int i = 0; i < 100; ++i) {
    warp.set_transform(kIdentity);
    ASSERT_EQ(warp.run(as_bytes(frame), as_room(out)), Code::kOk);
  }
  EXPECT_EQ(warp.n_computed(), 2);
  Matrix3 m = kIdentity;
  m[2] = kNan;
  for (int i = 0; i < 3; ++i) warp.set_transform(m);
  EXPECT_EQ(warp.n_computed(), 3) << "a NaN is the same as itself";
  m = kIdentity;
  m[8] = -0.0f;
  warp.set_transform(m);
  m[8] = 0.0f;
  warp.set_transform(m);
  EXPECT_EQ(warp.n_computed(), 5) << "the sign of a zero decides between two infinities";
  warp.set_transform(kIdentity);
  ASSERT_EQ(warp.run(as_bytes(frame), as_room(other)), Code::kOk);
  EXPECT_EQ(test::n_news, before);
  EXPECT_EQ(out, other);
}

TEST(CameraWarp, one_camera_may_serve_both_views) {
  auto pair = WarpPair::make({.camera = kToy, .model_width = 8, .model_height = 4});
  ASSERT_TRUE(pair);
  pair.value().set_transforms(kIdentity, {2, 0, 0, 0, 1, 0, 0, 0, 1});
  const Bytes frame = toy_frame();
  Bytes out(96);
  ASSERT_EQ(pair.value().run(as_bytes(frame), as_bytes(frame), as_room(out)), Code::kOk);
  CameraWarp second = make({.camera = kToy, .model_width = 8, .model_height = 4});
  second.set_transform({2, 0, 0, 0, 1, 0, 0, 0, 1});
  Bytes wide(48);
  ASSERT_EQ(second.run(as_bytes(frame), as_room(wide)), Code::kOk);
  EXPECT_EQ(Bytes(out.begin() + 48, out.end()), wide);
  EXPECT_NE(Bytes(out.begin(), out.begin() + 48), wide);
}

// ---------------------------------------------------------------------------------------- refusals

TEST(CameraWarp, refuses_layouts_that_cannot_be_and_says_why) {
  const struct {
    Nv12Layout layout;
    Code code;
    const char* says;
  } cases[] = {
      {{0, 4, 8, 32}, Code::kInvalid, "width 0, must be even, 4 to 8192"},
      {{2, 4, 8, 32}, Code::kInvalid, "width 2"},
      {{7, 4, 8, 32}, Code::kInvalid, "width 7"},
      {{-8, 4, 8, 32}, Code::kInvalid, "width -8"},
      {{8194, 4, 8194, 40000}, Code::kInvalid, "width 8194"},
      {{8, 0, 8, 32}, Code::kInvalid, "height 0"},
      {{8, 5, 8, 40}, Code::kInvalid, "height 5"},
      {{8, 8194, 8, 70000}, Code::kInvalid, "height 8194"},
      {{8, 4, 7, 32}, Code::kInvalid, "stride 7, must be at least the width 8"},
      {{8, 4, 0, 32}, Code::kInvalid, "stride 0"},
      {{8, 4, -8, 32}, Code::kInvalid, "stride -8"},
      {{8, 4, 8, 31}, Code::kInvalid, "byte 31, must be behind 4 rows of 8 bytes: 32 or more"},
      {{8, 4, 8, -1}, Code::kInvalid, "byte -1"},
      {{8, 4, 8, INT64_MAX}, Code::kShape, "below 2^31 bytes"},
      {{8, 4, 8, INT32_MAX}, Code::kShape, "below 2^31 bytes"},
      {{4096, 8192, INT32_MAX, int64_t{INT32_MAX} * 8192}, Code::kShape, "below 2^31 bytes"},
  };
  for (const auto& c : cases) {
    const auto made = CameraWarp::make({.camera = c.layout});
    ASSERT_FALSE(made) << c.says;
    EXPECT_EQ(made.error().code, c.code) << made.error().message();
    EXPECT_NE(made.error().message().find(c.says), std::string::npos) << made.error().message();
    EXPECT_FALSE(WarpPair::make({.camera = c.layout}));
  }
  EXPECT_TRUE(CameraWarp::make({.camera = {8, 4, 8, 32}}));
  EXPECT_TRUE(CameraWarp::make({.camera = {8192, 8192, 8192, 8192 * 8192}}));
}

TEST(CameraWarp, refuses_model_frames_samplings_and_tables_that_there_are_not) {
  for (const int side : {0, 1, -2, 3, 4098, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(CameraWarp::make({.camera = kToy, .model_width = side}).error().code, Code::kInvalid);
    EXPECT_EQ(CameraWarp::make({.camera = kToy, .model_height = side}).error().code,
              Code::kInvalid);
  }
  EXPECT_EQ(
      CameraWarp::make({.camera = kToy, .sampling = static_cast<WarpSampling>(2)}).error().code,
      Code::kInvalid);
  const auto unknown = CameraWarp::make({.camera = kToy, .kernels = "sse9"});
  EXPECT_EQ(unknown.error().code, Code::kUnsupported);
  EXPECT_NE(unknown.error().message().find("scalar"), std::string::npos)
      << unknown.error().message();
  for (const char* table : tables())
    EXPECT_STREQ(make({.camera = kToy, .kernels = table}).kernels(), table);
  EXPECT_STREQ(make({.camera = kToy}).kernels(), tables().front());
  EXPECT_STREQ(tables().back(), "scalar");
  for (const WarpSampling s : kBoth)
    EXPECT_EQ(parse_warp_sampling(warp_sampling_name(s)).value(), s);
  for (const char* name : {"", "Nearest", "cubic"}) EXPECT_FALSE(parse_warp_sampling(name)) << name;
}

TEST(CameraWarp, FC14_refuses_frames_that_are_too_short_and_writes_nothing) {
  auto pair = WarpPair::make({.camera = kToy, .model_width = 8, .model_height = 4});
  ASSERT_TRUE(pair);
  const CameraWarp& warp = pair.value().narrow();
  const Bytes frame = toy_frame();
  ASSERT_EQ(kToy.least_bytes(), 48u);
  Bytes out(49, 0x77);
  const Bytes untouched = out;
  const auto room = as_room(out);
  for (size_t n = 0; n < 48; ++n) {
    ASSERT_EQ(warp.run(as_bytes(frame).first(n), room.first(48)), Code::kShape) << n;
    ASSERT_FALSE(warp.check(as_bytes(frame).first(n), room.first(48)));
  }
  const auto said = warp.check(as_bytes(frame).first(47), room.first(48));
  EXPECT_NE(
      said.error().message().find("47 bytes, 8x4 in rows of 8 with chroma at byte 32 takes 48"),
      std::string::npos)
      << said.error().message();
  for (const size_t n : {size_t{0}, size_t{47}, size_t{49}}) {
    EXPECT_EQ(warp.run(as_bytes(frame), room.first(n)), Code::kShape) << n;
    EXPECT_FALSE(warp.check(as_bytes(frame), room.first(n)));
  }
  EXPECT_EQ(out, untouched);
  EXPECT_TRUE(warp.check(as_bytes(frame), room.first(48)));
  EXPECT_EQ(warp.run(as_bytes(frame), room.first(48)), Code::kOk);

  Bytes both(96, 0x77);
  const auto short_one = as_bytes(frame).first(47);
  EXPECT_EQ(pair.value().run(as_bytes(frame), short_one, as_room(both)), Code::kShape);
  EXPECT_EQ(pair.value().run(short_one, as_bytes(frame), as_room(both)), Code::kShape);
  EXPECT_EQ(pair.value().run(as_bytes(frame), as_bytes(frame), as_room(both).first(95)),
            Code::kShape);
  EXPECT_FALSE(pair.value().check(as_bytes(frame), short_one, as_room(both)));
  EXPECT_FALSE(pair.value().check(as_bytes(frame), as_bytes(frame), as_room(both).first(95)));
  EXPECT_EQ(both, Bytes(96, 0x77)) << "neither view was written";
}

TEST(CameraWarp, refuses_to_write_into_the_frame_it_reads) {
  CameraWarp warp = make({.camera = kToy, .model_width = 8, .model_height = 4});
  Bytes shared(200);
  const auto all = as_room(shared);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{47}}) {
    EXPECT_EQ(warp.run(all.first(48), all.subspan(at, 48)), Code::kInvalid) << at;
    EXPECT_FALSE(warp.check(all.first(48), all.subspan(at, 48)));
  }
  EXPECT_EQ(warp.run(all.first(48), all.subspan(48, 48)), Code::kOk);
  auto pair = WarpPair::make({.camera = kToy, .model_width = 8, .model_height = 4});
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair.value().run(all.subspan(50, 48), all.subspan(100, 48), all.first(96)),
            Code::kInvalid);
  EXPECT_EQ(pair.value().run(all.subspan(100, 48), all.subspan(50, 48), all.first(96)),
            Code::kInvalid);
  EXPECT_FALSE(pair.value().check(all.subspan(50, 48), all.subspan(100, 48), all.first(96)));
}

TEST(CameraWarp, refuses_calibrations_that_are_no_numbers) {
  const Nv12Layout camera = device_frame(1928, 1208).value().layout;
  for (const double bad : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_EQ(model_transform(camera, {bad, 0, 0, 0, CameraView::kNarrow}).error().code,
              Code::kInvalid);
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    EXPECT_FALSE(model_transform(camera, {2648, bad, 0, 0, CameraView::kNarrow}));
    EXPECT_FALSE(model_transform(camera, {2648, 0, bad, 0, CameraView::kNarrow}));
    const auto yaw = model_transform(camera, {2648, 0, 0, bad, CameraView::kNarrow});
    EXPECT_NE(yaw.error().message().find("yaw"), std::string::npos) << yaw.error().message();
  }
  EXPECT_EQ(device_focal_length(1920, 1080, CameraView::kNarrow).error().code, Code::kNotFound);
  for (const int side : {0, 2, 5, -4, 8194}) {
    EXPECT_FALSE(device_frame(side, 4)) << side;
    EXPECT_FALSE(device_frame(4, side)) << side;
  }
}

}  // namespace
}  // namespace outrider
