#include "host/reason.h"

#include <thread>

#include "child.h"
#include "fake_provider.h"

namespace outrider::test {
namespace {

std::string clean(const char* text, size_t n) {
  std::vector<char> out(n + 1, '#');
  host::copy_line(out.data(), n, text);
  EXPECT_EQ(out[n], '#') << "wrote beyond its storage";
  return n == 0 ? "" : out.data();
}

TEST(CopyLine, makes_one_clean_line_of_anything) {
  EXPECT_EQ(clean(nullptr, 8), "");
  EXPECT_EQ(clean("", 8), "");
  EXPECT_EQ(clean("  a \t\n b\r\n", 16), "a b");
  EXPECT_EQ(clean("a\x01\x7F"
                  "b",
                  16),
            "a??b");
  EXPECT_EQ(clean("na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\xA4\x96", 32),
            "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\xA4\x96");
  EXPECT_EQ(clean("\xC0\xAF\xED\xA0\x80\xF5", 16), "??????");
}

TEST(CopyLine, cuts_at_any_size_without_splitting_a_character) {
  const char* text =
      "ab\xE2\x82\xAC"
      "cd";
  const char* expected[] = {"", "", "a", "ab", "ab", "ab", "ab\u20ac", "ab\u20acc"};
  for (size_t n = 0; n < 8; ++n) EXPECT_EQ(clean(text, n), expected[n]) << n;
}

TEST(OpenReason, is_the_providers_own_line) {
  CSession s(
      fake_config({{"open_code", "-2"}, {"open_reason", "vision.gguf: magic GGUX, wanted GGUF"}}));
  EXPECT_EQ(s.code, -2);
  EXPECT_STREQ(s.reason, "vision.gguf: magic GGUX, wanted GGUF");
}

TEST(OpenReason, of_an_earlier_open_is_never_shown_again) {
  CSession first(fake_config({{"open_code", "-2"}, {"open_reason", "the first one"}}));
  EXPECT_STREQ(first.reason, "the first one");
  CSession second(fake_config({{"open_code", "-6"}, {"open_silent", "1"}}));
  EXPECT_HAS(second.reason, "code -6");
  EXPECT_HAS(second.reason, "it left no reason");
  CSession good(fake_config());
  EXPECT_STREQ(outrider_open_reason(), "");
}

// A host hidden inside a provider (one that opens others) is such a second copy.
TEST(OpenReason, is_one_line_for_all_copies_of_the_host_in_a_process) {
  void* copy = dlopen(library_path("liboutrider_host.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(copy, nullptr) << dlerror();
  const auto open = reinterpret_cast<decltype(&outrider_open)>(dlsym(copy, "outrider_open"));
  ASSERT_NE(open, &outrider_open);
  const auto reason_of = [&](const std::string& config) {
    char reason[512];
    outrider_session* s = nullptr;
    EXPECT_LT(open(fake_path().c_str(), config.c_str(), &s, reason, sizeof reason), 0);
    return std::string(reason);
  };
  EXPECT_EQ(reason_of(fake_config({{"open_code", "-2"}, {"open_reason", "torn file"}})),
            "torn file");
  EXPECT_HAS(reason_of(fake_config({{"open_code", "-2"}, {"open_silent", "1"}})),
             "it left no reason");
  dlclose(copy);
}

TEST(OpenReason, belongs_to_its_thread) {
  outrider_open_reason_sink("mine");
  std::thread([] {
    EXPECT_STREQ(outrider_open_reason(), "");
    outrider_open_reason_sink("yours");
  }).join();
  EXPECT_STREQ(outrider_open_reason(), "mine");
  outrider_open_reason_sink(nullptr);
  EXPECT_STREQ(outrider_open_reason(), "");
}

TEST(OpenReason, arrives_when_the_shared_host_itself_was_loaded_locally) {
  const ChildResult child = run_child(
      {OUTRIDER_BUILD_DIR "/bin/host_local_child", library_path("liboutrider_host.so"), fake_path(),
       fake_config({{"open_code", "-4"}, {"open_reason", "chunk 50, configured 10"}})});
  EXPECT_TRUE(child.exited_with(0)) << child.status << child.err;
  EXPECT_EQ(child.out, "-4 chunk 50, configured 10\n");
}

TEST(Example, the_c_example_loads_a_provider_and_ticks_it) {
  const std::string program = OUTRIDER_BUILD_DIR "/bin/example_tick";
  const ChildResult good = run_child({program, fake_path(), fake_config({{"plan", "split"}}), "3"});
  EXPECT_TRUE(good.exited_with(0)) << good.err;
  EXPECT_HAS(good.out, "actions");
  const ChildResult bad =
      run_child({program, fake_path(), fake_config({{"fault", "plan_size"}}), "3"});
  EXPECT_TRUE(bad.exited_with(1)) << bad.err;
  EXPECT_HAS(bad.err, "struct_size 39");
  EXPECT_TRUE(run_child({program}).exited_with(2));
}

}  // namespace
}  // namespace outrider::test
