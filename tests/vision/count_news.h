// Every `new` of this test program, counted: for functions that promise no heap.
#pragma once
#include <atomic>

namespace outrider::test {
extern std::atomic<long> n_news;
}
