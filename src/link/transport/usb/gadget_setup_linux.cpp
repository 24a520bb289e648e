// The system calls of gadget_setup.h.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "link/transport/usb/gadget_setup.h"

namespace outrider::link::usb {
namespace {

constexpr size_t kMaxAttributeBytes = 4096;
constexpr size_t kMaxNames = 4096;

int done(int rc) {
  return rc == 0 ? 0 : -errno;
}

class LinuxSetup final : public SetupSystem {
 public:
  int make_dir(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return 0;
    if (errno != ENOENT) return -errno;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return -ENOENT;
    if (const int error = make_dir(path.substr(0, slash)); error != 0) return error;
    return done(::mkdir(path.c_str(), 0755));
  }
  int remove_dir(const std::string& path) override { return done(::rmdir(path.c_str())); }
  int write(const std::string& path, std::string_view text) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    const ssize_t put = ::write(fd, text.data(), text.size());
    const int error = put == static_cast<ssize_t>(text.size()) ? 0 : put < 0 ? -errno : -EIO;
    ::close(fd);
    return error;
  }
  int read(const std::string& path, std::string& text) override {
    text.clear();
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -errno;
    char bytes[kMaxAttributeBytes];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    const int error = got < 0 ? -errno : 0;
    ::close(fd);
    if (got > 0) text.assign(bytes, static_cast<size_t>(got));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
    return error;
  }
  int make_link(const std::string& target, const std::string& path) override {
    return done(::symlink(target.c_str(), path.c_str()));
  }
  int remove_link(const std::string& path) override { return done(::unlink(path.c_str())); }
  int mount_functionfs(const std::string& function, const std::string& path,
                       const std::string& options) override {
    return done(::mount(function.c_str(), path.c_str(), "functionfs",
                        MS_NOEXEC | MS_NOSUID | MS_NODEV, options.c_str()));
  }
  int unmount(const std::string& path) override { return done(::umount2(path.c_str(), 0)); }
  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) return names;
    while (const dirent* entry = ::readdir(dir)) {
      if (entry->d_name[0] != '.' && names.size() < kMaxNames) names.emplace_back(entry->d_name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

SetupSystem& linux_setup() {
  static LinuxSetup system;
  return system;
}

}  // namespace outrider::link::usb
