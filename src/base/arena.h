// One block of memory taken in `prepare`, handed out as views, then sealed: a tick takes nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/result.h"

namespace outrider {

class Arena {
 public:
  static constexpr size_t kAlignBytes = 64;

  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // [setup] Takes n_bytes of zeroed, page-aligned memory (huge pages are asked for). Every page is
  // touched when `prefault` is set, so that a tick meets no page fault. The capacity is n_bytes
  // rounded up to whole pages. Once per arena (asserted). Errors: kNoMemory.
  Result<void> reserve(size_t n_bytes, bool prefault = true);

  // [setup] The next n values, aligned to kAlignBytes. Asserts that they fit and that the arena is
  // not sealed.
  template <class T>
  std::span<T> take(size_t n) {
    static_assert(alignof(T) <= kAlignBytes && std::is_trivially_destructible_v<T>);
    OUTRIDER_ASSERT(n <= SIZE_MAX / sizeof(T));
    return {static_cast<T*>(take_bytes(n * sizeof(T))), n};
  }
  void* take_bytes(size_t n_bytes);
  void seal() { sealed_ = true; }
  bool sealed() const { return sealed_; }
  size_t used_bytes() const { return used_; }
  std::span<const std::byte> used() const { return {data_, used_}; }
  size_t capacity_bytes() const { return capacity_; }

  // What `take<T>(n)` costs, rounding included: for plans.
  template <class T>
  static constexpr size_t cost(size_t n) {
    return (n * sizeof(T) + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
  }

 private:
  std::byte* data_ = nullptr;
  size_t capacity_ = 0, used_ = 0;
  bool sealed_ = false;
};

}  // namespace outrider
