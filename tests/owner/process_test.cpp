// The program itself: small, alone, watched, and clean after any end. R36.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "owner/borrow/lease.h"
#include "owner/rig.h"
#include "support/own_time.h"

namespace outrider::owner::test {
namespace {

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

const std::string kProgram = std::string(OUTRIDER_BUILD_DIR) + "/bin/outriderd";

// A daemon in a folder of its own, with a manager that listens.
class Daemon {
 public:
  Daemon() {
    for (const char* dir : {"/params", "/state", "/knobs"})
      std::filesystem::create_directories(system.at(dir));
    system.put("/params/OutriderMode", "2");
    system.put("/params/IsOffroad", "1");
    write_config("");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, system.at("/notify.sock").c_str());
    manager = link::Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    (void)!::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    const timeval patience{20, 0};
    ::setsockopt(manager.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Daemon() { end(SIGKILL); }
  void write_config(const std::string& more, bool no_tuning = true) {
    system.put("/owner.json", R"({"socket":")" + system.at("/owner.sock") + R"(","status":")" +
                                  system.at("/status.json") + R"(","runtime_record":")" +
                                  system.at("/runtime.json") + R"(","power_off_request":")" +
                                  system.at("/power-off.json") + R"(","state_dir":")" +
                                  system.at("/state") + R"(","params_dir":")" +
                                  system.at("/params") +
                                  R"(","tcp":{"listen":"tcp://127.0.0.1:0"})" +
                                  (no_tuning ? R"(,"tuning":[])" : "") + more + "}");
  }
  // Arguments after --config; output into out.txt.
  // `over`: in a mount namespace of its own, with the folder /knobs in the place of this one.
  pid_t launch(const std::vector<std::string>& more = {}, const char* over = nullptr) {
    std::vector<std::string> words = {kProgram, "--config", system.at("/owner.json")};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string notify = system.at("/notify.sock"), out = system.at("/out.txt");
    const std::string knobs = system.at("/knobs");
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (over != nullptr && !mount_over(knobs.c_str(), over)) ::_exit(125);
    ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "400000", 1);
    const int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    ::execv(argv[0], argv.data());
    ::_exit(126);
  }
  void start(const char* over = nullptr) {
    pid = launch({}, over);
    ASSERT_EQ(hear(), "READY=1") << system.get("/out.txt");
  }
  void drain() const {
    while (manager && ::recv(manager.get(), nullptr, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
    }
  }
  std::string hear() {
    char text[128] = {};
    const ssize_t got = ::recv(manager.get(), text, sizeof text - 1, 0);
    return got > 0 ? text : "";
  }
  // Exit status, 128 + signal.
  int end(int signal) {
    if (pid <= 0) return -1;
    ::kill(pid, signal);
    return wait(std::exchange(pid, 0));
  }
  static int wait(pid_t which) {
    int status = 0;
    ::waitpid(which, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  OwnerView view() {
    const MonotonicClock clock;
    return read_status(system.get("/status.json"), record::here(clock));
  }
  // Where that is permitted: as root, or in a user namespace of its own.
  static bool mount_over(const char* folder, const char* place) {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    (void)::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    return ::mount(folder, place, nullptr, MS_BIND, nullptr) == 0;
  }
  static bool may_mount(const std::string& folder, const char* place) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(mount_over(folder.c_str(), place) ? 0 : 1);
    return wait(child) == 0;
  }
  FakeSystem system;
  link::Fd manager;
  pid_t pid = 0;
};

int64_t status_kb(pid_t pid, const std::string& key) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key + ":", 0) == 0) return std::atoll(line.c_str() + key.size() + 1);
  return -1;
}

TEST(OwnerProcess, a_file_that_is_none_of_its_own_is_neither_replaced_nor_removed) {
  for (const char* place : {"/status.json", "/power-off.json"}) {
    Daemon daemon;
    daemon.system.put(place, "my notes");
    for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--check"}}) {
      EXPECT_EQ(Daemon::wait(daemon.launch(words)), 2) << place;
      EXPECT_NE(daemon.system.get("/out.txt").find("stays as it is"), std::string::npos)
          << daemon.system.get("/out.txt");
      EXPECT_EQ(daemon.system.get(place), "my notes");
    }
    EXPECT_NE(Daemon::wait(daemon.launch({"--status"})), 2) << "a reader";
  }
}

