// What two threads share: the ring of inputs, the newest value, the queue, the signal.
#include "tandem/handover.h"

#include <thread>

#include "tandem/input_ring.h"
#include "tandem/scripted.h"

namespace outrider::tandem::test {
namespace {

TEST(TandemHandover, the_newest_value_arrives_whole) {
  struct Pair {
    int64_t a = 0, b = 0;
  };
  Newest<Pair> newest;
  Pair got;
  EXPECT_FALSE(newest.take(got));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int64_t i = 1; i <= 200000; ++i) newest.put({i, -i});
    done = true;
  });
  int64_t last = 0;
  while (!done || last < 200000) {
    if (!newest.take(got)) continue;
    ASSERT_EQ(got.a, -got.b) << "torn";
    ASSERT_GT(got.a, last) << "older than the one before";
    last = got.a;
  }
  writer.join();
}

TEST(TandemHandover, the_queue_keeps_order_and_says_when_it_is_full) {
  ShortQueue<int64_t, 8> queue;
  for (int64_t i = 0; i < 8; ++i) {
    ASSERT_NE(queue.back(), nullptr);
    *queue.back() = i;
    queue.push();
  }
  EXPECT_EQ(queue.back(), nullptr);
  queue.pop();
  EXPECT_NE(queue.back(), nullptr);
  ShortQueue<int64_t, 8> shared;
  std::thread writer([&] {
    for (int64_t i = 0; i < 100000;)
      if (int64_t* slot = shared.back()) *slot = i++, shared.push();
  });
  for (int64_t i = 0; i < 100000;) {
    if (int64_t* slot = shared.front()) {
      ASSERT_EQ(*slot, i);
      ++i;
      shared.pop();
    }
  }
  writer.join();
}

TEST(TandemHandover, a_signal_raised_before_the_wait_is_not_missed_and_a_wait_ends_in_time) {
  Signal signal;
  const MonotonicClock clock;
  const uint32_t seen = signal.now();
  signal.raise();
  const int64_t begin = clock.now_ns();
  signal.wait(seen, begin + int64_t{20} * 1000000000);
  EXPECT_LT(clock.now_ns() - begin, int64_t{10} * 1000000000) << "slept through it";
  const int64_t until = clock.now_ns() + 20000000;
  signal.wait(signal.now(), until);
  EXPECT_GE(clock.now_ns(), until);
}

struct RingFixture {
  explicit RingFixture(int64_t n_ticks) {
    EXPECT_TRUE(arena.reserve(1 << 20));
    Port state{"state", 0, FRT_DTYPE_F32, false, true, true, 4096, 0};
    Port images{"images", 1, FRT_DTYPE_U8, true, true, true, 2 * 4 * 3 * 4, 2};
    ports.in = {state, images};
    ring = std::make_unique<InputRing>(ports, n_ticks, false, arena);
  }
  Ports ports;
  Arena arena;
  std::unique_ptr<InputRing> ring;
};

TEST(TandemRing, a_borrower_reads_whole_ticks_while_the_caller_writes_new_ones) {
  RingFixture f(4);
  std::atomic<int64_t> newest{0};
  std::atomic<bool> done{false};
  std::thread caller([&] {
    std::vector<int32_t> values(1024);
    for (int64_t tick = 1; tick <= 20000; ++tick) {
      for (auto& v : values) v = static_cast<int32_t>(tick);
      EXPECT_EQ(f.ring->stage(0, values.data(), 4096), 0);
      f.ring->commit(tick);
      newest = tick;
    }
    done = true;
  });
  int64_t n_read = 0;
  while (!done) {
    const int64_t tick = newest;
    InputRing::Slot* slot = f.ring->borrow(tick);
    if (slot == nullptr) continue;
    ++n_read;
    const auto* values = reinterpret_cast<const int32_t*>(slot->inputs[0].data.data());
    for (int i = 0; i < 1024; ++i)
      if (values[i] != tick) {
        ADD_FAILURE() << "tick " << tick << " holds " << values[i];
        i = 1024;
      }
    f.ring->give_back(slot);
  }
  caller.join();
  EXPECT_GT(n_read, 0);
}

