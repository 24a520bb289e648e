#include "tandem/memory/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#ifdef __x86_64__
#include <smmintrin.h>
#endif

namespace outrider::memory {

Result<BufferRef> HostMemory::allocate(size_t bytes, uint32_t wanted) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0 || bytes > SIZE_MAX / 2 - page)
    return make_error(Code::kInvalid, "memfd: %zu bytes, allowed is 1 to %zu", bytes,
                      SIZE_MAX / 2 - page);
  const size_t whole = (bytes + page - 1) / page * page;
  const int fd = memfd_create("outrider-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* data = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(whole)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
    data = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return make_error(Code::kNoMemory, "memfd: %zu bytes refused by the system: %s", whole,
                      std::strerror(error));
  }
  return std::make_shared<FrameBuffer>(
      BufferFacts{static_cast<std::byte*>(data), bytes, Domain::kHostCached,
                  wanted & attribute::kSendable, ++generation_, fd},
      *this);
}

Code HostMemory::copy_out(const FrameBuffer& from, std::span<std::byte> to) noexcept {
  if (to.size() > from.bytes()) return Code::kDevice;
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  return Code::kOk;
}

void HostMemory::release(const BufferFacts& facts) noexcept {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(facts.data, (facts.bytes + page - 1) / page * page);
  close(facts.fd);
}

#ifdef __x86_64__
namespace {

constexpr size_t kLineBytes = 64;

__attribute__((target("sse4.1"))) void copy_lines(std::byte* to, const std::byte* from,
                                                  size_t n_lines) noexcept {
  for (size_t i = 0; i < n_lines; ++i, to += kLineBytes, from += kLineBytes) {
    // The intrinsic takes no const; it only reads.
    auto* line = reinterpret_cast<__m128i*>(const_cast<std::byte*>(from));
    const __m128i a = _mm_stream_load_si128(line), b = _mm_stream_load_si128(line + 1),
                  c = _mm_stream_load_si128(line + 2), d = _mm_stream_load_si128(line + 3);
    auto* out = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(out, a);
    _mm_storeu_si128(out + 1, b);
    _mm_storeu_si128(out + 2, c);
    _mm_storeu_si128(out + 3, d);
  }
}

}  // namespace

void copy_from_write_combined(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  static const bool can_stream = __builtin_cpu_supports("sse4.1") != 0;
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(from) % kLineBytes) % kLineBytes;
  if (can_stream && bytes >= head + kLineBytes) {
    std::memcpy(to, from, head);
    const size_t n_lines = (bytes - head) / kLineBytes;
    _mm_mfence();  // streaming loads are not ordered after earlier ones otherwise
    copy_lines(to + head, from + head, n_lines);
    const size_t done = head + n_lines * kLineBytes;
    to += done, from += done, bytes -= done;
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
}
#else
void copy_from_write_combined(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
#endif

}  // namespace outrider::memory
