// Field cases in other clothes: inputs of the same kinds as those of policy_face_test.cpp that
// nobody wrote down. FC-05 to 07, 12 to 17, 22, 23, 26.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "outrider/ext/taps.h"
#include "providers/policy_fixture.h"

namespace outrider::test {
namespace {

std::vector<float> tap(const PolicyProvider& provider, const std::string& name) {
  const void* table = nullptr;
  EXPECT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  uint64_t n = 0;
  int64_t shape[4];
  uint32_t rank = 0;
  taps->read(taps->self, name.c_str(), nullptr, 0, &n, shape, &rank);
  std::vector<float> out(n);
  EXPECT_EQ(taps->read(taps->self, name.c_str(), out.data(), n, &n, shape, &rank), 0) << name;
  return out;
}
void taps_on(const PolicyProvider& provider) {
  const void* table = nullptr;
  ASSERT_EQ(provider->query_extension(provider.get(), OUTRIDER_EXT_TAPS, 1, &table), 0);
  const auto* taps = static_cast<const outrider_taps_v1*>(table);
  ASSERT_EQ(taps->enable(taps->self, 1), 0);
}

TEST(PolicyVariants, FC05_blanks_of_any_alphabet_are_trimmed_and_nothing_else_is) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family});
    const PolicyProvider provider(folder.config());
    stage_robot(provider, folder.pair());
    const auto first = provider.tick();
    for (const char* same :
         {"\xC2\xA0pick up the red block\xE3\x80\x80", "\x1Fpick up the red block\x0B\x0C",
          "\xE2\x80\xA8pick_up\nthe_red\nblock\xC2\x85\r\n"}) {
      ASSERT_EQ(provider.set_text("prompt", same), 0) << provider.error();
      EXPECT_EQ(provider.tick(), first) << same;
    }
    // A zero-width space is no white space, a tab inside stays, case stays.
    for (const char* other : {"pick up the red block\xE2\x80\x8B", "pick\tup the red block",
                              "Pick up the red block", "pick up  the red block"}) {
      ASSERT_EQ(provider.set_text("prompt", other), 0) << provider.error();
      EXPECT_NE(provider.tick(), first) << other;
    }
  }
}

int64_t cpu_ns() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// Time of this thread alone, so that other work on the machine does not count.
TEST(PolicyVariants, FC06_a_length_that_is_seen_for_the_first_time_costs_no_more) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());  // one thread: this one
  stage_robot(provider, folder.pair());
  for (int i = 0; i < 3; ++i) provider.tick();
  std::vector<int64_t> fresh, known;
  std::set<int64_t> seen;
  for (int i = 0; i < 120; ++i) {
    // One digit to three in each value, in an order of its own.
    std::vector<float> state(6);
    for (size_t k = 0; k < 6; ++k) {
      const int digits = (i >> k) % 3;
      const double bin = digits == 0 ? 4 : digits == 1 ? 40 : 200;
      state[k] = static_cast<float>(
          (bin + 0.5) / 128 / 2 *
              (q99_of(static_cast<int64_t>(k)) - q01_of(static_cast<int64_t>(k))) +
          q01_of(static_cast<int64_t>(k)));
    }
    ASSERT_EQ(provider.set_floats("state", state), 0);
    const int64_t begin = cpu_ns();
    ASSERT_EQ(provider.step(), 0);
    const int64_t took = cpu_ns() - begin;
    (seen.insert(provider.counter("prefix_tokens")).second ? fresh : known).push_back(took);
  }
  ASSERT_GE(fresh.size(), 6u) << "the lengths must differ";
  const auto middle = [](std::vector<int64_t> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                     values.end());
    return static_cast<double>(values[values.size() / 2]);
  };
  EXPECT_LE(middle(fresh), 1.5 * middle(known));
}

