// The bytes of a frame and of its reply.
#include "driving/payload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "driving/desire_pulse.h"
#include "driving/facts.h"

namespace outrider::driving::test {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  char two[4];
  for (const std::byte b : bytes) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(b));
    text += two;
  }
  return text;
}

TEST(DrivingPayload, golden_heads) {
  std::byte request[kRequestHeadBytes], reply[kReplyHeadBytes];
  write_request_head(4242, kResetQueues | kWantState, request);
  EXPECT_EQ(hex(request), "9210000003000000");
  write_reply_head({42, static_cast<uint32_t>(FrameStatus::kNotFinite), 28000, 130, 29000}, reply);
  EXPECT_EQ(hex(reply), "2a00000004000000606d00008200000048710000");
  ReplyHead back;
  ASSERT_TRUE(read_reply_head(reply, back));
  EXPECT_EQ(back.frame_id, 42u);
  EXPECT_EQ(back.total_us, 29000u);
  EXPECT_FALSE(read_reply_head(std::span(reply).first(19), back));
}

TEST(DrivingPayload, a_request_has_exactly_its_length) {
  const Spec spec = read_spec(big_queued(), 4).value();
  std::vector<std::byte> payload(request_bytes(spec) + 1);
  write_request_head(7, kResetQueues, payload.data());
  payload[8] = std::byte{11};
  payload[8 + 393215] = std::byte{12};
  const float first = 1.5f, last = 2.5f;
  std::memcpy(payload.data() + 8 + 393216, &first, 4);
  std::memcpy(payload.data() + 8 + 393216 + 44, &last, 4);
  RequestView view;
  for (const size_t n : {size_t{0}, size_t{7}, size_t{8}, size_t{393271}, size_t{393273}})
    EXPECT_FALSE(view_request(spec, std::span(payload).first(n), view)) << n;
  ASSERT_TRUE(view_request(spec, std::span(payload).first(393272), view));
  EXPECT_EQ(view.frame_id, 7u);
  EXPECT_EQ(view.flags, 1u);
  EXPECT_EQ(view.frames.size(), 393216u);
  EXPECT_EQ(view.frames.front(), std::byte{11});
  EXPECT_EQ(view.frames.back(), std::byte{12});
  ASSERT_EQ(view.packed.size(), 48u);
  float got[2];
  std::memcpy(&got[0], view.packed.data(), 4);
  std::memcpy(&got[1], view.packed.data() + 44, 4);
  EXPECT_EQ(got[0], first);
  EXPECT_EQ(got[1], last);
}

TEST(DrivingPayload, a_reply_leaves_the_hidden_state_out_and_is_expanded_with_zeros) {
  const Spec spec = read_spec(big_queued(), 4).value();
  std::vector<float> outputs(18452), back(18452, -1.0f);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = static_cast<float>(i + 1);
  std::vector<std::byte> floats(2068 * 4);
  write_reply_outputs(spec, outputs.data(), false, floats.data());
  ASSERT_TRUE(expand_reply(spec, floats, false, back));
  for (size_t i = 0; i < back.size(); ++i)
    ASSERT_EQ(back[i], i >= 2066 && i < 18450 ? 0.0f : outputs[i]) << i;
  EXPECT_FALSE(expand_reply(spec, std::span(floats).first(2068 * 4 - 1), false, back));
  EXPECT_FALSE(expand_reply(spec, floats, true, back));
  EXPECT_FALSE(expand_reply(spec, floats, false, std::span(back).first(18451)));
  std::vector<std::byte> whole(18452 * 4);
  write_reply_outputs(spec, outputs.data(), true, whole.data());
  ASSERT_TRUE(expand_reply(spec, whole, true, back));
  EXPECT_EQ(back, outputs);
}

TEST(DesirePulse, passes_what_rises_once_and_never_element_0) {
  DesirePulse pulse(3);
  std::vector<float> out(3);
  const auto step = [&](float a, float b, float c) {
    const float in[] = {a, b, c};
    pulse.step(in, out);
    return out;
  };
  EXPECT_EQ(step(1, 0, 0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(step(1, 1, 0.5f), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(step(1, 1, 1), (std::vector<float>{0, 0, 0})) << "0.5 to 1 is no step";
  EXPECT_EQ(step(0, 0, 0), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(step(0, 1, 2), (std::vector<float>{0, 1, 2}));
  pulse.reset();
  EXPECT_EQ(step(0, 1, 2), (std::vector<float>{0, 1, 2})) << "as at the start";
  pulse.reset();
  EXPECT_EQ(step(0, 0.99f, 0.9900001f), (std::vector<float>{0, 0, 0.9900001f}));
}

}  // namespace
}  // namespace outrider::driving::test
