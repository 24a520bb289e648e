// The stock parameter store.
#include "adapter/params.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "adapter/support.h"

namespace outrider::adapter::test {
namespace {

TEST(Params, the_folder_follows_root_device_home_and_prefix) {
  EXPECT_EQ(params_dir({"/r", nullptr, "/h", true}), "/r/d");
  EXPECT_EQ(params_dir({"/r", "p1", "/h", true}), "/r/p1");
  EXPECT_EQ(params_dir({nullptr, nullptr, "/h", true}), "/data/params/d");
  EXPECT_EQ(params_dir({nullptr, "p1", "/h", true}), "/data/params/p1");
  EXPECT_EQ(params_dir({nullptr, nullptr, "/h", false}), "/h/.comma/params/d");
  EXPECT_EQ(params_dir({nullptr, "p1", "/h", false}), "/h/.commap1/params/p1");
  EXPECT_EQ(params_dir({nullptr, nullptr, nullptr, false}), "");
}

TEST(Params, the_folder_is_looked_up_anew_every_time) {
  ::setenv("PARAMS_ROOT", "/somewhere", 1);
  ::unsetenv("OPENPILOT_PREFIX");
  EXPECT_EQ(params_dir_here(), "/somewhere/d");
  ::setenv("OPENPILOT_PREFIX", "abc", 1);
  EXPECT_EQ(params_dir_here(), "/somewhere/abc");
  ::unsetenv("OPENPILOT_PREFIX");
  ::unsetenv("PARAMS_ROOT");
}

TEST(Params, keys_are_plain_names) {
  EXPECT_TRUE(is_key("IsOffroad"));
  EXPECT_TRUE(is_key(std::string(64, 'a')));
  for (const char* bad : {"", ".", "..", "a/b", "../a", "a.b", "a b", "a\n", "\xff"})
    EXPECT_FALSE(is_key(bad)) << bad;
  EXPECT_FALSE(is_key(std::string(65, 'a')));
  EXPECT_FALSE(is_key(std::string_view("a\0b", 3)));
}

TEST(Params, a_value_is_written_whole_and_nothing_else_is_left) {
  Folder folder;
  for (const bool block : {false, true}) {
    ASSERT_TRUE(write_param(folder.path(), "A", std::string("v\0w", 3), block));
    EXPECT_EQ(read_param(folder.path(), "A").value(), std::string("v\0w", 3));
    ASSERT_TRUE(write_param(folder.path(), "A", "", block));
    EXPECT_EQ(read_param(folder.path(), "A").value(), "");
  }
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().filename(), "A");
    ++n;
  }
  EXPECT_EQ(n, 1);
}

TEST(Params, hostile_files_read_as_unset_and_never_block) {
  Folder folder;
  ASSERT_EQ(::mkfifo((folder.path() + "/Pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path() + "/Folder");
  EXPECT_EQ(read_param(folder.path(), "Pipe").code(), Code::kNotFound);
  EXPECT_EQ(read_param(folder.path(), "Folder").code(), Code::kNotFound);
  EXPECT_EQ(read_param("", "A").code(), Code::kNotFound);
  std::ofstream(folder.path() + "/Big") << std::string(kMaxParamBytes + 1, 'x');
  EXPECT_EQ(read_param(folder.path(), "Big").code(), Code::kInvalid);
  std::ofstream(folder.path() + "/Most") << std::string(kMaxParamBytes, 'x');
  EXPECT_EQ(read_param(folder.path(), "Most").value().size(), kMaxParamBytes);
  EXPECT_FALSE(write_param(folder.path(), "Big2", std::string(kMaxParamBytes + 1, 'x'), false));
  EXPECT_FALSE(write_param(folder.path() + "/none", "A", "1", false));
  EXPECT_FALSE(write_param("", "A", "1", false));
  EXPECT_FALSE(remove_param(folder.path(), "Folder"));
}

}  // namespace
}  // namespace outrider::adapter::test
