#include "link/jetlink/wire.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "link/jetlink/bytes.h"

namespace outrider::link::jetlink {
namespace {

std::string encoded(const Header& header) {
  std::array<std::byte, kHeaderBytes> out;
  out.fill(std::byte{0xEE});
  encode_header(header, out);
  return hex(out);
}

TEST(JetlinkHeader, has_the_golden_bytes) {
  EXPECT_EQ(encoded({3, 1, 1, 0, 38}), "4a4c4e4b03000100010000000000000026" + std::string(30, '0'));
  EXPECT_EQ(encoded({3, 8, 42, 0, 393272}),
            "4a4c4e4b030008002a00000000000000380006" + std::string(26, '0'));
}

TEST(JetlinkHeader, of_version_2_differs_in_one_byte) {
  EXPECT_EQ(encoded({2, 1, 1, 0, 38}), "4a4c4e4b02000100010000000000000026" + std::string(30, '0'));
}

TEST(JetlinkHeads, have_the_golden_bytes) {
  std::array<std::byte, 20> out{};
  encode(FrameHead{4242, 3}, out);
  EXPECT_EQ(hex(std::span(out).first(8)), "9210000003000000");
  encode(ReplyHead{42, 4, 28000, 130, 29000}, out);
  EXPECT_EQ(hex(out), "2a00000004000000606d00008200000048710000");
  EXPECT_EQ(decode_reply_head(out), (ReplyHead{42, 4, 28000, 130, 29000}));
  EXPECT_EQ(decode_frame_head(out), (FrameHead{42, 4}));
}

TEST(JetlinkHeader, comes_back_as_it_went) {
  for (const uint32_t value : {0u, 1u, 255u, 256u, 65535u, 65536u, 0xFFFFFFFFu}) {
    const Header in{3, static_cast<uint16_t>(value), value, value, value % (kMaxPayloadBytes + 1)};
    std::array<std::byte, kHeaderBytes> bytes;
    encode_header(in, bytes);
    Header out;
    ASSERT_EQ(decode_header(bytes, out), HeaderState::kGood) << value;
    EXPECT_EQ(out, in) << value;
  }
}

TEST(JetlinkHeader, says_what_is_wrong_magic_then_version_then_length) {
  std::array<std::byte, kHeaderBytes> bytes;
  const auto state = [&](size_t at, uint8_t value) {
    encode_header({3, 1, 1, 0, kMaxPayloadBytes}, bytes);
    bytes[at] = std::byte{value};
    Header out;
    return decode_header(bytes, out);
  };
  for (size_t at = 0; at < 4; ++at) EXPECT_EQ(state(at, 0), HeaderState::kNoMagic) << at;
  for (const uint8_t version : {0, 1, 4, 255})
    EXPECT_EQ(state(4, version), HeaderState::kOtherVersion);
  EXPECT_EQ(state(5, 1), HeaderState::kOtherVersion);  // 0x0103
  EXPECT_EQ(state(16, 0), HeaderState::kGood);         // exactly 16 MiB
  EXPECT_EQ(state(16, 1), HeaderState::kTooLong);
  EXPECT_EQ(state(19, 0x80), HeaderState::kTooLong);
  for (size_t at = 20; at < 32; ++at)
    EXPECT_EQ(state(at, 0xFF), HeaderState::kGood) << "reserved bytes are ignored: " << at;
}

TEST(JetlinkRows, are_one_for_each_message_of_the_protocol) {
  std::set<uint16_t> types;
  for (const Row& row : kRows) EXPECT_TRUE(types.insert(static_cast<uint16_t>(row.type)).second);
  EXPECT_EQ(types, (std::set<uint16_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(find_row(19, kVersion2), nullptr);
  EXPECT_NE(find_row(19, kVersion3), nullptr);
  for (const uint16_t none : {0, 10, 11, 20, 65535}) EXPECT_EQ(find_row(none, 3), nullptr);
}

TEST(JetlinkPad, is_one_byte_where_a_message_would_end_on_the_multiple) {
  for (const auto& [version, multiple] : {std::pair<uint16_t, uint32_t>{3, 512}, {2, 1024}}) {
    for (uint32_t length = 0; length < 4 * multiple; ++length) {
      Header header{version, 8, 1, 0, length};
      const bool padded = (32 + length) % multiple == 0;
      ASSERT_EQ(add_pad(header, 1), padded ? 1u : 0u) << length;
      ASSERT_EQ(header.flags, padded ? kPadded : 0u) << length;
      ASSERT_EQ(pad_of(header, 1), padded ? 1u : 0u) << length;
    }
  }
}

TEST(JetlinkPad, I02_of_a_gadget_fills_up_the_grid_and_sets_no_flag) {
  for (const uint32_t length : {0u, 1u, 16351u, 16352u, 16353u, 393272u}) {
    Header header{3, 8, 1, 0, length};
    const uint32_t pad = add_pad(header, kGadgetGrid);
    EXPECT_EQ((32 + length + pad) % kGadgetGrid, 0u) << length;
    EXPECT_LT(pad, kGadgetGrid);
    EXPECT_EQ(header.flags, 0u);
    EXPECT_EQ(pad_of(header, kGadgetGrid), pad);
  }
  Header frame{3, 8, 1, 0, 393272};
  EXPECT_EQ(32 + frame.length + add_pad(frame, kGadgetGrid), 409600u);
}

TEST(JetlinkPad, is_taken_whenever_the_flag_is_set_at_any_length) {
  for (const uint32_t length : {0u, 1u, 100u, 480u})
    EXPECT_EQ(pad_of({3, 15, 1, kPadded, length}, 1), 1u);
}

TEST(JetlinkSeq, is_newer_only_when_larger_or_wrapped) {
  EXPECT_TRUE(is_newer(1, 0));
  EXPECT_FALSE(is_newer(0, 0));
  EXPECT_FALSE(is_newer(5, 5));
  EXPECT_FALSE(is_newer(4, 5));
  EXPECT_TRUE(is_newer(5000, 1));
  EXPECT_TRUE(is_newer(0xFFFFFFFF, 1));
  EXPECT_TRUE(is_newer(0, 0xFFFFFFFF));
  EXPECT_TRUE(is_newer(1, 0xFFFFFFFE));
  EXPECT_FALSE(is_newer(0xFFFFFFFE, 0xFFFFFFFF));
}

}  // namespace
}  // namespace outrider::link::jetlink
