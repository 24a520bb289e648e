#include "host/reason.h"

#include <dlfcn.h>

#include <cstring>
#include <string_view>

#include "base/utf8.h"
#include "outrider/host.h"

namespace {
// Plain bytes: a thread_local with a destructor would pin the library until the thread ends.
thread_local char tls_reason[outrider::host::kReasonBytes];
}  // namespace

extern "C" OUTRIDER_API void outrider_open_reason_sink(const char* text) {
  outrider::host::copy_line(tls_reason, sizeof tls_reason, text);
}

extern "C" OUTRIDER_API const char* outrider_open_reason(void) {
  return tls_reason;
}

namespace outrider::host {
namespace {

// An address inside this library that no other copy can answer for.
[[maybe_unused]] void here() {}

template <class F>
F global_symbol(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void copy_line(char* out, size_t n, const char* text) {
  if (n == 0) return;
  std::string_view left(text == nullptr ? "" : text, text == nullptr ? 0 : strnlen(text, n + 4));
  size_t used = 0;
  bool blank = true;  // leading white space is dropped
  while (!left.empty()) {
    const auto first = static_cast<unsigned char>(left[0]);
    const bool white = first == ' ' || (first >= '\t' && first <= '\r');
    const size_t length = utf8_sequence_bytes(left);
    const bool whole = length > 0 && first >= 0x20 && first != 0x7F;
    const std::string_view piece = white ? " " : whole ? left.substr(0, length) : "?";
    if (!(white && blank)) {
      if (used + piece.size() >= n) break;
      std::memcpy(out + used, piece.data(), piece.size());
      used += piece.size();
    }
    blank = white;
    left.remove_prefix(whole ? length : 1);
  }
  while (used > 0 && out[used - 1] == ' ') --used;
  out[used] = '\0';
}

void publish_reason_sink() {
#ifdef OUTRIDER_HOST_SHARED
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&here), &self) == 0 || self.dli_fname == nullptr) return;
  void* handle = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  if (handle != nullptr) dlclose(handle);  // the promotion stays, the extra reference goes
#endif
}

void clear_open_reason() {
  tls_reason[0] = '\0';
  if (auto sink = global_symbol<void (*)(const char*)>("outrider_open_reason_sink")) sink("");
}

void read_open_reason(char (&out)[kReasonBytes]) {
  const auto read = global_symbol<const char* (*)()>("outrider_open_reason");
  copy_line(out, sizeof out, read != nullptr ? read() : tls_reason);
}

}  // namespace outrider::host
