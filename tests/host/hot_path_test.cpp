#include <fcntl.h>
#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <thread>

#include "fake_provider.h"
#include "hot_counter.h"

namespace outrider::test {
namespace {

#define SKIP_WITHOUT_COUNTER() \
  if (!hot_counter::available()) GTEST_SKIP() << "a sanitizer stands where the counter would"

// Counts over one whole request of the C face.
HotCounts count_request(outrider_session* s, const Inputs& in) {
  const frt_image_view view = in.view();
  float actions[12];
  uint64_t written = 0;
  int code = 0;
  hot_counter::arm();
  code |= outrider_set_input(s, 0, &view, sizeof view);
  code |= outrider_set_input(s, 1, in.prompt.data(), in.prompt.size());
  code |= outrider_set_input(s, 2, in.state.data(), in.state.size() * sizeof(float));
  code |= outrider_tick(s);
  code |= outrider_get_output(s, 3, actions, sizeof actions, &written);
  const HotCounts counts = hot_counter::disarm();
  EXPECT_EQ(code, 0) << outrider_session_error(s);
  return counts;
}

TEST(HostHotPath, a_request_takes_no_heap_no_lock_and_writes_nothing) {
  SKIP_WITHOUT_COUNTER();
  for (const char* plan : {"infer", "split", "diamond", "step"}) {
    CSession s(fake_config({{"plan", plan}}));
    for (int i = 0; i < 100; ++i) {
      const HotCounts counts = count_request(s, Inputs());
      ASSERT_EQ(counts.total(), 0u)
          << plan << " tick " << i << ": " << hot_counter::describe(counts);
    }
  }
}

TEST(HostHotPath, a_failing_tick_formats_and_takes_nothing_either) {
  SKIP_WITHOUT_COUNTER();
  CSession s(fake_config());
  hot_counter::arm();
  const int tick = outrider_tick(s), port = outrider_set_input(s, 9, "x", 1),
            order = outrider_run_stage(s, 5);
  const HotCounts counts = hot_counter::disarm();
  EXPECT_EQ(tick, -1);
  EXPECT_EQ(port, -1);
  EXPECT_EQ(order, -1);
  EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
}

TEST(HostHotPath, the_typed_session_is_as_quiet_when_the_storage_is_the_callers) {
  SKIP_WITHOUT_COUNTER();
  auto s = host::Session::open(fake_path(), fake_config());
  ASSERT_TRUE(s);
  const Inputs in;
  const frt_image_view view = in.view();
  std::byte out[48];
  hot_counter::arm();
  const bool good = s.value().set_image(0, {&view, 1}) && s.value().set_text(1, in.prompt) &&
                    s.value().set_state(2, in.state) && s.value().tick() &&
                    s.value().get_into(3, out);
  const HotCounts counts = hot_counter::disarm();
  EXPECT_TRUE(good);
  EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
}

TEST(HotCounter, sees_each_forbidden_act_inside_a_loaded_provider) {
  SKIP_WITHOUT_COUNTER();
  CSession allocates(fake_config({{"alloc_in_tick", "3"}}));
  const HotCounts a = count_request(allocates, Inputs());
  EXPECT_EQ(a.allocations, 3u);
  EXPECT_EQ(a.frees, 3u);
  EXPECT_HAS(hot_counter::describe(a), "malloc called from");
  EXPECT_HAS(hot_counter::describe(a), "provider_fake.so");
  CSession locks(fake_config({{"lock_in_tick", "2"}}));
  EXPECT_EQ(count_request(locks, Inputs()).locks, 2u);
  CSession writes(fake_config({{"write_in_tick", "1"}}));
  EXPECT_EQ(count_request(writes, Inputs()).writes, 1u);
}

TEST(HotCounter, sees_every_way_to_the_heap) {
  SKIP_WITHOUT_COUNTER();
  void* volatile block[9] = {};
  hot_counter::arm();
  block[0] = std::malloc(8);
  block[1] = std::calloc(2, 8);
  block[1] = std::realloc(block[1], 64);
  block[2] = std::aligned_alloc(64, 64);
  void* out = nullptr;
  const int code = posix_memalign(&out, 64, 64);
  block[3] = out;
  block[4] = ::operator new(16);
  block[5] = ::operator new (128, std::align_val_t{64});
  void* map = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t allocations = hot_counter::disarm().allocations;
  EXPECT_EQ(code, 0);
  EXPECT_EQ(allocations, 8u);
  hot_counter::arm();
  for (int i = 0; i < 4; ++i) std::free(block[i]);
  ::operator delete(block[4]);
  ::operator delete (block[5], std::align_val_t{64});
  munmap(map, 4096);
  EXPECT_EQ(hot_counter::disarm().frees, 7u);
}

TEST(HotCounter, sees_other_threads_and_output_through_stdio) {
  SKIP_WITHOUT_COUNTER();
  std::FILE* null = std::fopen("/dev/null", "w");
  ASSERT_NE(null, nullptr);
  std::thread worker([&] {
    hot_counter::arm();
    std::fprintf(null, "%d\n", 1);
    std::fputs("x", null);
    std::fwrite("y", 1, 1, null);
  });
  worker.join();
  const HotCounts counts = hot_counter::disarm();
  EXPECT_EQ(counts.writes, 3u) << hot_counter::describe(counts);
  std::fclose(null);
  hot_counter::arm();
  EXPECT_EQ(hot_counter::disarm().total(), 0u) << "armed and disarmed: nothing of its own";
}

}  // namespace
}  // namespace outrider::test
