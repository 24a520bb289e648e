#include "link/jetlink/datagram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "link/jetlink/wire.h"

namespace outrider::link::jetlink {
namespace {

using Bytes = std::vector<std::byte>;

Bytes message_of(uint32_t seq, uint32_t length) {
  Header header{3, 8, seq, 0, length};
  const uint32_t pad = add_pad(header, 1);
  Bytes out(kHeaderBytes + length + pad);
  encode_header(header, out);
  for (uint32_t i = 0; i < length; ++i) out[kHeaderBytes + i] = static_cast<std::byte>(i * 7 + seq);
  return out;
}

Bytes piece_of(const Bytes& message, uint32_t token, uint32_t seq, PieceRange range) {
  Bytes piece(kPieceHeadBytes + range.bytes);
  encode(PieceHead{kDatagramMagic, token, seq, range.offset, static_cast<uint32_t>(message.size())},
         piece);
  std::copy_n(message.begin() + range.offset, range.bytes, piece.begin() + kPieceHeadBytes);
  return piece;
}

std::vector<Bytes> pieces_of(const Bytes& message, uint32_t token, uint32_t seq) {
  std::vector<Bytes> out;
  const auto total = static_cast<uint32_t>(message.size());
  for (uint32_t i = 0; i < n_pieces(total); ++i)
    out.push_back(piece_of(message, token, seq, piece_range(total, i)));
  return out;
}

TEST(JetlinkDatagram, head_has_the_letters_JFRM_first) {
  Bytes head(kPieceHeadBytes);
  encode(PieceHead{kDatagramMagic, 1, 2, 3, 4}, head);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(head.data()), 4), "JFRM");
}

TEST(JetlinkDatagram, pieces_of_the_shipped_frame_are_two_of_56187_and_five_of_56186) {
  ASSERT_EQ(n_pieces(393304), 7u);
  for (uint32_t i = 0; i < 7; ++i)
    EXPECT_EQ(piece_range(393304, i).bytes, i < 2 ? 56187u : 56186u) << i;
}

TEST(JetlinkDatagram, pieces_tile_every_message) {
  for (const uint32_t total :
       {32u, 33u, 64999u, 65000u, 65001u, 129999u, 130000u, 130001u, 393304u, 16777216u}) {
    uint32_t at = 0, least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < n_pieces(total); ++i) {
      const PieceRange range = piece_range(total, i);
      EXPECT_EQ(range.offset, at);
      at += range.bytes;
      least = std::min(least, range.bytes);
      most = std::max(most, range.bytes);
    }
    EXPECT_EQ(at, total);
    EXPECT_LE(most, kPieceBytes);
    EXPECT_LE(most - least, 1u);
  }
}

TEST(JetlinkDatagram, are_put_together_in_any_order_and_once) {
  std::mt19937 random(7);
  for (const uint32_t length : {0u, 8u, 480u, 64968u, 64969u, 393272u}) {
    Assembler assembler;
    assembler.begin(5);
    const Bytes message = message_of(9, length);
    auto pieces = pieces_of(message, 5, 9);
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) {
        EXPECT_FALSE(assembler.take(pieces[i - 1])) << "a piece that is there already";
      }
      ASSERT_EQ(assembler.take(pieces[i]), i + 1 == pieces.size()) << length;
    }
    EXPECT_TRUE(std::ranges::equal(assembler.message(), message));
    for (const Bytes& piece : pieces) EXPECT_FALSE(assembler.take(piece)) << "done is done";
  }
}

TEST(JetlinkDatagram, of_a_newer_message_abandons_the_older_one) {
  Assembler assembler;
  assembler.begin(5);
  const auto old = pieces_of(message_of(1, 393272), 5, 1);
  const auto fresh = pieces_of(message_of(2, 393272), 5, 2);
  for (size_t i = 0; i + 1 < old.size(); ++i) EXPECT_FALSE(assembler.take(old[i]));
  for (size_t i = 0; i < fresh.size(); ++i)
    EXPECT_EQ(assembler.take(fresh[i]), i + 1 == fresh.size());
  EXPECT_EQ(assembler.abandoned(), 1u);
  EXPECT_FALSE(assembler.take(old.back())) << "the last piece of the abandoned one";
}

TEST(JetlinkDatagram, with_another_token_or_none_is_dropped) {
  Assembler assembler;
  const auto pieces = pieces_of(message_of(1, 100), 5, 1);
  EXPECT_FALSE(assembler.take(pieces[0])) << "nothing was offered";
  assembler.begin(6);
  EXPECT_FALSE(assembler.take(pieces[0]));
  assembler.begin(5);
  EXPECT_TRUE(assembler.take(pieces[0]));
  assembler.begin(0);
  EXPECT_FALSE(assembler.take(pieces_of(message_of(2, 100), 0, 2)[0])) << "0 is no token";
}

