#include "link/wire/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/rng.h"

namespace outrider::link::wire {
namespace {

using Bytes = std::vector<std::byte>;

// RFC 3720 B.4.
TEST(Crc32c, gives_the_values_of_the_rfc) {
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0x00})), 0x8A9136AAu);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xFF})), 0x62A8AB43u);
  Bytes up(32), down(32);
  for (size_t i = 0; i < 32; ++i) up[i] = std::byte(i), down[i] = std::byte(31 - i);
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(crc32c(down), 0x113FDB5Cu);
  EXPECT_EQ(crc32c({}), 0u);
  for (const auto& bytes : {Bytes(32, std::byte{0x00}), up, down})
    EXPECT_EQ(crc32c(bytes), crc32c_scalar(bytes));
}

TEST(Crc32c, the_instruction_gives_the_bits_of_the_table_at_every_length_and_alignment) {
  const UniformStream random(7);
  Bytes all(3 * 2048 * 3 + 64);
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::byte(random.bits(i));
  std::vector<size_t> lengths(300);
  std::iota(lengths.begin(), lengths.end(), size_t{0});
  for (size_t edge : {size_t{3 * 2048}, size_t{2 * 3 * 2048}, size_t{3 * 3 * 2048}})
    for (size_t n = edge - 9; n <= edge + 9; ++n) lengths.push_back(n);
  for (size_t start : {0, 1, 3, 7})
    for (size_t n : lengths) {
      const auto part = std::span(all).subspan(start, n);
      ASSERT_EQ(crc32c(part), crc32c_scalar(part)) << n << " at " << start;
    }
}

TEST(Crc32c, pieces_give_the_value_of_the_whole) {
  Bytes all(20000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::byte(i * 31 >> 3);
  const uint32_t whole = crc32c(all);
  for (size_t cut : {0, 1, 100, 6144, 6145, 19999, 20000}) {
    const auto view = std::span<const std::byte>(all);
    EXPECT_EQ(crc32c(view.subspan(cut), crc32c(view.first(cut))), whole) << cut;
  }
}

TEST(Crc32c, every_single_bit_shows) {
  Bytes all(7000, std::byte{0x5A});
  const uint32_t good = crc32c(all);
  for (size_t bit = 0; bit < all.size() * 8; bit += 13) {
    all[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_NE(crc32c(all), good) << bit;
    all[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

}  // namespace
}  // namespace outrider::link::wire
