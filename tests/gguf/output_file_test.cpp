#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gguf/writer.h"
#include "support/temp_dir.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  size_t n_files() const {
    return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string content(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  test::TempDir temp_;
  fs::path folder_ = temp_.path();
};

TEST_F(OutputFileTest, a_plain_file_is_replaced_only_by_commit_and_keeps_its_permissions) {
  std::ofstream(path("a")) << "old";
  fs::permissions(path("a"), fs::perms(0640));
  auto file = OutputFile::open(path("a"));
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_TRUE(file.value().write("new"));
  ASSERT_TRUE(file.value().finish());
  EXPECT_EQ(content("a"), "old");
  ASSERT_TRUE(file.value().commit());
  EXPECT_EQ(content("a"), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0640));
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, what_is_not_committed_leaves_nothing) {
  {
    auto file = OutputFile::open(path("a"));
    ASSERT_TRUE(file && file.value().write("half"));
    EXPECT_EQ(n_files(), 1u);
  }
  EXPECT_EQ(n_files(), 0u);
}

TEST_F(OutputFileTest, a_pipe_gets_the_bytes_and_stays_a_pipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    std::ifstream in(path("pipe"), std::ios::binary);
    got.assign(std::istreambuf_iterator<char>(in), {});
  });
  const auto wrote = write_output(path("pipe"), "through the pipe");
  reader.join();
  EXPECT_TRUE(wrote) << wrote.error().text;
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, a_pipe_that_nobody_reads_is_refused_after_a_second) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto wrote = write_output(path("pipe"), "x");
  EXPECT_EQ(wrote.code(), Code::kNotFound);
  EXPECT_NE(wrote.error().message().find("nobody reads"), std::string::npos) << wrote.error().text;
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

TEST_F(OutputFileTest, what_is_written_in_place_is_made_or_kept_and_never_cut) {
  const auto write_at = [&](const std::string& name, InPlace how) {
    auto fd = open_in_place(path(name), how, 0600);
    if (!fd) return fd.error();
    EXPECT_EQ(::write(fd.value(), "new", 3), 3);
    EXPECT_EQ(::fcntl(fd.value(), F_GETFL) & O_NONBLOCK, 0) << "writes may wait";
    ::close(fd.value());
    return Error{};
  };
  std::ofstream(path("old")) << "012345";
  fs::create_symlink("old", path("link"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_directories(path("folder"));
  EXPECT_EQ(write_at("fresh", InPlace::kRegular).code, Code::kOk);
  EXPECT_EQ(content("fresh"), "new");
  EXPECT_EQ(write_at("old", InPlace::kRegular).code, Code::kOk);
  EXPECT_EQ(content("old"), "new345");
  const Error link = write_at("link", InPlace::kRegular), pipe = write_at("pipe", InPlace::kStream);
  EXPECT_NE(link.message().find("symbolic link"), std::string::npos) << link.text;
  EXPECT_NE(pipe.message().find("nobody reads"), std::string::npos) << pipe.text;
  EXPECT_EQ(write_at("folder", InPlace::kStream).code, Code::kNotFound);
  EXPECT_EQ(write_at("link", InPlace::kStream).code, Code::kOk) << "a person named it";
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const Error own = write_at("pipe", InPlace::kRegular);
  EXPECT_NE(own.message().find("a pipe"), std::string::npos) << own.text;
  EXPECT_EQ(write_at("pipe", InPlace::kStream).code, Code::kOk);
  char got[8];
  EXPECT_EQ(::read(reader, got, sizeof got), 3);
  ::close(reader);
}

// Nodes of this test's own: 1:3 swallows, 1:7 is always full.
TEST_F(OutputFileTest, a_device_gets_the_bytes_and_stays_a_device) {
  if (::mknod(path("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
      ::mknod(path("full").c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0)
    GTEST_SKIP() << "device nodes cannot be made here";
  const int probe = ::open(path("null").c_str(), O_WRONLY | O_CLOEXEC);
  if (probe < 0) GTEST_SKIP() << "device nodes cannot be opened here";
  ::close(probe);
  EXPECT_TRUE(write_output(path("null"), "gone"));
  EXPECT_EQ(write_output(path("full"), "x").code(), Code::kNoMemory);
  GgufWriter model;
  EXPECT_TRUE(model.write(path("null").c_str()));
  fs::create_symlink("null", path("link"));
  EXPECT_TRUE(write_output(path("link"), "gone"));
  EXPECT_TRUE(fs::is_character_file(path("null")));
  EXPECT_TRUE(fs::is_character_file(path("full")));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(n_files(), 3u);
}

TEST_F(OutputFileTest, a_link_stays_a_link_and_its_target_is_written) {
  fs::create_directories(path("inside"));
  std::ofstream(path("inside/real")) << "old";
  fs::create_symlink("inside/real", path("one"));
  fs::create_symlink(path("one"), path("two"));
  fs::create_symlink("inside/free", path("dangling"));
  EXPECT_TRUE(write_output(path("two"), "new"));
  EXPECT_TRUE(write_output(path("dangling"), "born"));
  EXPECT_EQ(content("inside/real"), "new");
  EXPECT_EQ(content("inside/free"), "born");
  for (const char* link : {"one", "two", "dangling"})
    EXPECT_TRUE(fs::is_symlink(path(link))) << link;
  EXPECT_EQ(n_files(), 4u);
}

TEST_F(OutputFileTest, folders_circles_and_missing_folders_are_refused_with_the_path) {
  fs::create_directories(path("folder"));
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  std::ofstream(path("plain")) << "x";
  for (const char* name : {"folder", "a", "none/x", "folder/", "plain/x"}) {
    const auto wrote = write_output(path(name), "x");
    EXPECT_EQ(wrote.code(), Code::kNotFound) << name;
    EXPECT_NE(wrote.error().message().find(name), std::string_view::npos) << wrote.error().text;
  }
  EXPECT_EQ(write_output("", "x").code(), Code::kNotFound);
  EXPECT_EQ(n_files(), 4u);
}

TEST_F(OutputFileTest, one_file_is_known_under_all_its_names) {
  fs::create_directories(path("inside"));
  fs::create_symlink("inside", path("way"));
  std::ofstream(path("inside/a")) << "x";
  fs::create_hard_link(path("inside/a"), path("hard"));
  const auto same = [&](const char* a, const char* b) {
    return examine_output(path(a)).value().same_file(examine_output(path(b)).value());
  };
  EXPECT_TRUE(same("inside/a", "way/a"));
  EXPECT_TRUE(same("inside/a", "hard"));
  EXPECT_TRUE(same("inside/free", "way/free"));
  EXPECT_FALSE(same("inside/free", "way/other"));
  EXPECT_FALSE(same("inside/a", "inside/free"));
  EXPECT_FALSE(examine_output("/dev/null").value().same_file(examine_output("/dev/null").value()))
      << "a device may be shared";
}

TEST_F(OutputFileTest, a_signal_handler_can_remove_what_is_unfinished_and_nothing_else) {
  ASSERT_TRUE(write_output(path("done"), "x"));
  auto file = OutputFile::open(path("a"));
  ASSERT_TRUE(file);
  remove_unfinished_outputs();
  EXPECT_EQ(n_files(), 1u);
  EXPECT_EQ(content("done"), "x");
  EXPECT_EQ(file.value().commit().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
