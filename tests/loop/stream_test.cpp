#include "loop/stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "support.h"

namespace outrider::loop {
namespace {

struct Pipe {
  int fd[2] = {-1, -1};
  Pipe() { EXPECT_EQ(::pipe(fd), 0); }
  ~Pipe() {
    end_writing();
    if (fd[0] >= 0) ::close(fd[0]);
  }
  void end_writing() {
    if (fd[1] >= 0) ::close(fd[1]);
    fd[1] = -1;
  }
  void write(const void* data, size_t n) const {
    ASSERT_EQ(::write(fd[1], data, n), static_cast<ssize_t>(n));
  }
};

struct Rings {
  SessionPtr session = open_fake();
  Payload inputs = input_payload(session.get(), three_states()).value();
  Payload outputs = output_payload(session.get(), {}).value();
  Segment segment = std::move(Segment::make("", inputs, outputs, {}).value());
};

std::string frame_bytes(const Payload& payload, outrider_loop_frame frame = {}) {
  if (frame.magic == 0) frame.magic = OUTRIDER_LOOP_FRAME_MAGIC;
  if (frame.bytes == 0) frame.bytes = static_cast<uint32_t>(payload.bytes);
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
  return bytes + std::string(payload.bytes, 'x');
}

void wait_for(const std::atomic<bool>& flag) {
  for (int i = 0; i < 5000 && !flag.load(); ++i) ::usleep(1000);
  EXPECT_TRUE(flag.load());
}

TEST(LoopStream, frames_arrive_in_the_ring_whatever_the_pieces) {
  const Rings rings;
  const Pipe pipe;
  std::atomic<bool> ended{false};
  StreamIn in(pipe.fd[0], rings.segment.observations(), nullptr, ended);
  const std::string frame = frame_bytes(rings.inputs);
  for (size_t cut = 1; cut < frame.size(); cut += 13) {
    pipe.write(frame.data(), cut);
    ::usleep(300);
    pipe.write(frame.data() + cut, frame.size() - cut);
  }
  const_cast<Pipe&>(pipe).end_writing();
  wait_for(ended);
  EXPECT_TRUE(in.outcome());
  EXPECT_EQ(in.n_frames(), (frame.size() + 11) / 13);
  EXPECT_EQ(outrider_loop_head(&rings.segment.observations()), in.n_frames());
}

TEST(LoopStream, a_cut_frame_is_refused_at_every_length_but_its_own) {
  const Rings rings;
  const std::string frame = frame_bytes(rings.inputs);
  for (size_t n = 0; n <= frame.size(); n += n < 45 ? 1 : 17) {
    Pipe pipe;
    pipe.write(frame.data(), n);
    pipe.end_writing();
    std::atomic<bool> ended{false};
    StreamIn in(pipe.fd[0], rings.segment.observations(), nullptr, ended);
    wait_for(ended);
    in.stop();
    EXPECT_EQ(static_cast<bool>(in.outcome()), n == 0 || n == frame.size()) << n;
    if (!in.outcome()) {
      EXPECT_NE(std::string(in.outcome().error().text).find("ends after " + std::to_string(n)),
                std::string::npos);
    }
  }
}

TEST(LoopStream, every_field_of_a_frame_is_checked) {
  const outrider_loop_frame good = {OUTRIDER_LOOP_FRAME_MAGIC, 88, 9, 7, 5, 0, 0,
                                    OUTRIDER_LOOP_RESET};
  EXPECT_TRUE(check_frame(good, 88, 0)) << "number, time and answers are the sender's own";
  outrider_loop_frame f = good;
  f.magic = 0;
  EXPECT_NE(
      std::string(check_frame(f, 88, 3).error().text).find("input frame 3: magic is 0x00000000"),
      std::string::npos);
  f = good;
  f.bytes = 87;
  EXPECT_EQ(check_frame(f, 88, 0).code(), Code::kInvalid);
  f.bytes = UINT32_MAX;
  EXPECT_EQ(check_frame(f, 88, 0).code(), Code::kInvalid);
  f = good;
  f.origin = 1;
  EXPECT_EQ(check_frame(f, 88, 0).code(), Code::kInvalid);
  f = good;
  f.reason = 1;
  EXPECT_EQ(check_frame(f, 88, 0).code(), Code::kInvalid);
  f = good;
  f.flags = 2;
  EXPECT_EQ(check_frame(f, 88, 0).code(), Code::kInvalid);
}

TEST(LoopStream, a_frame_that_waits_for_its_tick_is_not_replaced) {
  const Rings rings;
  Pipe pipe;
  const std::string frame = frame_bytes(rings.inputs);
  for (int i = 0; i < 3; ++i) pipe.write(frame.data(), frame.size());
  pipe.end_writing();
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> ended{false};
  StreamIn in(pipe.fd[0], rings.segment.observations(), &taken, ended);
  for (uint64_t n = 1; n <= 3; ++n) {
    for (int i = 0; i < 5000 && outrider_loop_head(&rings.segment.observations()) < n; ++i)
      ::usleep(1000);
    ::usleep(2000);
    EXPECT_EQ(outrider_loop_head(&rings.segment.observations()), n);
    EXPECT_FALSE(ended.load());
    taken.store(n);
  }
  wait_for(ended);
}

TEST(LoopStream, stopping_does_not_wait_for_a_silent_sender) {
  const Rings rings;
  const Pipe pipe;
  std::atomic<bool> ended{false};
  StreamIn in(pipe.fd[0], rings.segment.observations(), nullptr, ended);
  in.stop();
  EXPECT_TRUE(in.outcome());
}

TEST(LoopStream, actions_come_out_in_order_and_a_reader_that_left_is_noticed) {
  const Rings rings;
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  std::atomic<bool> broken{false};
  StreamOut out(pipe.fd[1], rings.segment.actions(), broken);
  std::vector<std::byte> payload(rings.outputs.bytes);
  const auto send = [&](uint64_t number) {
    const outrider_loop_frame frame = {
        OUTRIDER_LOOP_FRAME_MAGIC, static_cast<uint32_t>(payload.size()), number, 0, 0, 0, 0, 0};
    ASSERT_EQ(outrider_loop_put(&rings.segment.actions(), &frame, payload.data()), 1);
  };
  for (const uint64_t number : {0, 1, 2, 5, 6}) send(number);  // 3 and 4 were skipped by the loop
  out.drain();
  EXPECT_EQ(out.n_frames(), 5u);
  std::vector<char> bytes(5 * (40 + payload.size()));
  ASSERT_EQ(::read(pipe.fd[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  outrider_loop_frame last;
  std::memcpy(&last, bytes.data() + 4 * (40 + payload.size()), sizeof last);
  EXPECT_EQ(last.number, 6u);
  ::close(pipe.fd[0]);
  pipe.fd[0] = -1;
  send(7);
  wait_for(broken);
}

}  // namespace
}  // namespace outrider::loop
