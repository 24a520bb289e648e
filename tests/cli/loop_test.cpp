// outrider loop as a robot's process and a script see it.
#include "outrider/loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "../support/shared_data.h"
#include "base/clock.h"
#include "support.h"

namespace outrider::cli_test {
namespace {

// A fake whose state has 3 values: inputs of 88 bytes, actions of 48.
constexpr uint32_t kIn = 88, kOut = 48;
std::vector<std::string> loop(const std::vector<std::string>& more, const std::string& fake = "") {
  std::vector<std::string> words = {
      "loop", fake_config(fake), "--provider", fake_provider(), "--size", "state=3", "--prompt",
      "go",   "--rt-priority",   "0",          "--no-lock"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int64_t count(const Json& json, const char* key) {
  const Json* value = json.find(key);
  EXPECT_NE(value, nullptr) << key;
  return value != nullptr ? value->integer() : -1;
}

std::string frames(int n, float state = 1, uint32_t payload = kIn) {
  std::string bytes;
  for (int i = 0; i < n; ++i) {
    const outrider_loop_frame frame = {OUTRIDER_LOOP_FRAME_MAGIC, payload, 0, 0, 0, 0, 0, 0};
    std::string body(payload, '\0');
    for (uint32_t at = 72; at + 4 <= payload; at += 4) std::memcpy(body.data() + at, &state, 4);
    bytes += std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + body;
  }
  return bytes;
}

TEST(Loop, measures_with_a_made_up_observation_and_the_sums_agree) {
  const Outcome outcome = run(loop({"--hz", "100", "--seconds", "0.5", "--json"}));
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  EXPECT_EQ(count(json, "ticks"), 50);
  EXPECT_EQ(count(json, "answered") + count(json, "overruns"), 50);
  EXPECT_EQ(outcome.status, count(json, "overruns") == 0 ? 0 : 3);
  EXPECT_GE(json.find("jitter_us")->find("max")->number(),
            json.find("jitter_us")->find("p50")->number());
  EXPECT_FALSE(json.find("realtime")->find("priority")->find("asked")->boolean());
}

TEST(Loop, says_whether_priority_and_memory_were_given) {
  const Outcome outcome = run({"loop", fake_config(), "--provider", fake_provider(), "--size",
                               "state=3", "--hz", "100", "--seconds", "0.1", "--json"});
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  for (const char* what : {"priority", "memory"}) {
    const Json* grant = json.find("realtime")->find(what);
    EXPECT_TRUE(grant->find("asked")->boolean());
    if (!grant->find("given")->boolean()) {
      EXPECT_NE(outcome.err.find(grant->find("why")->text()), std::string::npos) << outcome.err;
    }
  }
}

TEST(Loop, every_late_tick_counts_and_ends_with_status_3) {
  const Outcome outcome =
      run(loop({"--hz", "50", "--seconds", "0.4", "--json"}, "\"sleep_ms\":25"));
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  const Json json = document(outcome);
  EXPECT_EQ(count(json, "answered"), 0);
  EXPECT_EQ(count(json, "overruns"), 20);
}

TEST(Loop, a_failed_tick_ends_with_status_1_and_its_reason) {
  const Outcome outcome = run(loop({"--hz", "50", "--seconds", "0.2", "--json"}, "\"fail_at\":2"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("scripted failure"), std::string::npos) << outcome.err;
  EXPECT_GE(document(outcome).find("first_failure")->find("tick")->integer(), 1);
}

TEST(Loop, frames_of_a_stream_are_answered_one_by_one) {
  const std::string folder = scratch("loop_stream");
  RunOptions options;
  options.stdin_path = write(folder + "/in", frames(20));
  const Outcome outcome =
      run(loop({"--hz", "100", "--seconds", "5", "--input", "stdin", "--every-frame"}), options);
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const size_t each = sizeof(outrider_loop_frame) + kOut;
  ASSERT_EQ(outcome.out.size() % each, 0u);
  ASSERT_GE(outcome.out.size() / each, 2u);
  outrider_loop_frame last = {};
  uint64_t highest = 0;
  for (size_t at = 0; at < outcome.out.size(); at += each) {
    std::memcpy(&last, outcome.out.data() + at, sizeof last);
    EXPECT_EQ(last.magic, OUTRIDER_LOOP_FRAME_MAGIC);
    EXPECT_EQ(last.bytes, kOut);
    if (last.origin == OUTRIDER_LOOP_MODEL) highest = std::max(highest, last.answers);
  }
  EXPECT_EQ(last.reason, OUTRIDER_LOOP_ENDED);
  if (outcome.status == 0) {
    EXPECT_EQ(highest, 19u) << "every frame had its tick";
  }
}

TEST(Loop, with_json_standard_output_is_the_document_and_actions_go_to_a_file) {
  const std::string folder = scratch("loop_json");
  RunOptions options;
  options.stdin_path = write(folder + "/in", frames(5));
  const Outcome outcome = run(loop({"--hz", "100", "--input", "stdin", "--every-frame", "--json",
                                    "--actions", folder + "/out"}),
                              options);
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json json = document(outcome);
  ASSERT_NE(json.find("frames"), nullptr) << outcome.out;
  const auto written = static_cast<size_t>(json.find("frames")->find("out")->integer());
  EXPECT_EQ(json.find("frames")->find("in")->integer(), 5);
  EXPECT_EQ(read(folder + "/out").size(), written * (sizeof(outrider_loop_frame) + kOut));
}

TEST(Loop, a_broken_stream_is_refused_in_words) {
  const std::string folder = scratch("loop_bad");
  const auto refused = [&](const std::string& bytes) {
    RunOptions options;
    options.stdin_path = write(folder + "/in", bytes);
    const Outcome outcome =
        run(loop({"--hz", "100", "--seconds", "5", "--input", "stdin", "--json"}), options);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(document(outcome).find("error"), nullptr);
    return outcome.err;
  };
  EXPECT_NE(refused("hello, this is no frame of forty bytes at all").find("magic is 0x"),
            std::string::npos);
  EXPECT_NE(
      refused(frames(1, 1, 84)).find("payload of 84 bytes, the inputs of this runtime have 88"),
      std::string::npos);
  EXPECT_NE(refused(frames(2).substr(0, 200)).find("input frame 1 ends after 72 of 128 bytes"),
            std::string::npos);
}

TEST(Loop, an_empty_stream_ends_at_once_with_the_safe_action) {
  RunOptions options;
  options.stdin_path = "/dev/null";
  const Outcome outcome =
      run(loop({"--hz", "100", "--seconds", "30", "--input", "stdin"}), options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_GE(outcome.out.size(), sizeof(outrider_loop_frame) + kOut);
}

TEST(Loop, a_reader_that_left_ends_the_loop_with_status_3) {
  const std::string folder = scratch("loop_pipe");
  RunOptions options;
  options.stdin_path = write(folder + "/in", frames(200));
  options.break_pipe = true;
  const Outcome outcome =
      run(loop({"--hz", "100", "--seconds", "30", "--input", "stdin", "--every-frame"}), options);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
}

TEST(Loop, actions_that_find_no_room_are_told_as_that_with_status_2) {
  RunOptions options;
  options.stdin_path = write(scratch("loop_full") + "/in", frames(200));
  const std::vector<std::string> words = {"--hz", "100", "--seconds", "30", "--input", "stdin"};
  std::vector<std::string> named = loop(words);
  named.insert(named.end(), {"--actions", "/dev/full"});
  RunOptions full = options;
  full.stdout_path = "/dev/full";
  for (const Outcome& outcome : {run(named, options), run(loop(words), full)}) {
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("No space left on device"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("reader"), std::string::npos) << outcome.err;
  }
}

TEST(Loop, a_robot_talks_to_it_through_shared_memory) {
  const std::string name = "outrider-cli-test-" + std::to_string(::getpid());
  Outcome outcome;
  std::thread program([&] {
    outcome = run(loop(
        {"--hz", "100", "--seconds", "1.5", "--input", "shm:" + name, "--json", "--safe", "-1"}));
  });
  int fd = -1;
  for (int i = 0; i < 1000 && fd < 0; ++i) {
    fd = ::shm_open(("/" + name).c_str(), O_RDWR, 0);
    if (fd < 0) ::usleep(5000);
  }
  outrider_loop_view in = {}, out = {};
  void* base = nullptr;
  uint64_t bytes = 0;
  if (fd >= 0) {
    for (int i = 0; i < 1000; ++i) {
      bytes = static_cast<uint64_t>(::lseek(fd, 0, SEEK_END));
      if (bytes == 0) {
        ::usleep(1000);
        continue;
      }
      base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (outrider_loop_attach(base, bytes, &in, &out) == 0) break;
      ::munmap(base, bytes);
      ::usleep(1000);
    }
  }
  ASSERT_NE(out.ring, nullptr);
  EXPECT_EQ(in.payload_bytes, kIn);
  EXPECT_EQ(out.payload_bytes, kOut);
  bool safe_first = false, answered = false, ended = false;
  uint64_t seen = 0;
  const int64_t until = MonotonicClock().now_ns() + 20000000000;
  while (!ended && MonotonicClock().now_ns() < until) {
    seen = outrider_loop_wait(&out, seen, 20000000);
    outrider_loop_frame frame;
    float action[12];
    if (outrider_loop_newest(&out, &frame, action) == 0) continue;
    safe_first = safe_first || (frame.reason == OUTRIDER_LOOP_WAITING && action[0] == -1);
    answered = answered || frame.origin == OUTRIDER_LOOP_MODEL;
    ended = frame.reason == OUTRIDER_LOOP_ENDED;
    const std::string observation = frames(1).substr(sizeof frame);
    if (seen > 5) outrider_loop_send(&in, observation.data(), MonotonicClock().now_ns(), 0);
  }
  program.join();
  EXPECT_TRUE(safe_first);
  EXPECT_TRUE(answered);
  EXPECT_TRUE(ended);
  EXPECT_GT(count(document(outcome), "answered"), 0) << outcome.err;
  EXPECT_GT(count(document(outcome), "waiting"), 0);
  ::munmap(base, bytes);
  ::close(fd);
}

TEST(Loop, mistakes_are_usage_errors_with_a_way_out) {
  const auto told = [](const std::vector<std::string>& more, const std::string& words) {
    const Outcome outcome = run(loop(more));
    EXPECT_NE(outcome.status, 0) << words;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  told({"--input", "tcp:1"}, "allowed are shm:NAME, stdin, sample");
  told({"--input", "shm:"}, "allowed are shm:NAME, stdin, sample");
  told({"--input", "shm:../x"}, "a name is 1 to 200 letters");
  told({"--hz", "100", "--deadline-ms", "11"}, "at most the period of 10 ms");
  told({"--safe", "1,2,3"}, "3 numbers, output actions {4, 3} has 12");
  told({"--safe", "nan"}, "finite");
  told({"--safe", "none.npy"}, "none.npy");
  told({"--every-frame"}, "--input stdin");
  told({"--output", "acton"}, "there are actions");
  told({"--size", "state=0"}, "NAME=N");
  told({"--hz", "0"}, "ticks a second");
}

TEST(Loop, keeps_the_state_of_a_recurrent_model_between_ticks) {
  OUTRIDER_NEED_SHARED(model, "data/silero_vad_16k_op15.onnx");
  const Outcome outcome =
      run({"loop", model, "--set", "dims=batch=1,sequence=512", "--hz", "50", "--seconds", "0.3",
           "--json", "--rt-priority", "0", "--no-lock", "--threads", "1"});
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  EXPECT_EQ(count(document(outcome), "failed"), 0);
}

// The whole example of the guide, from training to the page.
TEST(Loop, swings_the_pendulum_of_the_example_up) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-numpy is not installed";
  const std::string folder = scratch("loop_pendulum"), source = OUTRIDER_SOURCE_DIR;
  const std::string command = source + "/examples/pendulum/run.sh -s 6 -o " + folder + " -b " +
                              OUTRIDER_BUILD_DIR + "/bin/outrider > " + folder + "/out 2> " +
                              folder + "/err";
  const int status = std::system(command.c_str());
  const std::string told = read(folder + "/out");
  EXPECT_NE(told.find("300 ticks at 50 Hz"), std::string::npos) << told << read(folder + "/err");
  EXPECT_NE(read(folder + "/pendulum.html").find("<svg"), std::string::npos);
  const size_t at = told.find("upright in ");
  ASSERT_NE(at, std::string::npos) << told;
  // Late ticks let it fall; a machine that was punctual sees it stand.
  if (status == 0) {
    EXPECT_GE(std::atoi(told.c_str() + at + 11), 50) << told;
  }
}

TEST(Loop, writes_a_page_and_the_samples) {
  const std::string folder = scratch("loop_files");
  const Outcome outcome = run(loop({"--hz", "100", "--seconds", "0.3", "--report",
                                    folder + "/l.html", "--samples", folder + "/l.csv"}));
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const std::string page = read(folder + "/l.html"), csv = read(folder + "/l.csv");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("Punctuality"), std::string::npos);
  EXPECT_TRUE(csv.starts_with("tick,wake_us,latency_us,reason\n"));
  EXPECT_NE(outcome.out.find("30 ticks at 100 Hz"), std::string::npos) << outcome.out;
}

// ---- a tandem ----------------------------------------------------------------------------------

class TandemLoop : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = scratch("tandem-loop");
    const std::string side = write(folder + "/side.json", R"({"model_family":"fake"})");
    config = write(folder + "/tandem.json",
                   R"({"model_family":"tandem","preset":"driving20","standby":")" + side +
                       R"(","lead":")" + side + R"(","standby_provider":")" + fake_provider() +
                       R"(","lead_provider":")" + fake_provider() + "\"}");
  }
  Outcome ticks(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"loop",          config,    "--hz",      "20",
                                      "--size",        "state=3", "--prompt",  "go",
                                      "--rt-priority", "0",       "--no-lock", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  static int64_t by_lead(const Outcome& outcome) {
    return count(*document(outcome).find("tandem")->find("counters"), "by_lead");
  }
  std::string config;
};

TEST_F(TandemLoop, measures_a_lead_with_a_made_up_observation_as_nobody_acts_on_it) {
  const Outcome outcome = ticks({"--seconds", "3"});
  ASSERT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  EXPECT_GT(by_lead(outcome), 0);
  const Json json = document(outcome);
  EXPECT_EQ(json.find("tandem")->find("lead_error")->text(), "");
  EXPECT_EQ(count(*json.find("tandem")->find("counters"), "ticks"), 60);
}

TEST_F(TandemLoop, lets_no_lead_take_over_while_somebody_acts_on_the_output) {
  EXPECT_EQ(by_lead(ticks({"--seconds", "3", "--engaged", "yes"})), 0);
  EXPECT_GT(by_lead(ticks({"--seconds", "3", "--engaged", "no"})), 0);
}

TEST_F(TandemLoop, hands_over_what_observations_say_of_engagement) {
  const Outcome outcome =
      ticks({"--seconds", "0.2", "--engaged", "observed", "--log-level", "info"});
  EXPECT_NE(outcome.err.find("engaged u8 {1}"), std::string::npos) << outcome.err;
}

TEST_F(TandemLoop, refuses_words_it_does_not_know_and_what_is_said_twice) {
  const Outcome word = ticks({"--engaged", "maybe"});
  EXPECT_EQ(word.status, 2);
  EXPECT_NE(word.err.find("--engaged is \"maybe\", allowed are yes, no, observed"),
            std::string::npos)
      << word.err;
  const Outcome twice = ticks({"--engaged", "no", "--port", "engaged"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("--engaged and --port engaged: leave one of them out"),
            std::string::npos)
      << twice.err;
}

TEST(Loop, refuses_engaged_for_a_runtime_that_does_not_ask) {
  const Outcome outcome = run(loop({"--engaged", "no"}));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("this runtime has no input engaged"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace outrider::cli_test
