#include "base/in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

namespace outrider::test {
namespace {

TEST(InParallel, does_every_piece_once) {
  for (const size_t n : {0u, 1u, 2u, 3u, 17u, 1000u}) {
    std::vector<std::atomic<int>> done(n);
    in_parallel(n, [&](size_t i) { ++done[i]; });
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(done[i], 1) << i << " of " << n;
  }
}

TEST(InParallel, populated_pages_hold_what_they_held) {
  const std::vector<std::byte> bytes(3 * 4096 + 5, std::byte{7});
  for (const size_t first : {size_t{0}, size_t{1}, size_t{4095}, bytes.size()}) {
    const std::span part = std::span(bytes).subspan(first);
    populate(part);
    for (const std::byte b : part) ASSERT_EQ(b, std::byte{7});
  }
}

}  // namespace
}  // namespace outrider::test
