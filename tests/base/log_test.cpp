#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "support/emulated.h"

namespace outrider {
namespace {

struct Collected {
  std::vector<std::pair<LogLevel, std::string>> lines;
  static void sink(void* user, LogLevel level, const char* line) {
    static_cast<Collected*>(user)->lines.emplace_back(level, line);
  }
};

class Log : public ::testing::Test {
 protected:
  void TearDown() override {
    set_log_sink(nullptr, nullptr);
    set_log_level(LogLevel::kWarn);
  }
};

TEST_F(Log, prints_nothing_without_a_sink) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  set_log_level(LogLevel::kDebug);
  log_line(LogLevel::kError, "somebody must act");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(Log, hands_lines_at_or_below_the_level_to_the_sink) {
  Collected got;
  set_log_sink(&Collected::sink, &got);
  constexpr LogLevel kAll[] = {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo,
                               LogLevel::kDebug};
  for (const LogLevel level :
       {LogLevel::kOff, LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    got.lines.clear();
    set_log_level(level);
    for (const LogLevel each : kAll) log_line(each, "%s %d", "value", 7);
    ASSERT_EQ(got.lines.size(), static_cast<size_t>(level));
    for (size_t i = 0; i < got.lines.size(); ++i) {
      EXPECT_EQ(got.lines[i].first, kAll[i]);
      EXPECT_EQ(got.lines[i].second, "value 7");
    }
  }
}

TEST_F(Log, a_line_stays_one_line_of_limited_length) {
  Collected got;
  set_log_sink(&Collected::sink, &got);
  log_line(LogLevel::kError, "%s", "a\nb\tc\x1B[0m\x7F\xC3\xA9");
  log_line(LogLevel::kError, "%s", std::string(5000, 'x').c_str());
  ASSERT_EQ(got.lines.size(), 2u);
  EXPECT_EQ(got.lines[0].second, "a?b?c?[0m?\xC3\xA9");
  EXPECT_EQ(got.lines[1].second, std::string(kLogLineBytes - 1, 'x'));
}

TEST_F(Log, what_a_sink_logs_itself_is_dropped_instead_of_locking_up) {
  static int n_calls;
  n_calls = 0;
  set_log_sink(
      [](void*, LogLevel, const char*) {
        ++n_calls;
        log_line(LogLevel::kError, "from inside");
      },
      nullptr);
  log_line(LogLevel::kError, "one");
  log_line(LogLevel::kError, "two");
  EXPECT_EQ(n_calls, 2);
}

TEST_F(Log, calls_of_many_threads_reach_the_sink_one_at_a_time) {
  Collected got;
  set_log_sink(&Collected::sink, &got);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log_line(LogLevel::kWarn, "%d", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got.lines.size(), 400u);
}

TEST_F(Log, names_of_levels_are_exact) {
  EXPECT_EQ(parse_log_level("off").value(), LogLevel::kOff);
  EXPECT_EQ(parse_log_level("debug").value(), LogLevel::kDebug);
  for (const char* bad : {"", "Warn", "warning", "infos", "1", " info"}) {
    const auto level = parse_log_level(bad);
    ASSERT_FALSE(level) << bad;
    EXPECT_NE(level.error().message().find("off, error, warn, info or debug"),
              std::string_view::npos);
  }
}

// The variable is read once, so each value gets a process of its own.
class LogLevelFromEnvironment : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_start_itself()) GTEST_SKIP() << "this program cannot start itself here (emulator?)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  void TearDown() override {
    unsetenv(kEnvLogLevel);
    GTEST_FLAG_SET(death_test_style, "fast");
  }
  [[noreturn]] static void say() {
    set_log_sink(&stderr_log_sink, nullptr);
    log_line(LogLevel::kWarn, "w");
    log_line(LogLevel::kInfo, "i");
    std::exit(0);
  }
};

TEST_F(LogLevelFromEnvironment, decides_until_a_program_sets_its_own) {
  setenv(kEnvLogLevel, "info", 1);
  EXPECT_EXIT(say(), ::testing::ExitedWithCode(0), "^outrider: warn: w\noutrider: info: i\n$");
  setenv(kEnvLogLevel, "off", 1);
  EXPECT_EXIT(say(), ::testing::ExitedWithCode(0), "^$");
  unsetenv(kEnvLogLevel);
  EXPECT_EXIT(say(), ::testing::ExitedWithCode(0), "^outrider: warn: w\n$");
}

TEST_F(LogLevelFromEnvironment, FC48_a_typing_mistake_is_reported_to_the_first_sink) {
  setenv(kEnvLogLevel, "infos", 1);
  EXPECT_EXIT(say(), ::testing::ExitedWithCode(0),
              "^outrider: warn: OUTRIDER_LOG_LEVEL: .*infos.*expected off, error, warn, info or "
              "debug; warn is used\noutrider: warn: w\n$");
}

TEST(Env, unset_and_empty_are_nothing) {
  for (const char* name : {kEnvLogLevel, kEnvPluginPath, kEnvOpenErrors}) unsetenv(name);
  EXPECT_EQ(env_log_level(), nullptr);
  EXPECT_EQ(env_plugin_path(), nullptr);
  EXPECT_FALSE(env_open_errors_to_stderr());
  for (const char* name : {kEnvLogLevel, kEnvPluginPath, kEnvOpenErrors}) setenv(name, "", 1);
  EXPECT_EQ(env_log_level(), nullptr);
  EXPECT_EQ(env_plugin_path(), nullptr);
  EXPECT_FALSE(env_open_errors_to_stderr());
  for (const char* name : {kEnvLogLevel, kEnvPluginPath, kEnvOpenErrors}) unsetenv(name);
}

TEST(Env, open_errors_go_to_stderr_for_exactly_that_word) {
  for (const char* value : {"1", "yes", "stdout", "STDERR", "stderr "}) {
    setenv(kEnvOpenErrors, value, 1);
    EXPECT_FALSE(env_open_errors_to_stderr()) << value;
  }
  setenv(kEnvOpenErrors, "stderr", 1);
  EXPECT_TRUE(env_open_errors_to_stderr());
  unsetenv(kEnvOpenErrors);
  setenv(kEnvPluginPath, "/a:/b", 1);
  EXPECT_STREQ(env_plugin_path(), "/a:/b");
  unsetenv(kEnvPluginPath);
}

}  // namespace
}  // namespace outrider
