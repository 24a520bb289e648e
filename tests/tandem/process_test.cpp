// Real processes over loopback, real time: a host that is killed with SIGKILL again and again at
// random moments, and a tandem at 20 Hz whose every tick is answered.
//   OUTRIDER_LONG_TESTS=1: 60 s, a kill every 5 s; otherwise 10 s, a kill every 2 s.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/rng.h"
#include "host/session.h"
#include "outrider/ext/tandem.h"
#include "support/temp_dir.h"
#include "support/witness.h"

namespace outrider::tandem::test {
namespace {

constexpr int64_t kMs = 1000000, kPeriodNs = 50 * kMs, kStandbyNs = 5 * kMs;
const std::string kBuild = OUTRIDER_BUILD_DIR;

void sleep_until_ns(int64_t at_ns) {
  const timespec when = {at_ns / 1000000000, at_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

// `outrider serve` of a fake model.
class Host {
 public:
  ~Host() { kill_now(); }
  // Port 0: any. Returns once it listens; false when it did not.
  bool start(int port) {
    const std::string config = outrider::test::temp_file("host.json");
    std::ofstream(config) << R"({"model_family":"fake","sleep_ms":5})";
    const std::string provider = kBuild + "/lib/provider_fake.so",
                      program = kBuild + "/bin/outrider",
                      listen = "tcp://127.0.0.1:" + std::to_string(port);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], 1);
      execl(program.c_str(), "outrider", "serve", config.c_str(), "--provider", provider.c_str(),
            "--listen", listen.c_str(), "--json", static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    std::string line;
    for (char byte = 0; line.size() < 65536 && read(ends[0], &byte, 1) == 1 && byte != '\n';)
      line += byte;
    close(ends[0]);
    const std::string key = "tcp://127.0.0.1:";
    const size_t at = line.find(key);
    if (at == std::string::npos) return false;
    port_ = std::atoi(line.c_str() + at + key.size());
    return true;
  }
  void kill_now() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int port() const { return port_; }
  // Stands still, and goes on.
  void stop() const { kill(pid_, SIGSTOP); }
  void go_on() const { kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = -1;
  int port_ = 0;
};

// A fake of 5 ms here, another one at the end of that port.
Result<host::Session> open_pair(int port, const std::string& more = "") {
  std::ofstream(outrider::test::temp_file("standby.json"))
      << R"({"model_family":"fake","sleep_ms":5})";
  std::ofstream(outrider::test::temp_file("lead.json"))
      << R"({"model_family":"remote","model":"default","connect_ms":500,"endpoint":"tcp://127.0.0.1:)"
      << port << "\"}";
  return host::Session::open(
      kBuild + "/lib/provider_tandem.so",
      R"({"model_family":"tandem","standby":")" + outrider::test::temp_file("standby.json") +
          R"(","lead":")" + outrider::test::temp_file("lead.json") + R"(","standby_provider":")" +
          kBuild + R"(/lib/provider_fake.so","lead_provider":")" + kBuild +
          R"(/lib/provider_link.so")" + more + "}");
}
bool stage(host::Session& session) {
  const uint8_t pixels[72] = {};
  const frt_image_view view = {sizeof view, FRT_PIXEL_RGB8, pixels, sizeof pixels, 6, 4, 18, 0, 0};
  const float state = 1;
  const std::byte nobody{0};
  return session.set_image(0, {&view, 1}) && session.set_text(1, "go") &&
         session.set_state(2, {&state, 1}) && session.set_raw(6, {&nobody, 1});
}

// A process that lets a host live for about `every_ms`, kills it, and gives birth to the next one
// 300 ms later, for ever. The phase of a kill within a tick is random. Goes with its owner.
class Reaper {
 public:
  Reaper(int every_ms, uint64_t seed) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) run(ends[1], every_ms, seed);
    close(ends[1]);
    if (read(ends[0], &port, sizeof port) != sizeof port) port = 0;
    close(ends[0]);
  }
  ~Reaper() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  int port = 0;

