#include "loop/payload.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace outrider::loop {
namespace {

TEST(LoopPayload, required_inputs_lie_after_each_other_at_whole_words) {
  const SessionPtr s = open_fake();
  const auto in = input_payload(s.get(), three_states());
  ASSERT_TRUE(in) << in.error().text;
  ASSERT_EQ(in.value().slots.size(), 2u) << "pictures and state; text is given once";
  EXPECT_EQ(in.value().slots[0].name, "images");
  EXPECT_EQ(in.value().slots[0].bytes, 4u * 6 * 3);
  EXPECT_EQ(in.value().slots[1].name, "state");
  EXPECT_EQ(in.value().slots[1].offset, 72u);
  EXPECT_EQ(in.value().slots[1].bytes, 12u);
  EXPECT_EQ(in.value().bytes, 88u) << "12 is rounded up to 16";
}

TEST(LoopPayload, a_port_without_a_size_is_refused_with_the_flag_that_gives_it) {
  const SessionPtr s = open_fake();
  const auto in = input_payload(s.get(), {});
  ASSERT_FALSE(in);
  EXPECT_NE(std::string(in.error().text).find("--size state=N"), std::string::npos)
      << in.error().text;
}

TEST(LoopPayload, unknown_names_list_the_ports_there_are) {
  const SessionPtr s = open_fake();
  PayloadWish wish = three_states();
  wish.outputs = {"action"};
  const auto out = output_payload(s.get(), wish);
  ASSERT_FALSE(out);
  EXPECT_NE(std::string(out.error().text).find("there are actions, echo"), std::string::npos)
      << out.error().text;
  wish = three_states();
  wish.sizes["actions"] = 3;
  EXPECT_EQ(output_payload(s.get(), wish).code(), Code::kInvalid) << "this port has a fixed size";
  wish = three_states();
  wish.inputs = {"actions"};
  EXPECT_EQ(input_payload(s.get(), wish).code(), Code::kInvalid) << "an output is no input";
}

TEST(LoopPayload, sizes_beyond_a_frame_do_not_wrap) {
  const SessionPtr s = open_fake();
  for (const int64_t n : {int64_t{OUTRIDER_LOOP_MAX_PAYLOAD / 4}, int64_t{1} << 40, INT64_MAX}) {
    PayloadWish wish;
    wish.sizes["state"] = n;
    EXPECT_EQ(input_payload(s.get(), wish).code(), Code::kUnsupported) << n;
  }
}

TEST(LoopPayload, the_main_output_is_actions) {
  const SessionPtr s = open_fake();
  const auto out = output_payload(s.get(), {});
  ASSERT_TRUE(out);
  ASSERT_EQ(out.value().slots.size(), 1u);
  EXPECT_EQ(out.value().slots[0].name, "actions");
  EXPECT_EQ(out.value().bytes, 48u);
}

TEST(LoopPayload, every_value_that_is_no_number_is_seen) {
  const SessionPtr s = open_fake();
  const Payload in = input_payload(s.get(), three_states()).value();
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (uint64_t i = 0; i < 3; ++i) {
      std::vector<std::byte> data(in.bytes);
      EXPECT_TRUE(all_finite(in, data.data()));
      std::memcpy(data.data() + in.slots[1].offset + i * 4, &bad, 4);
      EXPECT_FALSE(all_finite(in, data.data())) << bad << " at " << i;
    }
  }
  std::vector<std::byte> largest(in.bytes);
  const float big = 3.4028235e38f;
  std::memcpy(largest.data() + in.slots[1].offset, &big, 4);
  EXPECT_TRUE(all_finite(in, largest.data()));
}

}  // namespace
}  // namespace outrider::loop
