#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace outrider::test {
namespace {

namespace fs = std::filesystem;

// A file of each kind that can lie at a path, by name.
struct Kinds {
  Kinds() {
    std::ofstream(temp.file("plain")) << "0123456789";
    fs::create_directory(temp.file("folder"));
    fs::create_symlink("plain", temp.file("link"));
    EXPECT_EQ(::mkfifo(temp.file("pipe").c_str(), 0600), 0);
    socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = temp.file("socket");
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Kinds() { ::close(socket); }
  TempDir temp;
  int socket = -1;
};

TEST(InputFile, opens_a_regular_file_and_says_at_once_what_else_is_there) {
  const Kinds kinds;
  for (const char* name : {"plain", "link"}) {
    auto file = InputFile::open(kinds.temp.file(name));
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file.value().size_bytes(), 10u);
  }
  const std::pair<const char*, const char*> others[] = {{"folder", "is a folder"},
                                                        {"pipe", "is a pipe"},
                                                        {"socket", "is a socket"},
                                                        {"none", "No such file"}};
  for (const auto& [name, cause] : others) {
    const auto file = InputFile::open(kinds.temp.file(name));
    EXPECT_EQ(file.code(), Code::kNotFound) << name;
    const std::string text(file.error().message());
    EXPECT_TRUE(text.starts_with("cannot open \"")) << text;
    EXPECT_NE(text.find(kinds.temp.file(name)), std::string::npos) << text;
    EXPECT_NE(text.find(cause), std::string::npos) << text;
  }
  EXPECT_NE(InputFile::open("/dev/null").error().message().find("is a device"), std::string::npos);
  EXPECT_EQ(InputFile::open("").code(), Code::kNotFound);
}

TEST(InputFile, a_link_under_a_name_of_ours_is_not_followed) {
  const Kinds kinds;
  fs::create_symlink("nowhere", kinds.temp.file("dangling"));
  for (const char* name : {"link", "dangling"}) {
    const InputFile file = InputFile::try_open(kinds.temp.file(name).c_str(), Links::kRefuse);
    EXPECT_FALSE(file.is_open()) << name;
    EXPECT_EQ(file.error_number(), 0) << name;
    EXPECT_EQ(file.cause(), "is a symbolic link") << name;
  }
  EXPECT_TRUE(InputFile::try_open(kinds.temp.file("plain").c_str(), Links::kRefuse).is_open());
}

TEST(InputFile, bytes_come_from_any_place_and_end_where_the_file_does) {
  const Kinds kinds;
  auto file = InputFile::open(kinds.temp.file("plain"));
  ASSERT_TRUE(file);
  std::string bytes(6, '\0');
  const auto read = [&](uint64_t at) {
    auto n = file.value().read_at(at, std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(n);
    return n ? bytes.substr(0, n.value()) : std::string("?");
  };
  EXPECT_EQ(read(2), "234567");
  EXPECT_EQ(read(7), "789");
  EXPECT_EQ(read(10), "");
  const InputFile moved = std::move(file.value());
  EXPECT_TRUE(moved.is_open());
  EXPECT_FALSE(file.value().is_open());
}

TEST(ReadFile, gives_the_whole_or_refuses_what_is_longer) {
  const Kinds kinds;
  const std::string path = kinds.temp.file("plain");
  EXPECT_EQ(read_file(path, 10).value(), "0123456789");
  EXPECT_EQ(read_file(path, 9).code(), Code::kInvalid);
  EXPECT_EQ(read_file(kinds.temp.file("pipe"), 9).code(), Code::kNotFound);
  EXPECT_EQ(read_file(kinds.temp.file("link"), 99, Links::kRefuse).code(), Code::kNotFound);
  EXPECT_EQ(read_file_begin(path, 4), "0123");
  EXPECT_EQ(read_file_begin(path, 40), "0123456789");
  EXPECT_EQ(read_file_begin(kinds.temp.file("pipe"), 4), "");
  // Its size reads as 0.
  const auto status = read_file("/proc/self/status", 1 << 20);
  ASSERT_TRUE(status) << status.error().text;
  EXPECT_NE(status.value().find("VmRSS"), std::string::npos);
  EXPECT_EQ(read_file("/proc/self/status", 16).code(), Code::kInvalid);
}

TEST(FindOwnFile, only_content_of_ours_in_a_regular_file_may_be_written_over_or_removed) {
  const Kinds kinds;
  const auto is_ours = [](std::string_view text) { return text.starts_with("0123"); };
  EXPECT_TRUE(find_own_file(kinds.temp.file("plain"), 100, is_ours).value());
  EXPECT_FALSE(find_own_file(kinds.temp.file("none"), 100, is_ours).value());
  for (const char* name : {"folder", "link", "pipe", "socket"}) {
    const auto found = find_own_file(kinds.temp.file(name), 100, is_ours);
    EXPECT_EQ(found.code(), Code::kInvalid) << name;
    EXPECT_NE(found.error().message().find(name == std::string("link") ? "symbolic link" : name),
              std::string::npos)
        << found.error().text;
  }
  EXPECT_EQ(find_own_file(kinds.temp.file("plain"), 9, is_ours).code(), Code::kInvalid);
  std::ofstream(kinds.temp.file("plain")) << "GGUF";
  EXPECT_EQ(find_own_file(kinds.temp.file("plain"), 100, is_ours).code(), Code::kInvalid);
  EXPECT_EQ(find_own_file(kinds.temp.file("plain") + "/x", 100, is_ours).code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider::test