TEST(OwnerProcess, a_log_that_is_a_pipe_without_a_reader_is_told_and_holds_nobody) {
  Daemon daemon;
  ASSERT_EQ(::mkfifo(daemon.system.at("/log").c_str(), 0600), 0);
  EXPECT_EQ(linux_system().spawn({"true"}, daemon.system.at("/log")), -EIO);
  const int64_t child = linux_system().spawn({"echo", "hello"}, daemon.system.at("/plain"));
  ASSERT_GT(child, 0);
  EXPECT_EQ(Daemon::wait(static_cast<pid_t>(child)), 0);
  EXPECT_EQ(daemon.system.get("/plain"), "hello");
}

TEST(OwnerProcess, R36_the_owner_is_a_small_process_without_heavy_libraries) {
  Daemon daemon;
  daemon.start();
  // After some work: a loan, a reader, a few steps.
  for (int i = 0; i < 20; ++i) {
    auto lease =
        Lease::borrow(daemon.system.at("/owner.sock"), "model", link::steady_now_ns() + 5 * kSec);
    ASSERT_TRUE(lease) << lease.error().text;
  }
  ::usleep(1'200'000);
  if (!kSanitized) {
    EXPECT_GT(status_kb(daemon.pid, "VmRSS"), 500);
    EXPECT_LT(status_kb(daemon.pid, "VmRSS"), 10 * 1024);
    EXPECT_LT(status_kb(daemon.pid, "VmHWM"), 10 * 1024);
    EXPECT_EQ(status_kb(daemon.pid, "Threads"), 1);
  }
  std::ifstream maps("/proc/" + std::to_string(daemon.pid) + "/maps");
  std::stringstream text;
  text << maps.rdbuf();
  for (const char* heavy : {"libprotobuf", "libonnx", "libpng", "libturbojpeg", "libusb",
                            "libsodium", "libfmt", "provider_", "liboutrider_host", "libpython"})
    EXPECT_EQ(text.str().find(heavy), std::string::npos) << heavy;
  EXPECT_EQ(daemon.end(SIGTERM), 0);
}

TEST(OwnerProcess, FC50_the_manager_hears_ready_then_beats_then_stopping) {
  Daemon daemon;
  daemon.start();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(daemon.hear(), "WATCHDOG=1");
  EXPECT_TRUE(daemon.view().alive);
  ::kill(daemon.pid, SIGTERM);
  std::string word;
  while ((word = daemon.hear()) == "WATCHDOG=1") {
  }
  EXPECT_EQ(word, "STOPPING=1");
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  EXPECT_FALSE(daemon.view().alive);
  EXPECT_FALSE(daemon.system.has("/owner.sock"));
}

// What hangs does not beat: a manager that watches kills it.
TEST(OwnerProcess, FC50_a_process_that_hangs_does_not_beat_and_reads_as_dead) {
  Daemon daemon;
  daemon.start();
  ::kill(daemon.pid, SIGSTOP);
  ::usleep(3'300'000);
  EXPECT_FALSE(daemon.view().alive);
  ::kill(daemon.pid, SIGCONT);
  for (int i = 0; i < 300 && !daemon.view().alive; ++i) ::usleep(10'000);
  EXPECT_TRUE(daemon.view().alive);
}

TEST(OwnerProcess, a_second_owner_is_refused_and_the_first_lives_on) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(Daemon::wait(daemon.launch()), 2);
  EXPECT_NE(daemon.system.get("/out.txt").find("another owner"), std::string::npos);
  EXPECT_TRUE(daemon.view().alive);
}

TEST(OwnerProcess, after_a_kill_the_next_one_starts_and_lends) {
  Daemon daemon;
  for (int round = 0; round < 3; ++round) {
    daemon.start();
    auto lease =
        Lease::borrow(daemon.system.at("/owner.sock"), "model", link::steady_now_ns() + 5 * kSec);
    ASSERT_TRUE(lease) << lease.error().text;
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    EXPECT_FALSE(lease.value().alive());
    EXPECT_FALSE(daemon.view().alive);
    daemon.drain();
  }
}

