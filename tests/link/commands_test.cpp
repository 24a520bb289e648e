// serve, link check and top as a caller sees them: a server process, clients beside it.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "cli/support.h"
#include "link/serve_process.h"

namespace outrider::cli_test {
namespace {

using link::here::ServeProcess;

std::string remote_config(const std::string& name, const std::string& endpoint,
                          const std::string& more = "") {
  return write(scratch("link") + "/" + name, "{\"model_family\":\"remote\",\"endpoint\":\"" +
                                                 endpoint + "\",\"model\":\"default\"" + more +
                                                 "}");
}

std::string key_file(const std::string& name, char fill) {
  const std::string path = write(scratch("link") + "/" + name, "link" + std::string(32, fill));
  ::chmod(path.c_str(), 0600);
  return path;
}

std::vector<std::string> fake_served() {
  return {fake_config(), "--provider", fake_provider(), "--listen", "tcp://127.0.0.1:0"};
}

TEST(Serve, says_in_one_line_where_it_listens_and_ends_in_order) {
  ServeProcess serve(fake_served());
  EXPECT_NE(serve.line().find("{\"version\":1,\"listening\":[\"tcp://127.0.0.1:"),
            std::string::npos)
      << serve.line();
  EXPECT_EQ(serve.end(), 0);
}

TEST(Serve, serves_a_policy_that_run_uses_like_a_local_one) {
  const std::string policy = tiny_policy();
  if (policy.empty()) GTEST_SKIP() << "no make-model in this build";
  ServeProcess serve({policy, "--listen", "tcp://127.0.0.1:0"});
  const std::string remote = remote_config("run.json", serve.endpoint(), ",\"deadline_ms\":20000");
  const auto bench_local = document(run({"bench", policy, "--ticks", "3", "--json"}));
  const auto bench_remote = document(run({"bench", remote, "--ticks", "3", "--json"}));
  const auto sum = [](const Json& report) {
    const Json* checksum = report.find("checksum");
    return checksum == nullptr ? "none" : checksum->find("fnv1a64")->text();
  };
  EXPECT_NE(sum(bench_local), "none");
  EXPECT_EQ(sum(bench_local), sum(bench_remote));
}

TEST(Conform, served_asks_a_remote_runtime_what_its_provider_is_asked) {
  const std::string policy = tiny_policy();
  if (policy.empty()) GTEST_SKIP() << "no make-model in this build";
  ServeProcess serve({policy, "--listen", "tcp://127.0.0.1:0"});
  const std::string provider = OUTRIDER_BUILD_DIR "/lib/provider_link.so";
  const std::string remote = remote_config("served.json", serve.endpoint());
  const Outcome plain = run({"conform", provider, fake_config(), "--served", policy});
  EXPECT_EQ(plain.status, 2) << plain.err;
  EXPECT_NE(plain.err.find("goes with a configuration of family \"remote\""), std::string::npos)
      << plain.err;
  EXPECT_EQ(run({"conform", provider, remote, "--served", "nothing.gguf"}).status, 2);
  // Another model than the one that is served does not have its ports.
  const Outcome other = run({"conform", provider, remote, "--served",
                             write(scratch("link") + "/other.json",
                                   "{\"model_family\":\"pi0\",\"model_path\":\"x\","
                                   "\"mmproj_path\":\"x\",\"backend\":\"cpu\",\"n_views\":3,"
                                   "\"image_height\":8,\"image_width\":8,\"image_channels\":3,"
                                   "\"action_steps\":5,\"action_dim\":4}")});
  EXPECT_EQ(other.status, 1) << other.out << other.err;
  EXPECT_NE(other.out.find("failed  pi0: the four ports"), std::string::npos) << other.out;
}

TEST(Link, check_measures_and_judges) {
  ServeProcess serve(fake_served());
  const Outcome outcome = run({"link", "check", serve.endpoint(), "--json"});
  EXPECT_NE(outcome.status, 2) << outcome.err;
  EXPECT_NE(outcome.status, 3) << outcome.err;
  const Json report = document(outcome);
  EXPECT_EQ(report.find("lost")->integer(), 0);
  EXPECT_EQ(report.find("corrupted")->integer(), 0);
  EXPECT_GT(report.find("round_trip_us")->find("p50")->number(), 0);
  EXPECT_GT(report.find("to_host_mb_s")->number(), 1);
  EXPECT_TRUE(report.find("clock_offset_ns")->is_number());
  EXPECT_FALSE(report.find("verdict")->items().empty());
  // One machine: both clocks are the same one.
  EXPECT_LE(std::abs(report.find("clock_offset_ns")->integer()),
            report.find("clock_bound_ns")->integer() + 1000);
}

TEST(Link, check_of_nobody_is_a_link_failure) {
  std::string endpoint;
  {
    ServeProcess serve(fake_served());
    endpoint = serve.endpoint();
  }
  const Outcome outcome = run({"link", "check", endpoint, "--json"});
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("host gone"), std::string::npos) << outcome.err;
  document(outcome);
  EXPECT_EQ(run({"link", "check", "nonsense"}).status, 2);
  EXPECT_EQ(run({"link", "mend", endpoint}).status, 2);
  EXPECT_EQ(run({"run", remote_config("gone.json", endpoint), "--json"}).status, 3);
}

TEST(Top, shows_models_and_owners) {
  ServeProcess serve(fake_served());
  const Json report = document(run({"top", serve.endpoint(), "--json"}));
  EXPECT_EQ(report.find("host")->find("models")->items()[0].find("name")->text(), "default");
  EXPECT_EQ(report.find("counters")->find("runs")->integer(), 0);
  const Outcome text = run({"top", serve.endpoint()});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("model default"), std::string::npos) << text.out;
}

