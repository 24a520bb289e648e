// Where a test puts its files: gone when the test is. Nothing else in tests/ names the system's
// folder of temporary files (tests/repo looks).
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace outrider::test {

// A fresh folder that is removed with the object, by the process that made it alone.
class TempDir {
 public:
  enum class Medium : uint8_t { kDisk, kMemory };  // memory where the machine has such a folder
  explicit TempDir(Medium medium = Medium::kDisk) {
    const bool memory = medium == Medium::kMemory && ::access("/dev/shm", W_OK) == 0;
    std::string pattern = ((memory ? "/dev/shm" : std::filesystem::temp_directory_path()) /
                           std::filesystem::path("outrider-test-XXXXXX"))
                              .string();
    const char* made = ::mkdtemp(pattern.data());
    if (made == nullptr) std::abort();  // nothing can be tested
    path_ = made;
  }
  ~TempDir() {
    std::error_code ignored;
    if (::getpid() == maker_) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  pid_t maker_ = ::getpid();
};

// A path in a folder that goes with this process.
inline std::string temp_file(const std::string& name) {
  static const TempDir folder;
  return folder.file(name);
}

}  // namespace outrider::test
