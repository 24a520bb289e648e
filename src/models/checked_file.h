// A large file of ours that is mapped and verified whole before a byte of it is believed: a key
// that says what it was made of, some numbers, a block of bytes and some floats.
//
// Layout, little endian: Head, key, numbers, sums of the payload's 64 MiB blocks, zeros up to a
// page; then the payload: bytes, floats. Every byte of the file is covered by a sum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace outrider {

struct CheckedParts {
  std::string_view key;
  std::span<const int64_t> numbers;
  std::span<const std::byte> bytes;  // a multiple of 64 long; page-aligned in the mapping
  std::span<const float> floats;
};

class CheckedFile {
 public:
  // [setup] Reads the whole file, with as many threads as are worth having; all pages are then
  // mapped. Errors, without a path: kNotFound (none there), kInvalid (not private, damaged, cut, of
  // another revision or key), kNoMemory.
  static Result<CheckedFile> open(const std::string& path, std::string_view key);
  // [setup] See write_private_file for how and for errors.
  static Result<void> write(const std::string& dir, const std::string& name,
                            const CheckedParts& parts);

  CheckedFile(CheckedFile&& other) noexcept;
  CheckedFile(const CheckedFile&) = delete;
  CheckedFile& operator=(const CheckedFile&) = delete;
  ~CheckedFile();

  // Valid as long as this object.
  const CheckedParts& parts() const { return parts_; }

 private:
  CheckedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  Result<void> verify(std::string_view key);

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  CheckedParts parts_;
};

}  // namespace outrider
