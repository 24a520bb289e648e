// Inputs when life is not tidy: pictures, prompts, states.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "outrider/ext/taps.h"
#include "providers/pi_fixture.h"

namespace outrider::test {
namespace {

std::vector<float> read_tap(const PiProvider& provider, const char* name) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  uint64_t n = 0;
  int64_t shape[4];
  uint32_t rank;
  taps->read(taps->self, name, nullptr, 0, &n, shape, &rank);
  std::vector<float> values(n);
  EXPECT_EQ(taps->read(taps->self, name, values.data(), n, &n, shape, &rank), 0) << name;
  return values;
}

void enable_taps(const PiProvider& provider) {
  const void* table = nullptr;
  ASSERT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  ASSERT_EQ(taps->enable(taps->self, 1), 0);
}

class Inputs : public testing::Test {
 protected:
  Inputs()
      : pair_(tiny_pair(PiFamily::kPi05)),
        provider_(config_json({.pair = pair_})),
        request_(make_request(pair_)) {}
  void SetUp() override { ASSERT_TRUE(provider_.ok()) << provider_.open_code(); }
  void expect_refused(const std::vector<frt_image_view>& views, const char* word) {
    ASSERT_EQ(provider_.set_images(request_.views), 0);
    EXPECT_LT(provider_.set_images(views), 0) << word;
    EXPECT_NE(provider_.error().find(word), std::string::npos) << provider_.error();
    EXPECT_EQ(provider_.error().find('\n'), std::string::npos);
    ASSERT_EQ(provider_.set_prompt(request_.prompt), 0);
    ASSERT_EQ(provider_.set_state(request_.state), 0);
    EXPECT_EQ(provider_.step(), FRT_ERR_INVALID) << "the old pictures must be gone";
    EXPECT_FALSE(run_request(provider_, request_).empty()) << "the next good request works";
  }

