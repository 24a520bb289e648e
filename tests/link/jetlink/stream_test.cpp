#include "link/jetlink/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "link/jetlink/bytes.h"
#include "link/transport/loopback.h"

namespace outrider::link::jetlink {
namespace {

// Gives bytes in steps of a chosen size, then is late or closed; keeps what was sent.
class Script final : public Transport {
 public:
  Script(std::vector<std::byte> bytes, size_t step, Io end)
      : bytes_(bytes), step_(step), end_(end) {}
  Moved send(std::span<const Piece> pieces, int64_t) noexcept override {
    Moved moved;
    for (const Piece& piece : pieces) {
      sent.insert(sent.end(), piece.begin(), piece.end());
      moved.bytes += piece.size();
    }
    return moved;
  }
  Moved receive(std::span<std::byte> into, int64_t) noexcept override {
    const size_t n = std::min({into.size(), bytes_.size() - at_, step_});
    largest = std::max(largest, into.size());
    if (n == 0) return {end_, 0};
    std::memcpy(into.data(), bytes_.data() + at_, n);
    at_ += n;
    return {Io::kDone, n};
  }
  void shut() noexcept override {}
  const TransportFacts& facts() const noexcept override { return facts_; }
  std::vector<std::byte> sent;
  size_t largest = 0;

