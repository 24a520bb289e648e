// A file mapped read-only. Owns the mapping; unmaps itself. Movable.
// A file that another process cuts while it is mapped ends a read in SIGBUS: writers replace files
// by rename, readers re-check FileId before they trust a cached result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace outrider {

// What makes two opens "the same file": never the name alone.
struct FileId {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const FileId&) const = default;
};

class MappedFile {
 public:
  // Regular files only. Errors: kNotFound (missing, unreadable, a folder, a pipe), kNoMemory.
  // An empty file maps to an empty span.
  static Result<MappedFile> open(const char* path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const FileId& id() const { return id_; }
  const std::string& path() const { return path_; }

  // Tells the kernel that these pages will not be read soon, so they may leave memory. Whole pages
  // inside the range only; the bytes stay readable. Asserts that the range lies in the mapping.
  void drop_pages(const void* first, size_t n_bytes) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileId id_;
  std::string path_;
};

}  // namespace outrider
