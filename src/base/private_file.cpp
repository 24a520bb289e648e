#include "base/private_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <system_error>

namespace outrider {
namespace {

// A temporary file that old belongs to a process that died.
constexpr int64_t kAbandonedSeconds = 3600;
constexpr size_t kWriteBytes = size_t{64} << 20;
constexpr const char* kTempMark = ".part-";

Error failed(const char* step, int cause) {
  return make_error(Code::kFailed, "%s (%s)", step, std::generic_category().message(cause).c_str());
}

// A file being written: closed and removed unless it was renamed.
class TempFile {
 public:
  explicit TempFile(std::string pattern) : path_(std::move(pattern)) {
    fd_ = mkostemp(path_.data(), O_CLOEXEC);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() {
    if (fd_ < 0) return;
    close(fd_);
    if (!renamed_) unlink(path_.c_str());
  }
  int fd() const { return fd_; }
  bool rename_to(const std::string& path) {
    return renamed_ = std::rename(path_.c_str(), path.c_str()) == 0;
  }

 private:
  std::string path_;
  int fd_ = -1;
  bool renamed_ = false;
};

Result<void> make_folders(const std::string& dir) {
  for (size_t end = dir.find('/', 1); true; end = dir.find('/', end + 1)) {
    const std::string prefix = dir.substr(0, end);
    if (mkdir(prefix.c_str(), 0700) != 0 && errno != EEXIST) {
      const int cause = errno;
      struct stat info {};  // a read-only system says so even where the folder exists
      if (stat(prefix.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return failed("the folder cannot be made", cause);
    }
    if (end == std::string::npos) return {};
  }
}

// What writers that died left of this file.
void remove_abandoned(const std::string& dir, const std::string& name) {
  DIR* folder = opendir(dir.c_str());
  if (folder == nullptr) return;
  const std::string mark = name + kTempMark;
  while (const dirent* entry = readdir(folder)) {
    const std::string path = dir + "/" + entry->d_name;
    struct stat info {};
    if (std::string(entry->d_name).rfind(mark, 0) == 0 && lstat(path.c_str(), &info) == 0 &&
        S_ISREG(info.st_mode) && info.st_mtim.tv_sec < std::time(nullptr) - kAbandonedSeconds)
      unlink(path.c_str());
  }
  closedir(folder);
}

// Asks for the room first: a full disk is then known before anything is written.
Result<void> take_room(int fd, uint64_t n_bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      n_bytes > limit.rlim_cur)  // a write beyond it would end the process
    return make_error(Code::kFailed, "%llu bytes are more than this process may write to a file",
                      static_cast<unsigned long long>(n_bytes));
  if (n_bytes == 0 || fallocate(fd, 0, 0, static_cast<off_t>(n_bytes)) == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS) return {};
  return failed("no room for it", errno);
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kWriteBytes));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("writing failed", n < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

}  // namespace

Result<PrivateFile> PrivateFile::open(const std::string& path) {
  PrivateFile file(InputFile::try_open(path.c_str(), Links::kRefuse));
  if (!file.file_.is_open()) {
    const int cause = file.file_.error_number();
    if (cause == ENOENT || cause == ENOTDIR) return make_error(Code::kNotFound, "none there");
    if (cause == 0) return make_error(Code::kInvalid, "it is no regular file");
    return make_error(Code::kInvalid, "it cannot be opened (%s)", file.file_.cause().c_str());
  }
  const struct stat& info = file.file_.info();
  if (info.st_uid != geteuid())
    return make_error(Code::kInvalid, "it belongs to user %u, not to this one",
                      static_cast<unsigned>(info.st_uid));
  if ((info.st_mode & 022) != 0)
    return make_error(Code::kInvalid, "others may write it (mode %o)",
                      static_cast<unsigned>(info.st_mode & 0777));
  return file;
}

Result<void> write_private_file(const std::string& dir, const std::string& name,
                                std::span<const std::span<const std::byte>> pieces) {
  OUTRIDER_TRY(make_folders(dir));
  remove_abandoned(dir, name);
  const std::string path = dir + "/" + name;
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    return make_error(Code::kFailed, "%s is in its place, and stays", file_kind(there.st_mode));
  TempFile temp(path + kTempMark + "XXXXXX");
  if (temp.fd() < 0) return failed("the folder cannot be written", errno);
  uint64_t total = 0;
  for (const auto& piece : pieces) total += piece.size();
  OUTRIDER_TRY(take_room(temp.fd(), total));
  for (const auto& piece : pieces) OUTRIDER_TRY(write_all(temp.fd(), piece));
  if (fsync(temp.fd()) != 0) return failed("flushing failed", errno);
  if (!temp.rename_to(path)) return failed("renaming failed", errno);
  // The name is on the disk once its folder is; without that a crash only costs a rebuild.
  const int folder = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)fsync(folder);
    close(folder);
  }
  return {};
}

}  // namespace outrider
