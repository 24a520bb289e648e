#include "count_news.h"

#include <cstdlib>
#include <new>

namespace outrider::test {
std::atomic<long> n_news{0};
}

// In a file of its own: where the compiler sees both ends it takes free for the wrong partner.
void* operator new(size_t n) {
  ++outrider::test::n_news;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
