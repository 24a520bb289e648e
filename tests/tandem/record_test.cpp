// The status record: what its reader believes. driving.md f.2; R38.
#include "tandem/record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "support/temp_dir.h"
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

// Every rule of driving.md f.2 at its border, and one beyond.
TEST(TandemRecord, R38_every_rule_holds_to_its_border) {
  struct Case {
    std::map<std::string, std::string> over;
    const char* state;
    bool active;
  };
  const std::string long_name(256, 'x');
  const Case cases[] = {
      // Age of the record: 1.5 s of 9.5 s.
      {{{"mono_ns", "8000000000"}, {"remote_output_mono_ns", "7900000000"}}, "running", true},
      {{{"mono_ns", "7999999999"}, {"remote_output_mono_ns", "7900000000"}}, "unavailable", false},
      {{{"mono_ns", "9500000000"}, {"remote_output_mono_ns", "9500000000"}}, "running", true},
      {{{"mono_ns", "9500000001"}, {"remote_output_mono_ns", "9500000000"}}, "unavailable", false},
      // Age of the output when the record was written: 250 ms.
      {{{"remote_output_mono_ns", "8750000000"}}, "running", true},
      {{{"remote_output_mono_ns", "8749999999"}}, "running", false},
      {{{"remote_output_mono_ns", "9000000000"}}, "running", true},
      {{{"remote_output_mono_ns", "9000000001"}}, "unavailable", false},
      {{{"remote_output_mono_ns", "1"}}, "running", false},
      {{{"remote_output_mono_ns", "0"}}, "running", false},
      // What else makes it active.
      {{{"artifact_sha256", "\"" + std::string(63, 'a') + "\""}}, "running", false},
      {{{"artifact_sha256", "\"" + std::string(65, 'a') + "\""}}, "running", false},
      {{{"artifact_sha256", "\"" + std::string(64, 'A') + "\""}}, "running", false},
      {{{"artifact_sha256", "\"" + std::string(64, 'g') + "\""}}, "running", false},
      {{{"artifact_nbytes", "1"}}, "running", true},
      {{{"artifact_nbytes", "0"}}, "running", false},
      {{{"artifact_nbytes", "-5"}}, "running", false},
      {{{"artifact_nbytes", "true"}}, "running", false},
      {{{"artifact_nbytes", "1.5"}}, "running", false},
      {{{"model_checkpoint", "\"" + long_name + "\""}}, "running", true},
      {{{"model_checkpoint", "\"" + long_name + "x\""}}, "running", false},
      {{{"model_checkpoint", "7"}}, "running", false},
      {{{"state", "\"ready\""}}, "ready", false},
      {{{"state", "\"none\""}}, "none", false},
      {{{"state", "\"joining\""}}, "joining", false},
      {{{"state", "\"retrying\""}}, "retrying", false},
      {{{"state", "\"unavailable\""}}, "unavailable", false},
      {{{"state", "\"holding\""}}, "unavailable", false},
      {{{"session", "\"" + std::string(31, 'b') + "\""}}, "unavailable", false},
      {{{"session", "\"" + std::string(33, 'b') + "\""}}, "unavailable", false},
      {{{"version", "0"}}, "unavailable", false},
      {{{"handovers", "0"}}, "running", true},
  };
  for (const Case& c : cases) {
    const RecordView view = read_record(text_of(c.over), place());
    const std::string what = c.over.begin()->first + " = " + c.over.begin()->second;
    EXPECT_EQ(view.state, c.state) << what;
    EXPECT_EQ(view.active, c.active) << what;
    if (!c.active) {
      EXPECT_EQ(view.artifact_sha256, "") << what;
      EXPECT_EQ(view.artifact_bytes, 0) << what;
    }
  }
  // Another boot, a pid that was given again, a process that is gone.
  EXPECT_EQ(read_record(text_of(), {"", 9500000000, place().start_ticks}).state, "unavailable");
  EXPECT_EQ(read_record(text_of(), {kBoot, 9500000000, [](int64_t) { return int64_t{501}; }}).state,
            "unavailable");
  EXPECT_EQ(read_record(text_of(), {kBoot, 9500000000, [](int64_t) { return int64_t{-1}; }}).state,
            "unavailable");
}

// Types are strict: a truth value is no integer, a whole number with a point neither.
TEST(TandemRecord, R38_every_field_of_every_other_type_is_no_proof) {
  const char* numbers[] = {"version", "pid",       "process_start_ticks",
                           "mono_ns", "handovers", "remote_output_mono_ns"};
  const char* words[] = {"boot_id", "session", "state"};
  for (const char* key : numbers)
    for (const char* value : {"true", "false", "null", "\"1\"", "[1]", "{}", "1.0", "1e0", "1.5",
                              "9223372036854775808", "-9223372036854775809", "1e400", ""})
      EXPECT_EQ(read_record(text_of({{key, value}}), place()).state, "unavailable")
          << key << " = " << value;
  for (const char* key : words)
    for (const char* value : {"true", "null", "1", "[]", "{}", "\"\"", ""})
      EXPECT_EQ(read_record(text_of({{key, value}}), place()).state, "unavailable")
          << key << " = " << value;
}