TEST(PolicyVariants, FC07_a_state_that_makes_the_prompt_too_long_is_refused_at_the_run) {
  const RobotFolder probe({.family = PiFamily::kPi05});
  const PolicyProvider first(probe.config());
  stage_robot(first, probe.pair());
  taps_on(first);
  const std::vector<float> low(6, -50.0f);  // "-1" each
  ASSERT_EQ(first.set_floats("state", low), 0);
  first.tick();
  const auto longest = static_cast<int64_t>(tap(first, "tokens").size());
  const std::string one_less =
      R"(,"prompt":{"max_tokens":)" + std::to_string(longest - 1) + R"(,"too_long":")";
  const RobotFolder strict({.family = PiFamily::kPi05, .more = one_less + R"(refuse"})"}),
      cutting({.family = PiFamily::kPi05, .more = one_less + R"(cut"})"});
  const PolicyProvider a(strict.config()), b(cutting.config());
  ASSERT_TRUE(a.ok() && b.ok());
  stage_robot(a, strict.pair());
  stage_robot(b, cutting.pair());
  ASSERT_EQ(a.set_floats("state", low), 0);
  EXPECT_EQ(a.step(), -4);
  EXPECT_NE(a.error().find(std::to_string(longest) + " tokens with the state"), std::string::npos)
      << a.error();
  EXPECT_TRUE(a.actions().empty());
  // Zero is bin "-1" of nothing: a state with shorter numbers runs.
  std::vector<float> high(6);
  for (size_t k = 0; k < 6; ++k) high[k] = static_cast<float>(q01_of(static_cast<int64_t>(k)));
  ASSERT_EQ(a.set_floats("state", high), 0);
  EXPECT_FALSE(a.tick().empty()) << "the prompt is still there";
  taps_on(b);
  ASSERT_EQ(b.set_floats("state", low), 0);
  EXPECT_FALSE(b.tick().empty());
  EXPECT_EQ(b.counter("cut_prompts"), 1);
  const auto cut = tap(b, "tokens");
  EXPECT_LE(static_cast<int64_t>(cut.size()), longest - 1);
  // State and cue are whole: the tails are equal.
  auto whole = tap(first, "tokens");
  std::reverse(whole.begin(), whole.end());
  auto reversed = cut;
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_TRUE(std::equal(reversed.begin(), reversed.begin() + 20, whole.begin()));
}

TEST(PolicyVariants, FC12_a_double_picture_handed_in_as_8_bit_is_refused) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  const int64_t s = folder.pair().image_size;
  const std::vector<uint8_t> values(static_cast<size_t>(s * s * 3) * 8);
  const auto view = rgb_view(values, s, s);
  EXPECT_EQ(provider.set("top", &view, sizeof view), -1) << provider.error();
  EXPECT_NE(provider.error().find("float pixels"), std::string::npos) << provider.error();
}

TEST(PolicyVariants, FC13_grey_is_replicated_and_alpha_dropped_for_a_named_camera) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const int64_t s = folder.pair().image_size;
  const auto n = static_cast<size_t>(s * s);
  std::vector<uint8_t> grey(n), rgb(n * 3), bgra(n * 4);
  for (size_t i = 0; i < n; ++i) {
    grey[i] = static_cast<uint8_t>(i * 7);
    for (size_t c = 0; c < 3; ++c) rgb[i * 3 + c] = bgra[i * 4 + c] = grey[i];
    bgra[i * 4 + 3] = static_cast<uint8_t>(i % 3 * 128);
  }
  ASSERT_EQ(provider.set_camera("top", rgb, s, s), 0);
  const auto wanted = provider.tick();
  auto view = rgb_view(grey, s, s);
  view.pixel_format = FRT_PIXEL_GRAY8;
  ASSERT_EQ(provider.set("top", &view, sizeof view), 0) << provider.error();
  EXPECT_EQ(provider.tick(), wanted);
  view = rgb_view(bgra, s, s);
  view.pixel_format = FRT_PIXEL_BGRA8;
  ASSERT_EQ(provider.set("top", &view, sizeof view), 0) << provider.error();
  EXPECT_EQ(provider.tick(), wanted);
}

TEST(PolicyVariants, FC14_a_window_into_a_larger_frame_is_the_picture) {
  const RobotFolder folder;
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const int64_t s = folder.pair().image_size;
  const auto frame = noise_rgb(2 * s + 5, 2 * s, 3);
  const auto stride = static_cast<size_t>(2 * s + 5) * 3, row = static_cast<size_t>(s) * 3;
  const size_t from = 7 * stride + 11 * 3;
  std::vector<uint8_t> packed;
  for (size_t y = 0; y < static_cast<size_t>(s); ++y)
    packed.insert(packed.end(), frame.begin() + static_cast<int64_t>(from + y * stride),
                  frame.begin() + static_cast<int64_t>(from + y * stride + row));
  ASSERT_EQ(provider.set_camera("top", packed, s, s), 0);
  const auto wanted = provider.tick();
  auto view = rgb_view(packed, s, s);
  view.data = frame.data() + from;
  view.bytes = (static_cast<size_t>(s) - 1) * stride + row;  // to the last pixel, no further
  view.stride_bytes = static_cast<int32_t>(stride);
  ASSERT_EQ(provider.set("top", &view, sizeof view), 0) << provider.error();
  EXPECT_EQ(provider.tick(), wanted);
  for (const int32_t bad : {-static_cast<int32_t>(stride), std::numeric_limits<int32_t>::min(),
                            static_cast<int32_t>(stride + 1)}) {
    view.stride_bytes = bad;
    EXPECT_LT(provider.set("top", &view, sizeof view), 0) << bad;
    EXPECT_LT(provider.step(), 0) << "the picture before is gone";
  }
}

