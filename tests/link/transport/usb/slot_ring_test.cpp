#include "link/transport/usb/slot_ring.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "link/transport/usb/wait.h"

namespace outrider::link::usb {
namespace {

void put(SlotRing& ring, std::initializer_list<int> values) {
  auto slot = ring.reserve();
  ASSERT_GE(slot.size(), values.size());
  size_t at = 0;
  for (int value : values) slot[at++] = std::byte(value);
  ring.fill(values.size());
}

TEST(UsbSlotRing, gives_bytes_in_order_whatever_the_reader_asks_for) {
  for (size_t ask : {1u, 2u, 3u, 5u, 64u}) {
    SlotRing ring(4, 8);
    put(ring, {1, 2, 3}), put(ring, {}), put(ring, {4}), put(ring, {5, 6, 7, 8});
    std::vector<std::byte> all, piece(ask);
    while (all.size() < 8) {
      const Moved moved = ring.take(piece, 0);
      ASSERT_EQ(moved.io, Io::kDone) << ask;
      ASSERT_GT(moved.bytes, 0u);
      all.insert(all.end(), piece.begin(), piece.begin() + long(moved.bytes));
    }
    for (int i = 0; i < 8; ++i) EXPECT_EQ(all[size_t(i)], std::byte(i + 1)) << ask;
    EXPECT_EQ(ring.take(piece, 0).io, Io::kLate);
  }
}

TEST(UsbSlotRing, never_gives_more_buffers_than_it_has) {
  SlotRing ring(3, 4);
  std::byte one;
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(ring.n_free(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.reserve().size(), 4u);
    EXPECT_TRUE(ring.reserve().empty());
    EXPECT_TRUE(ring.reserve_until(soon_ns(1'000'000)).empty());
    for (int i = 0; i < 3; ++i) ring.fill(1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.take(std::span(&one, 1), 0).bytes, 1u);
  }
  EXPECT_EQ(ring.n_taken_bytes(), 15u);
}

// FC-39: empty packets are nothing, neither data nor an end.
TEST(UsbSlotRing, FC39_empty_packets_are_ignored) {
  SlotRing ring(2, 4);
  std::byte one;
  for (int i = 0; i < 10; ++i) {
    put(ring, {});
    EXPECT_EQ(ring.take(std::span(&one, 1), 0).io, Io::kLate);
  }
  put(ring, {}), put(ring, {9});
  EXPECT_EQ(ring.take(std::span(&one, 1), 0).bytes, 1u);
  EXPECT_EQ(one, std::byte{9});
}

TEST(UsbSlotRing, an_end_comes_after_what_was_before_it_but_shut_comes_at_once) {
  std::byte one;
  for (Io io : {Io::kClosed, Io::kReset, Io::kGone, Io::kBroken}) {
    SlotRing ring(2, 4);
    put(ring, {1, 2});
    ring.end(io), ring.end(Io::kClosed);  // the first counts
    EXPECT_TRUE(ring.reserve().empty());
    EXPECT_EQ(ring.take(std::span(&one, 1), 0).io, Io::kDone);
    EXPECT_EQ(ring.take(std::span(&one, 1), 0).io, Io::kDone);
    EXPECT_EQ(ring.take(std::span(&one, 1), kForever).io, io);
  }
  SlotRing ring(2, 4);
  put(ring, {1, 2});
  ring.end(Io::kGone), ring.end(Io::kShut);
  EXPECT_EQ(ring.take(std::span(&one, 1), 0).io, Io::kShut);
}

TEST(UsbSlotRing, an_end_wakes_whoever_waits) {
  SlotRing ring(1, 4);
  std::thread taker([&] {
    std::byte one;
    EXPECT_EQ(ring.take(std::span(&one, 1), kForever).io, Io::kShut);
  });
  std::thread filler([&] {
    EXPECT_FALSE(ring.reserve().empty());
    EXPECT_TRUE(ring.reserve_until(kForever).empty());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ring.end(Io::kShut);
  taker.join(), filler.join();
}

TEST(UsbSlotRing, two_threads_move_a_megabyte_exactly) {
  SlotRing ring(8, 1000);
  constexpr size_t kTotal = 1'000'003;
  std::thread filler([&] {
    for (size_t at = 0; at < kTotal;) {
      auto slot = ring.reserve_until(kForever);
      const size_t bytes = std::min({slot.size(), size_t{1 + at % 999}, kTotal - at});
      for (size_t i = 0; i < bytes; ++i) slot[i] = std::byte((at + i) * 31 >> 3);
      ring.fill(bytes);
      at += bytes;
    }
    ring.end(Io::kClosed);
  });
  std::vector<std::byte> piece(777);
  size_t at = 0;
  for (;;) {
    const Moved moved = ring.take(piece, kForever);
    if (moved.io == Io::kClosed) break;
    ASSERT_EQ(moved.io, Io::kDone);
    for (size_t i = 0; i < moved.bytes; ++i)
      ASSERT_EQ(piece[i], std::byte((at + i) * 31 >> 3)) << at + i;
    at += moved.bytes;
  }
  filler.join();
  EXPECT_EQ(at, kTotal);
}

}  // namespace
}  // namespace outrider::link::usb
