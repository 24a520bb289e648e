// Counts what a tick must not do: heap, locks and writes, in every thread of the process and in
// every shared object that looks these functions up at run time (providers loaded with dlopen
// included).
//
//   hot_counter::arm();  session.tick();  const HotCounts counts = hot_counter::disarm();
//   EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
//
// Link `outrider_hot_counter` into the test program: its functions then stand in front of the C
// library's. Not seen: calls that the C library makes inside itself (a stdio buffer taken by printf
// is seen as the printf). operator new arrives here as malloc. Absent under sanitizers, which stand
// in the same place: `available()` is then false and the counts are 0; skip the test.
#pragma once
#include <cstdint>
#include <string>

namespace outrider::test {

struct HotCounts {
  uint64_t allocations = 0;     // malloc calloc realloc aligned_alloc posix_memalign memalign mmap
  uint64_t frees = 0;           // free of a block, munmap
  uint64_t locks = 0;           // pthread_mutex_lock, pthread_mutex_trylock, pthread_rwlock_*lock
  uint64_t writes = 0;          // write writev pwrite fwrite fputs fputc puts putchar *printf
  const char* first = nullptr;  // name of the first function that was counted
  const void* first_caller = nullptr;  // and where it was called
  uint64_t total() const { return allocations + frees + locks + writes; }
};

namespace hot_counter {
bool available();
void arm();         // zero and start, in every thread
void arm_thread();  // zero and start, in this thread only
HotCounts disarm();
// One line: the counts, and the first offender with its library and function.
std::string describe(const HotCounts& counts);
}  // namespace hot_counter

}  // namespace outrider::test
