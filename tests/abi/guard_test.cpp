#include "abi/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace outrider::abi {
namespace {

TEST(Guard, passes_codes_on_whatever_their_type) {
  EXPECT_EQ(guard([] { return -4; }), -4);
  EXPECT_EQ(guard([] { return Code::kNotReady; }), -7);
  EXPECT_EQ(guard([] { return Result<void>(); }), 0);
  EXPECT_EQ(guard([] { return Result<void>(make_error(Code::kShape, "x")); }), -4);
}

TEST(Guard, turns_every_exception_into_a_code) {
  EXPECT_EQ(guard([]() -> int { throw std::bad_alloc(); }), -5);
  EXPECT_EQ(guard([]() -> int { throw std::bad_array_new_length(); }), -5);
  EXPECT_EQ(guard([]() -> int { throw std::runtime_error("x"); }), -8);
  EXPECT_EQ(guard([]() -> Code { throw 7; }), -8);
  EXPECT_EQ(guard([]() -> Result<void> { throw "text"; }, Code::kDevice), -6);
  EXPECT_FALSE(guard_void([] { throw 7; }));
  EXPECT_TRUE(guard_void([] {}));
  static_assert(noexcept(guard([] { return 0; })));
}

}  // namespace
}  // namespace outrider::abi
