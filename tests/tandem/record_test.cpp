// The status record: what its reader believes. driving.md f.2; R38.
#include "tandem/record.h"

#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tandem/scripted.h"

namespace outrider::tandem::test {
namespace {

const std::string kBoot = "0f1e2d3c-0000-4000-8000-000000000001", kDigest(64, 'a');

std::string text_of(const std::map<std::string, std::string>& over = {}) {
  std::map<std::string, std::string> fields = {{"version", "1"},
                                               {"boot_id", "\"" + kBoot + "\""},
                                               {"session", "\"" + std::string(32, 'b') + "\""},
                                               {"pid", "77"},
                                               {"process_start_ticks", "500"},
                                               {"mono_ns", "9000000000"},
                                               {"state", "\"running\""},
                                               {"handovers", "3"},
                                               {"remote_output_mono_ns", "8900000000"},
                                               {"artifact_sha256", "\"" + kDigest + "\""}};
  for (const auto& [key, value] : over) {
    if (value.empty())
      fields.erase(key);
    else
      fields[key] = value;
  }
  std::string text = "{";
  for (const auto& [key, value] : fields)
    text += (text.size() > 1 ? ",\"" : "\"") + key + "\":" + value;
  return text + "}";
}

RecordPlace place() {
  return {kBoot, 9500000000, [](int64_t pid) { return pid == 77 ? int64_t{500} : int64_t{-1}; }};
}

TEST(TandemRecord, R38_active_only_when_every_rule_holds) {
  const RecordView good = read_record(text_of(), place());
  EXPECT_TRUE(good.active);
  EXPECT_EQ(good.state, "running");
  EXPECT_EQ(good.handovers, 3);
  // Each field wrong or missing alone.
  const std::pair<const char*, const char*> unproven[] = {
      {"version", "2"},
      {"version", "true"},
      {"version", "1.0"},
      {"version", ""},
      {"boot_id", "\"another\""},
      {"boot_id", ""},
      {"session", "\"BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB\""},
      {"session", "\"b\""},
      {"session", "7"},
      {"pid", "0"},
      {"pid", "-77"},
      {"pid", "78"},
      {"pid", "\"77\""},
      {"process_start_ticks", "501"},
      {"process_start_ticks", "0"},
      {"mono_ns", "0"},
      {"mono_ns", "9500000001"},
      {"mono_ns", "7999999999"},
      {"mono_ns", ""},
      {"state", "\"leading\""},
      {"state", "7"},
      {"handovers", "true"},
      {"handovers", "-1"},
      {"remote_output_mono_ns", "-1"},
      {"remote_output_mono_ns", "9000000001"},
      {"remote_output_mono_ns", "null"}};
  for (const auto& [key, value] : unproven) {
    const RecordView view = read_record(text_of({{key, value}}), place());
    EXPECT_EQ(view.state, "unavailable") << key << " = " << value;
    EXPECT_FALSE(view.active) << key << " = " << value;
  }
  // Believed, and not active.
  const std::pair<const char*, const char*> inactive[] = {{"artifact_sha256", ""},
                                                          {"artifact_sha256", "\"short\""},
                                                          {"remote_output_mono_ns", "0"},
                                                          {"remote_output_mono_ns", "8749999999"},
                                                          {"state", "\"ready\""}};
  for (const auto& [key, value] : inactive) {
    const RecordView view = read_record(text_of({{key, value}}), place());
    EXPECT_NE(view.state, "unavailable") << key << " = " << value;
    EXPECT_FALSE(view.active) << key << " = " << value;
  }
}

TEST(TandemRecord, damaged_text_reads_as_unavailable) {
  const std::string whole = text_of();
  for (size_t n = 0; n < whole.size(); ++n) {
    const RecordView view = read_record(std::string_view(whole).substr(0, n), place());
    ASSERT_EQ(view.state, "unavailable") << n;
  }
  EXPECT_EQ(read_record("[]", place()).state, "unavailable");
}

TEST(TandemRecord, a_change_of_state_is_written_at_once_and_the_last_word_is_unavailable) {
  const std::string folder = testing::TempDir() + "outrider_record";
  const std::string path = folder + "/record.json";
  const MonotonicClock clock;
  Glance glance;
  Signal changed;
  const auto read = [&] {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return read_record(text.str(), here(clock));
  };
  const auto await = [&](const char* state) {
    for (int i = 0; i < 3000 && read().state != state; ++i) usleep(1000);
    return read().state;
  };
  {
    auto record =
        Record::start({path, &glance, &changed, &clock, [&] {
                         return "frt-runtime-identity-v1\nweights_sha256=" + kDigest + "\n";
                       }});
    ASSERT_TRUE(record) << record.error().text;
    EXPECT_EQ(read().state, "joining");
    glance.phase = static_cast<uint8_t>(Phase::kReady);
    changed.raise();
    EXPECT_EQ(await("ready"), "ready");
    glance.phase = static_cast<uint8_t>(Phase::kHolding);
    glance.lead_output_ns = clock.now_ns();
    glance.handovers = 5;
    changed.raise();
    EXPECT_EQ(await("running"), "running");
    EXPECT_EQ(read().handovers, 5);
  }
  EXPECT_EQ(read().state, "unavailable");
  auto refused = Record::start(
      {"/proc/nowhere/record.json", &glance, &changed, &clock, [] { return std::string(); }});
  EXPECT_FALSE(refused);
}

}  // namespace
}  // namespace outrider::tandem::test