  const PiPair& pair_;
  PiProvider provider_;
  Request request_;
};

TEST_F(Inputs, FC12_a_float_picture_handed_in_as_8_bit_is_refused) {
  auto views = request_.views;
  std::vector<uint8_t> floats(views[0].bytes * 4);
  views[1].data = floats.data();
  views[1].bytes = floats.size();
  expect_refused(views, "view 1");
}

TEST_F(Inputs, FC13_all_pixel_formats_give_the_same_actions) {
  const auto wanted = run_request(provider_, request_);
  const int64_t n = pair_.image_size * pair_.image_size;
  const struct {
    uint32_t format;
    int channels, r, g, b;
  } formats[] = {
      {FRT_PIXEL_BGR8, 3, 2, 1, 0}, {FRT_PIXEL_RGBA8, 4, 0, 1, 2}, {FRT_PIXEL_BGRA8, 4, 2, 1, 0}};
  for (const auto& format : formats) {
    Request request = request_;
    std::vector<std::vector<uint8_t>> pictures;
    for (size_t v = 0; v < 2; ++v) {
      std::vector<uint8_t> out(static_cast<size_t>(n * format.channels),
                               static_cast<uint8_t>(v == 0 ? 0 : 128));
      for (int64_t p = 0; p < n; ++p) {
        const uint8_t* rgb = request_.pictures[v].data() + p * 3;
        uint8_t* to = out.data() + p * format.channels;
        to[format.r] = rgb[0];
        to[format.g] = rgb[1];
        to[format.b] = rgb[2];
      }
      pictures.push_back(std::move(out));
      request.views[v].pixel_format = format.format;
      request.views[v].data = pictures.back().data();
      request.views[v].bytes = pictures.back().size();
    }
    EXPECT_EQ(run_request(provider_, request), wanted) << format.format;
  }
}

TEST_F(Inputs, FC13_an_unknown_pixel_format_refuses_the_whole_call) {
  auto views = request_.views;
  views[1].pixel_format = 5;
  expect_refused(views, "5");
  views[1].pixel_format = static_cast<uint32_t>(-1);
  expect_refused(views, "view 1");
}

TEST_F(Inputs, FC14_padded_rows_give_the_same_bits_as_a_packed_copy) {
  const auto wanted = run_request(provider_, request_);
  const auto size = static_cast<size_t>(pair_.image_size);
  for (const size_t stride : {size * 3, size * 3 + 1, size * 3 + 64}) {
    Request request = request_;
    std::vector<std::vector<uint8_t>> padded;
    for (size_t v = 0; v < 2; ++v) {
      std::vector<uint8_t> rows((size - 1) * stride + size * 3,
                                0xEE);  // the last row carries no padding
      for (size_t y = 0; y < size; ++y) {
        std::copy_n(request_.pictures[v].begin() + static_cast<int64_t>(y * size * 3), size * 3,
                    rows.begin() + static_cast<int64_t>(y * stride));
      }
      padded.push_back(std::move(rows));
      request.views[v].data = padded.back().data();
      request.views[v].bytes = padded.back().size();
      request.views[v].stride_bytes = static_cast<int32_t>(stride);
    }
    EXPECT_EQ(run_request(provider_, request), wanted) << stride;
  }
}

TEST_F(Inputs, FC14_impossible_geometry_refuses_the_whole_call) {
  const auto with = [&](auto&& change) {
    auto views = request_.views;
    change(views[1]);
    return views;
  };
  const auto size = static_cast<int32_t>(pair_.image_size);
  expect_refused(with([&](auto& v) { v.stride_bytes = size * 3 - 1; }), "stride");
  expect_refused(with([](auto& v) { v.stride_bytes = -1; }), "stride");
  expect_refused(with([](auto& v) { v.height = 0; }), "height");
  expect_refused(with([](auto& v) { v.width = -1; }), "width");
  expect_refused(with([](auto& v) { v.bytes -= 1; }), "bytes");
  expect_refused(with([](auto& v) { v.data = nullptr; }), "view 1");
  expect_refused(with([](auto& v) { v.struct_size = 47; }), "struct_size");
  expect_refused(with([](auto& v) { v.width = v.height = std::numeric_limits<int32_t>::max(); }),
                 "view 1");
  expect_refused(with([&](auto& v) {
                   v.width = size + 1;
                   v.bytes = 1 << 20;
                 }),
                 "view 1");
  expect_refused(with([&](auto& v) { v.height = size - 1; }), "opened for");
}

TEST_F(Inputs, FC15_another_number_of_pictures_is_refused) {
  auto views = request_.views;
  views.pop_back();
  expect_refused(views, "2 views");
  views = request_.views;
  views.push_back(views[0]);
  expect_refused(views, "2 views");
  EXPECT_LT(provider_.set(0, request_.views.data(), 95), 0);
  EXPECT_LT(provider_.set(0, nullptr, 96), 0);
}

TEST_F(Inputs, FC15_views_are_told_apart_by_position) {
  const auto wanted = run_request(provider_, request_);
  Request swapped = request_;
  std::swap(swapped.views[0], swapped.views[1]);
  EXPECT_NE(run_request(provider_, swapped), wanted);
}

TEST(InputsOfOtherSize, FC17_bars_are_black_and_content_lies_where_the_rule_says) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const auto size = static_cast<int>(pair.image_size);
  const struct {
    int width, height;
  } shapes[] = {{640, 480}, {480, 640}, {223, 224}, {3, 1000}, {1280, 720}};
  for (const char* numerics : {R"("numerics":"reference")", R"("numerics":"jetson-pi")"}) {
    for (const auto& shape : shapes) {
      const PiProvider provider(config_json({.pair = pair,
                                             .n_views = 1,
                                             .image_height = shape.height,
                                             .image_width = shape.width,
                                             .extra = numerics}));
      ASSERT_TRUE(provider.ok()) << provider.open_code();
      enable_taps(provider);
      const std::vector<uint8_t> white(static_cast<size_t>(shape.width * shape.height * 3), 255);
      Request request;
      request.views = {rgb_view(white, shape.width, shape.height)};
      run_request(provider, request);
      const auto pixels = read_tap(provider, "pixels_0");
      const double ratio = std::max(double(shape.width) / size, double(shape.height) / size);
      const int w = std::max(1, static_cast<int>(shape.width / ratio)),
                h = std::max(1, static_cast<int>(shape.height / ratio));
      const int left = (size - w) / 2, top = (size - h) / 2;
      int n_wrong = 0;
      for (int y = 0; y < size; ++y) {
        for (int x = 0; x < size; ++x) {
          const bool inside = x >= left && x < left + w && y >= top && y < top + h;
          n_wrong += pixels[static_cast<size_t>((y * size + x) * 3)] != (inside ? 1.0f : -1.0f);
        }
      }
      EXPECT_EQ(n_wrong, 0) << shape.width << "x" << shape.height << " " << numerics;
      EXPECT_EQ(provider.counter("resized_views"), 1);
    }
  }
}

