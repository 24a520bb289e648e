// Replaces operator new of the test program, so that a chosen allocation fails.
#pragma once

namespace outrider::abi::test {

// From now on, on this thread, n allocations succeed and all later ones fail; negative: all
// succeed. Returns what was left of the allowance before.
long allow_allocations(long n);

}  // namespace outrider::abi::test
