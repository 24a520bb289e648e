// Files that this user's processes leave for each other: caches. Written whole or not at all, read
// only when nobody else could have written them. Texts of errors name no path: they go into status.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/input_file.h"
#include "base/result.h"

namespace outrider {

class PrivateFile {
 public:
  // Errors: kNotFound ("none there"), kInvalid: no regular file, owned by somebody else, others may
  // write it, or the system refuses.
  static Result<PrivateFile> open(const std::string& path);

  int fd() const { return file_.fd(); }
  uint64_t size_bytes() const { return file_.size_bytes(); }

 private:
  explicit PrivateFile(InputFile file) : file_(std::move(file)) {}
  InputFile file_;
};

// Puts the pieces one after the other into dir/name: a new file of mode 0600, flushed to the disk
// and renamed, so that readers see the old file or all of the new one. Missing folders are made
// with mode 0700. Whoever writes last wins. What stands there and is no regular file (a link, a
// pipe) is left and refused. Errors: kFailed naming the step and the cause.
Result<void> write_private_file(const std::string& dir, const std::string& name,
                                std::span<const std::span<const std::byte>> pieces);

}  // namespace outrider