TEST(PolicyVariants, FC15_the_middle_of_three_cameras_may_be_absent) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const std::string ends = R"({"name":"top","slot":"base_0_rgb"},)"
                             R"({"name":"right","slot":"right_wrist_0_rgb"})";
    const RobotFolder three({.family = family,
                             .cameras = ends + R"(,{"name":"left","slot":"left_wrist_0_rgb",)"
                                               R"("required":false})"}),
        two({.family = family, .cameras = ends});
    const PolicyProvider a(three.config()), b(two.config());
    ASSERT_TRUE(a.ok() && b.ok());
    const int64_t s = three.pair().image_size;
    for (const PolicyProvider* p : {&a, &b}) {
      ASSERT_EQ(p->set_camera("right", noise_rgb(s, s, 7), s, s), 0);
      ASSERT_EQ(p->set_camera("top", noise_rgb(s, s, 6), s, s), 0);
      ASSERT_EQ(p->set_text("prompt", "pick up"), 0);
      ASSERT_EQ(p->set_floats("state", some_state(6)), 0);
    }
    const auto wanted = b.tick();
    EXPECT_EQ(a.tick(), wanted);
    ASSERT_EQ(a.set_camera("left", noise_rgb(s, s, 8), s, s), 0);
    EXPECT_NE(a.tick(), wanted);
    ASSERT_EQ(a.set("left", nullptr, 0), 0);
    EXPECT_EQ(a.tick(), wanted) << "nothing of it is left";
  }
}

TEST(PolicyVariants, FC16_names_that_differ_in_case_are_different_cameras) {
  const RobotFolder folder({.cameras = R"({"name":"cam","slot":"base_0_rgb"},)"
                                       R"({"name":"Cam","slot":"left_wrist_0_rgb"})"}),
      exchanged({.cameras = R"({"name":"Cam","slot":"base_0_rgb"},)"
                            R"({"name":"cam","slot":"left_wrist_0_rgb"})"});
  std::vector<float> got[2];
  for (const RobotFolder* f : {&folder, &exchanged}) {
    const PolicyProvider provider(f->config());
    ASSERT_TRUE(provider.ok());
    const int64_t s = f->pair().image_size;
    const bool other = f == &exchanged;
    ASSERT_EQ(provider.set_camera(other ? "Cam" : "cam", noise_rgb(s, s, 1), s, s), 0);
    ASSERT_EQ(provider.set_camera(other ? "cam" : "Cam", noise_rgb(s, s, 2), s, s), 0);
    ASSERT_EQ(provider.set_text("prompt", "pick up"), 0);
    ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
    got[other] = provider.tick();
  }
  EXPECT_EQ(got[0], got[1]);
}

TEST(PolicyVariants, FC17_bars_of_thin_pictures_are_exactly_black) {
  for (const auto& [w, h] :
       {std::pair<int64_t, int64_t>{64, 1}, {1, 64}, {57, 56}, {56, 57}, {55, 111}}) {
    for (const char* rule : {"pil", "torch"}) {
      const RobotFolder folder({.more = std::string(R"(,"resize":")") + rule + "\"",
                                .cameras = R"({"name":"top","slot":"base_0_rgb","height":)" +
                                           std::to_string(h) + R"(,"width":)" + std::to_string(w) +
                                           "}"});
      const PolicyProvider provider(folder.config());
      ASSERT_TRUE(provider.ok());
      taps_on(provider);
      ASSERT_EQ(provider.set_camera(
                    "top", std::vector<uint8_t>(static_cast<size_t>(w * h * 3), 255), w, h),
                0);
      ASSERT_EQ(provider.set_text("prompt", "pick up"), 0);
      ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
      provider.tick();
      const auto pixels = tap(provider, "pixels_0");
      const auto s = static_cast<int64_t>(folder.pair().image_size);
      const double ratio = std::max(static_cast<double>(w) / static_cast<double>(s),
                                    static_cast<double>(h) / static_cast<double>(s));
      const auto side = [&](int64_t n) {
        return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(n) / ratio));
      };
      const int64_t left = (s - side(w)) / 2, top = (s - side(h)) / 2;
      int wrong = 0;
      for (int64_t y = 0; y < s; ++y)
        for (int64_t x = 0; x < s; ++x) {
          const bool inside = x >= left && x < left + side(w) && y >= top && y < top + side(h);
          const float value = pixels[static_cast<size_t>((y * s + x) * 3)];
          wrong += inside ? std::abs(value - 1) > 1e-6f : value != -1;
        }
      EXPECT_EQ(wrong, 0) << w << "x" << h << " " << rule;
    }
  }
}

