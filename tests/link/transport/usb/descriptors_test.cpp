#include "link/transport/usb/descriptors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace outrider::link::usb {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::byte b : bytes) {
    out += kDigits[unsigned(b) >> 4];
    out += kDigits[unsigned(b) & 15];
  }
  return out;
}

TEST(UsbDescriptors, are_the_bytes_that_the_kernel_wants_in_its_order) {
  EXPECT_EQ(hex(descriptor_blob()),
            "03000000"
            "69000000"
            "07000000"  // magic, length, full + high + super speed
            "03000000"
            "03000000"
            "05000000"  // the three counts together
            "0904000002ff4f5501"
            "07050102400000"
            "07058202400000"
            "0904000002ff4f5501"
            "07050102000200"
            "07058202000200"
            "0904000002ff4f5501"
            "07050102000400"
            "06300f000000"
            "07058202000400"
            "06300f000000");
}

TEST(UsbDescriptors, strings_name_the_interface_in_one_language) {
  EXPECT_EQ(hex(string_blob()),
            "02000000"
            "20000000"
            "01000000"
            "01000000"
            "0904"
            "6f7574726964657220"
            "6c696e6b00");
}

TEST(UsbSession, reply_comes_back_and_every_other_sixteen_bytes_are_refused) {
  const SessionReply reply{.session = 7};
  auto bytes = encode(reply);
  ASSERT_EQ(decode_reply(bytes), reply);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decode_reply(std::span(bytes).first(n))) << n;
  for (size_t at = 0; at < 12; ++at) {
    if (at == 6 || at == 7) continue;  // reserved
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x40};
    EXPECT_FALSE(decode_reply(damaged)) << at;
  }
  EXPECT_FALSE(decode_reply(encode(SessionReply{.session = 0})));
}

}  // namespace
}  // namespace outrider::link::usb
