#include "alloc_counter.h"

#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OUTRIDER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OUTRIDER_SANITIZED 1
#endif
#endif

namespace {
thread_local size_t heap_calls = 0;
}

namespace outrider::text_test {

size_t n_heap_calls() {
  return heap_calls;
}

bool can_count_allocations() {
#ifdef OUTRIDER_SANITIZED
  return false;
#else
  return true;
#endif
}

}  // namespace outrider::text_test

#ifndef OUTRIDER_SANITIZED
// glibc's own entry points behind the public names; operator new and delete come down to these.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

__attribute__((visibility("default"))) void* malloc(size_t n) {
  ++heap_calls;
  return __libc_malloc(n);
}
__attribute__((visibility("default"))) void* calloc(size_t n, size_t size) {
  ++heap_calls;
  return __libc_calloc(n, size);
}
__attribute__((visibility("default"))) void* realloc(void* p, size_t n) {
  ++heap_calls;
  return __libc_realloc(p, n);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t align, size_t n) {
  ++heap_calls;
  return __libc_memalign(align, n);
}
__attribute__((visibility("default"))) void free(void* p) {
  ++heap_calls;
  __libc_free(p);
}
}
#endif
