// What is kept across ticks: never visible in the bits, always in the counters.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "providers/pi_fixture.h"

namespace outrider::test {
namespace {

struct Variant {
  PiFamily family;
  DType dtype;
  const char* precision;
};

struct Counts {
  int64_t computed_views, reused_views, reused_prefixes;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << "computed " << c.computed_views << ", reused " << c.reused_views << ", prefixes "
             << c.reused_prefixes;
}

class Reuse : public testing::TestWithParam<Variant> {
 protected:
  Reuse()
      : pair_(tiny_pair(GetParam().family, GetParam().dtype)), request_(make_request(pair_, 3)) {}

  std::string config(const std::string& extra = R"(,"reuse":"on")") const {
    return config_json(
        {.pair = pair_,
         .n_views = 3,
         .extra = std::string(R"("precision":")") + GetParam().precision + "\"" + extra});
  }
  bool is_pi0() const { return GetParam().family == PiFamily::kPi0; }
  void new_picture(size_t view, uint64_t seed) {
    request_.pictures[view] = noise_rgb(pair_.image_size, pair_.image_size, seed);
    request_.views[view] = rgb_view(request_.pictures[view], pair_.image_size, pair_.image_size);
  }
  void swap_views(size_t a, size_t b) {
    std::swap(request_.views[a], request_.views[b]);
    std::swap(request_.pictures[a], request_.pictures[b]);
  }

  // What a runtime that has seen nothing makes of the request.
  std::vector<float> fresh() const {
    const PiProvider provider(config(R"(,"reuse":"off")"));
    return run_request(provider, request_);
  }
  // Runs the request, wants the bits of a fresh runtime and what the counters moved by.
  void expect_tick(const PiProvider& provider, const Counts& wanted, const char* what) {
    const Counts before = counts(provider);
    EXPECT_EQ(run_request(provider, request_), fresh()) << what;
    const Counts after = counts(provider);
    EXPECT_EQ((Counts{after.computed_views - before.computed_views,
                      after.reused_views - before.reused_views,
                      after.reused_prefixes - before.reused_prefixes}),
              wanted)
        << what;
  }
  static Counts counts(const PiProvider& provider) {
    return {provider.counter("computed_views"), provider.counter("reused_views"),
            provider.counter("reused_prefixes")};
  }

  const PiPair& pair_;
  Request request_;
};

INSTANTIATE_TEST_SUITE_P(Models, Reuse,
                         testing::Values(Variant{PiFamily::kPi0, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kF32, "f32"},
                                         Variant{PiFamily::kPi05, DType::kBf16, "bf16"},
                                         Variant{PiFamily::kPi05, DType::kF32, "int8"},
                                         Variant{PiFamily::kPi0, DType::kF16, "stored"}),
                         [](const auto& p) {
                           return std::string(p.param.family == PiFamily::kPi0 ? "pi0_" : "pi05_") +
                                  std::string(dtype_info(p.param.dtype).name) + "_" +
                                  p.param.precision;
                         });

TEST_P(Reuse, unchanged_inputs_are_computed_once) {
  const PiProvider provider(config());
  EXPECT_EQ(counts(provider), (Counts{0, 0, 0})) << "the warm-up counts for nothing";
  expect_tick(provider, {3, 0, 0}, "first");
  expect_tick(provider, {0, 3, 1}, "second");
  expect_tick(provider, {0, 3, 1}, "third");
}

TEST_P(Reuse, a_single_changed_byte_computes_that_view_and_no_other) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  for (size_t view = 0; view < 3; ++view) {
    auto& bytes = request_.pictures[view];
    for (const size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      bytes[at] ^= 1;
      expect_tick(provider, {1, 2, 0}, "changed");
      expect_tick(provider, {0, 3, 1}, "and again");
    }
  }
}

TEST_P(Reuse, any_mix_of_changed_and_unchanged_views_gives_the_same_bits) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  uint64_t seed = 5000;
  for (int mask = 0; mask < 8; ++mask) {
    int64_t n_changed = 0;
    for (size_t view = 0; view < 3; ++view) {
      if ((mask >> view & 1) == 0) continue;
      new_picture(view, seed++);
      ++n_changed;
    }
    expect_tick(provider, {n_changed, 3 - n_changed, n_changed == 0}, "mask");
  }
}

TEST_P(Reuse, views_that_change_places_are_found_again_but_make_another_prefix) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  const auto before = run_request(provider, request_);
  swap_views(0, 2);
  expect_tick(provider, {0, 3, 0}, "swapped");
  EXPECT_NE(run_request(provider, request_), before);
  swap_views(0, 1);
  new_picture(2, 77);
  expect_tick(provider, {1, 2, 0}, "swapped and changed");
  request_.views[1] = request_.views[2];
  expect_tick(provider, {0, 3, 0}, "one picture in two views");
  new_picture(1, 78);
  request_.views[0] = request_.views[1];
  expect_tick(provider, {1, 2, 0}, "a new picture in two views");
}

TEST_P(Reuse, another_prompt_keeps_the_views_alone) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  const std::string first = request_.prompt;
  for (const char* prompt : {"go", "pick up the red block and put it on the plate",
                             "pick up the red bloc", "pick up the red blocks"}) {
    request_.prompt = prompt;
    expect_tick(provider, {0, 3, 0}, prompt);
    expect_tick(provider, {0, 3, 1}, prompt);
  }
  request_.prompt = first;
  expect_tick(provider, {0, 3, 0}, "the first again");
}

