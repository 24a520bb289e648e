#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "fake_provider.h"
#include "support/temp_dir.h"

namespace outrider::test {
namespace {

// A path in a folder of its own that goes with the object.
struct TempFolder {
  TempDir temp;
  std::filesystem::path path = temp.path();
};

TEST(HostOpen, a_good_provider_opens_and_shows_its_contract) {
  CSession s(fake_config({{"plan", "split"}}));
  ASSERT_EQ(s.code, 0) << s.reason;
  EXPECT_STREQ(s.reason, "");
  EXPECT_EQ(outrider_n_ports(s), 7u);
  EXPECT_STREQ(outrider_port(s, 3)->name, "actions");
  EXPECT_EQ(outrider_port(s, 7), nullptr);
  EXPECT_EQ(outrider_find_port(s, "state"), 2);
  EXPECT_EQ(outrider_find_port(s, "noise"), -2);
  EXPECT_EQ(outrider_find_port(s, nullptr), -1);
  EXPECT_EQ(outrider_n_stages(s), 2u);
  EXPECT_STREQ(outrider_stage_name(s, 0), "context");
  EXPECT_STREQ(outrider_stage_name(s, 1), "action");
  EXPECT_EQ(outrider_stage_name(s, 2), nullptr);
  EXPECT_EQ(outrider_find_stage(s, "action"), 1);
  EXPECT_EQ(outrider_find_stage(s, "decode"), -2);
  const std::string identity = outrider_identity(s);
  EXPECT_HAS(identity, "plan=split\n");
  EXPECT_EQ(outrider_fingerprint(s), outrider_runtime(s)->exp->fingerprint);
}

TEST(HostOpen, a_file_that_is_no_provider_is_refused_with_its_name) {
  const TempFolder folder;
  const std::string text = (folder.path / "text.so").string(),
                    empty = (folder.path / "empty.so").string(),
                    pipe = (folder.path / "pipe.so").string(),
                    absent = (folder.path / "absent.so").string();
  std::ofstream(text) << "this is no library";
  std::ofstream(empty).flush();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path :
       {absent, text, empty, pipe, folder.path.string(), library_path("not_a_provider.so")}) {
    CSession s(fake_config(), path);
    EXPECT_EQ(s.code, -2) << path;
    EXPECT_EQ(s.s, nullptr);
    EXPECT_HAS(s.reason, path);
  }
  EXPECT_FALSE(is_loaded(library_path("not_a_provider.so")));
}

TEST(HostOpen, a_library_cut_short_is_refused_at_every_length) {
  const TempFolder folder;
  std::ifstream in(fake_path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(bytes.size(), 4096u);
  for (size_t n : {size_t{1}, size_t{4}, size_t{63}, size_t{64}, size_t{512}}) {
    const std::string path = (folder.path / ("cut" + std::to_string(n) + ".so")).string();
    std::ofstream(path, std::ios::binary) << bytes.substr(0, n);
    CSession s(fake_config(), path);
    EXPECT_EQ(s.code, -2) << n;
    EXPECT_HAS(s.reason, path);
  }
}

TEST(HostOpen, missing_arguments_are_codes) {
  char reason[128] = "x";
  outrider_session* s = reinterpret_cast<outrider_session*>(&reason);
  EXPECT_EQ(outrider_open(nullptr, "{}", &s, reason, sizeof reason), -1);
  EXPECT_EQ(s, nullptr);
  EXPECT_HAS(reason, "no path");
  EXPECT_EQ(outrider_open("", "{}", &s, nullptr, 0), -1);
  EXPECT_EQ(outrider_open(fake_path().c_str(), "{}", nullptr, reason, sizeof reason), -1);
  EXPECT_HAS(reason, "out is NULL");
  EXPECT_EQ(outrider_open(fake_path().c_str(), nullptr, &s, reason, sizeof reason), -1);
  EXPECT_EQ(s, nullptr);
  outrider_close(nullptr);
}

TEST(HostOpen, a_null_session_is_harmless_everywhere) {
  uint64_t written = 9;
  EXPECT_EQ(outrider_runtime(nullptr), nullptr);
  EXPECT_EQ(outrider_fingerprint(nullptr), 0u);
  EXPECT_STREQ(outrider_identity(nullptr), "");
  EXPECT_STRNE(outrider_session_error(nullptr), "");
  EXPECT_EQ(outrider_n_ports(nullptr), 0u);
  EXPECT_EQ(outrider_port(nullptr, 0), nullptr);
  EXPECT_EQ(outrider_find_port(nullptr, "x"), -1);
  EXPECT_EQ(outrider_set_input(nullptr, 0, "x", 1), -1);
  EXPECT_EQ(outrider_get_output(nullptr, 0, nullptr, 0, &written), -1);
  EXPECT_EQ(written, 0u);
  EXPECT_EQ(outrider_n_stages(nullptr), 0u);
  EXPECT_EQ(outrider_stage_name(nullptr, 0), nullptr);
  EXPECT_EQ(outrider_find_stage(nullptr, "x"), -1);
  EXPECT_EQ(outrider_run_stage(nullptr, 0), -1);
  EXPECT_EQ(outrider_tick(nullptr), -1);
  EXPECT_EQ(outrider_step(nullptr), -1);
  EXPECT_EQ(outrider_stage_ns(nullptr, 0), 0);
  EXPECT_EQ(outrider_extension(nullptr, 1, 1), nullptr);
}

TEST(HostOpen, every_code_of_a_failed_open_arrives_untouched) {
  for (int code : {-1, -2, -3, -4, -5, -6, -7, -8, -9, -127, -2000000000}) {
    CSession s(fake_config({{"open_code", std::to_string(code)}}));
    EXPECT_EQ(s.code, code);
    EXPECT_EQ(s.s, nullptr);
    // The fake left an empty reason: one is made from the code and the file.
    EXPECT_HAS(s.reason, "provider_fake.so");
    EXPECT_HAS(s.reason, std::to_string(code));
  }
}

TEST(HostOpen, a_broken_open_is_refused) {
  CSession positive(fake_config({{"open_code", "3"}}));
  EXPECT_EQ(positive.code, -8);
  EXPECT_HAS(positive.reason, "open returned 3");
  CSession nothing(fake_config({{"fault", "open_null_out"}}));
  EXPECT_EQ(nothing.code, -8);
  EXPECT_HAS(nothing.reason, "no runtime");
  CSession threw(fake_config({{"fault", "open_throws"}}));
  EXPECT_EQ(threw.code, -8);
  EXPECT_HAS(threw.reason, "threw");
  EXPECT_FALSE(is_loaded(fake_path()));
}

TEST(HostOpen, the_reason_fits_any_storage_and_is_always_terminated) {
  const std::string config =
      fake_config({{"open_code", "-4"}, {"open_reason", "chunk 50 in the file, 10 asked"}});
  for (uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{9}, uint64_t{31}, uint64_t{512}}) {
    std::vector<char> reason(n + 1, '#');
    outrider_session* s = nullptr;
    EXPECT_EQ(outrider_open(fake_path().c_str(), config.c_str(), &s, reason.data(), n), -4);
    EXPECT_EQ(reason[n], '#') << n;
    EXPECT_LT(strnlen(reason.data(), n), n);
    EXPECT_EQ(std::string(reason.data()),
              std::string("chunk 50 in the file, 10 asked").substr(0, n - 1));
  }
}

}  // namespace
}  // namespace outrider::test
