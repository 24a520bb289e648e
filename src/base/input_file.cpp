#include "base/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace outrider {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 20;

// The end of a long path says more than its beginning, and the cause must still fit the line.
std::string named(const std::string& path) {
  constexpr size_t kShownBytes = 300;
  return path.size() <= kShownBytes ? path : "..." + path.substr(path.size() - kShownBytes);
}

Error path_error(Code code, const char* doing, const std::string& path, const std::string& cause) {
  return make_error(code, "cannot %s \"%s\": %s", doing, named(path).c_str(), cause.c_str());
}

std::string text_of(int error) {
  return std::generic_category().message(error);
}

}  // namespace

const char* file_kind(mode_t mode) noexcept {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

InputFile InputFile::try_open(const char* path, Links links) noexcept {
  InputFile file;
  // Without O_NONBLOCK a pipe would hold us here until somebody writes to it.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file.fd_ = ::open(path, links == Links::kRefuse ? flags | O_NOFOLLOW : flags);
  if (file.fd_ < 0) {
    file.error_ = errno;
    // A socket or a link has no name of its own among the causes.
    if ((file.error_ == ENXIO || file.error_ == ELOOP) && ::lstat(path, &file.info_) == 0 &&
        !S_ISREG(file.info_.st_mode) && !(S_ISLNK(file.info_.st_mode) && links == Links::kFollow))
      file.error_ = 0;
    return file;
  }
  if (::fstat(file.fd_, &file.info_) != 0) file.error_ = errno;
  if (file.error_ == 0 && S_ISREG(file.info_.st_mode)) return file;
  ::close(file.fd_);
  file.fd_ = -1;
  return file;
}

Result<InputFile> InputFile::open(const std::string& path, Links links) {
  if (path.empty()) return make_error(Code::kNotFound, "cannot open a file: its path is empty");
  InputFile file = try_open(path.c_str(), links);
  if (!file.is_open())
    return path_error(file.error_ == ENOMEM ? Code::kNoMemory : Code::kNotFound, "open", path,
                      file.cause());
  file.path_ = path;
  return file;
}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(error_, other.error_);
  std::swap(info_, other.info_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string InputFile::cause() const {
  return error_ != 0 ? text_of(error_) : std::string("is ") + file_kind(info_.st_mode);
}

Result<size_t> InputFile::read_at(uint64_t at, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pread(fd_, bytes.data() + done, std::min(bytes.size() - done, kPieceBytes),
                              static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return path_error(Code::kNotFound, "read", path_, text_of(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<std::string> read_file(const std::string& path, size_t max_bytes, Links links) {
  auto file = InputFile::open(path, links);
  if (!file) return file.error();
  const auto too_long = [&](uint64_t bytes) {
    return make_error(Code::kInvalid, "%s: %llu bytes or more, allowed %zu", named(path).c_str(),
                      static_cast<unsigned long long>(bytes), max_bytes);
  };
  if (file.value().size_bytes() > max_bytes) return too_long(file.value().size_bytes());
  std::string text;
  for (;;) {
    const size_t have = text.size();
    // One byte more than its size: the end is then seen without another turn.
    const uint64_t left =
        file.value().size_bytes() > have ? file.value().size_bytes() - have : 4096;
    text.resize(have + static_cast<size_t>(left) + 1);
    auto n = file.value().read_at(have, std::as_writable_bytes(std::span(text)).subspan(have));
    if (!n) return n.error();
    text.resize(have + n.value());
    if (text.size() > max_bytes) return too_long(text.size());
    if (n.value() < left + 1) return text;
  }
}

std::string read_file_begin(const std::string& path, size_t max_bytes) {
  const InputFile file = InputFile::try_open(path.c_str());
  std::string text(file.is_open() ? max_bytes : 0, '\0');
  if (!file.is_open()) return text;
  auto n = file.read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(n ? n.value() : 0);
  return text;
}

Result<bool> find_own_file(const std::string& path, size_t max_bytes,
                           bool (*is_ours)(std::string_view content)) {
  const auto foreign = [&](const char* what) {
    return make_error(Code::kInvalid, "%s is %s and stays as it is; name another file",
                      named(path).c_str(), what);
  };
  const InputFile file = InputFile::try_open(path.c_str(), Links::kRefuse);
  if (!file.is_open()) {
    if (file.error_number() == ENOENT) return false;
    if (file.error_number() == 0) return foreign(file_kind(file.info().st_mode));
    return path_error(Code::kNotFound, "open", path, file.cause());
  }
  if (file.size_bytes() > max_bytes) return foreign("a file of somebody else");
  std::string text(max_bytes, '\0');
  auto n = file.read_at(0, std::as_writable_bytes(std::span(text)));
  if (!n) return path_error(Code::kNotFound, "read", path, text_of(EIO));
  text.resize(n.value());
  if (!is_ours(text)) return foreign("a file of somebody else");
  return true;
}

}  // namespace outrider
