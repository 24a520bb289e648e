#include "record/process.h"

#include <sys/random.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace outrider::record {

std::string first_line(const char* path) {
  char text[1024] = {};
  if (std::FILE* file = std::fopen(path, "re")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = '\0';
    std::fclose(file);
  }
  text[strcspn(text, "\n")] = '\0';
  return text;
}

std::string boot_id() {
  return first_line("/proc/sys/kernel/random/boot_id");
}

// Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and brackets.
int64_t start_ticks_of(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
  const std::string line = first_line(path);
  size_t at = line.rfind(')');
  if (at == std::string::npos) return -1;
  if (line.compare(at, 4, ") Z ") == 0) return -1;  // dead, and not collected yet
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  return at == std::string::npos ? -1 : std::strtoll(line.c_str() + at, nullptr, 10);
}

std::string random_session() {
  unsigned char bytes[16] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return std::string(32, '0');
  std::string text;
  char two[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

bool is_hex(const std::string& text, size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Place here(const Clock& clock) {
  return {boot_id(), clock.now_ns(), start_ticks_of};
}

}  // namespace outrider::record
