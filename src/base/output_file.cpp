#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/assert.h"
#include "base/input_file.h"
#include "base/printable.h"

namespace outrider {
namespace {

constexpr int kMaxLinks = 40;  // as many as the kernel follows

// Names of temporary files, where a signal handler can read them. A file that finds no free slot
// is written all the same; only a signal leaves it behind.
struct Slot {
  std::atomic<int> state{0};  // 0 free, 1 being filled, 2 names a file
  char path[4096] = {};
};
constexpr int kSlots = 8;
Slot g_slots[kSlots];

int take_slot(const std::string& path) {
  if (path.size() >= sizeof Slot::path) return -1;
  for (int i = 0; i < kSlots; ++i) {
    int free = 0;
    if (!g_slots[i].state.compare_exchange_strong(free, 1)) continue;
    std::memcpy(g_slots[i].path, path.c_str(), path.size() + 1);
    g_slots[i].state.store(2, std::memory_order_release);
    return i;
  }
  return -1;
}

void leave_slot(int& slot) {
  if (slot >= 0) g_slots[slot].state.store(0, std::memory_order_release);
  slot = -1;
}

Error io_error(const char* what, const std::string& path, int cause) {
  const bool full = cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
  return make_error(full ? Code::kNoMemory : Code::kNotFound, "cannot %s \"%s\": %s (errno %d)%s",
                    what, short_path(path).c_str(), std::strerror(cause), cause,
                    full ? "; free space or write elsewhere" : "");
}

Error kind_error(const std::string& path, const char* what) {
  return make_error(Code::kNotFound, "cannot write \"%s\": it is %s; write elsewhere",
                    short_path(path).c_str(), what);
}

constexpr int kReaderTries = 50;
constexpr timespec kReaderPause{0, 20'000'000};

bool is_pipe(const std::string& path) {
  struct stat info {};
  const int cause = errno;
  const bool pipe = ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
  errno = cause;
  return pipe;
}

// The open did not wait; the writes may. 0, or errno.
int wait_again(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? 0 : errno;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Follows the links that `path` itself is; folders on the way are the kernel's matter.
Result<std::string> follow_links(const std::string& path) {
  std::string at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    char link[4096];
    const ssize_t n = ::readlink(at.c_str(), link, sizeof link);
    if (n < 0) return at;
    if (n == static_cast<ssize_t>(sizeof link)) return io_error("write", path, ENAMETOOLONG);
    const std::string to(link, static_cast<size_t>(n));
    at = to.starts_with('/') ? to
                             : folder_of(at) + (at.find('/') == std::string::npos ? "/" : "") + to;
  }
  return io_error("write", path, ELOOP);
}

void sync_folder_of(const std::string& path) {
  // Best effort: not every file system lets a folder be synced, and the content is safe already.
  const int fd = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

}  // namespace

bool OutputTarget::same_file(const OutputTarget& other) const {
  if (straight || other.straight || exists != other.exists) return false;
  if (exists) return device == other.device && inode == other.inode;
  return folder_device == other.folder_device && folder_inode == other.folder_inode &&
         name == other.name;
}

Result<OutputTarget> examine_output(const std::string& path) {
  if (path.empty()) return make_error(Code::kNotFound, "cannot write a file: its path is empty");
  if (path.find('\0') != std::string::npos)
    return make_error(Code::kNotFound, "cannot write \"%s\": a NUL byte is in the path",
                      short_path(path).c_str());
  OutputTarget target;
  struct stat info {};
  target.exists = ::stat(path.c_str(), &info) == 0;
  if (!target.exists && errno != ENOENT) return io_error("write", path, errno);
  if (target.exists) {
    if (S_ISDIR(info.st_mode)) return io_error("write", path, EISDIR);
    if (S_ISBLK(info.st_mode)) return kind_error(path, "a block device");
    if (::access(path.c_str(), W_OK) != 0) return io_error("write", path, errno);
    target.device = info.st_dev;
    target.inode = info.st_ino;
    target.straight = !S_ISREG(info.st_mode);
    target.path = path;
    if (target.straight) return target;
  }
  auto followed = follow_links(path);
  if (!followed) return followed.error();
  target.path = followed.value();
  target.name = target.path.substr(target.path.rfind('/') + 1);
  const std::string folder = folder_of(target.path);
  struct stat folder_info {};
  if (::stat(folder.c_str(), &folder_info) != 0) return io_error("create", path, errno);
  if (target.name.empty()) return io_error("create", path, EISDIR);
  if (!S_ISDIR(folder_info.st_mode)) return io_error("create", path, ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return io_error("create", path, errno);
  target.folder_device = folder_info.st_dev;
  target.folder_inode = folder_info.st_ino;
  return target;
}

Result<OutputFile> OutputFile::open(const std::string& path) {
  auto target = examine_output(path);
  if (!target) return target.error();
  OutputFile file;
  file.path_ = path;
  file.target_ = std::move(target.value());
  if (file.target_.straight) {
    auto opened = open_in_place(path, InPlace::kStream, 0666);
    if (!opened) return opened.error();
    file.fd_ = opened.value();
    return file;
  }
  static std::atomic<uint32_t> serial{0};
  file.temporary_ =
      file.target_.path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(serial++);
  file.slot_ = take_slot(file.temporary_);
  file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.fd_ < 0) {
    const int cause = errno;
    leave_slot(file.slot_);
    file.temporary_.clear();
    return io_error("create", path, cause);
  }
  // What is replaced keeps its permissions.
  struct stat info {};
  if (file.target_.exists && ::stat(file.target_.path.c_str(), &info) == 0)
    (void)::fchmod(file.fd_, info.st_mode & 0777);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept {
  *this = std::move(other);
}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(target_, other.target_);
  std::swap(fd_, other.fd_);
  std::swap(slot_, other.slot_);
  std::swap(finished_, other.finished_);
  std::swap(errno_, other.errno_);
  std::swap(doing_, other.doing_);
  return *this;
}

OutputFile::~OutputFile() {
  drop();
}

void OutputFile::drop() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  leave_slot(slot_);
}

Result<void> OutputFile::check() const {
  if (errno_ != 0) return io_error(doing_, path_, errno_);
  return {};
}

Result<void> OutputFile::fail(const char* doing) {
  errno_ = errno;
  doing_ = doing;
  return check();
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  OUTRIDER_TRY(check());
  OUTRIDER_ASSERT(fd_ >= 0 && !finished_);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> OutputFile::finish() {
  OUTRIDER_TRY(check());
  if (finished_) return {};
  OUTRIDER_ASSERT(fd_ >= 0);
  if (!target_.straight && ::fsync(fd_) != 0) return fail("sync");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) return fail("close");
  finished_ = true;
  return {};
}

Result<void> OutputFile::commit() {
  OUTRIDER_TRY(finish());
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), target_.path.c_str()) != 0) return fail("rename into place");
  temporary_.clear();
  leave_slot(slot_);
  sync_folder_of(target_.path);
  return {};
}

