#include "hot_counter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OUTRIDER_HOT_COUNTER 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define OUTRIDER_HOT_COUNTER 0
#endif
#endif
#ifndef OUTRIDER_HOT_COUNTER
#define OUTRIDER_HOT_COUNTER 1
#endif

namespace outrider::test {
namespace {

constinit std::atomic<bool> g_armed{false};
// The thread that is counted alone; 0: all of them.
constinit std::atomic<pthread_t> g_only{0};
constinit std::atomic<uint64_t> g_allocations{0}, g_frees{0}, g_locks{0}, g_writes{0};
constinit std::atomic<const char*> g_first{nullptr};
constinit std::atomic<const void*> g_first_caller{nullptr};

[[maybe_unused]] void count(std::atomic<uint64_t>& counter, const char* name, const void* caller) {
  if (!g_armed.load(std::memory_order_relaxed)) return;
  const pthread_t only = g_only.load(std::memory_order_relaxed);
  if (only != 0 && only != pthread_self()) return;
  counter.fetch_add(1, std::memory_order_relaxed);
  const char* none = nullptr;
  if (g_first.compare_exchange_strong(none, name)) g_first_caller.store(caller);
}

}  // namespace

namespace hot_counter {

bool available() {
  return OUTRIDER_HOT_COUNTER != 0;
}

void arm_thread() {
  arm();
  g_only.store(pthread_self());
}

void arm() {
  g_only.store(0);
  for (auto* counter : {&g_allocations, &g_frees, &g_locks, &g_writes}) counter->store(0);
  g_first.store(nullptr);
  g_first_caller.store(nullptr);
  g_armed.store(true);
}

HotCounts disarm() {
  g_armed.store(false);
  return {g_allocations.load(), g_frees.load(), g_locks.load(),
          g_writes.load(),      g_first.load(), g_first_caller.load()};
}

std::string describe(const HotCounts& c) {
  std::string text = std::to_string(c.allocations) + " allocations, " + std::to_string(c.frees) +
                     " frees, " + std::to_string(c.locks) + " locks, " + std::to_string(c.writes) +
                     " writes";
  if (c.first == nullptr) return text;
  text += std::string("; the first was ") + c.first;
  Dl_info info;
  if (dladdr(c.first_caller, &info) == 0 || info.dli_fname == nullptr) return text;
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<size_t>(static_cast<const char*>(c.first_caller) -
                                    static_cast<const char*>(info.dli_fbase)));
  return text + " called from " + info.dli_fname + offset +
         (info.dli_sname ? std::string(" in ") + info.dli_sname : "");
}

}  // namespace hot_counter
}  // namespace outrider::test

#if OUTRIDER_HOT_COUNTER
namespace {
using namespace outrider::test;  // NOLINT: this file only

// The function behind ours, looked up once. dlsym neither allocates nor locks through these names.
template <class F>
F behind(std::atomic<void*>& slot, const char* name) {
  void* f = slot.load(std::memory_order_acquire);
  if (f == nullptr) {
    f = dlsym(RTLD_NEXT, name);
    slot.store(f, std::memory_order_release);
  }
  return reinterpret_cast<F>(f);
}
}  // namespace

