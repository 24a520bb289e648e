// Documentation leads somewhere: links, paths and commands that it names exist.
#include <gtest/gtest.h>

#include <map>

#include "repo/docs_files.h"

namespace outrider::test {
namespace {

namespace fs = std::filesystem;

// "## What runs today?" -> "what-runs-today", as web faces of repositories make anchors.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') {
      anchor += '-';
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return anchor;
}

std::set<std::string> anchors_of(const fs::path& file) {
  std::set<std::string> anchors;
  for (const std::string& line : lines_of(without_code_blocks(read_text(file)))) {
    const size_t text = line.find_first_not_of('#');
    if (text > 0 && text < line.size() && line[text] == ' ')
      anchors.insert(anchor_of(line.substr(text + 1)));
  }
  return anchors;
}

TEST(Docs, every_relative_link_leads_to_a_file_and_a_heading) {
  int n_links = 0;
  for (const fs::path& page : files_ending({".md"})) {
    const std::string text = without_code_blocks(read_text(page));
    for (const std::string& target : all_matches(text, R"(\]\(([^)\s]+)\))")) {
      if (target.find("://") != std::string::npos || target.rfind("mailto:", 0) == 0) continue;
      ++n_links;
      const size_t hash = target.find('#');
      const std::string path = target.substr(0, hash);
      const fs::path file = path.empty() ? page : page.parent_path() / path;
      EXPECT_TRUE(fs::exists(file)) << relative_name(page) << " links to " << target;
      if (hash == std::string::npos || file.extension() != ".md" || !fs::exists(file)) continue;
      EXPECT_EQ(anchors_of(file).count(target.substr(hash + 1)), 1u)
          << relative_name(page) << " links to " << target << ", a heading that is not there";
    }
  }
  EXPECT_GT(n_links, 20);
}

TEST(Docs, every_page_below_docs_is_reached_from_the_readme) {
  std::set<fs::path> reached;
  std::vector<fs::path> open = {kRoot / "README.md"};
  while (!open.empty()) {
    const fs::path page = fs::weakly_canonical(open.back());
    open.pop_back();
    if (!fs::exists(page) || !reached.insert(page).second || page.extension() != ".md") continue;
    for (const std::string& target : all_matches(read_text(page), R"(\]\(([^)#\s]+))")) {
      if (target.find("://") == std::string::npos) open.push_back(page.parent_path() / target);
    }
  }
  for (const fs::path& page : files_ending({".md"})) {
    EXPECT_EQ(reached.count(fs::weakly_canonical(page)), 1u)
        << relative_name(page) << " is an island: no page links to it";
  }
}

// Is there a file or folder like this one? The last part may hold one '*'.
bool names_something(const std::string& path) {
  for (const fs::path& base : {kRoot, kRoot / "src"}) {
    const fs::path full = base / path;
    const std::string last = full.filename().string();
    const size_t star = last.find('*');
    if (star == std::string::npos) {
      if (fs::exists(full)) return true;
      continue;
    }
    if (!fs::is_directory(full.parent_path())) continue;
    for (const auto& entry : fs::directory_iterator(full.parent_path())) {
      const std::string name = entry.path().filename().string();
      if (name.rfind(last.substr(0, star), 0) == 0 && name.ends_with(last.substr(star + 1)))
        return true;
    }
  }
  return false;
}

TEST(Hacking, every_path_it_names_exists) {
  int n_paths = 0;
  for (const char* page : {"HACKING.md", "CONTRIBUTING.md", "docs/reference/field-cases.md",
                           "docs/guides/adding-a-model.md"}) {
    const std::string text = without_code_blocks(read_text(kRoot / page));
    for (const std::string& name : all_matches(text, R"(`([A-Za-z0-9_.*-]+/[A-Za-z0-9_./*-]*)`)")) {
      if (name.rfind("build/", 0) == 0) continue;  // made by the build
      ++n_paths;
      EXPECT_TRUE(names_something(name)) << page << " names " << name;
    }
  }
  EXPECT_GT(n_paths, 60);
}

TEST(Hacking, every_folder_of_the_tree_is_on_the_map) {
  const std::string map = read_text(kRoot / "HACKING.md");
  std::vector<std::string> folders;
  for (const char* base : {"", "src", "src/providers"}) {
    if (!fs::exists(kRoot / base)) continue;
    for (const auto& entry : fs::directory_iterator(kRoot / base)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name.rfind('.', 0) != 0 && name != "build")
        folders.push_back(relative_name(entry.path()));
    }
  }
  EXPECT_GT(folders.size(), 15u);
  for (const std::string& folder : folders)
    EXPECT_NE(map.find("`" + folder + "/"), std::string::npos) << "HACKING.md misses " << folder;
}

