#include <unistd.h>

#include <fstream>
#include <thread>

#include "fake_provider.h"
#include "support/temp_dir.h"

namespace outrider::test {
namespace {

TEST(HostLifetime, close_releases_once_and_the_library_leaves_the_process) {
  for (int round = 0; round < 3; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    {
      CSession s(fake_config({{"release_fd", std::to_string(ends[1])}}));
      ASSERT_EQ(s.code, 0) << s.reason;
      EXPECT_TRUE(is_loaded(fake_path()));
    }
    EXPECT_FALSE(is_loaded(fake_path()));
    close(ends[1]);
    char bytes[4];
    EXPECT_EQ(read(ends[0], bytes, sizeof bytes), 1);
    close(ends[0]);
  }
}

TEST(HostLifetime, the_library_leaves_after_ticks_and_failures_too) {
  {
    CSession s(fake_config({{"require_inputs", "0"}, {"fail_at", "2"}, {"raw_throw_at", "3"}}));
    for (int i = 0; i < 4; ++i) outrider_tick(s);
    EXPECT_STREQ(outrider_session_error(s), "");
  }
  EXPECT_FALSE(is_loaded(fake_path()));
}

TEST(HostLifetime, two_sessions_of_one_provider_do_not_see_each_other) {
  CSession a(fake_config()), b(fake_config());
  Inputs first, second;
  second.prompt = "other";
  first.stage(a);
  second.stage(b);
  ASSERT_EQ(outrider_tick(a), 0);
  EXPECT_EQ(outrider_set_input(b, 9, "x", 1), -1);
  EXPECT_EQ(a.error(), "");
  ASSERT_EQ(outrider_tick(b), 0);
  EXPECT_EQ(read_text(a, 4), first.prompt);
  EXPECT_EQ(read_text(b, 4), second.prompt);
}

TEST(HostLifetime, two_copies_of_one_provider_live_in_one_process) {
  const TempDir temp;
  const std::string copy = temp.file("provider_fake_copy.so");
  std::ofstream(copy, std::ios::binary) << std::ifstream(fake_path(), std::ios::binary).rdbuf();
  {
    CSession a(fake_config({{"plan", "split"}})), b(fake_config(), copy);
    ASSERT_EQ(a.code, 0) << a.reason;
    ASSERT_EQ(b.code, 0) << b.reason;
    EXPECT_NE(reinterpret_cast<void*>(outrider_runtime(a)->release),
              reinterpret_cast<void*>(outrider_runtime(b)->release));
    Inputs().stage(a), Inputs().stage(b);
    EXPECT_EQ(outrider_tick(a), 0);
    EXPECT_EQ(outrider_tick(b), 0);
  }
  EXPECT_FALSE(is_loaded(copy));
  EXPECT_FALSE(is_loaded(fake_path()));
}

TEST(HostLifetime, sessions_in_two_threads_open_tick_fail_and_close_side_by_side) {
  const auto work = [](int seed) {
    for (int round = 0; round < 10; ++round) {
      CSession bad(
          fake_config({{"open_code", "-2"}, {"open_reason", "reason of " + std::to_string(seed)}}));
      EXPECT_STREQ(bad.reason, ("reason of " + std::to_string(seed)).c_str());
      CSession s(fake_config({{"plan", "diamond"}, {"fail_at", "3"}}));
      ASSERT_EQ(s.code, 0) << s.reason;
      Inputs in;
      in.prompt = "thread " + std::to_string(seed);
      for (int tick = 1; tick <= 5; ++tick) {
        in.stage(s);
        EXPECT_EQ(outrider_tick(s), tick == 3 ? -8 : 0);
        EXPECT_EQ(s.error().empty(), tick != 3);
        if (tick == 3) continue;
        EXPECT_EQ(read_text(s, 4), in.prompt);
      }
    }
  };
  std::thread one(work, 1), two(work, 2);
  one.join();
  two.join();
  EXPECT_FALSE(is_loaded(fake_path()));
}

TEST(HostLifetime, a_session_may_move_to_another_thread_and_close_there) {
  auto s = host::Session::open(fake_path(), fake_config({{"require_inputs", "0"}}));
  ASSERT_TRUE(s);
  ASSERT_TRUE(s.value().tick());
  std::thread([moved = std::move(s.value())]() mutable {
    EXPECT_TRUE(moved.tick());
    host::Session gone = std::move(moved);
  }).join();
  EXPECT_FALSE(is_loaded(fake_path()));
}

}  // namespace
}  // namespace outrider::test
