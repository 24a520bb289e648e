// A typing mistake in the configuration or on the command line is never ignored.
#include <gtest/gtest.h>

#include "support.h"

namespace outrider::cli_test {
namespace {

std::string config_of(const std::string& members) {
  return write(scratch("fc48") + "/config.json", members);
}

// Every key a pi0 configuration needs; the files need not exist for these tests.
constexpr const char* kGood =
    "{\"model_family\": \"pi0\",\n \"model_path\": \"a.gguf\",\n \"mmproj_path\": \"b.gguf\",\n "
    "\"backend\": \"cpu\",\n"
    " \"n_views\": 2,\n \"image_height\": 224,\n \"image_width\": 224,\n \"image_channels\": 3,\n "
    "\"action_steps\": 50,\n"
    " \"action_dim\": 32";

TEST(FC48, a_misspelt_key_is_an_error_with_its_line_and_the_nearest_name) {
  const std::string path = config_of(std::string(kGood) + ",\n \"nunerics\": \"reference\"}");
  const Outcome outcome = run({"bench", path, "--json"});
  EXPECT_EQ(outcome.status, 2);
  const Json json = document(outcome);
  const std::string text = json.find("error")->find("text")->text();
  EXPECT_NE(text.find(":11:"), std::string::npos) << text;
  EXPECT_NE(text.find("\"numerics\""), std::string::npos) << text;
}

TEST(FC48, what_the_reader_must_not_accept_is_refused_with_status_two) {
  const std::string good = kGood;
  const std::string bad[] = {
      "",
      "{}",
      "[]",
      good,
      good + "}}",
      good + ",}",
      good + ", \"backend\": \"cpu\"}",
      good + ", \"precision\": {\"a\": 1}}",
      good + ", \"n_threads\": \"2\"}",
      good + ", \"n_threads\": 5000}",
      good + ", \"numerics\": \"refrence\"}",
      "{\"model_family\": 3}",
  };
  for (const std::string& text : bad) {
    const Outcome outcome = run({"run", config_of(text), "--prompt", "x", "--json"});
    EXPECT_EQ(outcome.status, 2) << text << outcome.err;
    EXPECT_NE(document(outcome).find("error"), nullptr) << text;
  }
}

TEST(FC48, an_explicit_file_that_is_missing_is_an_error_not_a_default) {
  for (const char* command : {"run", "bench", "doctor"}) {
    const Outcome outcome = run({command, scratch("fc48") + "/none.json"});
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_NE(outcome.err.find("none.json"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << command;
  }
}

TEST(FC48, a_misspelt_set_key_flag_and_command_name_the_nearest) {
  const std::string path = config_of(std::string(kGood) + "}");
  EXPECT_NE(run({"bench", path, "--set", "numeric=reference"}).err.find("\"numerics\""),
            std::string::npos);
  EXPECT_NE(run({"bench", path, "--tick", "3"}).err.find("--ticks"), std::string::npos);
  const Outcome outcome = run({"benhc", path});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("did you mean bench?"), std::string::npos);
}

TEST(FC48, a_misspelt_environment_variable_and_a_wrong_value_are_named) {
  const Outcome typo = run({"doctor"}, {.environment = {"OUTRIDER_LOG_LEVL=debug"}});
  EXPECT_EQ(typo.status, 0);
  EXPECT_NE(typo.err.find("OUTRIDER_LOG_LEVEL?"), std::string::npos) << typo.err;
  const Outcome value = run({"doctor"}, {.environment = {"OUTRIDER_LOG_LEVEL=loud"}});
  EXPECT_NE(value.err.find("\"loud\""), std::string::npos) << value.err;
  EXPECT_EQ(run({"doctor"}, {.environment = {"OUTRIDER_SOMETHING=1"}}).err, "");
}

TEST(FC48, print_config_shows_every_value_and_where_it_came_from) {
  const std::string path = config_of(std::string(kGood) + ",\n \"noise_seed\": 7}");
  const Outcome outcome = run({"bench", path, "--threads", "3", "--print-config", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = document(outcome);
  std::string origin_of_seed, origin_of_threads, origin_of_numerics;
  int64_t threads = 0;
  for (const Json& row : json.find("settings")->items()) {
    const std::string& key = row.find("key")->text();
    if (key == "noise_seed") origin_of_seed = row.find("origin")->text();
    if (key == "numerics") origin_of_numerics = row.find("origin")->text();
    if (key == "n_threads")
      origin_of_threads = row.find("origin")->text(), threads = row.find("value")->integer();
  }
  EXPECT_TRUE(origin_of_seed.ends_with("config.json:11")) << origin_of_seed;
  EXPECT_EQ(origin_of_threads, "--threads");
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(origin_of_numerics, "default");
}

TEST(FC48, a_flag_over_a_key_of_the_file_wins_and_says_so) {
  const std::string path = config_of(std::string(kGood) + ", \"noise_seed\": 7}");
  const Outcome bench = run({"bench", path, "--set", "noise_seed=9"});
  EXPECT_NE(bench.err.find("--set 9 replaces 7"), std::string::npos) << bench.err;
}

}  // namespace
}  // namespace outrider::cli_test