// The program itself, killed with SIGKILL at any time after it changed its settings: the next start
// puts them back before anything else, and so does an end in order. The settings are a folder that
// lies over /proc/sys/dev in a namespace of the daemon's own. (Values are as long as the old ones:
// a plain file keeps what is not written over, a setting does not.)
TEST(OwnerProcess, R40_settings_are_restored_after_a_real_kill_and_at_a_stop) {
  constexpr const char* kOver = "/proc/sys/dev";
  Daemon daemon;
  if (!Daemon::may_mount(daemon.system.at("/knobs"), kOver))
    GTEST_SKIP() << "no mount namespaces here";
  const std::map<std::string, std::string> old = {{"/knobs/a", "20"}, {"/knobs/b", "1500000"}};
  const auto put_back = [&] {
    for (const auto& [path, value] : old)
      if (daemon.system.get(path) != value) return false;
    return true;
  };
  const auto changed = [&] {
    return daemon.system.get("/knobs/a") == "37" && daemon.system.get("/knobs/b") == "9000000";
  };
  const auto soon = [](const auto& done) {
    for (int i = 0; i < 500 && !done(); ++i) ::usleep(10'000);
    return done();
  };
  for (const auto& [path, value] : old) daemon.system.put(path, value);
  const std::string with =
      R"(,"tuning":[{"path":"/proc/sys/dev/a","value":"37"},{"path":"/proc/sys/dev/b","value":"9000000"}])";
  daemon.write_config(with, false);
  for (int round = 0; round < 3; ++round) {
    daemon.start(kOver);
    ASSERT_TRUE(soon(changed)) << daemon.system.get("/out.txt") << daemon.system.get("/knobs/a");
    ::usleep(static_cast<useconds_t>(round) * 130'000);
    EXPECT_EQ(daemon.end(SIGKILL), 128 + SIGKILL);
    EXPECT_TRUE(changed()) << "nobody was there to put them back";
    EXPECT_TRUE(daemon.system.has("/state/settings.json")) << "the journal outlives the process";
    daemon.drain();
  }
  // Switched off meanwhile: the next start finds the journal, puts back, and changes nothing.
  daemon.system.put("/params/OutriderMode", "0");
  daemon.start(kOver);
  EXPECT_TRUE(soon(put_back)) << daemon.system.get("/knobs/a");
  EXPECT_FALSE(daemon.system.has("/state/settings.json"));
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  daemon.drain();
  // And an end in order.
  daemon.system.put("/params/OutriderMode", "2");
  daemon.start(kOver);
  ASSERT_TRUE(soon(changed));
  EXPECT_EQ(daemon.end(SIGTERM), 0);
  EXPECT_TRUE(put_back());
  EXPECT_FALSE(daemon.system.has("/state/settings.json"));
}

TEST(OwnerProcess, provisioning_runs_as_a_program_and_its_work_is_seen) {
  Daemon daemon;
  daemon.write_config(R"(,"default_model":{"path":"/m.gguf","sha256":")" + std::string(64, 'd') +
                      R"("},"provision":["/bin/sh","-c","echo {sha256} {model} > )" +
                      daemon.system.at("/asked.txt") + R"("])");
  daemon.start();
  EXPECT_FALSE(daemon.system.has("/asked.txt"));  // nobody dialled
  // A far end dials the port.
  std::string endpoint;
  for (int i = 0; i < 300 && endpoint.empty(); ++i, ::usleep(10'000))
    endpoint = daemon.view().status.endpoint;
  auto far_end =
      link::connect_tcp(link::parse_endpoint(endpoint).value(), link::steady_now_ns() + kSec);
  ASSERT_TRUE(far_end) << far_end.error().text;
  for (int i = 0; i < 500 && !daemon.system.has("/asked.txt"); ++i) ::usleep(10'000);
  ::usleep(100'000);
  EXPECT_EQ(daemon.system.get("/asked.txt"), std::string(64, 'd') + " /m.gguf");
}

TEST(OwnerProcess, FC49_status_is_one_document_and_says_dead_of_the_dead) {
  Daemon daemon;
  EXPECT_EQ(Daemon::wait(daemon.launch({"--status"})), 1);
  EXPECT_NE(daemon.system.get("/out.txt").find("\"alive\":false,\"state\":\"unavailable\""),
            std::string::npos);
  daemon.start();
  EXPECT_EQ(Daemon::wait(daemon.launch({"--status"})), 0);
  const std::string text = daemon.system.get("/out.txt");
  EXPECT_NE(text.find("\"alive\":true"), std::string::npos) << text;
  EXPECT_NE(text.find("\"runtime\":{\"state\":\"unavailable\",\"active\":false"), std::string::npos)
      << text;
}

TEST(OwnerProcess, what_is_wrong_with_a_call_is_told_with_status_2) {
  Daemon daemon;
  EXPECT_EQ(Daemon::wait(daemon.launch({"--sttus"})), 2);
  EXPECT_NE(daemon.system.get("/out.txt").find("did you mean --status"), std::string::npos);
  EXPECT_EQ(Daemon::wait(daemon.launch({"--help"})), 0);
  EXPECT_EQ(Daemon::wait(daemon.launch({"--check"})), 0);
  daemon.write_config(",\"sokcet\":1");
  EXPECT_EQ(Daemon::wait(daemon.launch({"--check"})), 2);
  std::filesystem::remove(daemon.system.at("/owner.json"));
  EXPECT_EQ(Daemon::wait(daemon.launch()), 2);
}

TEST(OwnerProcess, R43_asking_with_nobody_there_returns_at_once) {
  Daemon daemon;
  daemon.start();
  outrider::test::OwnTime own;
  EXPECT_EQ(Daemon::wait(daemon.launch({"--power-off", "low battery"})), 0);
  EXPECT_LT(own.ns(), 2 * kSec);
  EXPECT_FALSE(daemon.system.has("/power-off.json"));
}

std::string packaged(const std::string& name) {
  std::ifstream in(std::string(OUTRIDER_SOURCE_DIR) + "/packaging/systemd/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(OwnerPackage, the_sample_configuration_is_read_by_the_program) {
  const auto read = parse_config(packaged("owner.json"), "owner.json");
  EXPECT_TRUE(read) << read.error().text;
}

TEST(OwnerPackage, the_unit_is_watched_stays_in_the_mount_namespace_and_outlasts_a_power_off) {
  const std::string unit = packaged("outriderd.service");
  std::map<std::string, std::string> keys;
  std::istringstream lines(unit);
  for (std::string line; std::getline(lines, line);)
    if (const size_t at = line.find('='); at != std::string::npos && line[0] != '#')
      keys[line.substr(0, at)] = line.substr(at + 1);
  EXPECT_EQ(keys["Type"], "notify");
  EXPECT_EQ(keys["Restart"], "always");
  EXPECT_GE(std::atoi(keys["WatchdogSec"].c_str()), 3);
  EXPECT_GT(std::atoi(keys["TimeoutStopSec"].c_str()) * kSec, kPowerOffNs + kTermNs + kSec);
  EXPECT_NE(keys["ExecStop"].find("poweroff.target"), std::string::npos);
  EXPECT_NE(keys["ExecStop"].find("--power-off"), std::string::npos);
  EXPECT_EQ(keys["ExecStop"].find("reboot"), std::string::npos);  // R42
  EXPECT_EQ(keys["RuntimeDirectory"], "outrider");
  EXPECT_EQ(keys["StateDirectory"], "outrider/owner");
  for (const char* hides :
       {"PrivateTmp", "PrivateDevices", "PrivateMounts", "ProtectHome", "ProtectSystem",
        "ProtectKernelTunables", "ProtectKernelLogs", "ProtectControlGroups", "ReadOnlyPaths",
        "ReadWritePaths", "InaccessiblePaths", "TemporaryFileSystem", "BindPaths", "RootDirectory"})
    EXPECT_EQ(keys.count(hides), 0u) << hides;
}

}  // namespace
}  // namespace outrider::owner::test
