#include "base/private_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/block_sum.h"
#include "base/rng.h"
#include "support/temp_dir.h"

namespace outrider::test {
namespace {

namespace fs = std::filesystem;

Result<void> put(const std::string& dir, const std::string& name, const std::string& text) {
  const std::span<const std::byte> pieces[] = {
      std::as_bytes(std::span(text)).first(text.size() / 2),
      std::as_bytes(std::span(text)).subspan(text.size() / 2)};
  return write_private_file(dir, name, pieces);
}
std::string get(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
size_t n_entries(const std::string& dir) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

TEST(PrivateFile, is_written_whole_with_mode_600_in_folders_of_mode_700) {
  const TempDir temp;
  const std::string dir = temp.file("a/b//c");
  ASSERT_TRUE(put(dir, "x", "first"));
  ASSERT_TRUE(put(dir, "x", "second"));
  EXPECT_EQ(get(dir + "/x"), "second");
  EXPECT_EQ(n_entries(dir), 1u) << "no temporary file is left";
  struct stat info {};
  ASSERT_EQ(stat((dir + "/x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto file = PrivateFile::open(dir + "/x");
  ASSERT_TRUE(file);
  EXPECT_EQ(file.value().size_bytes(), 6u);
}

TEST(PrivateFile, is_not_read_when_others_could_have_written_it) {
  const TempDir temp;
  ASSERT_TRUE(put(temp.path(), "x", "text"));
  const std::string path = temp.file("x");
  EXPECT_EQ(PrivateFile::open(temp.file("absent")).code(), Code::kNotFound);
  EXPECT_EQ(PrivateFile::open(path + "/below").code(), Code::kNotFound);
  EXPECT_EQ(PrivateFile::open(temp.path()).code(), Code::kInvalid);
  chmod(path.c_str(), 0620);
  EXPECT_EQ(PrivateFile::open(path).code(), Code::kInvalid);
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(PrivateFile::open(path));
  fs::create_symlink(path, temp.file("link"));
  EXPECT_EQ(PrivateFile::open(temp.file("link")).code(), Code::kInvalid);
  ASSERT_EQ(mkfifo(temp.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(PrivateFile::open(temp.file("pipe")).code(), Code::kInvalid);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(PrivateFile::open(path).code(), Code::kInvalid);
}

TEST(PrivateFile, a_failed_write_says_why_and_leaves_the_old_file) {
  const TempDir temp;
  ASSERT_TRUE(put(temp.path(), "x", "old"));
  const auto below_a_file = put(temp.file("x/y"), "z", "new");
  EXPECT_EQ(below_a_file.code(), Code::kFailed);
  EXPECT_NE(below_a_file.error().message().find("folder"), std::string::npos);
  // A limit on file size stands in for a full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto too_large = put(temp.path(), "x", std::string(2000, 'n'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(too_large.code(), Code::kFailed);
  EXPECT_EQ(get(temp.file("x")), "old");
  EXPECT_EQ(n_entries(temp.path()), 1u);
}

TEST(PrivateFile, what_is_no_regular_file_is_not_replaced) {
  const TempDir temp;
  std::ofstream(temp.file("target")) << "mine";
  fs::create_symlink("target", temp.file("link"));
  ASSERT_EQ(mkfifo(temp.file("pipe").c_str(), 0600), 0);
  fs::create_directory(temp.file("folder"));
  for (const char* name : {"link", "pipe", "folder"}) {
    const auto refused = put(temp.path(), name, "text");
    EXPECT_EQ(refused.code(), Code::kFailed) << name;
    EXPECT_NE(refused.error().message().find("stays"), std::string::npos) << refused.error().text;
  }
  EXPECT_TRUE(fs::is_symlink(temp.file("link")));
  EXPECT_TRUE(fs::is_fifo(temp.file("pipe")));
  EXPECT_EQ(get(temp.file("target")), "mine");
  EXPECT_EQ(n_entries(temp.path()), 4u);
}

TEST(PrivateFile, leftovers_of_dead_writers_are_removed_and_those_of_living_ones_are_not) {
  const TempDir temp;
  const std::string old = temp.file("x.part-000000"), young = temp.file("x.part-111111"),
                    other = temp.file("y.part-000000");
  for (const auto& path : {old, young, other}) std::ofstream(path) << "half";
  for (const auto& path : {old, other})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(put(temp.path(), "x", "whole"));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_TRUE(fs::exists(other)) << "another file's";
}

TEST(BlockSum, sees_every_changed_bit_and_every_length) {
  const UniformStream stream(3, "block");
  for (const size_t n : {0u, 1u, 7u, 8u, 9u, 31u, 32u, 33u, 40u, 63u, 64u, 65u, 200u}) {
    std::vector<std::byte> bytes(n);
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(stream.bits(i) >> 56);
    const uint64_t sum = block_sum(bytes);
    for (size_t bit = 0; bit < 8 * n; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_NE(block_sum(bytes), sum) << n << " bytes, bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    bytes.push_back({});
    EXPECT_NE(block_sum(bytes), sum) << "a zero more than " << n;
  }
}

TEST(BlockSum, sees_words_that_change_places_and_pairs_of_high_bits) {
  std::vector<uint64_t> words = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const uint64_t sum = block_sum(std::as_bytes(std::span(words)));
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      auto changed = words;
      std::swap(changed[i], changed[j]);
      EXPECT_NE(block_sum(std::as_bytes(std::span(changed))), sum) << i << " and " << j;
      changed = words;
      changed[i] ^= uint64_t{1} << 63;
      changed[j] ^= uint64_t{1} << 63;
      EXPECT_NE(block_sum(std::as_bytes(std::span(changed))), sum) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace outrider::test