TEST_P(Reuse, another_state_is_another_prefix_only_where_the_prompt_tells_it) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  request_.state = {-0.7f, 0.4f, 0.9f};
  expect_tick(provider, {0, 3, is_pi0()}, "state");
  request_.state[0] += 1e-5f;  // stays in its bin: PI0.5 sees the same text
  expect_tick(provider, {0, 3, 1}, "the same bin");
}

TEST_P(Reuse, refused_inputs_and_split_runs_change_nothing) {
  const PiProvider provider(config());
  expect_tick(provider, {3, 0, 0}, "first");
  EXPECT_LT(provider.set_state({NAN}), 0);
  EXPECT_LT(provider.step(), 0);
  expect_tick(provider, {0, 3, 1}, "after a refused state");
  EXPECT_LT(provider.set_prompt("\xff"), 0);
  expect_tick(provider, {0, 3, 1}, "after a refused prompt");
  // Another picture is staged and never run; then one is refused behind a good one.
  auto views = request_.views;
  const auto other = noise_rgb(pair_.image_size, pair_.image_size, 99);
  views[1] = rgb_view(other, pair_.image_size, pair_.image_size);
  ASSERT_EQ(provider.set_images(views), 0);
  views[2].height += 1;
  EXPECT_LT(provider.set_images(views), 0);
  expect_tick(provider, {0, 3, 1}, "after pictures that never ran");
  // A context that no action follows.
  new_picture(0, 123);
  stage_all(provider, request_);
  ASSERT_EQ(provider.context(), 0);
  expect_tick(provider, {0, 3, 1}, "its prefix is there");
  stage_all(provider, request_);
  ASSERT_EQ(provider.context(), 0);
  ASSERT_EQ(provider.context(), 0);
  ASSERT_EQ(provider.action(), 0);
  std::vector<float> actions;
  ASSERT_EQ(provider.read(actions), 0);
  EXPECT_EQ(actions, fresh());
}

TEST_P(Reuse, can_be_switched_off_and_is_no_part_of_the_identity) {
  const PiProvider on(config(R"(,"reuse":"on")")), off(config(R"(,"reuse":"off")")),
      plain(config(""));
  ASSERT_TRUE(on.ok() && off.ok() && plain.ok());
  EXPECT_EQ(on->exp->fingerprint, off->exp->fingerprint);
  EXPECT_EQ(on->exp->fingerprint, plain->exp->fingerprint);
  expect_tick(off, {3, 0, 0}, "off");
  expect_tick(off, {3, 0, 0}, "off, again");
  expect_tick(plain, {3, 0, 0}, "off is the default");
  expect_tick(plain, {3, 0, 0}, "off is the default, again");
  EXPECT_EQ(PiProvider(config(R"(,"reuse":"auto")")).open_code(), FRT_ERR_INVALID);
}

TEST_P(Reuse, random_walks_through_requests_give_the_bits_of_a_run_without_it) {
  const PiProvider with(config()), without(config(R"(,"reuse":"off")"));
  const UniformStream stream(20, "reuse walk");
  const char* prompts[] = {"go", "pick up the red block", "open the drawer please"};
  for (uint64_t tick = 0; tick < 60; ++tick) {
    const auto draw = [&](uint64_t i, uint64_t n) { return (stream.bits(tick * 8 + i) >> 33) % n; };
    switch (draw(0, 6)) {
      case 0:
        new_picture(draw(1, 3), draw(2, 6));
        break;
      case 1:
        swap_views(draw(1, 3), draw(2, 3));
        break;
      case 2:
        request_.prompt = prompts[draw(1, 3)];
        break;
      case 3:
        request_.state[0] = static_cast<float>(draw(1, 3)) * 0.3f;
        break;
      case 4:
        request_.pictures[draw(1, 3)][draw(2, 100)] ^= static_cast<uint8_t>(1 << draw(3, 8));
        break;
      default:
        break;  // the same again
    }
    ASSERT_EQ(run_request(with, request_), run_request(without, request_)) << tick;
  }
  EXPECT_GT(with.counter("reused_views"), 80);
  EXPECT_GT(with.counter("reused_prefixes"), 8);
  EXPECT_GT(with.counter("computed_views"), 8);
  EXPECT_EQ(without.counter("reused_views"), 0);
}

TEST(ReuseAfterResize, compares_what_the_model_sees) {
  const PiPair& pair = tiny_pair(PiFamily::kPi05);
  const PiProvider provider(config_json({.pair = pair,
                                         .n_views = 1,
                                         .image_height = 48,
                                         .image_width = 80,
                                         .extra = R"("reuse":"on")"}));
  Request request;
  request.pictures = {noise_rgb(80, 48, 1)};
  request.views = {rgb_view(request.pictures[0], 80, 48)};
  const auto first = run_request(provider, request);
  EXPECT_EQ(run_request(provider, request), first);
  EXPECT_EQ(provider.counter("reused_prefixes"), 1);
  for (size_t i = 0; i < 300; ++i) request.pictures[0][i] ^= 0x80;
  EXPECT_NE(run_request(provider, request), first);
  EXPECT_EQ(provider.counter("computed_views"), 2);
}

}  // namespace
}  // namespace outrider::test
