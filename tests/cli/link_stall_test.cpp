// Uploads over a cable that stalls, to a host whose disk does, by a device that dies.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "link/faults/fault_proxy.h"
#include "link/serve_process.h"
#include "link_support.h"
#include "support.h"
#include "support/own_time.h"

namespace outrider::cli_test {
namespace {

namespace fs = std::filesystem;
using link::faults::FaultProxy, link::faults::Rules, link::faults::Then;

constexpr int64_t kTimeoutNs = 400'000'000;

std::string write_model(const Folder& folder, const store::Model& model) {
  const std::string path = folder.at(model.info.name + ".bin");
  std::ofstream(path, std::ios::binary) << model.bytes;
  return path;
}

int64_t thread_cpu_ns() {
  timespec spent{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return int64_t{spent.tv_sec} * 1'000'000'000 + spent.tv_nsec;
}

struct LinkStall : ::testing::Test {
  Folder folder{true};
  Host host{folder.at("store"), store::Limits()};
  FaultProxy proxy{host.port()};
  const MonotonicClock clock;
  const store::Model model = store::make_model(3'000'000, 37);
  const std::string path = write_model(folder, model);

  // Ends by its time-out with a reason, and waits without the processor.
  void expect_timeout(const char* says) {
    test::OwnTime own;
    const int64_t begin = clock.now_ns(), cpu = thread_cpu_ns();
    const Push push = push_path(path, proxy.port(), kTimeoutNs);
    const int64_t took = clock.now_ns() - begin, spent = thread_cpu_ns() - cpu;
    EXPECT_FALSE(push.result);
    EXPECT_FALSE(push.outcome.refused) << "it is the link, not the host";
    const std::string text = store::text_of(push.result);
    EXPECT_NE(text.find(says), std::string::npos) << text;
    EXPECT_GE(took, kTimeoutNs / 2);
    EXPECT_LT(own.ns(), 4 * kTimeoutNs + 1'000'000'000);
    // Reading and hashing the file is its work; waiting is not.
    EXPECT_LT(spent - hash_ns, took / 20 + 10'000'000) << "of " << took;
  }
  // Plugged in again: the same command brings the rest. Returns where it went on.
  uint64_t expect_rest() {
    proxy.now({});
    wait_for([&] {
      auto found = host.store->find(model.info.sha256);
      return !found || !found.value().in_use;
    });
    const Push push = push_path(path, proxy.port());
    EXPECT_GOOD(push.result);
    EXPECT_EQ(content(folder.at("store/" + model.info.sha256 + "/data")), model.bytes);
    const uint64_t sent = push.plan.files.empty() ? 0 : push.plan.files[0].sent_bytes;
    EXPECT_GOOD(host.store->remove(model.info.sha256));
    return model.bytes.size() - sent;
  }
  int64_t hash_ns = [this] {
    const int64_t cpu = thread_cpu_ns();
    auto plan = cli::plan_push(path, "", "");
    EXPECT_GOOD(plan);
    (void)cli::hash_files(plan.value(), [](const cli::PushedFile&, const char*, uint64_t) {});
    return 2 * (thread_cpu_ns() - cpu);
  }();
};

TEST_F(LinkStall, FC37_a_host_that_falls_silent_after_n_bytes_is_a_timeout_that_names_the_byte) {
  struct Case {
    uint64_t after_bytes;
    const char* says;
  };
  // Nothing, within the first header, after the first chunk of 256 KiB, before the last byte.
  for (const Case& c : {Case{0, "link: deadline"}, Case{50, "link: deadline"},
                        Case{300'000, "timeout in upload at byte "},
                        Case{model.bytes.size() - 1, "timeout in upload at byte "}}) {
    SCOPED_TRACE("silent after " + std::to_string(c.after_bytes));
    proxy.now({.forth = {.at = c.after_bytes, .then = Then::kSilence}});
    expect_timeout(c.says);
    EXPECT_FALSE(fs::exists(folder.at("store/" + model.info.sha256 + "/data")));
    expect_rest();
  }
}

TEST_F(LinkStall, FC37_a_host_whose_answers_stop_is_a_timeout) {
  for (const uint64_t after_bytes : {uint64_t{0}, uint64_t{100}, uint64_t{900}}) {
    SCOPED_TRACE("answers stop after " + std::to_string(after_bytes));
    proxy.now({.back = {.at = after_bytes, .then = Then::kSilence}});
    expect_timeout("link: ");
    expect_rest();
  }
}

TEST_F(LinkStall, FC37_a_host_that_never_reads_is_a_timeout_and_the_rest_follows) {
  proxy.now({.forth = {.at = 400'000, .then = Then::kStall}});
  expect_timeout("in upload at byte ");
  expect_rest();
}

TEST_F(LinkStall, FC37_a_byte_a_second_is_no_progress) {
  for (const bool forth : {true, false}) {
    Rules rules;
    (forth ? rules.forth : rules.back).bytes_per_s = 1;
    proxy.now(rules);
    expect_timeout("link: ");
    expect_rest();
  }
}

// The program that pushes is killed, again and again; each time the next one goes on.
TEST_F(LinkStall, FC42_a_push_that_is_killed_goes_on_where_the_host_is) {
  // 1.5 MB/s: two seconds as a whole, killed after each 300 KB that arrived.
  proxy.now({.forth = {.bytes_per_s = 1'500'000}});
  std::vector<uint64_t> have;
  for (int i = 0; i < 3; ++i) {
    const std::string endpoint = proxy.endpoint();
    const pid_t child = ::fork();
    if (child == 0) {
      const int null = ::open("/dev/null", O_WRONLY);
      ::dup2(null, 1), ::dup2(null, 2);
      ::execl(OUTRIDER_BUILD_DIR "/bin/outrider", "outrider", "link", "push", endpoint.c_str(),
              path.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    const uint64_t before = have.empty() ? 0 : have.back();
    EXPECT_TRUE(wait_for([&] {
      auto found = host.store->find(model.info.sha256);
      return found && found.value().have_bytes > before + 300'000;
    }));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_TRUE(wait_for([&] { return !host.store->find(model.info.sha256).value().in_use; }));
    auto found = host.store->find(model.info.sha256);
    EXPECT_EQ(found.value().state, store::EntryState::kPartial);
    have.push_back(found.value().have_bytes);
    EXPECT_GT(have.back(), before);
  }
  EXPECT_GE(expect_rest(), have.back() / 2) << "what was safe was not sent again";
}

// ---- disks -------------------------------------------------------------------------------------

// A small tmpfs, where this user may mount one.
struct LinkDisk : ::testing::Test {
  Folder folder{true};
  const std::string at = folder.at("store");
  bool mounted = false;
  void SetUp() override {
    fs::create_directory(at);
    mounted = mount("-t tmpfs -o size=2m,mode=700 tmpfs");
    if (!mounted) GTEST_SKIP() << "mounting is not allowed here";
  }
  void TearDown() override {
    if (mounted) {
      EXPECT_EQ(std::system(("umount " + at).c_str()), 0);
    }
  }
  bool mount(const std::string& how) const {
    return std::system(("mount " + how + " " + at + " 2>/dev/null").c_str()) == 0;
  }
  static store::Limits limits() {
    store::Limits limits = store::small_limits();
    limits.reserve_bytes = 0;
    return limits;
  }
};

// A chunk, and what the host then says of the upload.
Code send_chunks(Client& client, const store::Model& model, uint64_t from) {
  for (uint64_t at = from; at < model.bytes.size(); at += 50'000)
    if (const auto sent = client.chunk(model, at, 50'000); !sent) return sent.code();
  return Code::kOk;
}

TEST_F(LinkDisk, FC44_a_disk_that_fills_up_during_an_upload_costs_the_upload_and_not_the_host) {
  Host host(at, limits());
  const store::Model model = store::make_model(1'000'000, 44);
  Client client(host.port());
  ASSERT_EQ(client.begin(model).code, 0);
  ASSERT_GOOD(client.chunk(model, 0, 100'000));
  std::ofstream(at + "/filler") << std::string(1'700'000, 'x');
  EXPECT_EQ(send_chunks(client, model, 100'000), Code::kNoMemory);
  // What it had taken is given back, and the host serves on.
  auto list = client.store->list(client.soon());
  ASSERT_GOOD(list);
  for (const auto& entry : list.value().entries.items) EXPECT_LE(entry.have_bytes, 110'000u);
  fs::remove(at + "/filler");
  Client again(host.port());
  const auto state = again.begin(model);
  ASSERT_EQ(state.code, 0);
  EXPECT_EQ(send_chunks(again, model, state.next_offset), Code::kOk);
  EXPECT_EQ(again.end(model.bytes.size()).is_published, 1);
  EXPECT_EQ(content(at + "/" + model.info.sha256 + "/data"), model.bytes);
}

TEST_F(LinkDisk, FC44_a_disk_that_becomes_read_only_refuses_in_words_and_still_serves_what_it_has) {
  Host host(at, limits());
  const store::Model kept = store::make_model(200'000, 45), late = store::make_model(300'000, 46);
  {
    Client client(host.port());
    ASSERT_EQ(client.begin(kept).code, 0);
    ASSERT_EQ(send_chunks(client, kept, 0), Code::kOk);
    ASSERT_EQ(client.end(kept.bytes.size()).is_published, 1);
  }
  // No file of the store is open for writing now.
  ASSERT_TRUE(mount("-o remount,ro"));
  Client client(host.port());
  const auto refused = client.begin(late);
  EXPECT_NE(refused.code, 0);
  const std::string text(refused.text.view());
  EXPECT_NE(text.find("Read-only file system (mount it writable)"), std::string::npos) << text;
  auto list = client.store->list(client.soon());
  ASSERT_GOOD(list);
  ASSERT_EQ(list.value().entries.items.size(), 1u);
  EXPECT_FALSE(client.store->remove(kept.info.sha256, client.soon()));
  EXPECT_GOOD(host.store->lease(kept.info.sha256));
  ASSERT_TRUE(mount("-o remount,rw"));
  Client later(host.port());
  ASSERT_EQ(later.begin(late).code, 0);
  EXPECT_EQ(send_chunks(later, late, 0), Code::kOk);
  EXPECT_EQ(later.end(late.bytes.size()).is_published, 1);
}

}  // namespace
}  // namespace outrider::cli_test
