// Every message of the table: sizes, round trips, refusal of everything that is cut or too long.
#include <gtest/gtest.h>

#include "link/wire/crc32c.h"
#include "link/wire/messages.h"

namespace outrider::link::wire {
namespace {

template <class M>
std::vector<std::byte> bytes_of(const M& message, uint16_t version = kVersion) {
  std::vector<std::byte> out(max_bytes<M>());
  out.resize(encode(message, out, version));
  return out;
}

TEST(Wire, every_message_survives_the_trip) {
  for_each_message([]<class M>() {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const M sent = sample<M>(seed);
      M got;
      auto read = decode(std::span<const std::byte>(bytes_of(sent)), got);
      ASSERT_TRUE(read) << M::wire_table().kind.name << " seed " << seed << read.error().text;
      ASSERT_TRUE(got == sent) << print(sent) << "\n" << print(got);
    }
  });
}

TEST(Wire, every_message_is_refused_when_cut_anywhere) {
  for_each_message([]<class M>() {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const M sent = sample<M>(seed);
      const auto whole = bytes_of(sent);
      const size_t oldest = bytes_of(sent, kOldestVersion).size();
      for (size_t n = 0; n < whole.size(); n += n < 600 ? 1 : 97) {
        M got;
        auto read = decode(std::span(whole).first(n), got);
        // What an older peer sends ends where the newer fields, whole words, begin.
        if (n >= oldest && (n - oldest) % 4 == 0) continue;
        ASSERT_FALSE(read) << M::wire_table().kind.name << " took " << n << " of " << whole.size();
        ASSERT_EQ(read.code(), Code::kInvalid);
        ASSERT_NE(read.error().message().find(M::wire_table().kind.name), std::string_view::npos);
      }
    }
  });
}

TEST(Wire, hostile_bytes_never_reach_past_their_end) {
  // Lengths and counts of every value at every place; the sanitizers watch.
  for_each_message([]<class M>() {
    auto whole = bytes_of(sample<M>(3));
    const size_t n = std::min<size_t>(whole.size(), 800);
    for (size_t at = 0; at < n; ++at)
      for (int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        const std::byte kept = whole[at];
        whole[at] = std::byte(value);
        M got;
        (void)decode(std::span<const std::byte>(whole), got);
        whole[at] = kept;
      }
  });
}

TEST(Wire, a_count_that_the_bytes_cannot_carry_allocates_nothing) {
  OpenReply reply;
  auto bytes = bytes_of(reply);
  // code, text, epoch, has_step, has_manifest, fingerprint; then the count of ports.
  const size_t ports_at = 4 + 2 + 4 + 1 + 1 + 8;
  bytes[ports_at] = std::byte{0xFF}, bytes[ports_at + 1] = std::byte{0x00};
  OpenReply got;
  EXPECT_FALSE(decode(std::span<const std::byte>(bytes), got));
  EXPECT_EQ(got.ports.items.capacity(), 0u);
  bytes[ports_at + 1] = std::byte{0xFF};
  auto read = decode(std::span<const std::byte>(bytes), got);
  ASSERT_FALSE(read);
  EXPECT_STREQ(read.error().text, "link: OPEN_REPLY.ports: 65535 records, at most 256 are allowed");
}

TEST(Wire, values_beyond_their_range_are_refused_with_field_found_and_allowed) {
  Open open;
  auto bytes = bytes_of(open);
  bytes[2] = std::byte{9};  // role, behind the empty name
  Open got;
  auto read = decode(std::span<const std::byte>(bytes), got);
  ASSERT_FALSE(read);
  EXPECT_STREQ(read.error().text, "link: OPEN.role: 9 value, at most 1 are allowed");
}

TEST(Wire, a_header_is_80_bytes_and_shows_every_flipped_bit) {
  const Header sent = sample<Header>(11);
  std::array<std::byte, kHeaderBytes> bytes;
  Header right = sent;
  right.magic = kMagic;
  encode_header(right, bytes);
  Header got;
  ASSERT_EQ(decode_header(bytes, got), HeaderState::kGood);
  right.header_crc = got.header_crc;
  EXPECT_TRUE(got == right);
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_EQ(decode_header(bytes, got), HeaderState::kNoHeader) << bit;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST(Wire, a_header_with_a_length_beyond_every_limit_is_told_from_noise) {
  Header header;
  header.body_bytes = kMaxBodyBytes + 1;
  std::array<std::byte, kHeaderBytes> bytes;
  encode_header(header, bytes);
  Header got;
  EXPECT_EQ(decode_header(bytes, got), HeaderState::kTooLong);
}

TEST(Wire, pads_to_the_grid) {
  EXPECT_EQ(pad_for(80, 1), 0u);
  EXPECT_EQ(pad_for(80, 16384), 16304u);
  EXPECT_EQ(pad_for(16384, 16384), 0u);
  EXPECT_EQ(pad_for(16385, 16384), 16383u);
}

TEST(Wire, types_have_their_bounds_and_others_have_none) {
  for_each_message([]<class M>() {
    const MessageInfo* info = message_info(type_of<M>());
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->max_body_bytes, max_bytes<M>());
    EXPECT_LE(info->kind.max_payload_bytes, kMaxPayloadBytes);
  });
  EXPECT_EQ(message_info(0), nullptr);
  EXPECT_EQ(message_info(63), nullptr);
  EXPECT_EQ(message_info(65535), nullptr);
}

TEST(Wire, prints_a_line_for_people) {
  wire::Run run;
  run.executor_ref = 91;
  EXPECT_EQ(print(run), "RUN kind=0 executor_ref=91 budget_ns=0 push=0 n_inputs=0");
  EXPECT_EQ(print_body(type_of<wire::Run>(), bytes_of(run)), print(run));
  EXPECT_EQ(print_body(999, {}), "type 999: not known here");
  Bye bye;
  bye.text.assign("a\nb");
  EXPECT_EQ(print(bye), "BYE cause=8 text=\"a?b\"");
}

}  // namespace
}  // namespace outrider::link::wire
