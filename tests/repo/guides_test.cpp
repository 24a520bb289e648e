// The shell commands of README.md and docs/guides/ are run, in order, in a folder of each page.
//
// A fence that must not be run says why in the line before it, <!-- not run: REASON -->; its
// commands of outrider are still parsed, so that no page shows a flag that is not there. A fence
// with <!-- file: NAME --> before it is written to that file first. Exit statuses are 0, or the
// other one of <!-- exit status 0 or N: REASON -->.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "cli/support.h"
#include "repo/docs_files.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;
using test::kRoot;

struct Fence {
  size_t line = 0;
  std::string language, text;
  std::string file, reason, also;  // what stands before it
};

std::string group(const std::string& line, const char* pattern) {
  std::smatch match;
  return std::regex_match(line, match, std::regex(pattern)) ? match[1].str() : std::string();
}

std::vector<Fence> fences_of(const std::string& text) {
  std::vector<Fence> found;
  std::string before;
  bool inside = false;
  size_t number = 0;
  for (const std::string& line : test::lines_of(text)) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside)
        found.push_back({number, line.substr(3), "", group(before, "<!-- file: (\\S+) -->"),
                         group(before, "<!-- not run: (.+) -->"),
                         group(before, "<!-- exit status 0 or (\\d+): .+ -->")});
    } else if (inside) {
      found.back().text += line + "\n";
    }
    if (!line.empty()) before = line;
  }
  return found;
}

struct Ran {
  int status = -1;
  std::string text;  // standard output and standard error
};
Ran shell(const std::string& folder, const std::string& script) {
  write(folder + "/.script.sh", script);
  const std::string line = "cd '" + folder + "' && PATH='" OUTRIDER_BUILD_DIR "/bin':\"$PATH\" " +
                           "timeout 60 bash -e -o pipefail .script.sh </dev/null 2>&1";
  Ran ran;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return ran;
  char part[512];
  while (std::fgets(part, sizeof part, pipe) != nullptr) ran.text += part;
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// Lines that call outrider, continued lines joined.
std::vector<std::string> outrider_calls(const std::string& script) {
  const std::string joined = std::regex_replace(script, std::regex("\\\\\n *"), " ");
  std::vector<std::string> calls;
  for (const std::string& line : test::lines_of(joined))
    if (std::regex_search(line, std::regex("^(build/release/bin/)?outrider ")))
      calls.push_back(std::regex_replace(line, std::regex("( &)? *( #.*)?$"), ""));
  return calls;
}

// What the reader of every page has: a build, the examples, and pictures of one size.
std::string folder_of(const fs::path& page) {
  const std::string folder = scratch("guide-" + page.stem().string());
  fs::create_directories(folder + "/build");
  fs::create_directory_symlink(OUTRIDER_BUILD_DIR, folder + "/build/release");
  fs::create_directory_symlink(kRoot / "examples", folder + "/examples");
  for (const char* picture : {"mycamera.png", "base.png", "wrist.png"})
    fs::copy_file(kRoot / "docs/demo.png", folder + "/" + picture);
  return folder;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found = {kRoot / "README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs/guides"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

class Guides : public testing::TestWithParam<fs::path> {};

TEST_P(Guides, every_command_does_what_the_page_says) {
  const std::string folder = folder_of(GetParam()), name = GetParam().filename().string();
  for (const Fence& fence : fences_of(test::read_text(GetParam()))) {
    const std::string where = name + ":" + std::to_string(fence.line);
    if (!fence.file.empty()) write(folder + "/" + fence.file, fence.text);
    if (fence.language != "sh") continue;
    if (fence.reason.empty()) {
      const Ran ran = shell(folder, fence.text);
      EXPECT_TRUE(ran.status == 0 || std::to_string(ran.status) == fence.also)
          << where << ": exit status " << ran.status << "\n"
          << fence.text << ran.text;
      continue;
    }
    EXPECT_GE(fence.reason.size(), 6u) << where << ": a reason is words";
    for (const std::string& call : outrider_calls(fence.text)) {
      const Ran ran = shell(folder, call + " --help");
      EXPECT_EQ(ran.status, 0) << where << "\n" << call << "\n" << ran.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Guides, testing::ValuesIn(pages()), [](const auto& page) {
  return std::regex_replace(page.param.stem().string(), std::regex("\\W"), "_");
});

TEST(GuideReader, finds_marks_reasons_and_calls) {
  const auto fences = fences_of(
      "<!-- not run: needs a robot -->\n```sh\noutrider top x \\\n  --json &   # why\nls\n```\n"
      "text\n```sh\ntrue\n```\n<!-- file: a.json -->\n\n```json\n{}\n```\n");
  ASSERT_EQ(fences.size(), 3u);
  EXPECT_EQ(fences[0].reason, "needs a robot");
  EXPECT_EQ(outrider_calls(fences[0].text), std::vector<std::string>{"outrider top x  --json"});
  EXPECT_EQ(fences[1].reason, "");
  EXPECT_EQ(fences[2].file, "a.json");
  EXPECT_EQ(fences[2].text, "{}\n");
}

TEST(GuideReader, a_wrong_command_is_found) {
  const std::string folder = scratch("guide-wrong");
  EXPECT_NE(shell(folder, "outrider inspect no-such-file.gguf\n").status, 0);
  EXPECT_NE(shell(folder, "outrider inspect no-such-file.gguf\ntrue\n").status, 0);
  EXPECT_NE(shell(folder, "outrider bench x.gguf --tick 3 --help\n").status, 0);
  EXPECT_EQ(shell(folder, "outrider bench x.gguf --ticks 3 --help\n").status, 0);
}

}  // namespace
}  // namespace outrider::cli_test
