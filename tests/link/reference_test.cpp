// docs/reference/wire.md is what the tables say. To make it anew: OUTRIDER_WRITE_DOCS=1
// test_link_wire
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "link/wire/messages.h"

namespace outrider::link::wire {
namespace {

TEST(WireReference, is_the_page_that_the_tables_give) {
  const std::string path = OUTRIDER_SOURCE_DIR "/docs/reference/wire.md";
  if (std::getenv("OUTRIDER_WRITE_DOCS") != nullptr) std::ofstream(path) << reference_page();
  std::ifstream in(path);
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), reference_page());
}

}  // namespace
}  // namespace outrider::link::wire
