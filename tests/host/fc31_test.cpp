#include "child.h"
#include "fake_provider.h"
#include "hot_counter.h"

namespace outrider::test {
namespace {

ChildResult drive(const char* what) {
  return run_child({OUTRIDER_BUILD_DIR "/bin/host_fc31_child", what, OUTRIDER_BUILD_DIR "/lib"});
}

TEST(FC31, no_error_case_ends_a_c_program_prints_or_touches_its_handlers) {
  const ChildResult child = drive("cases");
  EXPECT_TRUE(child.exited_with(0)) << "status " << child.status << "\n" << child.err;
  EXPECT_EQ(child.out, "");
  EXPECT_HAS(child.err, "atexit ran");
}

TEST(FC31, an_address_space_that_is_too_small_is_a_code) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers need an address space without limit";
  const ChildResult child = drive("memory");
  EXPECT_TRUE(child.exited_with(0)) << "status " << child.status << "\n" << child.err;
  EXPECT_EQ(child.out, "");
  EXPECT_HAS(child.err, "atexit ran");
}

TEST(FC31, a_provider_that_prints_would_be_seen) {
  EXPECT_EQ(drive("print").out, "the fake prints\n");
}

}  // namespace
}  // namespace outrider::test