TEST(JetlinkDatagram, that_is_cut_or_lies_is_dropped) {
  const Bytes message = message_of(1, 70000);
  const auto pieces = pieces_of(message, 5, 1);
  Assembler assembler;
  assembler.begin(5);
  for (size_t n = 0; n <= kPieceHeadBytes; ++n)
    EXPECT_FALSE(assembler.take(std::span(pieces[0]).first(n))) << n;
  Bytes longer = pieces[1];
  longer.push_back(std::byte{0});
  EXPECT_FALSE(assembler.take(longer)) << "beyond the end";
  const auto lying = [&](size_t at, uint32_t value) {
    Bytes piece = pieces[0];
    write_u32(piece.data() + at, value);
    return assembler.take(piece);
  };
  EXPECT_FALSE(lying(0, 0)) << "magic";
  for (const uint32_t offset : {35017u, 70032u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_FALSE(lying(12, offset)) << offset;
  for (const uint32_t total : {0u, 1u, 31u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_FALSE(lying(16, total)) << total;
  EXPECT_EQ(assembler.abandoned(), 0u) << "none of them began a message";
  EXPECT_FALSE(assembler.take(pieces[0]));
  EXPECT_TRUE(assembler.take(pieces[1]));
  EXPECT_TRUE(std::ranges::equal(assembler.message(), message));
}

// A peer may cut smaller than it must: the pieces of a tiny model's frame in its maker's tests are.
TEST(JetlinkDatagram, may_be_cut_anywhere) {
  std::mt19937 random(11);
  for (const uint32_t largest : {1u, 7u, 700u, 1400u, 64999u, 65000u}) {
    const Bytes message = message_of(4, largest == 1 ? 400 : 20000);
    std::vector<Bytes> pieces;
    for (uint32_t at = 0; at < message.size();) {
      const auto left = static_cast<uint32_t>(message.size()) - at;
      const uint32_t n = std::min(left, 1 + static_cast<uint32_t>(random() % largest));
      pieces.push_back(piece_of(message, 5, 4, {at, n}));
      at += n;
    }
    if (pieces.size() < Assembler::kMostRanges) std::shuffle(pieces.begin(), pieces.end(), random);
    Assembler assembler;
    assembler.begin(5);
    for (size_t i = 0; i < pieces.size(); ++i)
      ASSERT_EQ(assembler.take(pieces[i]), i + 1 == pieces.size()) << largest << " " << i;
    EXPECT_TRUE(std::ranges::equal(assembler.message(), message));
  }
}

TEST(JetlinkDatagram, that_lie_over_another_are_dropped) {
  const Bytes message = message_of(4, 1000);
  Assembler assembler;
  assembler.begin(5);
  EXPECT_FALSE(assembler.take(piece_of(message, 5, 4, {100, 100})));
  for (const PieceRange over : {PieceRange{100, 100}, {0, 101}, {199, 10}, {150, 10}, {50, 500}})
    EXPECT_FALSE(assembler.take(piece_of(message, 5, 4, over))) << over.offset;
  EXPECT_EQ(assembler.dropped(), 5u);
  EXPECT_FALSE(assembler.take(piece_of(message, 5, 4, {200, 832})));
  EXPECT_TRUE(assembler.take(piece_of(message, 5, 4, {0, 100})));
  EXPECT_TRUE(std::ranges::equal(assembler.message(), message));
}

TEST(JetlinkDatagram, with_more_gaps_than_are_kept_are_dropped_and_the_next_message_is_whole) {
  const Bytes message = message_of(4, 10000), next = message_of(5, 400);
  Assembler assembler;
  assembler.begin(5);
  for (uint32_t i = 0; i <= Assembler::kMostRanges; ++i)
    EXPECT_FALSE(assembler.take(piece_of(message, 5, 4, {2 * i, 1})));
  EXPECT_EQ(assembler.dropped(), 1u);
  EXPECT_TRUE(assembler.take(pieces_of(next, 5, 5)[0]));
  EXPECT_TRUE(std::ranges::equal(assembler.message(), next));
}

TEST(JetlinkDatagram, whose_header_and_length_do_not_add_up_is_no_message) {
  for (const int kind : {0, 1, 2, 3}) {
    Bytes message = message_of(3, 1000);
    if (kind == 0) write_u32(message.data() + 16, 999);  // length
    if (kind == 1) write_u32(message.data() + 12, kPadded);
    if (kind == 2) write_u32(message.data(), 0);      // magic
    if (kind == 3) write_u32(message.data() + 8, 4);  // another seq than the pieces say
    Assembler assembler;
    assembler.begin(5);
    EXPECT_FALSE(assembler.take(pieces_of(message, 5, 3)[0])) << kind;
  }
}

}  // namespace
}  // namespace outrider::link::jetlink
