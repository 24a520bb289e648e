#include "base/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace outrider {
namespace {

size_t page_bytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t resident_pages(const void* data, size_t n_pages) {
  std::vector<unsigned char> present(n_pages);
  if (mincore(const_cast<void*>(data), n_pages * page_bytes(), present.data()) != 0) return 0;
  size_t n = 0;
  for (const unsigned char flags : present) n += flags & 1;
  return n;
}

TEST(Arena, gives_zeroed_memory_at_every_size_around_a_page) {
  for (const size_t n : {size_t{1}, page_bytes() - 1, page_bytes(), page_bytes() + 1}) {
    Arena arena;
    ASSERT_TRUE(arena.reserve(n)) << n;
    EXPECT_GE(arena.capacity_bytes(), n);
    EXPECT_EQ(arena.capacity_bytes() % page_bytes(), 0u);
    for (const uint8_t byte : arena.take<uint8_t>(n)) ASSERT_EQ(byte, 0);
  }
}

TEST(Arena, takes_are_aligned_disjoint_and_cost_what_cost_says) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(1 << 16));
  size_t expected_used = 0;
  const std::byte* end_of_last = nullptr;
  for (const size_t n : {0, 1, 63, 64, 65, 127, 128}) {
    const std::span<uint8_t> taken = arena.take<uint8_t>(n);
    expected_used += Arena::cost<uint8_t>(n);
    EXPECT_EQ(arena.used_bytes(), expected_used);
    EXPECT_EQ(taken.size(), n);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.data()) % Arena::kAlignBytes, 0u);
    const auto* begin = reinterpret_cast<const std::byte*>(taken.data());
    EXPECT_GE(begin, end_of_last);
    end_of_last = begin + n;
  }
  EXPECT_EQ(Arena::cost<float>(0), 0u);
  EXPECT_EQ(Arena::cost<float>(16), 64u);
  EXPECT_EQ(Arena::cost<float>(17), 128u);
}

TEST(Arena, the_last_byte_can_be_taken_even_when_rounding_goes_past_the_request) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(100));
  arena.take<uint8_t>(arena.capacity_bytes());
  EXPECT_EQ(arena.used_bytes(), arena.capacity_bytes());
}

TEST(Arena, refuses_sizes_that_no_machine_has) {
  for (const size_t n : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - page_bytes(), SIZE_MAX / 2}) {
    Arena arena;
    const Result<void> reserved = arena.reserve(n, false);
    ASSERT_FALSE(reserved) << n;
    EXPECT_EQ(reserved.code(), Code::kNoMemory);
    EXPECT_NE(reserved.error().message().find("bytes"), std::string_view::npos);
    EXPECT_EQ(arena.capacity_bytes(), 0u);
    EXPECT_TRUE(arena.reserve(64)) << "usable after a refusal";
  }
}

TEST(Arena, prefault_decides_whether_pages_are_present) {
  constexpr size_t kPages = 64;
  Arena touched, lazy;
  ASSERT_TRUE(touched.reserve(kPages * page_bytes(), true));
  ASSERT_TRUE(lazy.reserve(kPages * page_bytes(), false));
  EXPECT_EQ(resident_pages(touched.take<uint8_t>(1).data(), kPages), kPages);
  EXPECT_LT(resident_pages(lazy.take<uint8_t>(1).data(), kPages), kPages);
}

TEST(Arena, moves_its_memory_and_leaves_an_empty_one) {
  Arena first;
  ASSERT_TRUE(first.reserve(4096));
  const std::span<int> values = first.take<int>(3);
  values[2] = 7;
  first.seal();
  Arena second(std::move(first));
  EXPECT_EQ(values[2], 7);
  EXPECT_TRUE(second.sealed());
  EXPECT_FALSE(first.sealed());
  EXPECT_EQ(first.capacity_bytes(), 0u);
  Arena third;
  third = std::move(second);
  EXPECT_EQ(values[2], 7);
}

TEST(Arena, an_empty_request_is_a_good_arena_of_nothing) {
  Arena arena;
  EXPECT_TRUE(arena.reserve(0));
  EXPECT_EQ(arena.take<float>(0).size(), 0u);
}

using ArenaDeathTest = ::testing::Test;

TEST(ArenaDeathTest, a_take_after_seal_asserts) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(4096));
  arena.seal();
  EXPECT_DEATH(arena.take<float>(1), "sealed");
}

TEST(ArenaDeathTest, a_take_that_does_not_fit_or_overflows_asserts) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(4096));
  const size_t capacity = arena.capacity_bytes();
  EXPECT_DEATH(arena.take<uint8_t>(capacity + 1), "capacity");
  EXPECT_DEATH(arena.take<double>(SIZE_MAX / 8 + 2), "SIZE_MAX");
  EXPECT_DEATH(arena.take<uint8_t>(SIZE_MAX), "capacity");
}

TEST(ArenaDeathTest, a_second_reserve_asserts) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(4096));
  EXPECT_DEATH((void)arena.reserve(4096), "nullptr");
}

}  // namespace
}  // namespace outrider
