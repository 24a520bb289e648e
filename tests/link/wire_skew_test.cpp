// Old and new peers: the same message as its table stands now, and as it will stand two versions
// on.
#include <gtest/gtest.h>

#include "link/wire/messages.h"

namespace outrider::link::wire {
namespace {

struct OldPart {
  uint32_t a = 0;
  static constexpr auto wire_table() { return record(field<&OldPart::a>("a", "")); }
};
struct OldMessage {
  uint32_t x = 0;
  FixedList<OldPart, 4> parts;
  static constexpr auto wire_table() {
    return table({"SAMPLE", 60, Sender::kBoth, Priority::kFrame, 0, ""},
                 field<&OldMessage::x>("x", ""), field<&OldMessage::parts>("parts", ""));
  }
};
struct NewPart {
  uint32_t a = 0;
  uint64_t b = 77;
  static constexpr auto wire_table() {
    return record(field<&NewPart::a>("a", ""), field<&NewPart::b>("b", "", {.since = 2}));
  }
};
struct NewMessage {
  uint32_t x = 0;
  FixedList<NewPart, 4> parts;
  Text<20> y;
  uint16_t z = 5;
  static constexpr auto wire_table() {
    return table({"SAMPLE", 60, Sender::kBoth, Priority::kFrame, 0, ""},
                 field<&NewMessage::x>("x", ""), field<&NewMessage::parts>("parts", ""),
                 field<&NewMessage::y>("y", "", {.since = 2}),
                 field<&NewMessage::z>("z", "", {.since = 3}));
  }
};

NewMessage new_message() {
  NewMessage m;
  m.x = 1;
  m.parts.add() = {10, 100};
  m.parts.add() = {20, 200};
  m.y.assign("hello");
  m.z = 9;
  return m;
}

template <class M>
std::vector<std::byte> bytes_of(const M& message, uint16_t version) {
  std::vector<std::byte> out(max_bytes<M>());
  out.resize(encode(message, out, version));
  return out;
}

TEST(WireSkew, an_old_reader_takes_what_it_knows_of_a_new_message) {
  const auto bytes = bytes_of(new_message(), 3);
  OldMessage got;
  ASSERT_TRUE(decode(std::span<const std::byte>(bytes), got));
  EXPECT_EQ(got.x, 1u);
  ASSERT_EQ(got.parts.n, 2);
  EXPECT_EQ(got.parts.items[0].a, 10u);
  EXPECT_EQ(got.parts.items[1].a, 20u);
}

TEST(WireSkew, a_new_reader_fills_in_what_an_old_writer_left_out) {
  OldMessage old;
  old.x = 4;
  old.parts.add().a = 40;
  NewMessage got;
  ASSERT_TRUE(decode(std::span<const std::byte>(bytes_of(old, 1)), got));
  EXPECT_EQ(got.x, 4u);
  ASSERT_EQ(got.parts.n, 1);
  EXPECT_EQ(got.parts.items[0].a, 40u);
  EXPECT_EQ(got.parts.items[0].b, 77u);
  EXPECT_EQ(got.y.view(), "");
  EXPECT_EQ(got.z, 5);
}

TEST(WireSkew, a_new_writer_speaks_the_old_version_byte_for_byte) {
  OldMessage old;
  old.x = 1;
  old.parts.add().a = 10;
  old.parts.add().a = 20;
  EXPECT_EQ(bytes_of(new_message(), 1), bytes_of(old, 1));
  const auto two = bytes_of(new_message(), 2);
  NewMessage got;
  ASSERT_TRUE(decode(std::span<const std::byte>(two), got));
  EXPECT_EQ(got.y.view(), "hello");
  EXPECT_EQ(got.z, 5);
}

TEST(WireSkew, a_field_of_a_newer_version_that_is_cut_is_still_refused) {
  const auto bytes = bytes_of(new_message(), 3);
  NewMessage got;
  for (size_t n = bytes.size() - 8; n < bytes.size(); ++n) {
    if (n == bytes.size() - 2) continue;  // exactly the message of version 2
    EXPECT_FALSE(decode(std::span(bytes).first(n), got)) << n;
  }
}

TEST(WireSkew, every_message_takes_unknown_bytes_behind_its_last_field) {
  for_each_message([]<class M>() {
    const M sent = sample<M>(5);
    auto bytes = bytes_of(sent, kVersion);
    for (int i = 0; i < 37; ++i) bytes.push_back(std::byte(0xA0 + i));
    M got;
    ASSERT_TRUE(decode(std::span<const std::byte>(bytes), got)) << M::wire_table().kind.name;
    EXPECT_TRUE(got == sent);
  });
}

}  // namespace
}  // namespace outrider::link::wire
