// The few file operations that the store is built on, so that tests can put a file system below it
// that fails, fills up and loses power.
//
// Paths are relative to the store's folder: "NAME" or "FOLDER/NAME", never "..", never absolute.
// No operation follows a symbolic link below that folder. Every operation answers 0 or an errno.
//
// What may be relied on after a loss of power: bytes of a file after sync() of its handle; names
// in a folder (new, gone, renamed) after sync_folder(); a rename inside one folder happens wholly
// or not at all. Nothing else: unsynced bytes and names may be there, missing or torn.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace outrider::store {

struct FileInfo {
  bool is_file = false, is_folder = false;  // neither: a link, a device, a pipe
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  // room it takes on the disk
  uint64_t device = 0, inode = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;
};

struct FreeSpace {
  uint64_t bytes = 0;   // for this user
  uint64_t inodes = 0;  // UINT64_MAX when the file system does not count them
};

enum class OpenHow : uint8_t { kRead, kReadWrite, kCreate };  // kCreate: made when missing
enum class LockHow : uint8_t { kShared, kExclusive };

class Files {
 public:
  virtual ~Files() = default;

  // Regular files only (EINVAL for anything else there, ELOOP for a link).
  virtual int open(const std::string& path, OpenHow how, int* handle) = 0;
  virtual void close(int handle) noexcept = 0;
  // At most bytes.size() bytes; fewer only at the end of the file (read) or when room ends (write).
  virtual int read(int handle, uint64_t offset, std::span<std::byte> bytes, size_t* n_read) = 0;
  virtual int write(int handle, uint64_t offset, std::span<const std::byte> bytes,
                    size_t* n_written) = 0;
  virtual int truncate(int handle, uint64_t size_bytes) = 0;
  // Takes room on the disk for that many bytes without changing the size. EOPNOTSUPP is no failure.
  virtual int reserve(int handle, uint64_t size_bytes) = 0;
  virtual int sync(int handle) = 0;
  virtual int info(int handle, FileInfo* info) = 0;
  virtual int touch(int handle) = 0;  // modification time := now
  // Advisory, whole file, between processes and between handles; never waits: EWOULDBLOCK. Goes
  // with the handle, also when its process is killed.
  virtual int lock(int handle, LockHow how) = 0;

  virtual int make_folder(const std::string& path) = 0;
  virtual int remove_folder(const std::string& path) = 0;  // an empty one
  virtual int unlink(const std::string& path) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int info(const std::string& path, FileInfo* info) = 0;  // of a link itself
  // Names in a folder, "" being the store's own; in no order. More than max_names: E2BIG.
  virtual int list(const std::string& path, size_t max_names, std::vector<std::string>* names) = 0;
  virtual int sync_folder(const std::string& path) = 0;
  virtual int space(FreeSpace* space) = 0;

  virtual int64_t wall_ns() = 0;          // the clock that file times come from
  virtual void pause_ns(int64_t ns) = 0;  // sleeps
  virtual std::string path_of(const std::string& path) const = 0;  // for opening it elsewhere
};

// Owns a handle.
class File {
 public:
  File() = default;
  File(Files& files, int handle) : files_(&files), handle_(handle) {}
  File(File&& other) noexcept : files_(other.files_), handle_(other.handle_) { other.handle_ = -1; }
  File& operator=(File&& other) noexcept {
    if (this != &other) {
      reset();
      files_ = other.files_;
      handle_ = other.handle_;
      other.handle_ = -1;
    }
    return *this;
  }
  ~File() { reset(); }
  void reset() noexcept {
    if (handle_ >= 0) files_->close(handle_);
    handle_ = -1;
  }
  bool is_open() const { return handle_ >= 0; }
  int handle() const { return handle_; }

 private:
  Files* files_ = nullptr;
  int handle_ = -1;
};

}  // namespace outrider::store
