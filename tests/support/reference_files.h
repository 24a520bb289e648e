// Arrays of recorded cases, and model files written by the reference generator.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "support/shared_data.h"

namespace outrider::test {

template <class T>
std::vector<T> read_reference(const std::string& path) {
  const auto file = MappedFile::open(path.c_str());
  EXPECT_TRUE(file) << file.error().text;
  if (!file) return {};
  std::vector<T> values(file.value().size() / sizeof(T));
  std::memcpy(values.data(), file.value().bytes().data(), values.size() * sizeof(T));
  return values;
}

// The folder in which "NAME.py ARGUMENTS" left its files, or "" where it does not run. Once per
// program.
inline std::string reference_files(const std::string& command) {
  static const TempDir dir;
  static std::map<std::string, bool> done;
  auto [entry, fresh] = done.try_emplace(command, false);
  if (fresh) {
    const size_t space = command.find(' ');
    const std::string line = "/usr/bin/python3 '" + shared_dir() + "/tools/" +
                             command.substr(0, space) + "'" + command.substr(space) + " --out '" +
                             dir.path() + "' >/dev/null 2>&1";
    entry->second = std::system(line.c_str()) == 0;
  }
  return entry->second ? dir.path() : std::string();
}

}  // namespace outrider::test
