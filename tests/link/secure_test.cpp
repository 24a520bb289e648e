#include "link/secure/secure.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "link/transport/loopback.h"
#include "support/temp_dir.h"

namespace outrider::link {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

SharedKey key_of(unsigned char fill) {
  SharedKey key;
  key.bytes.fill(fill);
  return key;
}

struct Pair {
  std::unique_ptr<Transport> device, host;
  Error device_error, host_error;
};

// A medium that takes whole grids only, as a USB gadget does.
class Gridded final : public Transport {
 public:
  Gridded(std::unique_ptr<Transport> inner, uint32_t grid)
      : inner_(std::move(inner)), facts_(inner_->facts()) {
    facts_.pad_grid_bytes = grid;
  }
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override {
    size_t total = 0;
    for (const Piece& piece : pieces) total += piece.size();
    if (total == 0 || total % facts_.pad_grid_bytes != 0) return {Io::kBroken, 0};
    return inner_->send(pieces, deadline_ns);
  }
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return inner_->receive(into, deadline_ns);
  }
  void shut() noexcept override { inner_->shut(); }
  const TransportFacts& facts() const noexcept override { return facts_; }

 private:
  std::unique_ptr<Transport> inner_;
  TransportFacts facts_;
};

Pair connect(const SharedKey& device_key, const SharedKey& host_key, uint32_t device_grid = 1) {
  auto ends = loopback_pair();
  EXPECT_TRUE(ends);
  if (device_grid > 1)
    ends.value().first = std::make_unique<Gridded>(std::move(ends.value().first), device_grid);
  Pair pair;
  std::thread host([&] {
    auto made = secure_as_host(std::move(ends.value().second), host_key, steady_now_ns() + kSecond);
    if (made)
      pair.host = std::move(made.value());
    else
      pair.host_error = made.error();
  });
  auto made =
      secure_as_device(std::move(ends.value().first), device_key, steady_now_ns() + kSecond);
  if (made)
    pair.device = std::move(made.value());
  else
    pair.device_error = made.error();
  host.join();
  return pair;
}

class SecureOverGrid : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Grids, SecureOverGrid, ::testing::Values(1u, 64u, 512u, 16384u));

TEST_P(SecureOverGrid, carries_a_stream_both_ways_in_any_pieces) {
  Pair pair = connect(key_of(1), key_of(1), GetParam());
  ASSERT_TRUE(pair.device && pair.host) << pair.device_error.text << pair.host_error.text;
  EXPECT_TRUE(pair.device->facts().encrypted);
  EXPECT_EQ(pair.device->facts().pad_grid_bytes, 1u) << "messages are not filled up twice";
  for (size_t n : {1, 490, 491, 492, 16362, 16363, 16364, 16384, 16385, 32726, 300000}) {
    for (bool forth : {true, false}) {
      Transport &from = forth ? *pair.device : *pair.host, &to = forth ? *pair.host : *pair.device;
      std::vector<std::byte> sent(n), got(n);
      for (size_t i = 0; i < n; ++i) sent[i] = std::byte(i * 7 + n);
      std::vector<Piece> pieces;
      for (size_t at = 0; at < n; at += 1000)
        pieces.push_back(std::span(sent).subspan(at, std::min<size_t>(1000, n - at)));
      std::thread sender([&] {
        const Moved moved = from.send(pieces, steady_now_ns() + 5 * kSecond);
        EXPECT_EQ(moved.io, Io::kDone);
        EXPECT_EQ(moved.bytes, n);
      });
      for (size_t have = 0; have < n;) {
        const Moved moved = to.receive(std::span(got).subspan(have), steady_now_ns() + 5 * kSecond);
        ASSERT_EQ(moved.io, Io::kDone);
        have += moved.bytes;
      }
      sender.join();
      EXPECT_TRUE(sent == got);
    }
  }
}

