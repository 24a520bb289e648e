// Whether this program runs under a user-mode emulator of another CPU.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace outrider::test {

// Under such an emulator a program cannot start itself, and a fork of several threads may hang.
inline bool can_start_itself() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  return std::system(("\"" + self + "\" --gtest_list_tests > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace outrider::test
