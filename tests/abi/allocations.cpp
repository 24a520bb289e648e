#include "allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long allowed = -1;

void* take(size_t n_bytes) {
  if (allowed == 0) return nullptr;
  if (allowed > 0) --allowed;
  return std::malloc(n_bytes == 0 ? 1 : n_bytes);
}
}  // namespace

long outrider::abi::test::allow_allocations(long n) {
  const long before = allowed;
  allowed = n;
  return before;
}

void* operator new(size_t n) {
  void* p = take(n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new[](size_t n) {
  return operator new(n);
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return take(n);
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return take(n);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, size_t) noexcept {
  std::free(p);
}