TEST(PolicyVariants, FC22_the_optional_ports_take_no_value_that_is_no_number) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto free_run = provider.tick();
  for (const char* port : {"guidance_weight", "prefix_steps", "extra_tokens"}) {
    size_t n = 1;
    for (const int64_t side : provider.shape(port)) n *= static_cast<size_t>(side);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      std::vector<float> values(n, 0.0f);
      values[n / 2] = bad;
      EXPECT_EQ(provider.set_floats(port, values), -1) << port;
      EXPECT_NE(provider.error().find("value " + std::to_string(n / 2)), std::string::npos);
    }
    EXPECT_EQ(provider.tick(), free_run) << "refused is as if nothing had come";
  }
}

TEST(PolicyVariants, FC22_the_largest_numbers_end_in_numbers_or_in_a_code) {
  for (const PiFamily family : {PiFamily::kPi0, PiFamily::kPi05}) {
    const RobotFolder folder({.family = family, .action_more = R"(,"delta_mask":[6])"});
    const PolicyProvider provider(folder.config());
    stage_robot(provider, folder.pair());
    const float most = std::numeric_limits<float>::max();
    for (const float value : {most, -most, 1e30f}) {
      ASSERT_EQ(provider.set_floats("state", std::vector<float>(6, value)), 0);
      const int code = provider.step();
      if (code == 0) {
        for (const float v : provider.actions()) ASSERT_TRUE(std::isfinite(v)) << value;
      } else {
        EXPECT_EQ(code, -8);
        EXPECT_TRUE(provider.actions().empty());
      }
    }
    ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
    EXPECT_FALSE(provider.tick().empty()) << "and the next tick is good";
  }
}

TEST(PolicyVariants, FC23_a_newer_state_never_meets_an_older_observation) {
  const RobotFolder folder({.action_more = R"(,"delta_mask":[6])"});
  const PolicyProvider provider(folder.config());
  stage_robot(provider, folder.pair());
  const auto wanted = provider.tick();
  ASSERT_EQ(provider.context(), 0);
  ASSERT_EQ(provider.set_floats("state", std::vector<float>(6, 3.0f)), 0);
  EXPECT_NE(provider.action(), 0) << "the context belongs to another state";
  EXPECT_TRUE(provider.actions().empty());
  ASSERT_EQ(provider.set_floats("state", some_state(6)), 0);
  EXPECT_EQ(provider.tick(), wanted);
}

TEST(PolicyVariants, FC26_conditions_that_were_taken_back_leave_no_trace) {
  const RobotFolder folder({.family = PiFamily::kPi05});
  const PolicyProvider provider(folder.config(R"(,"reuse":"on")")), other(folder.config());
  stage_robot(provider, folder.pair());
  stage_robot(other, folder.pair());
  const auto first = other.tick();
  const auto n_rows = static_cast<size_t>(folder.pair().action_steps);
  const auto extra = provider.shape("extra_tokens");
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(provider.tick(), first) << i;
    ASSERT_EQ(provider.set_floats("previous_chunk", std::vector<float>(first.size(), 0.1f)), 0);
    ASSERT_EQ(provider.set_floats("prefix_weights", std::vector<float>(n_rows, 0.5f)), 0);
    ASSERT_EQ(provider.set_floats("guidance_weight", {static_cast<float>(i % 3)}), 0);
    if (i % 2 == 0) {
      ASSERT_EQ(provider.set_floats("prefix_steps", {2}), 0);
    }
    ASSERT_EQ(
        provider.set_floats("extra_tokens",
                            std::vector<float>(static_cast<size_t>(extra[0] * extra[1]), 0.3f)),
        0);
    EXPECT_NE(provider.tick(), first);
    for (const char* port :
         {"previous_chunk", "prefix_weights", "guidance_weight", "prefix_steps", "extra_tokens"})
      ASSERT_EQ(provider.set(port, nullptr, 0), 0) << port;
  }
}

}  // namespace
}  // namespace outrider::test
