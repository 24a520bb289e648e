#include "link/wire/clock_sync.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace outrider::link::wire {
namespace {

// One exchange at `now` with delays there and back, peer clock = ours + offset.
int64_t exchange(ClockSync& sync, int64_t now, int64_t offset, int64_t there, int64_t back,
                 int64_t stay = 5'000) {
  const int64_t peer_receive = now + there + offset, peer_send = peer_receive + stay;
  const int64_t ours = now + there + stay + back;
  sync.add(now, peer_receive, peer_send, ours);
  return ours;
}

TEST(ClockSync, is_exact_on_a_symmetric_link) {
  ClockSync sync;
  EXPECT_FALSE(sync.known());
  exchange(sync, 1'000'000, 123'456'789, 40'000, 40'000);
  ASSERT_TRUE(sync.known());
  EXPECT_EQ(sync.offset_ns(), 123'456'789);
  EXPECT_EQ(sync.trip_ns(), 80'000);
  EXPECT_EQ(sync.to_ours(sync.to_peers(42)), 42);
}

TEST(ClockSync, is_never_wrong_by_more_than_its_bound) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const UniformStream random(seed);
    ClockSync sync;
    const int64_t offset =
        static_cast<int64_t>(random.bits(0) % 2'000'000'000'000) - 1'000'000'000'000;
    int64_t now = 2'000'000'000'000;
    for (uint64_t i = 1; i < 100; ++i) {
      const auto there = static_cast<int64_t>(20'000 + random.bits(2 * i) % 9'000'000);
      const auto back = static_cast<int64_t>(20'000 + random.bits(2 * i + 1) % 9'000'000);
      now = exchange(sync, now, offset, there, back) + 1'000'000;
      ASSERT_LE(std::abs(sync.offset_ns() - offset), sync.bound_ns() + 1) << "seed " << seed;
    }
    EXPECT_EQ(sync.n_steps(), 0u) << "seed " << seed;
  }
}

TEST(ClockSync, follows_a_clock_that_steps_after_three_exchanges) {
  ClockSync sync;
  int64_t now = 0;
  for (int i = 0; i < 50; ++i) now = exchange(sync, now, 0, 50'000, 50'000) + 1'000'000;
  for (int i = 0; i < 2; ++i) {
    now = exchange(sync, now, 7'000'000'000, 50'000, 50'000) + 1'000'000;
    EXPECT_EQ(sync.offset_ns(), 0) << "one strange exchange moves nothing";
  }
  exchange(sync, now, 7'000'000'000, 50'000, 50'000);
  EXPECT_EQ(sync.offset_ns(), 7'000'000'000);
  EXPECT_EQ(sync.n_steps(), 1u);
}

TEST(ClockSync, ignores_nonsense) {
  ClockSync sync;
  sync.add(10, 20, 15, 30);  // the peer sent before it received
  sync.add(30, 20, 25, 10);  // we received before we sent
  sync.add(0, 0, 100, 50);   // the peer's stay is longer than the whole trip
  sync.add(INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX);
  sync.add(0, INT64_MAX, INT64_MAX, 1);
  EXPECT_FALSE(sync.known());
}

}  // namespace
}  // namespace outrider::link::wire
