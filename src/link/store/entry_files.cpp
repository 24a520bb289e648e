#include "link/store/entry_files.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "base/sha256.h"

namespace outrider::store {
namespace {
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kMaxFilesInFolder = 64;
}  // namespace

bool is_no_room(int cause) {
  return cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
}

Error io_error(const Files& files, const char* doing, const std::string& path, int cause) {
  const Code code = is_no_room(cause)                   ? Code::kNoMemory
                    : cause == ENOENT                   ? Code::kNotFound
                    : cause == ELOOP || cause == EINVAL ? Code::kInvalid
                                                        : Code::kFailed;
  const char* hint = cause == ELOOP    ? " (a symbolic link: remove it by hand)"
                     : cause == EROFS  ? " (mount it writable)"
                     : cause == EACCES ? " (make it writable for this user)"
                                       : "";
  return make_error(code, "store: cannot %s %s: %s%s", doing,
                    short_path(files.path_of(path)).c_str(),
                    std::generic_category().message(cause).c_str(), hint);
}

Result<File> open_file(Files& files, const std::string& path, OpenHow how) {
  int handle = -1;
  if (const int cause = files.open(path, how, &handle); cause != 0)
    return io_error(files, "open", path, cause);
  return File(files, handle);
}

int write_all(Files& files, int handle, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t n = 0;
    if (const int cause = files.write(handle, offset, bytes, &n); cause != 0) return cause;
    if (n == 0) return ENOSPC;
    offset += n;
    bytes = bytes.subspan(n);
  }
  return 0;
}

int read_all(Files& files, int handle, uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    size_t n = 0;
    if (const int cause = files.read(handle, offset, bytes, &n); cause != 0) return cause;
    if (n == 0) return EIO;
    offset += n;
    bytes = bytes.subspan(n);
  }
  return 0;
}

Result<std::string> read_text(Files& files, const std::string& path, size_t max_bytes) {
  auto file = open_file(files, path, OpenHow::kRead);
  if (!file) return file.error();
  FileInfo info;
  if (const int cause = files.info(file.value().handle(), &info); cause != 0)
    return io_error(files, "examine", path, cause);
  if (info.size_bytes > max_bytes)
    return make_error(Code::kInvalid, "store: %s has %llu bytes, at most %zu are allowed",
                      short_path(files.path_of(path)).c_str(),
                      static_cast<unsigned long long>(info.size_bytes), max_bytes);
  std::string text(info.size_bytes, 0);
  const int cause =
      read_all(files, file.value().handle(), 0, std::as_writable_bytes(std::span(text)));
  if (cause != 0) return io_error(files, "read", path, cause);
  return text;
}

Result<void> replace_text(Files& files, const std::string& folder, const std::string& name,
                          std::string_view text) {
  const std::string path = folder + "/" + name, temporary = path + ".new";
  auto file = open_file(files, temporary, OpenHow::kCreate);
  if (!file) return file.error();
  const int handle = file.value().handle();
  const char* doing = "write";
  int cause = files.truncate(handle, 0);
  if (cause == 0) cause = write_all(files, handle, 0, std::as_bytes(std::span(text)));
  if (cause == 0) cause = files.sync(handle);
  if (cause == 0) {
    doing = "rename";
    cause = files.rename(temporary, path);
  }
  if (cause != 0) {
    files.unlink(temporary);
    return io_error(files, doing, temporary, cause);
  }
  if (cause = files.sync_folder(folder); cause != 0) return io_error(files, "flush", folder, cause);
  return {};
}

Result<void> erase_folder(Files& files, const std::string& folder) {
  std::vector<std::string> names;
  int cause = files.list(folder, kMaxFilesInFolder, &names);
  if (cause == ENOENT) return {};
  for (size_t i = 0; cause == 0 && i < names.size(); ++i)
    cause = files.unlink(folder + "/" + names[i]);
  if (cause == 0) cause = files.remove_folder(folder);
  if (cause != 0) return io_error(files, "delete", folder, cause);
  return {};
}

Result<std::string> hash_file(Files& files, int handle, const std::string& path, uint64_t n_bytes,
                              Stage stage, const OnProgress& on_progress) {
  Sha256 digest;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(n_bytes, kReadBytes)));
  for (uint64_t at = 0; at < n_bytes;) {
    if (on_progress && !on_progress({stage, at, n_bytes}))
      return make_error(Code::kNotReady, "store: given up in %s at byte %llu of %llu",
                        stage_name(stage), static_cast<unsigned long long>(at),
                        static_cast<unsigned long long>(n_bytes));
    const auto piece = std::span(buffer).first(
        static_cast<size_t>(std::min<uint64_t>(n_bytes - at, buffer.size())));
    if (const int cause = read_all(files, handle, at, piece); cause != 0)
      return io_error(files, "read", path, cause);
    digest.add(piece);
    at += piece.size();
  }
  return digest.hex();
}

}  // namespace outrider::store