TEST(TandemRecord, damaged_text_reads_as_unavailable) {
  const std::string whole = text_of();
  for (size_t n = 0; n < whole.size(); ++n) {
    const RecordView view = read_record(std::string_view(whole).substr(0, n), place());
    ASSERT_EQ(view.state, "unavailable") << n;
  }
  EXPECT_EQ(read_record("[]", place()).state, "unavailable");
}

// A record that is written, with what it is made of, and what a reader makes of it.
struct Written {
  explicit Written(LeadName of = {kDigest, 1}) : lead(std::move(of)) {}
  void start() {
    auto made = Record::start({path, &glance, &changed, &clock, [this] { return lead; }});
    ASSERT_TRUE(made) << made.error().text;
    record = std::move(made.value());
  }
  std::string text() const {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
  }
  RecordView read() const { return read_record(text(), here(clock)); }
  void turn(Phase phase) {
    glance.phase = static_cast<uint8_t>(phase);
    changed.raise();
  }
  outrider::test::TempDir temp;
  std::string path = temp.file("record.json");
  LeadName lead;
  MonotonicClock clock;
  Glance glance;
  Signal changed;
  std::unique_ptr<Record> record;
};

TEST(TandemRecord, a_change_of_state_is_written_at_once_and_the_last_word_is_unavailable) {
  Written w({kDigest, 766000000});
  const auto await = [&](const char* state) {
    for (int i = 0; i < 3000 && w.read().state != state; ++i) usleep(1000);
    return w.read().state;
  };
  ASSERT_NO_FATAL_FAILURE(w.start());
  EXPECT_EQ(w.read().state, "joining");
  w.turn(Phase::kReady);
  EXPECT_EQ(await("ready"), "ready");
  w.glance.lead_output_ns = w.clock.now_ns();
  w.glance.handovers = 5;
  w.turn(Phase::kHolding);
  EXPECT_EQ(await("running"), "running");
  EXPECT_EQ(w.read().handovers, 5);
  EXPECT_TRUE(w.read().active);
  EXPECT_EQ(w.read().artifact_sha256, kDigest);
  EXPECT_EQ(w.read().artifact_bytes, 766000000);
  w.record.reset();
  EXPECT_EQ(w.read().state, "unavailable");
  auto refused = Record::start(
      {"/proc/nowhere/record.json", &w.glance, &w.changed, &w.clock, [] { return LeadName(); }});
  EXPECT_FALSE(refused);
}

// A record path is a slip of the pen away from a file that somebody needs.
TEST(TandemRecord, replaces_a_record_of_a_tandem_and_nothing_else) {
  Written w;
  const auto start = [&] {
    return Record::start({w.path, &w.glance, &w.changed, &w.clock, [] { return LeadName(); }});
  };
  namespace fs = std::filesystem;
  for (const char* text : {"", "{}", "GGUF", "{\"model_family\":\"tandem\"}", "power off\n"}) {
    std::ofstream(w.path) << text;
    auto refused = start();
    EXPECT_EQ(refused.code(), Code::kInvalid) << text;
    EXPECT_NE(refused.error().message().find("record_path"), std::string::npos);
    std::stringstream now;
    now << std::ifstream(w.path).rdbuf();
    EXPECT_EQ(now.str(), text);
  }
  fs::remove(w.path);
  const std::string target = w.path + ".target";
  std::ofstream(target) << text_of();
  fs::create_symlink(target, w.path);
  EXPECT_EQ(start().code(), Code::kInvalid);
  EXPECT_TRUE(fs::is_symlink(w.path));
  fs::remove(w.path);
  fs::remove(target);
  ASSERT_EQ(mkfifo(w.path.c_str(), 0600), 0);
  EXPECT_EQ(start().code(), Code::kInvalid);
  EXPECT_TRUE(fs::is_fifo(w.path));
  fs::remove(w.path);
  // One that an earlier process left, whatever it says.
  std::ofstream(w.path) << text_of({{"pid", "999"}, {"state", "\"unavailable\""}});
  auto started = start();
  ASSERT_TRUE(started) << started.error().text;
  EXPECT_EQ(w.read().state, "joining");
}

