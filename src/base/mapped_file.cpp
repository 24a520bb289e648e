#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/input_file.h"

namespace outrider {
namespace {

// The end of a long path says more than its beginning, and the cause must still fit the line.
Error path_error(Code code, const char* what, const char* path, const char* cause) {
  constexpr size_t kShownBytes = 300;
  const size_t length = std::strlen(path);
  const bool cut = length > kShownBytes;
  return make_error(code, "%s \"%s%s\": %s", what, cut ? "..." : "",
                    cut ? path + (length - kShownBytes) : path, cause);
}

int64_t to_ns(const timespec& t) {
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Result<MappedFile> MappedFile::open(const char* path) {
  if (path == nullptr || *path == '\0') {
    return make_error(Code::kNotFound, "cannot open a file: its path is empty");
  }
  auto opened = InputFile::open(path);
  if (!opened) return opened.error();
  const InputFile& file = opened.value();
  const struct stat& info = file.info();
  MappedFile mapped;
  mapped.path_ = path;
  mapped.id_ = {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), to_ns(info.st_mtim),
                to_ns(info.st_ctim)};
  if (info.st_size == 0) return mapped;
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) {
    const int cause = errno;
    return path_error(Code::kNoMemory, "cannot map", path,
                      std::generic_category().message(cause).c_str());
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(id_, other.id_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages(const void* first, size_t n_bytes) const {
  if (data_ == nullptr) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t start = reinterpret_cast<uintptr_t>(first);
  OUTRIDER_ASSERT(start >= begin && start - begin <= size_ && n_bytes <= size_ - (start - begin));
  const size_t page = page_bytes();
  const uintptr_t from = (start + page - 1) / page * page;
  // The rest of the last page belongs to nobody else.
  const bool to_the_end = start - begin + n_bytes == size_;
  const uintptr_t stop = start + n_bytes;
  const uintptr_t to = to_the_end ? (stop + page - 1) / page * page : stop / page * page;
  if (from < to) (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

}  // namespace outrider