TEST(InputsOfOtherSize, FC17_a_picture_of_the_models_own_size_is_not_touched) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair, .n_views = 1}));
  enable_taps(provider);
  const Request request = make_request(pair, 1);
  run_request(provider, request);
  const auto pixels = read_tap(provider, "pixels_0");
  ASSERT_EQ(pixels.size(), request.pictures[0].size());
  for (size_t i = 0; i < pixels.size(); ++i)
    ASSERT_EQ(pixels[i], static_cast<float>(request.pictures[0][i]) / 255.0f * 2.0f - 1.0f);
  EXPECT_EQ(provider.counter("resized_views"), 0);
}

// ---- prompts ------------------------------------------------------------------------------------

TEST(Prompts, FC05_the_raw_face_adds_its_newline_and_cleans_nothing) {
  const PiPair& pair = tiny_pair(PiFamily::kPi0);
  const PiProvider provider(config_json({.pair = pair}));
  enable_taps(provider);
  const auto ids = [&](const std::string& prompt) {
    Request request = make_request(pair);
    request.prompt = prompt;
    run_request(provider, request);
    return read_tap(provider, "tokens");
  };
  const auto clean = ids("pick up the cup");
  EXPECT_EQ(clean.front(), 2);
  EXPECT_EQ(clean.back(), 108);
  auto with_newline = clean;
  with_newline.push_back(108);
  EXPECT_EQ(ids("pick up the cup\n"), with_newline);
  with_newline.push_back(108);
  EXPECT_EQ(ids("pick up the cup\n\n"), with_newline);
  for (const char* variant : {" pick up the cup", "pick up the cup ", "pick_up_the_cup",
                              "pick up the cup\r\n", "\tpick up the cup"}) {
    EXPECT_NE(ids(variant), clean) << variant;
    EXPECT_EQ(ids(variant).back(), 108) << variant;
  }
}

TEST(Prompts, FC05_the_state_prompt_keeps_its_exact_tail) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  enable_taps(provider);
  Request request = make_request(pair);
  run_request(provider, request);
  const auto clean = read_tap(provider, "tokens");
  EXPECT_EQ(clean.front(), 2);
  EXPECT_NE(clean.back(), 108) << "no newline behind the action cue";
  request.prompt += "\n";
  run_request(provider, request);
  EXPECT_NE(read_tap(provider, "tokens"), clean);
}

TEST(Prompts, FC07_text_beyond_the_limit_is_refused_with_both_counts_and_never_cut) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const PiPair& pair = tiny_pair(family);
    const PiProvider provider(config_json({.pair = pair}));
    Request request = make_request(pair);
    stage_all(provider, request);
    for (const size_t bytes : {size_t{16385}, size_t{1} << 20}) {
      EXPECT_EQ(provider.set_prompt(std::string(bytes, 'x')), FRT_ERR_SHAPE);
      EXPECT_NE(provider.error().find(std::to_string(bytes)), std::string::npos)
          << provider.error();
    }
    std::string emoji;
    for (int i = 0; i < 4000; ++i) emoji += "\xF0\x9F\xA4\x96";
    EXPECT_EQ(provider.set_prompt(emoji), FRT_ERR_SHAPE);
    EXPECT_NE(provider.error().find("1024"), std::string::npos) << provider.error();
    // The longest prompt that fits runs; a little more is refused before or at the run, never cut.
    size_t fits = 0;
    for (size_t n = 900; n <= 1100; ++n) {
      if (provider.set_prompt(std::string(n, '7')) != 0) break;
      const int code = provider.step();
      if (code != 0) {
        EXPECT_EQ(code, FRT_ERR_SHAPE);
        break;
      }
      fits = n;
    }
    EXPECT_GE(fits, 900u);
    EXPECT_LE(fits, 1024u);
    EXPECT_FALSE(run_request(provider, request).empty());
  }
}

TEST(Prompts, bytes_that_are_no_utf8_and_empty_prompts_are_refused) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  for (const std::string& bad : {std::string("\xff"), std::string("abc\xc3"),
                                 std::string("\xed\xa0\x80"), std::string("\xc0\xaf")}) {
    EXPECT_EQ(provider.set_prompt(bad), FRT_ERR_INVALID);
  }
  EXPECT_EQ(provider.set_prompt(""), FRT_ERR_INVALID);
  EXPECT_EQ(provider.set(1, nullptr, 4), FRT_ERR_INVALID);
  EXPECT_FALSE(run_request(provider, make_request(pair)).empty());
}

// ---- states -------------------------------------------------------------------------------------

