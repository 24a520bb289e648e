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

std::vector<Bytes> pieces_of(const Bytes& message, uint32_t token, uint32_t seq) {
  std::vector<Bytes> out;
  const auto total = static_cast<uint32_t>(message.size());
  for (uint32_t i = 0; i < n_pieces(total); ++i) {
    const PieceRange range = piece_range(total, i);
    Bytes piece(kPieceHeadBytes + range.bytes);
    encode(PieceHead{kDatagramMagic, token, seq, range.offset, total}, piece);
    std::copy_n(message.begin() + range.offset, range.bytes, piece.begin() + kPieceHeadBytes);
    out.push_back(std::move(piece));
  }
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
  for (size_t n = 0; n < 64; ++n) EXPECT_FALSE(assembler.take(std::span(pieces[0]).first(n))) << n;
  EXPECT_FALSE(assembler.take(std::span(pieces[0]).first(pieces[0].size() - 1)));
  Bytes longer = pieces[0];
  longer.push_back(std::byte{0});
  EXPECT_FALSE(assembler.take(longer));
  const auto lying = [&](size_t at, uint32_t value) {
    Bytes piece = pieces[0];
    write_u32(piece.data() + at, value);
    return assembler.take(piece);
  };
  EXPECT_FALSE(lying(0, 0)) << "magic";
  EXPECT_FALSE(lying(12, 1)) << "an offset where no piece begins";
  EXPECT_FALSE(lying(12, 0xFFFFFFFF));
  for (const uint32_t total : {0u, 1u, 31u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_FALSE(lying(16, total)) << total;
  EXPECT_EQ(assembler.abandoned(), 0u) << "none of them began a message";
  EXPECT_FALSE(assembler.take(pieces[0]));
  EXPECT_TRUE(assembler.take(pieces[1]));
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
