// Any text as policy.json and as norm_stats.json: refused in one line, or a description whose
// printed form reads back as itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "policy/description.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto statistics = read_norm_stats(text, "fuzz");
  OUTRIDER_ASSERT(statistics || statistics.error().text[0] != 0);
  const auto policy = read_policy(text, "fuzz", PiFamily::kPi05);
  if (!policy) {
    OUTRIDER_ASSERT(policy.error().code != Code::kOk && policy.error().text[0] != 0);
    return 0;
  }
  const std::string printed = policy_json(policy.value());
  const auto again = read_policy(printed, "again", PiFamily::kPi05);
  OUTRIDER_ASSERT(again && policy_json(again.value()) == printed);
  (void)check_policy(policy.value(), PiFamily::kPi05);
  return 0;
}
