// A folder that is gone when its owner is.
#pragma once
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace outrider::cli {

class TempDir {
 public:
  static Result<TempDir> make() {
    std::error_code error;
    std::filesystem::path base = std::filesystem::temp_directory_path(error);
    if (error) base = "/tmp";
    std::string pattern = (base / "outrider-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return make_error(Code::kInvalid, "cannot make a folder in %s: %s", base.c_str(),
                        std::strerror(errno));
    TempDir dir;
    dir.path_ = pattern;
    return dir;
  }
  TempDir(TempDir&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  TempDir() = default;
  std::string path_;
};

}  // namespace outrider::cli
