#include "base/event_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace outrider {
namespace {

// Every field follows from i, so that a mixture of two entries shows.
Event event_number(uint64_t i) {
  const auto n = static_cast<int64_t>(i);
  return {n, static_cast<uint16_t>(i), 3 * n, ~n};
}

template <size_t kSlots>
void put_many(EventRing<kSlots>& ring, uint64_t first, uint64_t n) {
  for (uint64_t i = first; i < first + n; ++i) ring.put(event_number(i));
}

TEST(EventRing, an_empty_ring_has_nothing) {
  EventRing<4> ring;
  EventRing<4>::Reader reader(ring);
  Event event = event_number(77);
  EXPECT_FALSE(reader.take(event));
  EXPECT_EQ(event, event_number(77)) << "untouched";
  EXPECT_EQ(ring.n_put(), 0u);
  EXPECT_EQ(ring.n_overwritten(), 0u);
}

TEST(EventRing, gives_entries_in_order_until_full) {
  for (uint64_t n = 0; n <= 4; ++n) {
    EventRing<4> ring;
    EventRing<4>::Reader reader(ring);
    put_many(ring, 0, n);
    Event event;
    for (uint64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(reader.take(event));
      EXPECT_EQ(event, event_number(i));
    }
    EXPECT_FALSE(reader.take(event));
    EXPECT_EQ(reader.n_lost(), 0u);
    EXPECT_EQ(ring.n_overwritten(), 0u);
  }
}

TEST(EventRing, overwrites_the_oldest_and_counts_them) {
  for (uint64_t n = 5; n <= 13; ++n) {
    EventRing<4> ring;
    EventRing<4>::Reader reader(ring);
    put_many(ring, 0, n);
    EXPECT_EQ(ring.n_overwritten(), n - 4);
    Event event;
    for (uint64_t i = n - 4; i < n; ++i) {
      ASSERT_TRUE(reader.take(event));
      EXPECT_EQ(event, event_number(i)) << n;
    }
    EXPECT_FALSE(reader.take(event));
    EXPECT_EQ(reader.n_lost(), n - 4);
  }
}

TEST(EventRing, a_late_reader_begins_at_the_oldest_kept_and_readers_do_not_disturb_each_other) {
  EventRing<4> ring;
  put_many(ring, 0, 6);
  EventRing<4>::Reader early(ring), late(ring);
  Event event;
  ASSERT_TRUE(early.take(event));
  EXPECT_EQ(event, event_number(2));
  ASSERT_TRUE(late.take(event));
  EXPECT_EQ(event, event_number(2));
  EXPECT_EQ(late.n_lost(), 0u) << "what was gone before it came is not its loss";
}

TEST(EventRing, one_slot_keeps_the_newest) {
  EventRing<1> ring;
  EventRing<1>::Reader reader(ring);
  put_many(ring, 0, 3);
  Event event;
  ASSERT_TRUE(reader.take(event));
  EXPECT_EQ(event, event_number(2));
  EXPECT_FALSE(reader.take(event));
}

// The ring is small and the producer never waits, so readers are lapped in the middle of entries.
TEST(EventRing, readers_in_other_threads_see_whole_entries_in_order_and_account_for_all) {
  constexpr uint64_t kPuts = 300'000;
  constexpr size_t kReaders = 2;
  auto ring = std::make_unique<EventRing<8>>();
  std::atomic<bool> done{false};
  std::atomic<size_t> n_ready{0};
  std::vector<std::thread> threads;
  for (size_t r = 0; r < kReaders; ++r) {
    threads.emplace_back([&] {
      EventRing<8>::Reader reader(*ring);
      n_ready.fetch_add(1);
      uint64_t n_taken = 0, wrong = 0;
      int64_t last = -1;
      const auto drain = [&] {
        Event event;
        while (reader.take(event)) {
          wrong += event != event_number(static_cast<uint64_t>(event.time_ns));
          wrong += event.time_ns <= last;
          last = event.time_ns;
          ++n_taken;
        }
      };
      while (!done.load(std::memory_order_acquire)) drain();
      drain();
      EXPECT_EQ(wrong, 0u);
      EXPECT_EQ(n_taken + reader.n_lost(), kPuts);
      EXPECT_EQ(last, static_cast<int64_t>(kPuts) - 1);
    });
  }
  while (n_ready.load() < kReaders) std::this_thread::yield();
  put_many(*ring, 0, kPuts);
  done.store(true, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace outrider
