// The rings of outrider/loop.h, with writers and readers that run at once and with peers that lie.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "outrider/loop.h"

extern "C" int loop_header_is_c(void);

namespace outrider::loop {
namespace {

struct Memory {
  std::vector<uint64_t> words;
  outrider_loop_view view = {};
  explicit Memory(uint32_t n_slots = 4, uint32_t payload = 20) {
    const uint32_t slot = (64 + payload + 63) / 64 * 64;
    words.resize((64 + n_slots * slot) / 8);
    view = {reinterpret_cast<outrider_loop_ring*>(words.data()), n_slots, slot, payload};
  }
};

TEST(LoopRing, the_header_is_c_and_refuses_an_empty_segment) {
  EXPECT_EQ(loop_header_is_c(), -1);
}

TEST(LoopRing, the_newest_frame_is_read_whole) {
  Memory m;
  outrider_loop_frame frame;
  char got[24] = {};
  EXPECT_EQ(outrider_loop_newest(&m.view, &frame, got), 0);
  for (int i = 0; i < 11; ++i) {
    char payload[20];
    std::memset(payload, 'a' + i, sizeof payload);
    EXPECT_EQ(outrider_loop_send(&m.view, payload, 100 + i, 0), static_cast<uint64_t>(i));
    ASSERT_EQ(outrider_loop_newest(&m.view, &frame, got), 1);
    EXPECT_EQ(frame.number, static_cast<uint64_t>(i));
    EXPECT_EQ(frame.time_ns, 100 + i);
    EXPECT_EQ(std::memcmp(got, payload, sizeof payload), 0);
    EXPECT_EQ(got[20], 0) << "nothing beyond the payload";
  }
  EXPECT_EQ(outrider_loop_read(&m.view, 6, &frame, got), 0) << "replaced by 10";
  EXPECT_EQ(outrider_loop_read(&m.view, 7, &frame, got), 1);
  EXPECT_EQ(outrider_loop_read(&m.view, 11, &frame, got), 0) << "not written yet";
}

TEST(LoopRing, of_two_writers_one_has_the_slot_and_no_older_frame_replaces_a_newer) {
  Memory m;
  const char payload[20] = {};
  outrider_loop_frame frame = {};
  frame.magic = OUTRIDER_LOOP_FRAME_MAGIC;
  frame.bytes = 20;
  frame.number = 5;
  EXPECT_EQ(outrider_loop_put(&m.view, &frame, payload), 1);
  EXPECT_EQ(outrider_loop_put(&m.view, &frame, payload), 0) << "twice";
  frame.number = 1;
  EXPECT_EQ(outrider_loop_put(&m.view, &frame, payload), 0) << "the same slot, older";
  EXPECT_EQ(outrider_loop_head(&m.view), 6u);
  frame.number = 3;
  EXPECT_EQ(outrider_loop_put(&m.view, &frame, payload), 1);
  EXPECT_EQ(outrider_loop_head(&m.view), 6u) << "the head never goes back";
}

TEST(LoopRing, a_writer_that_died_in_a_slot_does_not_stop_the_next) {
  Memory m;
  const char payload[20] = {};
  outrider_loop_send(&m.view, payload, 0, 0);
  *outrider_loop_slot(&m.view, 1) = 3;  // frame 1 is being written, for ever
  outrider_loop_frame frame;
  char got[20];
  EXPECT_EQ(outrider_loop_newest(&m.view, &frame, got), 1);
  EXPECT_EQ(frame.number, 0u);
  EXPECT_EQ(outrider_loop_send(&m.view, payload, 0, 0), 1u);
  EXPECT_EQ(outrider_loop_newest(&m.view, &frame, got), 1);
  EXPECT_EQ(frame.number, 1u);
}

TEST(LoopRing, a_peer_that_lies_gives_no_frame_and_never_leaves_the_ring) {
  Memory m;
  outrider_loop_frame frame;
  char got[20];
  for (const uint64_t head : {uint64_t{1}, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 3}) {
    m.view.ring->head = head;
    EXPECT_EQ(outrider_loop_newest(&m.view, &frame, got), 0) << head;
  }
  // A slot that claims to be whole and holds a frame of another ring.
  m.view.ring->head = 2;
  uint64_t* slot = outrider_loop_slot(&m.view, 1);
  const outrider_loop_frame good = {OUTRIDER_LOOP_FRAME_MAGIC, 20, 1, 0, 0, 0, 0, 0};
  const auto reads = [&](outrider_loop_frame f) {
    slot[0] = 4;
    std::memcpy(slot + 1, &f, sizeof f);
    return outrider_loop_read(&m.view, 1, &frame, got);
  };
  EXPECT_EQ(reads(good), 1);
  outrider_loop_frame bad = good;
  bad.magic ^= 1;
  EXPECT_EQ(reads(bad), 0);
  bad = good;
  bad.bytes = 1 << 30;
  EXPECT_EQ(reads(bad), 0);
  bad = good;
  bad.number = 2;
  EXPECT_EQ(reads(bad), 0);
}

TEST(LoopRing, attaching_checks_every_size) {
  static constexpr uint64_t kBytes = 8192;
  alignas(64) static unsigned char base[kBytes];
  outrider_loop_header good = {};
  good.magic = OUTRIDER_LOOP_MAGIC;
  good.version = 1;
  good.segment_bytes = kBytes;
  good.observations = {256, 4, 128, 40, 0, 0};
  good.actions = {1024, 8, 128, 64, 0, 0};
  outrider_loop_view in, out;
  const auto attaches = [&](const outrider_loop_header& h, uint64_t mapped) {
    std::memcpy(base, &h, sizeof h);
    return outrider_loop_attach(base, mapped, &in, &out) == 0;
  };
  ASSERT_TRUE(attaches(good, kBytes));
  EXPECT_EQ(in.payload_bytes, 40u);
  EXPECT_FALSE(attaches(good, 255)) << "shorter than its header";
  EXPECT_FALSE(attaches(good, 1024 + 64 + 8 * 128 - 1)) << "shorter than its last ring";
  EXPECT_TRUE(attaches(good, 1024 + 64 + 8 * 128));
  const auto refuses = [&](auto change) {
    outrider_loop_header h = good;
    change(h);
    return !attaches(h, kBytes);
  };
  EXPECT_TRUE(refuses([](auto& h) { h.magic = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.version = 2; }));
  EXPECT_TRUE(refuses([](auto& h) { h.observations.n_slots = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.observations.n_slots = 1; }));
  EXPECT_TRUE(refuses([](auto& h) { h.observations.n_slots = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](auto& h) { h.observations.offset = UINT64_MAX - 63; }));
  EXPECT_TRUE(refuses([](auto& h) { h.observations.offset = 300; }));
  EXPECT_TRUE(refuses([](auto& h) { h.actions.payload_bytes = 65; }));
  EXPECT_TRUE(refuses([](auto& h) { h.actions.payload_bytes = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](auto& h) { h.actions.slot_bytes = 100; }));
  EXPECT_TRUE(refuses([](auto& h) { h.actions.slot_bytes = 0xFFFFFFC0u; }));
}

// Each frame is one byte value throughout; a mixture would be seen.
TEST(LoopRing, frames_are_never_torn_while_two_writers_and_a_reader_run) {
  Memory m(4, 256);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> next{0};
  const auto write = [&] {
    while (!stop.load()) {
      outrider_loop_frame frame = {
          OUTRIDER_LOOP_FRAME_MAGIC, 256, next.fetch_add(1), 0, 0, 0, 0, 0};
      unsigned char payload[256];
      std::memset(payload, static_cast<int>(frame.number & 0xFF), sizeof payload);
      outrider_loop_put(&m.view, &frame, payload);
    }
  };
  std::thread a(write), b(write);
  uint64_t last = 0, n_read = 0;
  for (int i = 0; i < 200000000 && n_read < 20000; ++i) {
    outrider_loop_frame frame;
    unsigned char got[256];
    if (outrider_loop_newest(&m.view, &frame, got) == 0) continue;
    ++n_read;
    for (const unsigned char byte : got) ASSERT_EQ(byte, frame.number & 0xFF);
    ASSERT_GE(frame.number + 2, last) << "at most one behind what was seen";
    last = frame.number;
  }
  stop.store(true);
  a.join();
  b.join();
  EXPECT_EQ(n_read, 20000u);
}

TEST(LoopRing, a_waiter_wakes_with_the_next_frame_or_after_its_time) {
  Memory m;
  EXPECT_EQ(outrider_loop_wait(&m.view, 0, 1000000), 0u);
  std::thread writer([&] {
    const char payload[20] = {};
    outrider_loop_send(&m.view, payload, 0, 0);
  });
  uint64_t head = 0;
  for (int i = 0; i < 50 && head == 0; ++i) head = outrider_loop_wait(&m.view, 0, 100000000);
  EXPECT_EQ(head, 1u);
  writer.join();
}

}  // namespace
}  // namespace outrider::loop