// driving.md f.2: at most once a second unless the state changed. A lead that is late in every
// other tick changes nothing that a reader sees.
TEST(TandemRecord, R38_holding_and_leading_in_turn_are_one_state_and_one_write_a_second) {
  Written w;
  w.glance.lead_output_ns = w.clock.now_ns();
  w.glance.phase = static_cast<uint8_t>(Phase::kLeading);
  ASSERT_NO_FATAL_FAILURE(w.start());
  usleep(100000);                 // the first "running" is out
  std::set<std::string> written;  // every record has the time at which it was written
  for (int i = 0; i < 80; ++i) {
    w.turn(i % 2 == 0 ? Phase::kHolding : Phase::kLeading);
    usleep(10000);
    written.insert(w.text());
  }
  EXPECT_LE(written.size(), 2u) << "written anew by every flip";
  // A state that truly flips is written at most every kLeastNs.
  const int64_t begin_ns = w.clock.now_ns();
  std::string last;
  int n_writes = 0;
  while (w.clock.now_ns() - begin_ns < 500000000) {
    w.turn((w.clock.now_ns() / 1000000) % 2 == 0 ? Phase::kReady : Phase::kRetrying);
    usleep(500);
    const std::string text = w.text();
    n_writes += text != last;
    last = text;
  }
  EXPECT_LE(n_writes, 500000000 / Record::kLeastNs + 1);
  EXPECT_GE(n_writes, 2);
}

// A reader must not wait a second to see who took over.
TEST(TandemRecord, R38_the_first_output_of_a_lead_is_written_at_once) {
  Written w;
  ASSERT_NO_FATAL_FAILURE(w.start());
  usleep(100000);
  w.turn(Phase::kLeading);
  usleep(100000);
  EXPECT_EQ(w.read().state, "running");
  EXPECT_FALSE(w.read().active) << "nothing of the lead was given yet";
  w.glance.lead_output_ns = w.clock.now_ns();
  w.changed.raise();
  for (int i = 0; i < 200 && !w.read().active; ++i) usleep(1000);
  EXPECT_TRUE(w.read().active);
  // Held from now on: the record ages, the output does not become newer.
  w.turn(Phase::kHolding);
  usleep(1300000);
  EXPECT_FALSE(w.read().active) << "the newest output is older than 250 ms";
}

TEST(TandemRecord, R7_the_route_of_the_warp_is_told_with_its_reason) {
  Written w;
  ASSERT_NO_FATAL_FAILURE(w.start());
  EXPECT_EQ(w.read().warp_route, "");
  w.record->note_warp("staged", "fake \"granted\" none\n");
  for (int i = 0; i < 500 && w.read().warp_route.empty(); ++i) usleep(1000);
  EXPECT_EQ(w.read().warp_route, "staged");
  EXPECT_EQ(w.read().warp_reason, "fake \"granted\" none?");
  EXPECT_EQ(w.read().state, "joining");
  // Half of it, or another word, is no record.
  for (const auto& over : {std::map<std::string, std::string>{{"warp_route", "\"direct\""}},
                           {{"warp_reason", "\"x\""}},
                           {{"warp_route", "\"fast\""}, {"warp_reason", "\"x\""}},
                           {{"warp_route", "1"}, {"warp_reason", "\"x\""}}})
    EXPECT_EQ(read_record(text_of(over), place()).state, "unavailable");
  EXPECT_EQ(read_record(text_of({{"warp_route", "\"direct\""}, {"warp_reason", "\"\""}}), place())
                .warp_route,
            "direct");
}

TEST(TandemRecord, R38_the_record_of_an_older_name_is_neither_written_nor_read) {
  for (const char* folder : {"src", "cli", "packaging", "include"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(OUTRIDER_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      EXPECT_EQ(text.str().find("JetlinkRuntime"), std::string::npos) << entry.path();
    }
}

TEST(TandemRecord, the_name_of_a_lead_comes_from_identity_and_manifest) {
  const std::string identity = "frt-runtime-identity-v1\nprovider=x\nweights_sha256=" + kDigest;
  const struct {
    std::string identity;
    const char* manifest;
    std::string sha256;
    int64_t bytes;
  } cases[] = {{identity + "\nk=v\n", R"({"weights_bytes":766})", kDigest, 766},
               {identity + "\n", nullptr, kDigest, 0},
               {identity + "\n", "{", kDigest, 0},
               {identity + "\n", R"({"weights_bytes":-1})", kDigest, 0},
               {identity + "\n", R"({"weights_bytes":"766"})", kDigest, 0},
               {identity + "\n", R"([766])", kDigest, 0},
               {"frt-runtime-identity-v1\nweights_sha256=abc\n", R"({"weights_bytes":5})", "", 5},
               {"", "", "", 0}};
  for (const auto& c : cases) {
    frt_runtime_export_v1 exp{};
    exp.identity = c.identity.c_str();
    exp.manifest_json = c.manifest;
    const LeadName name = lead_name_of(exp);
    EXPECT_EQ(name.sha256, c.sha256);
    EXPECT_EQ(name.bytes, c.bytes) << (c.manifest != nullptr ? c.manifest : "");
  }
}

}  // namespace
}  // namespace outrider::tandem::test
