// The wall at the C ABI: no exception crosses it.
#pragma once
#include <new>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace outrider::abi {

// Runs fn and gives its status as an ABI code. fn returns int, Code or Result<void>.
// std::bad_alloc becomes -5; anything else becomes `other`: kFailed (-8) for work on a request,
// kDevice (-6) for calls into a backend.
template <class Fn>
[[nodiscard]] int guard(Fn&& fn, Code other = Code::kFailed) noexcept {
  try {
    using Status = std::invoke_result_t<Fn>;
    if constexpr (std::is_same_v<Status, int>) {
      return std::forward<Fn>(fn)();
    } else if constexpr (std::is_same_v<Status, Code>) {
      return to_abi(std::forward<Fn>(fn)());
    } else {
      return to_abi(std::forward<Fn>(fn)().code());
    }
  } catch (const std::bad_alloc&) {
    return to_abi(Code::kNoMemory);
  } catch (...) {
    return to_abi(other);
  }
}

// For calls that have no status to give: false when fn threw.
template <class Fn>
bool guard_void(Fn&& fn) noexcept {
  try {
    std::forward<Fn>(fn)();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace outrider::abi
