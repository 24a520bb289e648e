// The operators that docs/reference/onnx.md claims are those of the code, with what the standard's
// node tests say of each. OUTRIDER_WRITE_DOCS=1 writes the page.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "onnx/node_data.h"
#include "onnx/operators.h"
#include "onnx/opset_changes.h"

namespace outrider::onnx::test {
namespace {

struct Row {
  int64_t first = kMaxOpset, last = 0;
  int passed = 0, refused = 0;
};

// What no operator is claimed for. Every refused node test must be one of these: a refusal for
// another reason is a gap, not a limit of the claim.
struct Unclaimed {
  const char* form;
  std::vector<const char*> words;  // of the refusal
};
const Unclaimed kUnclaimed[] = {
    {"element types other than f32, f64, f16, bf16, i64, i32, i8, u8, bool; sequences and optional "
     "values",
     {"is no tensor of a type this build has", "to element type STRING"}},
    {"training: statistics of the batch, random dropping", {"training mode"}},
    {"shapes and numbers of trips that depend on values of inputs, where every shape is fixed at "
     "open",
     {"depends on the inputs; this build needs it at open",
      "depends on the inputs; this build unrolls loops"}},
};
const Unclaimed* unclaimed_form(const std::string& why) {
  for (const Unclaimed& form : kUnclaimed)
    for (const char* words : form.words)
      if (why.find(words) != std::string::npos) return &form;
  return nullptr;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::map<std::string, Row> claimed() {
  std::map<std::string, Row> rows;
  const auto put = [&](const char* name, int64_t since, int64_t last) {
    Row& row = rows[name];
    row.first = std::min(row.first, std::max(since, kMinOpset));
    row.last = std::max(row.last, last);
  };
  for (const Operator& op : operators()) put(op.name, op.since, op.last);
  for (const PlannedOperator& op : planned_operators()) put(op.name, op.since, kMaxOpset);
  return rows;
}

std::string changes() {
  std::string text =
      "\nWhat opsets 18 to 21 changed of these, and the test of this project that shows it:\n\n"
      "| opset | operators | change | here | test |\n|---|---|---|---|---|\n";
  for (const OpsetChange& c : kOpsetChanges)
    text += "| " + std::to_string(c.opset) + " | " + c.operators + " | " + c.change + " | " +
            c.here + " | `" + c.test + "` |\n";
  return text;
}

TEST(OnnxClaims, every_change_of_opsets_18_to_21_names_a_test_that_exists) {
  std::set<std::string> known;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k)
      known.insert(std::string(suite.name()) + "." + suite.GetTestInfo(k)->name());
  }
  for (const OpsetChange& c : kOpsetChanges) EXPECT_TRUE(known.contains(c.test)) << c.test;
}

TEST(OnnxClaims, the_page_lists_the_operators_of_the_code_and_their_node_tests) {
  const std::string path = std::string(OUTRIDER_SOURCE_DIR) + "/docs/reference/onnx.md";
  const std::string page = read_text(path), begin = "<!-- claims -->\n", end = "<!-- end -->";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::string now = page.substr(from + begin.size(), to - from - begin.size());
  std::map<std::string, Row> rows = claimed();
  const std::string dir = node_data_dir();
  if (dir.empty()) {
    // Without the data only names and opsets can be held against the page.
    for (const auto& [name, row] : rows)
      EXPECT_NE(now.find("| `" + name + "` | " + std::to_string(row.first) + " to " +
                         std::to_string(row.last) + " |"),
                std::string::npos)
          << name;
    GTEST_SKIP() << "the node tests are absent: package libonnx-testdata";
  }
  std::map<const Unclaimed*, std::string> outside;
  int n_passed = 0, n_refused = 0, n_other = 0;
  for (const NodeResult& r : run_node_tests(dir, 1)) {
    n_passed += r.verdict == Verdict::kPassed;
    n_other += r.verdict == Verdict::kRefused && !r.claimed;
    for (const std::string& op : r.operators) {
      if (!rows.contains(op)) continue;
      rows[op].passed += r.verdict == Verdict::kPassed;
      rows[op].refused += r.verdict == Verdict::kRefused && r.claimed;
    }
    if (r.verdict != Verdict::kRefused || !r.claimed) continue;
    ++n_refused;
    const Unclaimed* form = unclaimed_form(r.why);
    EXPECT_NE(form, nullptr) << r.name << " is refused and no form that is left out: " << r.why;
    outside[form] += (outside[form].empty() ? "`" : ", `") + r.name + "`";
  }
  std::string wanted =
      "| operator | opsets | node tests passed | of forms left out |\n|---|---|---|---|\n";
  for (const auto& [name, row] : rows)
    wanted += "| `" + name + "` | " + std::to_string(row.first) + " to " +
              std::to_string(row.last) + " | " + std::to_string(row.passed) + " | " +
              std::to_string(row.refused) + " |\n";
  wanted +=
      "\nOf the standard's node tests (opsets up to 17) " + std::to_string(n_passed) +
      " are of claimed operators in claimed forms: all pass. " + std::to_string(n_refused) +
      " use a claimed operator in a form that is left out (below) and are refused at open in "
      "words; " +
      std::to_string(n_other) +
      " use operators or opsets that are not claimed. A test counts at every operator it uses.\n\n"
      "No operator is claimed for:\n\n";
  for (const Unclaimed& form : kUnclaimed)
    wanted += "- " + std::string(form.form) + ": " + outside[&form] + ".\n";
  wanted += changes();
  if (std::getenv("OUTRIDER_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << page.substr(0, from + begin.size()) << wanted << page.substr(to);
    return;
  }
  EXPECT_EQ(now, wanted) << "run this test with OUTRIDER_WRITE_DOCS=1";
}

}  // namespace
}  // namespace outrider::onnx::test
