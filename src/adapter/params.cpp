#include "adapter/params.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "base/input_file.h"
#include "base/printable.h"

namespace outrider::adapter {
namespace {

Error no_key(std::string_view key) {
  return make_error(Code::kInvalid,
                    "parameter \"%s\": no name of a parameter; wanted 1 to 64 of A-Z a-z 0-9 _",
                    printable(key, 64).c_str());
}

Error failed(const char* step, const std::string& path, int cause) {
  return make_error(Code::kFailed, "parameter %s: %s: %s", short_path(path).c_str(), step,
                    std::strerror(cause));
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

bool is_folder(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::string params_dir(const ParamsPlace& place) {
  const std::string prefix = place.prefix != nullptr ? place.prefix : "";
  std::string root;
  if (place.root != nullptr && *place.root != '\0')
    root = place.root;
  else if (place.on_device)
    root = "/data/params";
  else if (place.home != nullptr && *place.home != '\0')
    root = std::string(place.home) + "/.comma" + prefix + "/params";
  else
    return {};
  return root + "/" + (prefix.empty() ? "d" : prefix);
}

std::string params_dir_here() {
  return params_dir(
      {env_params_root(), env_params_prefix(), env_home(), is_folder("/data/params")});
}

bool is_key(std::string_view key) {
  if (key.empty() || key.size() > 64) return false;
  for (const char c : key) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!good) return false;
  }
  return true;
}

Result<std::string> read_param(const std::string& dir, std::string_view key) {
  if (dir.empty() || !is_key(key)) return make_error(Code::kNotFound, "unset");
  const std::string path = dir + "/" + std::string(key);
  const InputFile file = InputFile::try_open(path.c_str());
  if (!file.is_open() && file.error_number() != 0) return make_error(Code::kNotFound, "unset");
  if (!file.is_open())
    return make_error(Code::kNotFound, "parameter %s: no plain file", short_path(path).c_str());
  std::string text(std::min<uint64_t>(file.size_bytes(), kMaxParamBytes) + 1, '\0');
  auto n = file.read_at(0, std::as_writable_bytes(std::span(text)));
  if (!n)
    return make_error(Code::kNotFound, "parameter %s: cannot be read", short_path(path).c_str());
  if (n.value() > kMaxParamBytes)
    return make_error(Code::kInvalid, "parameter %s: more than %zu bytes", short_path(path).c_str(),
                      kMaxParamBytes);
  text.resize(n.value());
  return text;
}

Result<void> write_param(const std::string& dir, std::string_view key, std::string_view value,
                         bool block) {
  if (!is_key(key)) return no_key(key);
  if (dir.empty()) return make_error(Code::kFailed, "parameters: no folder for them");
  if (value.size() > kMaxParamBytes)
    return make_error(Code::kInvalid, "parameter %s: %zu bytes, allowed are %zu",
                      std::string(key).c_str(), value.size(), kMaxParamBytes);
  const std::string path = dir + "/" + std::string(key);
  std::string temp = dir + "/.tmp_" + std::string(key) + "_XXXXXX";
  const int fd = ::mkostemp(temp.data(), O_CLOEXEC);
  if (fd < 0) return failed("cannot be made", path, errno);
  int cause = write_all(fd, value);
  if (cause == 0 && ::fchmod(fd, 0644) != 0) cause = errno;
  if (cause == 0 && block && ::fsync(fd) != 0) cause = errno;
  ::close(fd);
  if (cause == 0 && std::rename(temp.c_str(), path.c_str()) != 0) cause = errno;
  if (cause != 0) {
    ::unlink(temp.c_str());
    return failed("cannot be written", path, cause);
  }
  const int folder = block ? ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
  return {};
}

Result<void> remove_param(const std::string& dir, std::string_view key) {
  if (!is_key(key)) return no_key(key);
  const std::string path = dir + "/" + std::string(key);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return failed("cannot be removed", path, errno);
}

}  // namespace outrider::adapter