TEST(TandemRing, keeps_the_last_ticks_and_what_was_not_staged_again) {
  RingFixture f(4);
  float one = 1;
  f.ring->stage(0, &one, 4);
  for (int64_t tick = 1; tick <= 10; ++tick) f.ring->commit(tick);
  for (int64_t tick = 1; tick <= 10; ++tick) {
    InputRing::Slot* slot = f.ring->borrow(tick);
    EXPECT_EQ(slot != nullptr, tick > 4) << tick << ": four and two spare ones are kept";
    if (slot == nullptr) continue;
    EXPECT_EQ(*reinterpret_cast<const float*>(slot->inputs[0].data.data()), 1);
    EXPECT_EQ(slot->inputs[1].version, 0u) << "never staged";
    f.ring->give_back(slot);
  }
}

TEST(TandemRing, FC14_pictures_are_copied_without_their_row_padding) {
  RingFixture f(2);
  uint8_t pixels[2][64];
  frt_image_view views[2] = {};
  for (int v = 0; v < 2; ++v) {
    for (int i = 0; i < 64; ++i) pixels[v][i] = static_cast<uint8_t>(100 * v + i);
    views[v] = {sizeof(frt_image_view), FRT_PIXEL_RGB8, pixels[v], 64, 3, 4, 16, 0, 5};
  }
  ASSERT_EQ(f.ring->stage(1, views, sizeof views), 0);
  f.ring->commit(1);
  std::memset(pixels, 0, sizeof pixels);  // the caller's memory is the caller's again
  InputRing::Slot* slot = f.ring->borrow(1);
  ASSERT_NE(slot, nullptr);
  for (int v = 0; v < 2; ++v) {
    const frt_image_view& view = slot->inputs[1].views[static_cast<size_t>(v)];
    EXPECT_EQ(view.stride_bytes, 9);
    EXPECT_EQ(view.bytes, 36u);
    EXPECT_EQ(view.timestamp_ns, 5u);
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 9; ++x)
        ASSERT_EQ(static_cast<const uint8_t*>(view.data)[y * 9 + x], 100 * v + y * 16 + x);
  }
  EXPECT_EQ(slot->inputs[1].bytes, 96u);
  f.ring->give_back(slot);
}

TEST(TandemRing, malformed_and_oversized_payloads_are_refused_and_leave_nothing_staged) {
  RingFixture f(2);
  uint8_t pixels[64] = {};
  const frt_image_view good = {sizeof(frt_image_view), FRT_PIXEL_RGB8, pixels, 36, 3, 4, 9, 0, 0};
  ASSERT_EQ(f.ring->stage(1, &good, sizeof good), 0);
  const auto refused = [&](const char* what, frt_image_view view, int code) {
    EXPECT_EQ(f.ring->stage(1, &view, sizeof view), code) << what;
    EXPECT_FALSE(f.ring->staged(1)) << what;
  };
  frt_image_view bad = good;
  bad.data = nullptr;
  refused("NULL pixels", bad, FRT_ERR_INVALID);
  bad = good, bad.pixel_format = 9;
  refused("unknown format", bad, FRT_ERR_INVALID);
  bad = good, bad.width = -3;
  refused("negative width", bad, FRT_ERR_INVALID);
  bad = good, bad.height = 0;
  refused("no rows", bad, FRT_ERR_INVALID);
  bad = good, bad.stride_bytes = 8;
  refused("stride below a row", bad, FRT_ERR_INVALID);
  bad = good, bad.stride_bytes = -9;
  refused("negative stride", bad, FRT_ERR_INVALID);
  bad = good, bad.bytes = 35;
  refused("one byte short", bad, FRT_ERR_INVALID);
  bad = good, bad.width = INT32_MAX, bad.height = INT32_MAX, bad.stride_bytes = 0;
  refused("larger than memory", bad, FRT_ERR_INVALID);
  bad = good, bad.height = 5, bad.bytes = 64, bad.width = 4, bad.stride_bytes = 12;
  EXPECT_EQ(f.ring->stage(1, &bad, sizeof bad), 0) << "60 of 96 bytes";
  const frt_image_view three[3] = {good, good, good};
  EXPECT_EQ(f.ring->stage(1, three, sizeof three), FRT_ERR_SHAPE);
  EXPECT_EQ(f.ring->stage(1, &good, 47), FRT_ERR_INVALID);
  std::vector<char> large(4097);
  EXPECT_EQ(f.ring->stage(0, large.data(), 4097), FRT_ERR_SHAPE);
  EXPECT_EQ(f.ring->stage(0, large.data(), 4096), 0);
}

