#include "models/checked_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "support/shared_data.h"

namespace outrider::test {
namespace {

std::string get(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

class Checked : public testing::Test {
 protected:
  Checked() : bytes_(320), floats_({1.5f, -2.0f, 3.25f}), numbers_({7, -1, 1ll << 40}) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7);
  }
  CheckedParts parts() const { return {"made of this", numbers_, bytes_, floats_}; }
  Result<CheckedFile> open() const { return CheckedFile::open(dir_.file("x"), "made of this"); }
  void write() const { ASSERT_TRUE(CheckedFile::write(dir_.path(), "x", parts())); }

  TempDir dir_;
  std::vector<std::byte> bytes_;
  std::vector<float> floats_;
  std::vector<int64_t> numbers_;
};

TEST_F(Checked, gives_back_what_was_written_with_bytes_on_a_page) {
  write();
  const auto file = open();
  ASSERT_TRUE(file) << file.error().text;
  const CheckedParts& got = file.value().parts();
  EXPECT_TRUE(std::ranges::equal(got.bytes, bytes_));
  EXPECT_TRUE(std::ranges::equal(got.floats, floats_));
  EXPECT_TRUE(std::ranges::equal(got.numbers, numbers_));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(got.bytes.data()) % 4096, 0u);
}

TEST_F(Checked, empty_parts_and_keys_of_any_length_work) {
  for (size_t n = 0; n < 20; ++n) {
    const std::string key(n, 'k');
    ASSERT_TRUE(CheckedFile::write(dir_.path(), "y", {key, {}, {}, {}}));
    EXPECT_TRUE(CheckedFile::open(dir_.file("y"), key)) << n;
    EXPECT_FALSE(CheckedFile::open(dir_.file("y"), key + "k"));
  }
}

TEST_F(Checked, several_blocks_come_back_and_damage_in_each_is_found) {
  constexpr size_t kBlock = size_t{64} << 20;
  std::vector<std::byte> large(2 * kBlock - 64);
  std::memset(large.data(), 0x5a, large.size());
  const std::vector<float> floats(100,
                                  2.0f);  // the second block ends in the floats, a third begins
  const CheckedParts parts = {"large", {}, large, floats};
  ASSERT_TRUE(CheckedFile::write(dir_.path(), "large", parts));
  const std::string path = dir_.file("large");
  const auto size = std::filesystem::file_size(path), payload = large.size() + 400;
  for (const size_t at :
       {size_t{0}, kBlock - 1, kBlock, large.size() - 1, large.size(), payload - 1}) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto where = static_cast<std::streamoff>(size - payload + at);
    file.seekg(where);
    const char old = static_cast<char>(file.get());
    file.seekp(where);
    file.put(static_cast<char>(old ^ 4));
    file.flush();
    const auto refused = CheckedFile::open(path, "large");
    EXPECT_EQ(refused.code(), Code::kInvalid) << at;
    EXPECT_NE(refused.error().message().find("block " + std::to_string(at / kBlock) + " of 3"),
              std::string::npos)
        << refused.error().text;
    file.seekp(where);
    file.put(old);
  }
  EXPECT_TRUE(CheckedFile::open(path, "large"));
}

TEST_F(Checked, a_change_of_any_byte_is_found) {
  write();
  const std::string good = get(dir_.file("x"));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    put(dir_.file("x"), bad);
    EXPECT_EQ(open().code(), Code::kInvalid) << "byte " << i;
  }
  put(dir_.file("x"), good);
  EXPECT_TRUE(open());
}

TEST_F(Checked, a_file_cut_or_grown_anywhere_is_refused) {
  write();
  const std::string good = get(dir_.file("x"));
  for (size_t n = 0; n < good.size(); n += n < 70 ? 1 : 61) {
    put(dir_.file("x"), good.substr(0, n));
    EXPECT_EQ(open().code(), Code::kInvalid) << n;
  }
  put(dir_.file("x"), good + '\0');
  EXPECT_EQ(open().code(), Code::kInvalid);
}

TEST_F(Checked, huge_counts_are_refused_before_they_are_used) {
  write();
  const std::string good = get(dir_.file("x"));
  for (size_t field = 12; field < 56; field += 4) {
    for (const uint32_t value : {0xffffffffu, 0x80000000u, 0x7fffffffu}) {
      std::string bad = good;
      std::memcpy(bad.data() + field, &value, sizeof value);
      put(dir_.file("x"), bad);
      EXPECT_EQ(open().code(), Code::kInvalid) << field;
    }
  }
}

TEST_F(Checked, another_key_or_no_file_is_told_apart) {
  EXPECT_EQ(open().code(), Code::kNotFound);
  write();
  const auto other = CheckedFile::open(dir_.file("x"), "made of that");
  EXPECT_EQ(other.code(), Code::kInvalid);
  EXPECT_NE(other.error().message().find("another build"), std::string::npos);
}

TEST_F(Checked, readers_beside_writers_see_a_whole_file_each_time) {
  write();
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&] {
      while (!stop) EXPECT_TRUE(CheckedFile::write(dir_.path(), "x", parts()));
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(open()) << i;
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace outrider::test
