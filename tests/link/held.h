// What a process holds, from /proc.
#pragma once
#include <cstdint>

namespace outrider::link::here {

struct Held {
  int64_t n_files = 0, n_threads = 0;
  int64_t anonymous_kb = 0;  // of its memory: heap, stacks, not files and not shared libraries
};
Held held_by(int pid);  // 0: this one
// Once it is back at `base` with at most `more_kb` more memory, or when the time is over.
Held settle(int pid, const Held& base, int64_t more_kb, int64_t within_ns);
// What a process may have more of in the end. A sanitizer keeps what was freed, so it is not
// judged.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int64_t kSlackKb = 1 << 30;
#else
inline constexpr int64_t kSlackKb = 1024;
#endif

}  // namespace outrider::link::here