// `outrider top` on a terminal of its own.
class LiveTop {
 public:
  explicit LiveTop(const std::string& endpoint) {
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    ::execl(OUTRIDER_BUILD_DIR "/bin/outrider", "outrider", "top", endpoint.c_str(), "--every",
            "0.1", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ~LiveTop() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(terminal_);
  }
  // Until `text` was shown n times, 10 s at most.
  bool shows(const std::string& text, size_t n) {
    for (int i = 0; i < 1000; ++i) {
      size_t seen = 0;
      for (size_t at = 0; (at = shown.find(text, at)) != std::string::npos; ++at) ++seen;
      if (seen >= n) return true;
      pollfd ready = {terminal_, POLLIN, 0};
      char bytes[4096];
      if (::poll(&ready, 1, 10) <= 0) continue;
      const ssize_t got = ::read(terminal_, bytes, sizeof bytes);
      if (got <= 0) return false;
      shown.append(bytes, static_cast<size_t>(got));
    }
    return false;
  }
  void say(int signal) const { ::kill(pid_, signal); }
  int status() {
    shows("nothing shows this", 1);  // reads to the end
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string shown;

 private:
  int terminal_ = -1, pid_ = -1;
};

TEST(Top, on_a_terminal_is_refreshed_until_ctrl_c) {
  ServeProcess serve(fake_served());
  LiveTop top(serve.endpoint());
  ASSERT_TRUE(top.shows("\x1b[H\x1b[J", 3)) << top.shown;
  EXPECT_TRUE(top.shows("model default", 3)) << top.shown;
  // What happens meanwhile is seen.
  EXPECT_EQ(top.shown.find("runs 1 "), std::string::npos);
  const std::string remote = remote_config("top.json", serve.endpoint());
  const Outcome ran = run({"bench", remote, "--ticks", "3", "--json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Json after = document(run({"top", serve.endpoint(), "--json"}));
  const int64_t runs = after.find("counters")->find("runs")->integer();
  EXPECT_GE(runs, 3);
  EXPECT_TRUE(top.shows("runs " + std::to_string(runs) + " ", 2)) << top.shown;
  top.say(SIGINT);
  EXPECT_EQ(top.status(), 0) << top.shown;
}

TEST(Top, tells_that_the_host_went_away_and_ends) {
  ServeProcess serve(fake_served());
  LiveTop top(serve.endpoint());
  ASSERT_TRUE(top.shows("model default", 2)) << top.shown;
  serve.end(SIGKILL);
  EXPECT_EQ(top.status(), 3) << top.shown;
  EXPECT_NE(top.shown.find("link: host gone"), std::string::npos) << top.shown;
}

TEST(Top, a_host_that_hangs_is_told_within_two_seconds_and_one_that_is_gone_at_once) {
  ServeProcess serve(fake_served());
  LiveTop top(serve.endpoint());
  ASSERT_TRUE(top.shows("model default", 1)) << top.shown;
  serve.stop();
  EXPECT_EQ(top.status(), 3) << top.shown;
  EXPECT_NE(top.shown.find("link: deadline"), std::string::npos) << top.shown;
  serve.end(SIGKILL);
  const Outcome gone = run({"top", serve.endpoint(), "--json"});
  EXPECT_EQ(gone.status, 3) << gone.err;
  EXPECT_NE(gone.err.find("host gone"), std::string::npos) << gone.err;
  document(gone);
}

TEST(Serve, FC45_other_machines_need_a_key_and_the_right_one) {
  auto open = fake_served();
  open.back() = "tcp://0.0.0.0:0";
  const Outcome refused = run([&] {
    std::vector<std::string> words = {"serve"};
    words.insert(words.end(), open.begin(), open.end());
    return words;
  }());
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("--key-file"), std::string::npos) << refused.err;
  auto keyed = fake_served();
  keyed.insert(keyed.end(), {"--key-file", key_file("right.key", 'k')});
  ServeProcess serve(keyed);
  const std::string right = key_file("right.key", 'k'), wrong = key_file("wrong.key", 'w');
  EXPECT_LE(run({"link", "check", serve.endpoint(), "--key-file", right, "--pings", "20"}).status,
            1);
  const Outcome bad = run({"link", "check", serve.endpoint(), "--key-file", wrong});
  EXPECT_EQ(bad.status, 3);
  EXPECT_NE(bad.err.find("security"), std::string::npos) << bad.err;
  EXPECT_EQ(run({"link", "check", serve.endpoint()}).status, 3) << "no key at all";
  const std::string provider = OUTRIDER_BUILD_DIR "/lib/provider_link.so";
  const Outcome conform =
      run({"conform", provider,
           remote_config("keyed.json", serve.endpoint(), ",\"key_file\":\"" + right + "\"")});
  EXPECT_EQ(conform.status, 0) << conform.out;
  EXPECT_NE(conform.out.find(" 0 failed"), std::string::npos) << conform.out;
}

TEST(Serve, FC48_a_mistake_in_the_service_configuration_names_line_and_key) {
  const auto serve = [](const std::string& text) {
    return run({"serve", write(scratch("link") + "/service.json", text), "--json"});
  };
  const std::pair<const char*, const char*> bad[] = {
      {"{\"models\":[]}", "models"},
      {"{\"listen\":[\"tcp://127.0.0.1:0\"]}", "\"models\" is missing"},
      {"{\"modles\":[]}", "did you mean \"models\""},
      {"{\"models\":[{\"name\":\"a\",\"config\":\"x.json\",\"path\":1}]}", "unknown key \"path\""},
      {"{\"max_instances\":0,\"models\":[{\"name\":\"a\",\"config\":\"x.json\"}]}",
       "from 1 to 256"},
      {"{\"http\":{},\"models\":[{\"name\":\"a\",\"config\":\"x.json\"}]}",
       "not in this build yet"},
  };
  for (const auto& [text, says] : bad) {
    const Outcome outcome = serve(text);
    EXPECT_NE(outcome.status, 0) << text;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << text << "\n" << outcome.err;
    document(outcome);
  }
}

}  // namespace
}  // namespace outrider::cli_test