 private:
  [[noreturn]] static void run(int out, int every_ms, uint64_t seed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Host host;
    const UniformStream dice(seed);
    if (!host.start(0)) _exit(1);
    const int first = host.port();
    if (write(out, &first, sizeof first) != sizeof first) _exit(1);
    for (uint64_t i = 0;; ++i) {
      usleep(static_cast<useconds_t>(every_ms - 300) * 1000 +
             static_cast<useconds_t>(dice.bits(i) % 50000));
      host.kill_now();
      usleep(300000);
      if (!host.start(first)) _exit(1);
    }
  }
  pid_t pid_ = -1;
};

struct Drive {
  std::vector<int64_t> late_ns;  // end of each tick after its due time
  std::vector<int64_t>
      decision_ns;  // ticks that the lead had and did not answer: start to decision
  int64_t by_lead = 0, over = 0, beyond = 0, worst_stall_ns = 0;
};

double ms(int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}
// Of sorted values.
int64_t quantile(const std::vector<int64_t>& v, size_t percent) {
  return v.empty() ? 0 : v[std::min(v.size() - 1, v.size() * percent / 100)];
}

// 20 Hz for n ticks. A tick counts as beyond its period only by what the machine itself did not
// stall between its due time and its end; both are reported.
void drive(host::Session& session, const outrider_tandem_v1& table, int64_t n_ticks, Drive& out) {
  const MonotonicClock clock;
  outrider::test::Witness witness;
  int64_t leader = 1;
  const int64_t first_ns = clock.now_ns() + kMs;
  for (int64_t i = 0; i < n_ticks; ++i) {
    const int64_t due_ns = first_ns + i * kPeriodNs;
    sleep_until_ns(due_ns - 2 * kMs);
    witness.take_worst_ns();  // what stood still before this tick excuses nothing
    sleep_until_ns(due_ns);
    table.due(table.self, due_ns);
    ASSERT_TRUE(stage(session));
    const auto ticked = session.tick();
    const int64_t end_ns = clock.now_ns();
    ASSERT_TRUE(ticked) << "tick " << i << ": " << ticked.error().text;
    ASSERT_TRUE(session.get_actions(3)) << i;
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    table.read_origin(table.self, origin);
    const bool held = origin[OUTRIDER_ORIGIN_HELD] != 0, by_lead = origin[0] == 2 && !held;
    if (leader == 2 && !by_lead)
      out.decision_ns.push_back(end_ns - due_ns - (held ? 0 : kStandbyNs));
    leader = origin[0];
    out.by_lead += by_lead;
    out.late_ns.push_back(end_ns - due_ns);
    const int64_t stall_ns = witness.take_worst_ns();
    out.over += end_ns - due_ns > kPeriodNs;
    out.worst_stall_ns = std::max(out.worst_stall_ns, stall_ns);
    out.beyond += end_ns - due_ns - stall_ns > kPeriodNs;
  }
}

