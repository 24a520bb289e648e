// Counts heap calls of this test program between two points.
#pragma once
#include <cstddef>

namespace outrider::text_test {

// False under a sanitizer, which brings its own allocator: nothing is counted then.
bool can_count_allocations();

// Heap calls (malloc and its kin, free, operator new) of the calling thread so far.
size_t n_heap_calls();

}  // namespace outrider::text_test
