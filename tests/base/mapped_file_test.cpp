#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace outrider {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  std::string write(const char* name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  test::TempDir temp_;
  std::string folder_ = temp_.path();
};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST_F(MappedFileTest, shows_the_bytes_of_the_file_at_sizes_around_a_page) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t n : {size_t{0}, size_t{1}, page - 1, page, page + 1}) {
    std::string content(n, 'x');
    if (n > 0) content.back() = 'y';
    const auto file = MappedFile::open(write("a", content).c_str());
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(text_of(file.value()), content);
    EXPECT_EQ(file.value().id().size_bytes, n);
    EXPECT_EQ(file.value().path(), folder_ + "/a");
  }
}

TEST_F(MappedFileTest, refuses_what_is_no_readable_regular_file_and_says_which_and_why) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string loop = folder_ + "/loop";
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  const struct {
    std::string path;
    const char* reason;
  } cases[] = {{folder_ + "/missing", "No such file"},
               {folder_, "folder"},
               {pipe, "pipe"},
               {"/dev/null", "device"},
               {loop, "symbolic links"},
               {write("a", "x") + "/below", "Not a directory"}};
  for (const auto& c : cases) {
    const auto file = MappedFile::open(c.path.c_str());
    ASSERT_FALSE(file) << c.path;
    EXPECT_EQ(file.code(), Code::kNotFound);
    EXPECT_NE(file.error().message().find(c.path), std::string_view::npos) << file.error().text;
    EXPECT_NE(file.error().message().find(c.reason), std::string_view::npos) << file.error().text;
  }
  EXPECT_EQ(MappedFile::open("").code(), Code::kNotFound);
  EXPECT_EQ(MappedFile::open(nullptr).code(), Code::kNotFound);
}

TEST_F(MappedFileTest, names_the_reason_also_for_a_path_longer_than_an_error_text) {
  std::string path = folder_;
  while (path.size() < 1000) path += "/deeper";
  const auto file = MappedFile::open((path + "/model.gguf").c_str());
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message().find("model.gguf\": No such file"), std::string_view::npos)
      << file.error().text;
}

TEST_F(MappedFileTest, same_id_for_the_same_file_under_two_names_and_another_after_replacement) {
  const std::string path = write("a", "one");
  const std::string other = folder_ + "/b";
  ASSERT_EQ(link(path.c_str(), other.c_str()), 0);
  const auto first = MappedFile::open(path.c_str());
  const auto second = MappedFile::open(other.c_str());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first.value().id(), second.value().id());
  ASSERT_EQ(rename(write("new", "two").c_str(), path.c_str()), 0);
  const auto third = MappedFile::open(path.c_str());
  ASSERT_TRUE(third);
  EXPECT_NE(first.value().id(), third.value().id());
  EXPECT_EQ(text_of(first.value()), "one") << "a replaced file stays readable";
}

TEST_F(MappedFileTest, moves_the_mapping) {
  auto file = MappedFile::open(write("a", "moved").c_str());
  ASSERT_TRUE(file);
  MappedFile moved(std::move(file.value()));
  EXPECT_EQ(text_of(moved), "moved");
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(text_of(assigned), "moved");
  EXPECT_EQ(moved.size(), 0u);
}

TEST_F(MappedFileTest, dropped_pages_read_the_same_and_leave_their_neighbours) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string content;
  for (size_t i = 0; i < 5 * page + 17; ++i) content.push_back(static_cast<char>(i * 31 / 7));
  const auto file = MappedFile::open(write("a", content).c_str());
  ASSERT_TRUE(file);
  const std::byte* data = file.value().bytes().data();
  for (const size_t from : {size_t{0}, size_t{1}, page - 1, page, page + 1, content.size()}) {
    for (const size_t n : {size_t{0}, size_t{1}, page - 1, page, 2 * page, content.size()}) {
      file.value().drop_pages(data + from, std::min(n, content.size() - from));
      ASSERT_EQ(text_of(file.value()), content);
    }
  }
  MappedFile().drop_pages(nullptr, 0);
}

TEST_F(MappedFileTest, a_mapping_keeps_no_descriptor_open) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = count();
  const auto file = MappedFile::open(write("a", "x").c_str());
  ASSERT_TRUE(file);
  (void)MappedFile::open(folder_.c_str());
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace outrider
