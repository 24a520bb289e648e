// Opening a file that must be a regular one. Whatever stands at the path - a pipe without a writer,
// a device, a folder - the open returns at once and says what is there. Everything that is read
// from a path goes through here (MappedFile and PrivateFile included).
#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider {

enum class Links : uint8_t {
  kFollow,  // a path that a person gave
  kRefuse,  // a name inside a folder of ours: the last part must be no symbolic link
};

// "a folder", "a pipe", "a device", "a socket", "a symbolic link", "a regular file".
const char* file_kind(mode_t mode) noexcept;

class InputFile {
 public:
  // Errors: kNotFound, "cannot open "PATH": CAUSE" (missing, unreadable, "is a pipe", ...).
  static Result<InputFile> open(const std::string& path, Links links = Links::kFollow);
  // The same, for callers with words of their own. Never throws. The result is not open() where
  // cause() says why.
  static InputFile try_open(const char* path, Links links = Links::kFollow) noexcept;

  InputFile() = default;
  InputFile(InputFile&& other) noexcept { *this = std::move(other); }
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const struct stat& info() const { return info_; }  // as it was opened
  uint64_t size_bytes() const { return static_cast<uint64_t>(info_.st_size); }
  // errno of a failed open; 0: it is no regular file, and info() says what.
  int error_number() const { return error_; }
  std::string cause() const;

  // As many bytes as there are from `at` on: fewer only at the end. Errors: kNotFound with `path`.
  Result<size_t> read_at(uint64_t at, std::span<std::byte> bytes) const;

 private:
  int fd_ = -1, error_ = 0;
  struct stat info_ = {};
  std::string path_;
};

// The whole of a file, also of one whose size the system does not know (/proc). Errors: those of
// InputFile, kInvalid (longer than max_bytes).
Result<std::string> read_file(const std::string& path, size_t max_bytes,
                              Links links = Links::kFollow);
// At most its first max_bytes; "" where there is no such regular file.
std::string read_file_begin(const std::string& path, size_t max_bytes);

// A file of ours at a path that somebody gave: may it be written or removed? true: a regular file
// of which `is_ours` knows the content. false: nothing is there. Errors: kInvalid, naming what is
// there and that it stays (a link, a pipe, a folder, content of somebody else, longer than
// max_bytes), kNotFound (cannot be looked at).
Result<bool> find_own_file(const std::string& path, size_t max_bytes,
                           bool (*is_ours)(std::string_view content));

}  // namespace outrider
