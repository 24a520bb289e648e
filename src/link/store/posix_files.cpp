#include "link/store/posix_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <system_error>

#include "base/printable.h"

namespace outrider::store {
namespace {

constexpr size_t kMaxIoBytes = size_t{64} << 20;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

int result_of(int answer) {
  return answer == 0 ? 0 : errno;
}

int64_t to_ns(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileInfo to_info(const struct stat& found) {
  FileInfo info;
  info.is_file = S_ISREG(found.st_mode);
  info.is_folder = S_ISDIR(found.st_mode);
  info.size_bytes = static_cast<uint64_t>(found.st_size);
  info.allocated_bytes = static_cast<uint64_t>(found.st_blocks) * 512;
  info.device = found.st_dev;
  info.inode = found.st_ino;
  info.mtime_ns = to_ns(found.st_mtim);
  info.ctime_ns = to_ns(found.st_ctim);
  return info;
}

// Folder of a relative path, opened without following a link, and the last part of the path.
class Place {
 public:
  Place(int root, const std::string& path) {
    const size_t slash = path.find('/');
    leaf_ = slash == std::string::npos ? path : path.substr(slash + 1);
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    fd_ = ::openat(root, folder.c_str(), kFolderFlags);
    cause_ = fd_ < 0 ? errno : 0;
    if (cause_ == 0 &&
        (leaf_.empty() || leaf_ == "." || leaf_ == ".." || leaf_.find('/') != std::string::npos))
      cause_ = EINVAL;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  int cause() const { return cause_; }
  const char* leaf() const { return leaf_.c_str(); }

 private:
  std::string leaf_;
  int fd_ = -1, cause_ = 0;
};

class PosixFiles final : public Files {
 public:
  PosixFiles(std::string folder, int fd) : folder_(std::move(folder)), root_(fd) {}
  ~PosixFiles() override { ::close(root_); }

  int open(const std::string& path, OpenHow how, int* handle) override {
    const Place place(root_, path);
    if (place.cause() != 0) return place.cause();
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    flags |= how == OpenHow::kRead ? O_RDONLY : O_RDWR;
    if (how == OpenHow::kCreate) flags |= O_CREAT;
    const int fd = ::openat(place.fd(), place.leaf(), flags, 0600);
    if (fd < 0) return errno;
    struct stat found {};
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
      ::close(fd);
      return EINVAL;
    }
    *handle = fd;
    return 0;
  }

  void close(int handle) noexcept override { ::close(handle); }

  int read(int handle, uint64_t offset, std::span<std::byte> bytes, size_t* n_read) override {
    ssize_t n = 0;
    do {
      n = pread(handle, bytes.data(), std::min(bytes.size(), kMaxIoBytes),
                static_cast<off_t>(offset));
    } while (n < 0 && errno == EINTR);
    *n_read = n < 0 ? 0 : static_cast<size_t>(n);
    return n < 0 ? errno : 0;
  }

  int write(int handle, uint64_t offset, std::span<const std::byte> bytes,
            size_t* n_written) override {
    if (const int cause = check_size_limit(offset + bytes.size()); cause != 0) return cause;
    ssize_t n = 0;
    do {
      n = pwrite(handle, bytes.data(), std::min(bytes.size(), kMaxIoBytes),
                 static_cast<off_t>(offset));
    } while (n < 0 && errno == EINTR);
    *n_written = n < 0 ? 0 : static_cast<size_t>(n);
    return n < 0 ? errno : 0;
  }

  int truncate(int handle, uint64_t size_bytes) override {
    return result_of(ftruncate(handle, static_cast<off_t>(size_bytes)));
  }

  int reserve(int handle, uint64_t size_bytes) override {
    if (const int cause = check_size_limit(size_bytes); cause != 0) return cause;
    int answer = 0;
    do {
      answer = fallocate(handle, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_bytes));
    } while (answer != 0 && errno == EINTR);
    return answer != 0 && errno == ENOSYS ? EOPNOTSUPP : result_of(answer);
  }

  int sync(int handle) override { return result_of(fsync(handle)); }

  int info(int handle, FileInfo* info) override {
    struct stat found {};
    if (fstat(handle, &found) != 0) return errno;
    *info = to_info(found);
    return 0;
  }

  int touch(int handle) override { return result_of(futimens(handle, nullptr)); }

  int lock(int handle, LockHow how) override {
    return result_of(flock(handle, (how == LockHow::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB));
  }

  int make_folder(const std::string& path) override {
    const Place place(root_, path);
    if (place.cause() != 0) return place.cause();
    return result_of(mkdirat(place.fd(), place.leaf(), 0700));
  }

  int remove_folder(const std::string& path) override {
    const Place place(root_, path);
    if (place.cause() != 0) return place.cause();
    return result_of(unlinkat(place.fd(), place.leaf(), AT_REMOVEDIR));
  }

  int unlink(const std::string& path) override {
    const Place place(root_, path);
    if (place.cause() != 0) return place.cause();
    return result_of(unlinkat(place.fd(), place.leaf(), 0));
  }

  int rename(const std::string& from, const std::string& to) override {
    const Place source(root_, from), target(root_, to);
    if (source.cause() != 0) return source.cause();
    if (target.cause() != 0) return target.cause();
    return result_of(renameat(source.fd(), source.leaf(), target.fd(), target.leaf()));
  }

  int info(const std::string& path, FileInfo* info) override {
    const Place place(root_, path);
    if (place.cause() != 0) return place.cause();
    struct stat found {};
    if (fstatat(place.fd(), place.leaf(), &found, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    *info = to_info(found);
    return 0;
  }

  int list(const std::string& path, size_t max_names, std::vector<std::string>* names) override {
    const int fd = ::openat(root_, path.empty() ? "." : path.c_str(), kFolderFlags);
    if (fd < 0) return errno;
    DIR* folder = fdopendir(fd);
    if (folder == nullptr) {
      const int cause = errno;
      ::close(fd);
      return cause;
    }
    names->clear();
    int cause = 0;
    for (errno = 0; const dirent* entry = readdir(folder); errno = 0) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (names->size() == max_names) {
        cause = E2BIG;
        break;
      }
      names->push_back(name);
    }
    if (cause == 0) cause = errno;
    closedir(folder);
    return cause;
  }

  int sync_folder(const std::string& path) override {
    const int fd = ::openat(root_, path.empty() ? "." : path.c_str(), kFolderFlags);
    if (fd < 0) return errno;
    const int cause = result_of(fsync(fd));
    ::close(fd);
    return cause == EINVAL ? 0 : cause;  // some file systems have no such thing
  }

  int space(FreeSpace* space) override {
    struct statvfs found {};
    if (fstatvfs(root_, &found) != 0) return errno;
    space->bytes = static_cast<uint64_t>(found.f_bavail) * found.f_frsize;
    space->inodes = found.f_files == 0 ? UINT64_MAX : static_cast<uint64_t>(found.f_favail);
    return 0;
  }

  int64_t wall_ns() override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return to_ns(now);
  }

  void pause_ns(int64_t ns) override {
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    nanosleep(&time, nullptr);
  }

  std::string path_of(const std::string& path) const override {
    return path.empty() ? folder_ : folder_ + "/" + path;
  }

 private:
  // A write beyond this process's limit would end it by a signal.
  static int check_size_limit(uint64_t size_bytes) {
    rlimit limit{};
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited && size_bytes > limit.rlim_cur ? EFBIG : 0;
  }

  std::string folder_;
  int root_;
};

Error refused(const std::string& folder, const char* what) {
  return make_error(Code::kInvalid, "store: folder %s %s", short_path(folder).c_str(), what);
}

void sync_parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  ::close(fd);
}

// What is still missing afterwards shows when it is opened; then the errno, or 0, says why.
int make_folders(const std::string& folder) {
  int cause = 0;
  for (size_t end = folder.find('/', 1); true; end = folder.find('/', end + 1)) {
    const std::string prefix = folder.substr(0, end);
    if (mkdir(prefix.c_str(), 0700) == 0)
      sync_parent(prefix);
    else if (errno != EEXIST && (cause == 0 || errno != ENOENT))
      cause = errno;
    if (end == std::string::npos) return cause;
  }
}

}  // namespace

Result<std::unique_ptr<Files>> open_posix_files(const std::string& folder) {
  if (folder.empty()) return make_error(Code::kInvalid, "store: its folder has an empty name");
  const int not_made = make_folders(folder);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    const bool missing = errno == ENOENT && not_made != 0;
    return make_error(Code::kNotFound, "store: cannot %s folder %s: %s", missing ? "make" : "open",
                      short_path(folder).c_str(),
                      std::generic_category().message(missing ? not_made : errno).c_str());
  }
  auto files = std::make_unique<PosixFiles>(folder, fd);
  struct stat found {};
  if (fstat(fd, &found) != 0) return refused(folder, "cannot be examined");
  if (found.st_uid != geteuid() && found.st_uid != 0)
    return refused(folder, "belongs to another user: choose one of your own");
  if ((found.st_mode & 022) != 0)
    return refused(folder, "may be written by others: chmod go-w it, or choose another");
  return std::unique_ptr<Files>(std::move(files));
}

}  // namespace outrider::store