// A large piece is sealed where it lies; what stands before it is not filled up from it.
TEST_P(SecureOverGrid, large_pieces_are_not_copied_and_what_is_copied_is_counted) {
  Pair pair = connect(key_of(1), key_of(1), GetParam());
  ASSERT_TRUE(pair.device && pair.host) << pair.device_error.text << pair.host_error.text;
  const std::vector<std::byte> head(200, std::byte{1}), large(300'000, std::byte{2});
  std::vector<std::byte> sent = head, got(head.size() + large.size());
  sent.insert(sent.end(), large.begin(), large.end());
  const Piece pieces[] = {head, large};
  std::thread sender([&] {
    EXPECT_EQ(pair.device->send(pieces, steady_now_ns() + 5 * kSecond).bytes, got.size());
  });
  for (size_t have = 0; have < got.size();) {
    const Moved moved =
        pair.host->receive(std::span(got).subspan(have), steady_now_ns() + 5 * kSecond);
    ASSERT_EQ(moved.io, Io::kDone);
    have += moved.bytes;
  }
  sender.join();
  EXPECT_TRUE(got == sent);
  if (GetParam() == 1)
    EXPECT_EQ(pair.device->copied_bytes(), head.size());
  else  // records are whole there: the first and the last one are gathered
    EXPECT_LE(pair.device->copied_bytes(), 2 * kRecordBytes);
}

TEST(Secure, a_grid_that_records_cannot_fill_is_refused_in_words) {
  for (const uint32_t grid : {24u, 32768u}) {
    Pair pair = connect(key_of(1), key_of(1), grid);
    EXPECT_FALSE(pair.device);
    EXPECT_EQ(pair.device_error.code, Code::kUnsupported);
    EXPECT_NE(std::string_view(pair.device_error.text).find("powers of two up to 16384"),
              std::string_view::npos)
        << pair.device_error.text;
  }
}

TEST(Secure, FC45_a_wrong_key_is_refused_by_both) {
  Pair pair = connect(key_of(1), key_of(2));
  EXPECT_FALSE(pair.device || pair.host);
  EXPECT_EQ(pair.device_error.code, Code::kFailed);
  EXPECT_STREQ(pair.device_error.text, "security: the host has another key");
  EXPECT_EQ(pair.host_error.code, Code::kFailed);
}

TEST(Secure, a_plain_peer_and_a_silent_one_are_refused_in_words) {
  auto ends = loopback_pair();
  const std::vector<std::byte> noise(200, std::byte{0x4F});
  const Piece piece = noise;
  ends.value().first->send({&piece, 1}, steady_now_ns() + kSecond);
  auto host = secure_as_host(std::move(ends.value().second), key_of(1), steady_now_ns() + kSecond);
  ASSERT_FALSE(host);
  EXPECT_NE(host.error().message().find("does not speak with a key"), std::string_view::npos);
  auto silent = loopback_pair();
  auto device =
      secure_as_device(std::move(silent.value().first), key_of(1), steady_now_ns() + 50 * kMs);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.code(), Code::kNotReady);
}

// Stands between two ends and bends one byte of one direction.
class Bender final : public Transport {
 public:
  Bender(std::unique_ptr<Transport> inner, size_t bend_at)
      : inner_(std::move(inner)), at_(bend_at) {}
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override {
    std::vector<std::byte> all;
    for (const Piece& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    if (at_ >= n_ && at_ < n_ + all.size()) all[at_ - n_] ^= std::byte{4};
    n_ += all.size();
    const Piece piece = all;
    return inner_->send({&piece, 1}, deadline_ns);
  }
  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    return inner_->receive(into, deadline_ns);
  }
  void shut() noexcept override { inner_->shut(); }
  const TransportFacts& facts() const noexcept override { return inner_->facts(); }

 private:
  std::unique_ptr<Transport> inner_;
  size_t at_, n_ = 0;
};

TEST(Secure, a_bit_changed_anywhere_ends_the_stream_and_delivers_nothing_wrong) {
  const std::string text = "the arm moves";
  // Offer 72, proof 32, stream header 24, then one record of 4 + 13 + 17.
  for (size_t at = 0; at < 72 + 32 + 24 + 34; ++at) {
    auto ends = loopback_pair();
    std::unique_ptr<Transport> host;
    std::thread thread([&] {
      auto made =
          secure_as_host(std::move(ends.value().second), key_of(1), steady_now_ns() + 300 * kMs);
      if (made) host = std::move(made.value());
    });
    auto device = secure_as_device(std::make_unique<Bender>(std::move(ends.value().first), at),
                                   key_of(1), steady_now_ns() + 300 * kMs);
    if (device) {
      const Piece piece = std::as_bytes(std::span(text));
      device.value()->send({&piece, 1}, steady_now_ns() + kSecond);
    }
    thread.join();
    if (!host) continue;  // found during the proof
    std::byte got[64];
    const Moved moved = host->receive(got, steady_now_ns() + 100 * kMs);
    EXPECT_EQ(moved.bytes, 0u) << "byte " << at;
    EXPECT_NE(moved.io, Io::kDone) << "byte " << at;
  }
}

