// Who wrote a record: proof that a process is the one it was, on this boot.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"

namespace outrider::record {

// The first line of a small file, without its end; "" when it cannot be read. At most 1 KiB.
std::string first_line(const char* path);
std::string boot_id();  // of this kernel
// When the process was started, in clock ticks since boot; -1: there is none. With its pid this is
// a name that is never given twice on one boot.
int64_t start_ticks_of(int64_t pid);
std::string random_session();                         // 32 lower-case hexadecimal digits
bool is_hex(const std::string& text, size_t length);  // lower case

// The surroundings that a record is checked against.
struct Place {
  std::string boot_id;
  int64_t now_ns = 0;
  std::function<int64_t(int64_t pid)> start_ticks;  // of a living process, or -1
};
Place here(const Clock& clock);

}  // namespace outrider::record
