// The project's text files, for tests that hold the documentation against the code.
#pragma once
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace outrider::test {

inline const std::filesystem::path kRoot = OUTRIDER_SOURCE_DIR;

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Every file below the root whose name ends like one of these, without build output and hidden
// folders.
inline std::vector<std::filesystem::path> files_ending(const std::set<std::string>& endings) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(kRoot); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory()) {
      if (name == "build" || name.rfind('.', 0) == 0) it.disable_recursion_pending();
    } else if (it->is_regular_file() && endings.count(it->path().extension().string()) != 0) {
      found.push_back(it->path());
    }
  }
  return found;
}

inline std::string relative_name(const std::filesystem::path& path) {
  return std::filesystem::relative(path, kRoot).string();
}

// First group of every match.
inline std::vector<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.push_back((*it)[1].str());
  return found;
}

// The text without fenced code blocks.
inline std::string without_code_blocks(const std::string& text) {
  std::string kept;
  bool inside = false;
  for (const std::string& line : lines_of(text)) {
    if (line.rfind("```", 0) == 0) inside = !inside;
    kept += inside ? "\n" : line + "\n";
  }
  return kept;
}

}  // namespace outrider::test