// ---- ports --------------------------------------------------------------------------------------

TEST(TandemPorts, every_difference_is_listed) {
  Scripted standby(nullptr, {}), same(nullptr, {.who = 2}),
      other(nullptr, {.command_values = 6, .extra_port = true});
  EXPECT_EQ(port_differences(standby.runtime(), same.runtime()), "");
  EXPECT_EQ(port_differences(standby.runtime(), other.runtime()),
            "port command: standby OUT ACTION F32 {4}, lead OUT ACTION F32 {6}; "
            "port extra: the standby has none");
}

TEST(TandemAnswer, distance_is_of_all_outputs_and_infinite_when_one_is_missing_or_nothing_is_there) {
  Scripted model(nullptr, {});
  const Ports ports = plan_ports(model.runtime(), {.max_output_bytes = 64}).value();
  Arena arena;
  ASSERT_TRUE(arena.reserve(1 << 16));
  Answer a = take_answer(ports, arena), b = take_answer(ports, arena);
  EXPECT_TRUE(std::isinf(answer_distance(ports.out, a, b))) << "nothing was compared";
  const float x[4] = {1, 2, 3, 4}, y[4] = {1, 2.25, 3, 3.5};
  for (const auto& [answer, values] : {std::pair{&a, x}, std::pair{&b, y}}) {
    answer->outputs[0].code = 0;
    answer->outputs[0].bytes = sizeof x;
    std::memcpy(answer->outputs[0].room.data(), values, sizeof x);
  }
  EXPECT_EQ(answer_distance(ports.out, a, b), 0.5);
  // The same bytes as other types: a proof of agreement looks at every one of them.
  const auto as = [&](uint32_t dtype, const void* left, const void* right, uint64_t bytes) {
    Ports other = ports;
    other.out[0].dtype = dtype;
    for (const auto& [answer, values] : {std::pair{&a, left}, std::pair{&b, right}}) {
      answer->outputs[0].bytes = bytes;
      std::memcpy(answer->outputs[0].room.data(), values, bytes);
    }
    return answer_distance(other.out, a, b);
  };
  const uint16_t half_x[] = {0x3C00, 0x0001, 0xC400}, half_y[] = {0x3C00, 0x0001, 0xC200};
  EXPECT_EQ(as(FRT_DTYPE_F16, half_x, half_y, 6), 1) << "-4 and -3";
  const uint16_t wide_x[] = {0x3F80, 0x4000}, wide_y[] = {0x3F80, 0x40A0};
  EXPECT_EQ(as(FRT_DTYPE_BF16, wide_x, wide_y, 4), 3) << "2 and 5";
  const int32_t int_x[] = {7, -2}, int_y[] = {7, 5};
  EXPECT_EQ(as(FRT_DTYPE_I32, int_x, int_y, 8), 7);
  const int64_t long_x[] = {1}, long_y[] = {-1};
  EXPECT_EQ(as(FRT_DTYPE_I64, long_x, long_y, 8), 2);
  const uint8_t byte_x[] = {0, 255, 3}, byte_y[] = {0, 0, 3};
  EXPECT_EQ(as(FRT_DTYPE_U8, byte_x, byte_y, 3), 255);
  EXPECT_EQ(as(FRT_DTYPE_U8, byte_x, byte_x, 3), 0);
  b.outputs[0].code = FRT_ERR_NOT_READY;
  EXPECT_TRUE(std::isinf(answer_distance(ports.out, a, b)));
}

}  // namespace
}  // namespace outrider::tandem::test
