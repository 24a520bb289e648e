// The page repeats the tables.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

TEST(JetlinkReference, has_the_row_of_every_message) {
  std::ifstream in(OUTRIDER_SOURCE_DIR "/docs/reference/jetlink.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  static constexpr const char* kBodies[] = {"empty", "JSON", "bytes", "frame", "reply"};
  for (const Row& row : kRows) {
    const std::string line = "| " + std::to_string(static_cast<int>(row.type)) + " | `" + row.name +
                             "` | " + (row.from_client ? "client" : "host") + " | " +
                             kBodies[static_cast<size_t>(row.body)] + " | " +
                             std::to_string(row.since) + " | " + row.meaning + " |";
    EXPECT_NE(page.find(line + "\n"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace outrider::link::jetlink
