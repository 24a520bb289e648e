// The one-line reason of a failed open.
//
// The ABI gives a failed open a code and nothing else, and a provider exports one symbol only. So a
// provider of ours looks for `outrider_open_reason_sink` in the process and leaves its line there;
// it is kept per thread, in plain memory. Any copy of this host (linked into the program, the
// shared library, or hidden inside a provider that opens others) reads it back through the same
// name, so that all copies in one process talk about the same line.
#pragma once
#include <cstddef>

namespace outrider::host {

inline constexpr size_t kReasonBytes = 512;

// [setup] Lets providers see the sink of this host. Does something only in the shared library: when
// it was loaded RTLD_LOCAL (Python does that) it is promoted to the global scope.
void publish_reason_sink();

// [setup] Forgets the line of this thread: call before an open.
void clear_open_reason();

// [setup] Copies the line of this thread, control bytes replaced; empty when none was left.
void read_open_reason(char (&out)[kReasonBytes]);

// Copies at most n - 1 bytes of untrusted text as one clean line: control bytes and malformed UTF-8
// become '?', runs of white space one blank. Reads at most n + 4 bytes of `text`. NULL gives
// "".
void copy_line(char* out, size_t n, const char* text);

}  // namespace outrider::host
