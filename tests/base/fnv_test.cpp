#include "base/fnv.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

static_assert(fnv1a64("") == 0xcbf29ce484222325);

TEST(Fnv, agrees_with_published_vectors_and_the_identity_header) {
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8);
  // The first record of every runtime identity (model-runtime ABI, section 9).
  EXPECT_EQ(fnv1a64("frt-runtime-identity-v1\n"), 0xb3265011ccdfba03);
}

TEST(Fnv, bytes_above_127_count_as_unsigned) {
  EXPECT_EQ(fnv1a64("\xFF"), (kFnv1a64Start ^ 0xFF) * 0x100000001b3);
}

TEST(Fnv, pieces_give_what_the_whole_gives) {
  const std::string_view text = "frt-runtime-identity-v1\n";
  for (size_t n = 0; n <= text.size(); ++n) {
    EXPECT_EQ(fnv1a64(text.substr(n), fnv1a64(text.substr(0, n))), fnv1a64(text)) << n;
  }
}

}  // namespace
}  // namespace outrider