Result<void> write_output(const std::string& path, std::string_view bytes) {
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  OUTRIDER_TRY(file.value().write(bytes));
  return file.value().commit();
}

Result<int> open_in_place(const std::string& path, InPlace how, unsigned mode) {
  const bool own = how == InPlace::kRegular;
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (own ? O_NOFOLLOW : 0);
  int fd = ::open(path.c_str(), flags);
  if (fd < 0 && errno == ENOENT)
    fd = ::open(path.c_str(), flags | O_CREAT, static_cast<mode_t>(mode));
  // A reader that was started with us may need a moment.
  for (int i = 0; fd < 0 && errno == ENXIO && !own && is_pipe(path) && i < kReaderTries; ++i) {
    ::nanosleep(&kReaderPause, nullptr);
    fd = ::open(path.c_str(), flags);
  }
  struct stat info {};
  if (fd < 0) {
    const int cause = errno;
    if ((cause != ENXIO && !(cause == ELOOP && own)) || ::lstat(path.c_str(), &info) != 0)
      return io_error("open for writing", path, cause);
    if (S_ISLNK(info.st_mode) && !own && ::stat(path.c_str(), &info) != 0)
      return io_error("open for writing", path, cause);
    return kind_error(
        path, S_ISFIFO(info.st_mode) ? "a pipe that nobody reads" : file_kind(info.st_mode));
  }
  const int cause = ::fstat(fd, &info) == 0 ? wait_again(fd) : errno;
  const bool fits =
      S_ISREG(info.st_mode) || (!own && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode)));
  if (cause == 0 && fits) return fd;
  ::close(fd);
  return cause != 0 ? io_error("open for writing", path, cause)
                    : kind_error(path, file_kind(info.st_mode));
}

void remove_unfinished_outputs() noexcept {
  for (Slot& slot : g_slots)
    if (slot.state.load(std::memory_order_acquire) == 2) ::unlink(slot.path);
}

}  // namespace outrider
