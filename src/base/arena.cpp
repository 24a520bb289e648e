#include "base/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace outrider {
namespace {

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Written through volatile: the compiler may not drop a store of what is there already.
void touch_every_page(std::byte* data, size_t n_bytes) {
  for (size_t at = 0; at < n_bytes; at += page_bytes()) {
    *const_cast<volatile std::byte*>(data + at) = std::byte{0};
  }
}

}  // namespace

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(sealed_, other.sealed_);
  return *this;
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, capacity_);
}

Result<void> Arena::reserve(size_t n_bytes, bool prefault) {
  OUTRIDER_ASSERT(data_ == nullptr);
  if (n_bytes == 0) return {};
  const size_t page = page_bytes();
  if (n_bytes > SIZE_MAX - (page - 1)) {
    return make_error(Code::kNoMemory, "arena: %zu bytes exceed the address space", n_bytes);
  }
  const size_t capacity = (n_bytes + page - 1) / page * page;
  void* data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    const int cause = errno;
    return make_error(Code::kNoMemory, "arena: the system gave no %zu bytes (errno %d)", capacity,
                      cause);
  }
  // A wish: kernels without transparent huge pages refuse it and nothing is lost.
  (void)madvise(data, capacity, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  capacity_ = capacity;
  if (prefault) touch_every_page(data_, capacity_);
  return {};
}

void* Arena::take_bytes(size_t n_bytes) {
  OUTRIDER_ASSERT(!sealed_);
  OUTRIDER_ASSERT(n_bytes <= capacity_ - used_);
  void* taken = data_ + used_;
  // capacity_ is whole pages, so rounding up to kAlignBytes cannot pass it.
  used_ += cost<std::byte>(n_bytes);
  OUTRIDER_ASSERT(used_ <= capacity_);
  return taken;
}

}  // namespace outrider