TEST(Secure, a_late_send_goes_on_where_it_stopped) {
  Pair pair = connect(key_of(1), key_of(1));
  ASSERT_TRUE(pair.device && pair.host);
  std::vector<std::byte> sent(8 << 20), got(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = std::byte(i * 13 >> 5);
  size_t at = 0, have = 0;
  int n_late = 0;
  while (at < sent.size()) {
    const Piece rest = std::span(sent).subspan(at);
    const Moved moved = pair.device->send({&rest, 1}, steady_now_ns() + kMs);
    at += moved.bytes;
    n_late += moved.io == Io::kLate;
    for (int i = 0; i < 40; ++i)
      have +=
          pair.host
              ->receive(std::span(got).subspan(have, got.size() - have > 0 ? got.size() - have : 0),
                        0)
              .bytes;
  }
  while (have < got.size()) {
    const Moved moved = pair.host->receive(std::span(got).subspan(have), steady_now_ns() + kSecond);
    ASSERT_EQ(moved.io, Io::kDone);
    have += moved.bytes;
  }
  EXPECT_GT(n_late, 0);
  EXPECT_TRUE(sent == got);
}

TEST(Secure, a_key_file_must_be_long_enough_and_private) {
  const test::TempDir temp;
  const std::string path = temp.file("key");
  const auto write = [&](size_t n, mode_t mode) {
    std::ofstream(path) << 'l' << std::string(n - 1, 'k');
    ::chmod(path.c_str(), mode);
  };
  write(31, 0600);
  EXPECT_EQ(read_key_file(path).code(), Code::kInvalid);
  write(32, 0644);
  auto open = read_key_file(path);
  EXPECT_EQ(open.code(), Code::kInvalid);
  EXPECT_NE(open.error().message().find("chmod 600"), std::string_view::npos);
  write(32, 0600);
  auto good = read_key_file(path);
  ASSERT_TRUE(good) << good.error().text;
  write(5000, 0600);
  EXPECT_EQ(read_key_file(path).code(), Code::kInvalid);
  ::unlink(path.c_str());
  EXPECT_EQ(read_key_file(path).code(), Code::kNotFound);
}

TEST(Secure, a_key_of_one_byte_again_and_again_is_refused) {
  const test::TempDir temp;
  const std::string path = temp.file("key");
  const auto read = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    ::chmod(path.c_str(), 0600);
    return read_key_file(path);
  };
  for (const char byte : {'\0', 'A', '0', '\xff', '\n'})
    for (const char* end : {"", "\n", "\r\n"}) {
      const auto refused = read(std::string(64, byte) + end);
      ASSERT_EQ(refused.code(), Code::kInvalid) << static_cast<int>(byte);
      for (const std::string& word : {path, std::string("the same byte"), std::string("urandom")})
        EXPECT_NE(refused.error().message().find(word), std::string_view::npos)
            << refused.error().text;
    }
  for (const size_t place : {0, 15, 31}) {
    std::string key(32, '\0');
    key[place] = 1;
    EXPECT_TRUE(read(key)) << place;
  }
}

TEST(Secure, a_key_file_that_is_a_pipe_is_refused_at_once) {
  const test::TempDir temp;
  ASSERT_EQ(::mkfifo(temp.file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {temp.file("pipe"), temp.path(), std::string("/dev/null")}) {
    const auto refused = read_key_file(path);
    EXPECT_EQ(refused.code(), Code::kInvalid) << path;
    EXPECT_NE(refused.error().message().find(path), std::string_view::npos);
  }
}

}  // namespace
}  // namespace outrider::link
