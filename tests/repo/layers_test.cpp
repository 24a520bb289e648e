// The layer table is a test: every #include between modules must be an arrow of cmake/layers.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = OUTRIDER_SOURCE_DIR;

std::map<std::string, std::set<std::string>> read_table() {
  std::map<std::string, std::set<std::string>> table;
  std::ifstream in(kRoot / "cmake/layers.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    std::istringstream allowed(line.substr(colon + 1));
    auto& row = table[line.substr(0, colon)];
    for (std::string name; allowed >> name;) row.insert(name);
  }
  return table;
}

// Module of a path relative to src/ or the root: the longest row name that is a prefix.
std::string module_of(const std::string& path,
                      const std::map<std::string, std::set<std::string>>& table) {
  std::string best;
  for (const auto& [name, allowed] : table) {
    if (path.rfind(name + "/", 0) == 0 && name.size() > best.size()) best = name;
  }
  return best;
}

bool is_source(const fs::path& path) {
  const std::string ext = path.extension().string();
  return ext == ".h" || ext == ".cpp" || ext == ".c";
}

template <class Visit>
void for_each_include(const fs::path& file, Visit&& visit) {
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.rfind("#include \"", 0) != 0) continue;
    const size_t end = line.find('"', 10);
    visit(number, line.substr(10, end - 10));
  }
}

TEST(Layers, every_include_is_an_arrow_of_the_table) {
  const auto table = read_table();
  ASSERT_GT(table.size(), 8u);
  int n_files = 0, n_arrows = 0;
  for (const char* top : {"src", "cli"}) {
    if (!fs::exists(kRoot / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      ++n_files;
      std::string path = fs::relative(entry.path(), kRoot).string();
      if (path.rfind("src/", 0) == 0) path = path.substr(4);
      const std::string from = module_of(path, table);
      EXPECT_FALSE(from.empty()) << path << " belongs to no row of cmake/layers.txt";
      if (from.empty()) continue;
      for_each_include(entry.path(), [&](int line, const std::string& included) {
        if (included.rfind("outrider/", 0) == 0) return;  // public C headers are open to all
        const std::string to = module_of(included, table);
        EXPECT_FALSE(to.empty()) << path << ":" << line << " includes " << included
                                 << ", which is in no module";
        const bool allowed = to == from || to == "base" || table.at(from).count(to) != 0;
        EXPECT_TRUE(allowed) << path << ":" << line << ": " << from << " may not include " << to;
        n_arrows += to != from;
      });
    }
  }
  EXPECT_GT(n_files, 20);
  EXPECT_GT(n_arrows, 20);
}

TEST(Layers, the_table_has_no_cycle) {
  const auto table = read_table();
  std::map<std::string, int> state;
  auto visit = [&](auto&& self, const std::string& name) -> bool {
    if (state[name] == 1) return false;
    if (state[name] == 2) return true;
    state[name] = 1;
    const auto row = table.find(name);
    if (row != table.end()) {
      for (const std::string& next : row->second) {
        if (!self(self, next)) return false;
      }
    }
    state[name] = 2;
    return true;
  };
  for (const auto& [name, allowed] : table) EXPECT_TRUE(visit(visit, name)) << name;
}

TEST(Layers, runtime_and_model_modules_meet_only_in_providers_and_cli) {
  const auto table = read_table();
  const auto is_runtime = [](const std::string& name) {
    return name == "abi" || name == "host" || name == "tandem" || name == "record" ||
           name == "loop" || name == "adapter" || name.rfind("owner", 0) == 0 ||
           name.rfind("link/", 0) == 0;
  };
  for (const auto& [name, allowed] : table) {
    if (name == "cli" || name.rfind("providers/", 0) == 0) continue;
    for (const std::string& to : allowed) {
      if (to == "driving") continue;  // facts, like base: open to both sides
      EXPECT_EQ(is_runtime(name), is_runtime(to)) << name << " -> " << to;
    }
  }
}

TEST(Sources, only_base_env_reads_the_environment) {
  for (const char* top : {"src", "cli"}) {
    if (!fs::exists(kRoot / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      if (entry.path().string().find("src/base/env") != std::string::npos) continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      EXPECT_EQ(text.str().find("getenv("), std::string::npos) << entry.path();
    }
  }
}

// Whoever opens a file decides what a pipe, a link or somebody else's file at that path does. That
// is decided once: base/input_file.h, base/output_file.h, base/private_file.h. The rest opens what
// is no file of a person.
TEST(Sources, files_of_people_are_opened_in_one_place) {
  const std::set<std::string> others = {
      "src/base/input_file.cpp",              // the place
      "src/base/output_file.cpp",             // the place
      "src/base/private_file.cpp",            // the place
      "src/adapter/params.cpp",               // folders, to flush them
      "src/base/cpu_budget.cpp",              // /proc and /sys
      "src/host/conform_process.cpp",         // /proc
      "src/link/server/models.cpp",           // /proc
      "src/record/process.cpp",               // /proc
      "src/link/store/posix_files.cpp",       // below a folder of its own, never through a link
      "src/link/transport/usb/ffs_port.cpp",  // device nodes
      "src/link/transport/usb/gadget_setup_linux.cpp",  // configfs
      "src/link/transport/usb/libusb_port.cpp",         // device nodes
      "src/owner/system_linux.cpp",                     // /sys, /proc; without waiting
      "src/loop/segment.cpp",                           // shared memory
      "cli/demo_host.cpp",                              // /dev/null
      "cli/output.cpp",                                 // /dev/null
  };
  const std::regex opens(
      R"((^|[^\w>])::(open|openat|creat|shm_open)\(|\bf(re)?open\(|\b(if|of|f)stream\b)");
  std::set<std::string> seen;
  for (const char* top : {"src", "cli"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (std::regex_search(line.substr(0, line.find("//")), opens))
          seen.insert(fs::relative(entry.path(), kRoot).string());
    }
  EXPECT_EQ(seen, others);
}

// What a test leaves behind, the next one finds.
TEST(Tests, put_their_files_where_they_go_with_the_test) {
  const std::regex elsewhere(R"(testing::TempDir|temp_directory_path|mkd?s?temp\(|"/tmp/|tmpnam)");
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    const std::string path = fs::relative(entry.path(), kRoot).string();
    if (path == "tests/support/temp_dir.h" || path.starts_with("tests/repo/") ||
        path == "tests/link/transport/usb/guest_program.cpp")  // a machine of its own
      continue;
    std::ifstream in(entry.path());
    int n = 0;
    for (std::string line; std::getline(in, line);)
      EXPECT_FALSE(++n > 0 && std::regex_search(line, elsewhere))
          << path << ":" << n << ": " << line;
  }
}

TEST(PublicHeaders, are_c_and_include_no_private_header) {
  int n = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "include")) {
    if (!entry.is_regular_file()) continue;
    ++n;
    for_each_include(entry.path(), [&](int line, const std::string& included) {
      EXPECT_EQ(included.rfind("outrider/", 0), 0u)
          << entry.path() << ":" << line << " includes " << included;
    });
  }
  EXPECT_GE(n, 4);
}

}  // namespace