#define CALLER __builtin_return_address(0)
// Calls the real `name`; the slot is one per use.
#define REAL(name)                                     \
  ([]() -> decltype(&::name) {                         \
    static constinit std::atomic<void*> slot{nullptr}; \
    return behind<decltype(&::name)>(slot, #name);     \
  }())

extern "C" {
// glibc's own entrances: usable before anything can be looked up.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

#pragma GCC visibility push(default)
void* malloc(size_t n) noexcept {
  count(g_allocations, "malloc", CALLER);
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t each) noexcept {
  count(g_allocations, "calloc", CALLER);
  return __libc_calloc(n, each);
}
void* realloc(void* block, size_t n) noexcept {
  count(g_allocations, "realloc", CALLER);
  return __libc_realloc(block, n);
}
void free(void* block) noexcept {
  if (block != nullptr) count(g_frees, "free", CALLER);
  __libc_free(block);
}
void* memalign(size_t align, size_t n) noexcept {
  count(g_allocations, "memalign", CALLER);
  return __libc_memalign(align, n);
}
void* aligned_alloc(size_t align, size_t n) noexcept {
  count(g_allocations, "aligned_alloc", CALLER);
  return __libc_memalign(align, n);
}
int posix_memalign(void** out, size_t align, size_t n) noexcept {
  count(g_allocations, "posix_memalign", CALLER);
  if (align % sizeof(void*) != 0 || (align & (align - 1)) != 0 || align == 0) return EINVAL;
  void* block = __libc_memalign(align, n);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void* mmap(void* at, size_t n, int prot, int flags, int fd, off_t offset) noexcept {
  count(g_allocations, "mmap", CALLER);
  return REAL(mmap)(at, n, prot, flags, fd, offset);
}
int munmap(void* at, size_t n) noexcept {
  count(g_frees, "munmap", CALLER);
  return REAL(munmap)(at, n);
}

int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  count(g_locks, "pthread_mutex_lock", CALLER);
  return REAL(pthread_mutex_lock)(m);
}
int pthread_mutex_trylock(pthread_mutex_t* m) noexcept {
  count(g_locks, "pthread_mutex_trylock", CALLER);
  return REAL(pthread_mutex_trylock)(m);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept {
  count(g_locks, "pthread_rwlock_rdlock", CALLER);
  return REAL(pthread_rwlock_rdlock)(l);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept {
  count(g_locks, "pthread_rwlock_wrlock", CALLER);
  return REAL(pthread_rwlock_wrlock)(l);
}

ssize_t write(int fd, const void* data, size_t n) {
  count(g_writes, "write", CALLER);
  return REAL(write)(fd, data, n);
}
ssize_t writev(int fd, const iovec* parts, int n) {
  count(g_writes, "writev", CALLER);
  return REAL(writev)(fd, parts, n);
}
ssize_t pwrite(int fd, const void* data, size_t n, off_t at) {
  count(g_writes, "pwrite", CALLER);
  return REAL(pwrite)(fd, data, n, at);
}
size_t fwrite(const void* data, size_t each, size_t n, FILE* file) {
  count(g_writes, "fwrite", CALLER);
  return REAL(fwrite)(data, each, n, file);
}
int fputs(const char* text, FILE* file) {
  count(g_writes, "fputs", CALLER);
  return REAL(fputs)(text, file);
}
int fputc(int c, FILE* file) {
  count(g_writes, "fputc", CALLER);
  return REAL(fputc)(c, file);
}
int puts(const char* text) {
  count(g_writes, "puts", CALLER);
  return REAL(puts)(text);
}
int putchar(int c) {
  count(g_writes, "putchar", CALLER);
  return REAL(putchar)(c);
}
int vfprintf(FILE* file, const char* format, va_list args) {
  count(g_writes, "vfprintf", CALLER);
  return REAL(vfprintf)(file, format, args);
}
int vprintf(const char* format, va_list args) {
  count(g_writes, "vprintf", CALLER);
  return REAL(vfprintf)(stdout, format, args);
}
int fprintf(FILE* file, const char* format, ...) {
  count(g_writes, "fprintf", CALLER);
  va_list args;
  va_start(args, format);
  const int n = REAL(vfprintf)(file, format, args);
  va_end(args);
  return n;
}
int printf(const char* format, ...) {
  count(g_writes, "printf", CALLER);
  va_list args;
  va_start(args, format);
  const int n = REAL(vfprintf)(stdout, format, args);
  va_end(args);
  return n;
}
#pragma GCC visibility pop
}  // extern "C"
#endif  // OUTRIDER_HOT_COUNTER