TEST(States, FC21_pi05_takes_eight_values_or_a_padded_vector) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const auto dim = static_cast<size_t>(pair.action_dim);
  const PiProvider provider(config_json({.pair = pair}));
  Request request = make_request(pair);
  const auto run = [&](std::vector<float> state) {
    stage_all(provider, request);
    EXPECT_EQ(provider.set_state(state), 0);
    return provider.step();
  };
  EXPECT_EQ(run({0.5f}), 0);
  EXPECT_EQ(run(std::vector<float>(8, 0.5f)), 0);
  std::vector<float> chunk, padded_chunk;
  ASSERT_EQ(provider.read(chunk), 0);
  if (dim > 8) {
    std::vector<float> padded(dim, 0.0f);
    std::fill_n(padded.begin(), 8, 0.5f);
    EXPECT_EQ(run(padded), 0);
    ASSERT_EQ(provider.read(padded_chunk), 0);
    EXPECT_EQ(chunk, padded_chunk);
    padded[8] = 0.25f;
    EXPECT_EQ(run(padded), FRT_ERR_SHAPE);
    EXPECT_EQ(run(std::vector<float>(dim + 1, 0.0f)), FRT_ERR_SHAPE);
    EXPECT_NE(provider.error().find(std::to_string(dim + 1)), std::string::npos)
        << provider.error();
  }
  EXPECT_EQ(run(std::vector<float>(4096, 0.0f)), FRT_ERR_SHAPE);
  EXPECT_FALSE(run_request(provider, request).empty());
}

TEST(States, FC21_pi0_pads_with_zeros_up_to_the_action_width) {
  const PiPair& pair = tiny_pair(PiFamily::kPi0);
  const auto dim = static_cast<size_t>(pair.action_dim);
  const PiProvider provider(config_json({.pair = pair}));
  Request request = make_request(pair);
  request.state = {0.5f};
  const auto chunk = run_request(provider, request);
  request.state.resize(dim, 0.0f);
  EXPECT_EQ(run_request(provider, request), chunk);
  request.state.back() = 1;
  EXPECT_NE(run_request(provider, request), chunk) << "the state must matter";
  request.state.resize(dim + 1, 0.0f);
  stage_all(provider, request);
  EXPECT_EQ(provider.step(), FRT_ERR_SHAPE);
}

TEST(States, FC21_lengths_that_are_no_whole_floats_are_refused) {
  const PiProvider provider(config_json({.pair = tiny_pair(PiFamily::kPi0)}));
  const float values[2] = {};
  for (const uint64_t bytes : {0u, 1u, 3u, 5u, 7u})
    EXPECT_EQ(provider.set(2, values, bytes), FRT_ERR_INVALID) << bytes;
  EXPECT_EQ(provider.set(2, nullptr, 4), FRT_ERR_INVALID);
}

TEST(States, FC21_a_length_beyond_any_robot_is_refused_before_it_is_read) {
  const PiProvider provider(config_json({.pair = tiny_pair(PiFamily::kPi0)}));
  const std::vector<float> few(16, 0.0f);  // far shorter than the claimed bytes
  for (const uint64_t bytes : {uint64_t{65537} * 4, uint64_t{1} << 40, UINT64_MAX - 3}) {
    EXPECT_EQ(provider.set(2, few.data(), bytes), FRT_ERR_SHAPE) << bytes;
  }
}

TEST(States, FC22_nan_and_infinity_are_refused_by_index_and_denormals_run) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const PiPair& pair = tiny_pair(family);
    const PiProvider provider(config_json({.pair = pair}));
    const float inf = std::numeric_limits<float>::infinity();
    for (const float bad : {std::nanf(""), inf, -inf}) {
      EXPECT_EQ(provider.set_state({0, 0, bad}), FRT_ERR_INVALID);
      EXPECT_NE(provider.error().find("value 2"), std::string::npos) << provider.error();
    }
    Request request = make_request(pair);
    request.state = {std::numeric_limits<float>::denorm_min(), -1e-40f};
    for (const float v : run_request(provider, request)) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(States, FC22_a_state_out_of_range_prints_minus_one_and_runs) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair}));
  enable_taps(provider);
  Request request = make_request(pair);
  request.state = {-2};
  run_request(provider, request);
  const auto below = read_tap(provider, "tokens");
  request.state = {-1};
  run_request(provider, request);
  EXPECT_EQ(below.size(), read_tap(provider, "tokens").size() + 1)
      << "\"-1\" has one character more than \"0\"";
}

}  // namespace
}  // namespace outrider::test
