#include "base/event_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace outrider {
namespace {

// Every field follows from i, so that a mixture of two entries shows.
Event event_number(uint64_t i) {
  const auto n = static_cast<int64_t>(i);
  return {n, static_cast<uint16_t>(i), 3 * n, ~n};
}

template <class Ring>
void put_many(Ring& ring, uint64_t first, uint64_t n) {
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

void overtake_once();
using OvertakenRing = EventRing<2, &overtake_once>;
OvertakenRing* overtaken = nullptr;
uint64_t n_puts_in_the_middle = 0;

void overtake_once() {
  const uint64_t n = std::exchange(n_puts_in_the_middle, 0);
  put_many(*overtaken, overtaken->n_put(), n);
}

TEST(EventRing, an_entry_replaced_while_it_is_read_is_lost_and_never_a_mixture) {
  for (uint64_t n = 0; n <= 5; ++n) {
    OvertakenRing ring;
    overtaken = &ring;
    OvertakenRing::Reader reader(ring);
    put_many(ring, 0, 2);
    n_puts_in_the_middle = n;
    Event event;
    ASSERT_TRUE(reader.take(event));
    EXPECT_EQ(event, event_number(n)) << "the oldest that is whole";
    EXPECT_EQ(reader.n_lost(), n);
  }
}

// The rings are small and the producer never waits, so readers are lapped in the middle of entries;
// with one slot most reads meet a write, if the machine runs the threads at the same time.
template <size_t kSlots>
void follow_while_putting(uint64_t n_puts) {
  constexpr size_t kReaders = 2;
  auto ring = std::make_unique<EventRing<kSlots>>();
  std::atomic<bool> done{false};
  std::atomic<size_t> n_ready{0};
  std::vector<std::thread> threads;
  for (size_t r = 0; r < kReaders; ++r) {
    threads.emplace_back([&] {
      typename EventRing<kSlots>::Reader reader(*ring);
      n_ready.fetch_add(1);
      uint64_t n_taken = 0, n_wrong = 0;
      int64_t last = -1;
      const auto drain = [&] {
        Event event;
        while (reader.take(event)) {
          n_wrong += event != event_number(static_cast<uint64_t>(event.time_ns));
          n_wrong += event.time_ns <= last;
          last = event.time_ns;
          ++n_taken;
        }
      };
      while (!done.load(std::memory_order_acquire)) drain();
      drain();
      EXPECT_EQ(n_wrong, 0u);
      EXPECT_EQ(n_taken + reader.n_lost(), n_puts);
      EXPECT_EQ(last, static_cast<int64_t>(n_puts) - 1);
    });
  }
  while (n_ready.load() < kReaders) std::this_thread::yield();
  put_many(*ring, 0, n_puts);
  done.store(true, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
}

TEST(EventRing, readers_in_other_threads_see_whole_entries_in_order_and_account_for_all) {
  follow_while_putting<1>(300'000);
  follow_while_putting<2>(100'000);
  follow_while_putting<8>(100'000);
}

}  // namespace
}  // namespace outrider
