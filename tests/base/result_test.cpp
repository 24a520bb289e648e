#include "base/result.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider::test {
namespace {

// Names out of a damaged file are printed as they are: they end no line and move no cursor.
TEST(MakeError, is_one_line_whatever_a_file_has_for_names) {
  const Error error = make_error(Code::kNotFound, "%s: projector \"%s\" \xC3\xA9", "a.gguf",
                                 "gem\nma\x1b[2J\t\x7f\r3");
  EXPECT_EQ(error.message(), "a.gguf: projector \"gem?ma?[2J???3\" \xC3\xA9");
}

TEST(MakeError, cuts_a_text_that_is_too_long) {
  const std::string longer(3 * Error::kTextBytes, 'x');
  const Error error = make_error(Code::kShape, "%s", longer.c_str());
  EXPECT_EQ(error.message(), longer.substr(0, Error::kTextBytes - 1));
  EXPECT_EQ(error.code, Code::kShape);
}

}  // namespace
}  // namespace outrider::test