TEST(TandemProcess, FC36_a_host_killed_at_random_moments_costs_no_tick) {
  const bool full = std::getenv("OUTRIDER_LONG_TESTS") != nullptr;
  const int64_t n_ticks = full ? 1200 : 200;
  const auto seed = static_cast<uint64_t>(getpid());
  const Reaper reaper(full ? 5000 : 2000, seed);
  ASSERT_GT(reaper.port, 0) << "outrider serve did not begin to listen";
  auto opened = open_pair(reaper.port, R"(,"retry_quick_ms":200,"retry_quick_count":1000)");
  ASSERT_TRUE(opened) << opened.error().text;
  host::Session& session = opened.value();
  const auto* table =
      static_cast<const outrider_tandem_v1*>(session.extension(OUTRIDER_EXT_TANDEM, 1));
  ASSERT_NE(table, nullptr);
  Drive d;
  drive(session, *table, n_ticks, d);
  if (HasFatalFailure()) return;

  std::sort(d.late_ns.begin(), d.late_ns.end());
  std::sort(d.decision_ns.begin(), d.decision_ns.end());
  int64_t counters[OUTRIDER_TANDEM_COUNT];
  table->read_counters(table->self, counters);
  const int64_t losses = counters[OUTRIDER_TANDEM_LOSSES];
  std::printf(
      "   seed %llu: %lld losses, %lld of %lld ticks by the lead; end of a tick after its due time "
      "p50 %.2f p99 %.2f worst %.2f ms; %zu fall-back decisions, p50 %.2f p99 %.2f worst %.2f ms; "
      "longest stall of the machine within a tick %.2f ms; %lld ticks ended later than their "
      "period\n",
      static_cast<unsigned long long>(seed), static_cast<long long>(losses),
      static_cast<long long>(d.by_lead), static_cast<long long>(n_ticks),
      ms(quantile(d.late_ns, 50)), ms(quantile(d.late_ns, 99)), ms(quantile(d.late_ns, 100)),
      d.decision_ns.size(), ms(quantile(d.decision_ns, 50)), ms(quantile(d.decision_ns, 99)),
      ms(quantile(d.decision_ns, 100)), ms(d.worst_stall_ns), static_cast<long long>(d.over));
  EXPECT_EQ(d.beyond, 0) << "ticks that were not answered within their period";
  EXPECT_EQ(counters[OUTRIDER_TANDEM_REFUSED], 0);
  EXPECT_EQ(counters[OUTRIDER_TANDEM_TICKS], n_ticks);
  EXPECT_GT(d.by_lead, n_ticks / 10) << "the lead hardly led: proves nothing";
  EXPECT_GE(losses, full ? 8 : 2) << "hardly anything was lost: proves nothing";
}

// A loop that wakes up 25 of 50 ms late while the host stands still: what is held comes 46 ms after
// the tick was due and not 71, so that it is in time all the same.
TEST(TandemProcess, R9_a_late_wake_up_does_not_move_the_hold_point) {
  constexpr int64_t kLateNs = 25 * kMs;
  Host host;
  ASSERT_TRUE(host.start(0)) << "outrider serve did not begin to listen";
  auto opened = open_pair(host.port(), R"(,"return_ticks":1,"proving_ticks":3)");
  ASSERT_TRUE(opened) << opened.error().text;
  host::Session& session = opened.value();
  const auto* table =
      static_cast<const outrider_tandem_v1*>(session.extension(OUTRIDER_EXT_TANDEM, 1));
  ASSERT_NE(table, nullptr);
  const MonotonicClock clock;
  outrider::test::Witness witness;
  std::vector<int64_t> held_ns;
  int64_t led = 0, due_ns = clock.now_ns() + kMs;
  for (int i = 0; i < 200 && held_ns.size() < 5; ++i, due_ns += kPeriodNs) {
    const bool strikes = led >= 6;
    if (strikes) host.stop();
    sleep_until_ns(due_ns - 2 * kMs);
    witness.take_worst_ns();
    sleep_until_ns(due_ns + (strikes ? kLateNs : 0));
    table->due(table->self, due_ns);
    ASSERT_TRUE(stage(session));
    const auto ticked = session.tick();
    const int64_t end_ns = clock.now_ns();
    host.go_on();  // its answer is late, and it leads on
    ASSERT_TRUE(ticked) << "tick " << i << ": " << ticked.error().text;
    int64_t origin[OUTRIDER_ORIGIN_COUNT];
    table->read_origin(table->self, origin);
    const bool held = origin[OUTRIDER_ORIGIN_HELD] != 0;
    led = origin[OUTRIDER_ORIGIN_LEADER] == 2 && !held ? led + 1 : 0;
    if (!strikes || !held) continue;
    const int64_t stall_ns = witness.take_worst_ns();
    held_ns.push_back(end_ns - due_ns);
    EXPECT_GE(end_ns - due_ns, 46 * kMs);
    EXPECT_LT(end_ns - due_ns - stall_ns, kPeriodNs) << "counted from when the tick began";
  }
  ASSERT_EQ(held_ns.size(), 5u) << "hardly anything was held: proves nothing";
  std::sort(held_ns.begin(), held_ns.end());
  std::printf("   woken %.0f ms late: held p50 %.2f worst %.2f ms after the tick was due\n",
              ms(kLateNs), ms(held_ns[2]), ms(held_ns[4]));
}

}  // namespace
}  // namespace outrider::tandem::test
