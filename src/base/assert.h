// Asserts catch our own mistakes, never data from a file, a wire or a caller.
#pragma once

namespace outrider {
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
}

#define OUTRIDER_ASSERT(cond) \
  (__builtin_expect(!!(cond), 1) ? (void)0 : ::outrider::assert_failed(#cond, __FILE__, __LINE__))

#ifdef NDEBUG
#define OUTRIDER_DEBUG_ASSERT(cond) ((void)0)
#else
#define OUTRIDER_DEBUG_ASSERT(cond) OUTRIDER_ASSERT(cond)
#endif