// Flags of every command, from the reference page that the flag table writes.
std::map<std::string, std::set<std::string>> commands_of_reference() {
  std::map<std::string, std::set<std::string>> commands;
  std::set<std::string> common;
  std::string command;
  for (const std::string& line : lines_of(read_text(kRoot / "docs/reference/cli.md"))) {
    if (line.rfind("## outrider ", 0) == 0) {
      command = line.substr(12);
      commands[command] = common;
    } else if (line.rfind("| `--", 0) == 0) {
      const std::string flag = line.substr(3, line.find_first_of(" `", 3) - 3);
      command.empty() ? common.insert(flag) : commands[command].insert(flag);
    }
  }
  return commands;
}

// Lines inside ```sh blocks, continued lines joined.
std::vector<std::string> shell_lines(const std::string& text) {
  std::vector<std::string> found;
  bool inside = false, continued = false;
  for (std::string line : lines_of(text)) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```sh";
      continue;
    }
    if (!inside) continue;
    line = line.substr(0, line.find(" # "));
    continued ? void(found.back() += " " + line) : found.push_back(line);
    continued = !line.empty() && line.back() == '\\';
    if (continued) found.back().pop_back();
  }
  return found;
}

TEST(Docs, every_command_and_flag_they_show_exists) {
  const auto commands = commands_of_reference();
  ASSERT_GE(commands.size(), 10u);
  int n_shown = 0;
  for (const fs::path& page : files_ending({".md"})) {
    for (const std::string& line : shell_lines(read_text(page))) {
      std::istringstream words(line);
      std::string program, command;
      if (!(words >> program >> command) || fs::path(program).filename() != "outrider") continue;
      if (command.rfind("--", 0) == 0) continue;  // outrider --version
      if (command == "COMMAND") continue;
      ++n_shown;
      const auto known = commands.find(command);
      EXPECT_NE(known, commands.end()) << relative_name(page) << ": " << line;
      if (known == commands.end()) continue;
      for (std::string word; words >> word;) {
        if (word.rfind("--", 0) != 0 || word == "--") continue;
        EXPECT_EQ(known->second.count(word.substr(0, word.find('='))), 1u)
            << relative_name(page) << ": " << command << " has no " << word;
      }
    }
  }
  EXPECT_GT(n_shown, 10);
}

// docs/reference/jetlink.md: what every server does, and the tests that hold it.
TEST(Docs, every_invariant_of_the_jetlink_dialect_has_tests_that_exist) {
  std::string tests;
  for (const fs::path& file : files_ending({".cpp"}))
    if (relative_name(file).rfind("tests/", 0) == 0) tests += read_text(file);
  const std::string page = read_text(kRoot / "docs/reference/jetlink.md");
  for (int i = 1; i <= 21; ++i) {
    char number[4];
    std::snprintf(number, sizeof number, "I%02d", i);
    int n = 0;
    for (const std::string& line : lines_of(page)) {
      if (line.rfind(std::string("| ") + number + " |", 0) != 0) continue;
      for (const std::string& name : all_matches(line, R"(`([A-Za-z]+\.[A-Za-z0-9_]+)`)")) {
        ++n;
        const size_t dot = name.find('.');
        const std::string wanted = "(" + name.substr(0, dot) + ", " + name.substr(dot + 1) + ")";
        EXPECT_NE(tests.find(wanted), std::string::npos) << number << " names " << name;
        EXPECT_EQ(name.substr(dot + 1).rfind(std::string(number) + "_", 0), 0u) << name;
      }
    }
    EXPECT_GE(n, 1) << number << " has no test in docs/reference/jetlink.md";
  }
}

TEST(Repo, speaks_of_the_project_alone) {
  // Each is written in two halves, so that this file does not name what it forbids.
  const std::vector<std::string> words = {
      "/wo"
      "rk/",
      "/tmp/te"
      "am",
      "suba"
      "gent",
      "helper ag"
      "ent",
      "issue "
      "#",
      "TB"
      "D ",
      "FIX"
      "ME",
      "as an A"
      "I"};
  int n_files = 0;
  for (const fs::path& file :
       files_ending({".md", ".h", ".cpp", ".c", ".inc", ".txt", ".cmake", ".json", ".sh", ".py"})) {
    ++n_files;
    const std::string text = read_text(file);
    for (const std::string& word : words)
      EXPECT_EQ(text.find(word), std::string::npos) << relative_name(file) << " says " << word;
  }
  EXPECT_GT(n_files, 100);
}

}  // namespace
}  // namespace outrider::test
