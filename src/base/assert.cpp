#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace outrider {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "outrider: internal error: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace outrider
