// A file being written so that nobody ever sees half of it, and nothing is replaced that is no
// plain file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

// Where bytes for `path` really go: symbolic links followed, also to a name that is still free.
struct OutputTarget {
  std::string path;  // of the last link's target; `path` itself for what is written straight into
  bool straight = false;  // a device, pipe or socket: written into, never replaced
  bool exists = false;
  uint64_t device = 0, inode = 0;                // of the file, when it exists
  uint64_t folder_device = 0, folder_inode = 0;  // of the folder it lies in
  std::string name;                              // last part of path

  // Two names of one plain file, there already or not. Devices and pipes may be shared.
  bool same_file(const OutputTarget& other) const;
};

// Examines, changes nothing. Errors: kNotFound (folder missing, not writable, `path` is a folder,
// a block device or a file that may not be written, links in a circle), each naming path and cause.
Result<OutputTarget> examine_output(const std::string& path);

class OutputFile {
 public:
  // Opens `path` itself when it is no plain file, else a temporary name beside its target. A
  // reader of a pipe is waited for a second. Errors: those of examine_output, kNotFound (cannot
  // create, a pipe nobody reads).
  static Result<OutputFile> open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();  // unless committed, removes what this object created and nothing else

  // Errors of these, naming path and errno: kNoMemory (disk full, size limit), kNotFound. The first
  // failure is kept: later calls return it again.
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Result<void> finish();  // all bytes are safe on the disk; nothing is at `path` yet
  Result<void> commit();  // finish, then the rename

  const OutputTarget& target() const { return target_; }

 private:
  OutputFile() = default;
  Result<void> check() const;
  Result<void> fail(const char* doing);
  void drop() noexcept;

  std::string path_, temporary_;
  OutputTarget target_;
  int fd_ = -1, slot_ = -1;
  bool finished_ = false;
  int errno_ = 0;
  const char* doing_ = "";
};

// The whole of a small file. Errors: those of OutputFile.
Result<void> write_output(const std::string& path, std::string_view bytes);

// A file that is written where it lies, as bytes come: an upload, a stream of frames, a lock.
// Nobody is waited for, nothing is cut off; made with `mode` where nothing is. The caller closes
// the descriptor. Errors: kNotFound, kNoMemory, naming path and cause.
enum class InPlace : uint8_t {
  kRegular,  // a name of ours: a regular file, and no link to one
  kStream,   // what a person named: links are followed; a character device or a pipe that somebody
             // reads is as good
};
Result<int> open_in_place(const std::string& path, InPlace how, unsigned mode);

// Unlinks the temporary files of every OutputFile of this process that is not committed. For a
// signal handler that is about to end the process: async-signal-safe.
void remove_unfinished_outputs() noexcept;

}  // namespace outrider