 private:
  std::vector<std::byte> bytes_;
  size_t step_, at_ = 0;
  Io end_;
  TransportFacts facts_;
};

std::vector<std::byte> bytes_of(Header header, uint32_t grid = 1) {
  const uint32_t pad = add_pad(header, grid);
  std::vector<std::byte> out(kHeaderBytes + header.length + pad);
  encode_header(header, out);
  for (uint32_t i = 0; i < header.length; ++i)
    out[kHeaderBytes + i] = static_cast<std::byte>(i * 31 + header.seq);
  return out;
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST(JetlinkStream, reads_messages_cut_at_every_size) {
  std::vector<std::byte> all;
  const uint32_t lengths[] = {0, 1, 480, 992, 31, 5000};
  uint32_t seq = 0;
  for (const uint32_t length : lengths) append(all, bytes_of({3, 8, ++seq, 0, length}));
  for (size_t step = 1; step < 70; ++step) {
    Stream stream(std::make_unique<Script>(all, step, Io::kClosed), 0);
    Message message;
    for (uint32_t i = 0; i < std::size(lengths); ++i) {
      ASSERT_EQ(stream.read(message, 0), Got::kMessage) << step;
      ASSERT_EQ(message.header.seq, i + 1);
      ASSERT_EQ(message.payload.size(), lengths[i]);
      for (uint32_t k = 0; k < lengths[i]; ++k)
        ASSERT_EQ(message.payload[k], static_cast<std::byte>(k * 31 + i + 1));
    }
    EXPECT_EQ(stream.read(message, 0), Got::kEnded);
    EXPECT_EQ(stream.ended(), Io::kClosed);
  }
}

TEST(JetlinkStream, keeps_a_message_that_is_cut_at_every_byte_until_the_rest_comes) {
  const auto message_bytes = bytes_of({3, 8, 7, 0, 480});  // padded: 513 bytes
  ASSERT_EQ(message_bytes.size(), 513u);
  for (size_t cut = 0; cut < message_bytes.size(); ++cut) {
    auto pair = loopback_pair();
    ASSERT_TRUE(pair);
    Stream stream(std::move(pair.value().first), 0);
    Transport& peer = *pair.value().second;
    const Piece first[] = {std::span(message_bytes).first(cut)};
    const Piece rest[] = {std::span(message_bytes).subspan(cut)};
    Message message;
    ASSERT_EQ(peer.send(first, kForever).io, Io::kDone);
    ASSERT_EQ(stream.read(message, 0), Got::kLate) << cut;
    ASSERT_EQ(peer.send(rest, kForever).io, Io::kDone);
    ASSERT_EQ(stream.read(message, steady_now_ns() + 1'000'000'000), Got::kMessage) << cut;
    EXPECT_EQ(message.header.seq, 7u);
    ASSERT_EQ(stream.read(message, 0), Got::kLate);
  }
}

TEST(JetlinkStream, latches_what_is_no_header) {
  for (const auto& [at, value] : {std::pair<size_t, uint8_t>{0, 1}, {4, 9}, {19, 0xFF}}) {
    auto all = bytes_of({3, 15, 1, 0, 0});
    all[at] = std::byte{value};
    append(all, bytes_of({3, 15, 2, 0, 0}));
    Stream stream(std::make_unique<Script>(all, 4096, Io::kLate), 0);
    Message message;
    EXPECT_EQ(stream.read(message, 0), Got::kDesynced) << at;
    EXPECT_EQ(stream.read(message, 0), Got::kDesynced) << "a good header behind it changes nothing";
    EXPECT_STRNE(stream.complaint(), "");
  }
}

TEST(JetlinkStream, holds_a_connection_to_the_version_it_began_with) {
  for (const uint16_t first : {kVersion2, kVersion3}) {
    const uint16_t other = first == kVersion2 ? kVersion3 : kVersion2;
    auto all = bytes_of({first, 15, 1, 0, 0});
    append(all, bytes_of({other, 15, 2, 0, 0}));
    Stream stream(std::make_unique<Script>(all, 4096, Io::kLate), 0);
    Message message;
    EXPECT_EQ(stream.version(), 0);
    ASSERT_EQ(stream.read(message, 0), Got::kMessage);
    EXPECT_EQ(stream.version(), first);
    EXPECT_EQ(stream.read(message, 0), Got::kDesynced);
    Stream strict(std::make_unique<Script>(all, 4096, Io::kLate), other);
    EXPECT_EQ(strict.read(message, 0), Got::kDesynced);
  }
}

TEST(JetlinkStream, takes_no_memory_for_a_length_whose_bytes_do_not_come) {
  auto all = bytes_of({3, 8, 1, 0, 0});
  write_u32(all.data() + 16, kMaxPayloadBytes);
  auto script = std::make_unique<Script>(all, 4096, Io::kLate);
  Script& at = *script;
  Stream stream(std::move(script), 0);
  Message message;
  EXPECT_EQ(stream.read(message, 0), Got::kLate);
  EXPECT_LE(at.largest, 256u << 10) << "the buffer did not grow to 16 MiB";
}

TEST(JetlinkStream, I02_reads_what_a_gadget_pads_without_a_flag) {
  std::vector<std::byte> all;
  for (uint32_t seq = 1; seq < 4; ++seq)
    append(all, bytes_of({3, 8, seq, 0, seq * 9000}, kGadgetGrid));
  ASSERT_EQ(all.size() % kGadgetGrid, 0u);
  Stream stream(std::make_unique<Script>(all, 4096, Io::kClosed), 0, kGadgetGrid);
  Message message;
  for (uint32_t seq = 1; seq < 4; ++seq) {
    ASSERT_EQ(stream.read(message, 0), Got::kMessage);
    EXPECT_EQ(message.payload.size(), seq * 9000);
  }
  EXPECT_EQ(stream.read(message, 0), Got::kEnded);
}

TEST(JetlinkStream, goes_on_after_bytes_that_were_read_before_it) {
  const auto all = bytes_of({2, 15, 3, 0, 10});
  for (const size_t begun : {size_t{0}, size_t{1}, size_t{32}, all.size()}) {
    Stream stream(std::make_unique<Script>(
                      std::vector<std::byte>(all.begin() + static_cast<long>(begun), all.end()), 7,
                      Io::kClosed),
                  0, 1, std::span(all).first(begun));
    Message message;
    ASSERT_EQ(stream.read(message, 0), Got::kMessage);
    EXPECT_EQ(message.payload.size(), 10u);
  }
}

TEST(JetlinkStream, pads_what_it_sends_by_the_rule_of_its_version) {
  for (const auto& [version, length] : {std::pair<uint16_t, size_t>{3, 480}, {2, 992}, {2, 480}}) {
    auto script = std::make_unique<Script>(std::vector<std::byte>(), 1, Io::kLate);
    Script& at = *script;
    Stream stream(std::move(script), version);
    const std::vector<std::byte> payload(length, std::byte{9});
    const Piece pieces[] = {std::span(payload).first(100), std::span(payload).subspan(100)};
    ASSERT_EQ(stream.send(Type::kInferResp, 5, pieces, 0), Io::kDone);
    const bool padded = (32 + length) % (version == 3 ? 512 : 1024) == 0;
    EXPECT_EQ(at.sent.size(), 32 + length + (padded ? 1 : 0));
    Header header;
    ASSERT_EQ(decode_header(at.sent, header), HeaderState::kGood);
    EXPECT_EQ(header, (Header{version, 9, 5, padded ? kPadded : 0, static_cast<uint32_t>(length)}));
  }
}

}  // namespace
}  // namespace outrider::link::jetlink
