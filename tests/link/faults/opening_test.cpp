// FC-37: silence at every step of an open. The cable goes dead, nobody is told: after the connect,
// in the proof of the key, after the hello, in the middle of an answer, before the last byte of the
// description that is mirrored.
#include <sys/stat.h>

#include <fstream>

#include "link/faults/drive.h"
#include "link/faults/fault_proxy.h"
#include "link/secure/secure.h"
#include "support/temp_dir.h"

namespace outrider::link::faults {
namespace {

constexpr int64_t kConnectMs = 150;

struct Opening {
  bool opened = false;
  int64_t took_ns = 0, own_ns = 0;
  std::string error;
};

// An open over the proxy, one direction of which goes silent at that byte.
Opening open_with_silence(FaultProxy& proxy, bool forth, uint64_t at, const std::string& more) {
  Rules rules;
  (forth ? rules.forth : rules.back) = {.at = at, .then = Then::kSilence};
  proxy.next(rules);
  test::OwnTime own;
  const int64_t begin = clock_here().now_ns();
  const Drive drive(proxy.endpoint(), {.connect_ms = kConnectMs, .more = more});
  const int64_t took_ns = clock_here().now_ns() - begin;
  return {drive.is_open(), took_ns, own.ns(), drive.open_error()};
}

void expect_in_time(const Opening& open, const std::string& where) {
  EXPECT_GE(open.took_ns, (kConnectMs - 20) * kMs) << where << ": given up before its time";
  EXPECT_LT(open.own_ns, kConnectMs * kMs + kSlackNs) << where;
  EXPECT_NE(open.error.find("link: deadline: "), std::string::npos) << where << ": " << open.error;
  EXPECT_EQ(open.error.find('\n'), std::string::npos) << where;
}

// Silence at byte 0, at steps to the first byte at which the open succeeds, and at the last byte
// before that. How many bytes the whole opening has in this direction.
uint64_t silence_everywhere(FaultProxy& proxy, bool forth, const std::string& more) {
  const auto fails_at = [&](uint64_t at) {
    const Opening open = open_with_silence(proxy, forth, at, more);
    if (!open.opened)
      expect_in_time(open, std::string(forth ? "forth" : "back") + " at " + std::to_string(at));
    return !open.opened;
  };
  uint64_t fails = 0, opens = 0;
  for (uint64_t at = 0, step = 1; opens == 0 && at < (1 << 20); at += step) {
    if (fails_at(at))
      fails = at;
    else
      opens = at;
    step = std::min<uint64_t>(step + 13, 97);  // bytes of a header one by one are the simulator's
  }
  while (opens - fails > 1) {
    const uint64_t middle = fails + (opens - fails) / 2;
    (fails_at(middle) ? fails : opens) = middle;
  }
  return opens;
}

// What this process holds once the host has forgotten every device: in 10 s, where it heard no end.
Held held_when_forgotten(const Host& host) {
  for (int i = 0; i < 1400 && host.counters().peers.load() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(host.counters().peers.load(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its threads are joined
  return held_by(0);
}

// A host that hears no goodbye keeps an owner for a while: there is room for as many as come.
ServerOptions roomy() {
  ServerOptions options;
  options.models.max_instances = 256;
  options.max_peers = 256;
  return options;
}

TEST(Opening, FC37_silence_at_every_step_ends_in_time_with_its_cause_and_leaves_nothing) {
  const Host host(fake_config(64), "tcp://127.0.0.1:0", roomy());
  FaultProxy proxy(host.port());
  for (const bool way : {false, true}) silence_everywhere(proxy, way, "");  // runtimes are taken
  {
    Drive good(proxy.endpoint());
    ASSERT_TRUE(good.is_open()) << good.open_error();
    ASSERT_EQ(good.ticks(3), 3);
  }
  const Held base = held_when_forgotten(host);
  const uint64_t back = silence_everywhere(proxy, false, ""),
                 forth = silence_everywhere(proxy, true, "");
  // Hello and open: at least two headers each way, and what is mirrored.
  EXPECT_GT(forth, 2 * wire::kHeaderBytes);
  EXPECT_GT(back, 2 * wire::kHeaderBytes + 100);
  {
    Drive again(proxy.endpoint());
    ASSERT_TRUE(again.is_open()) << "after it is plugged in: " << again.open_error();
    EXPECT_EQ(again.ticks(3), 3);
  }
  held_when_forgotten(host);
  const Held now = settle(0, base, kSlackKb, kSecond);
  EXPECT_LE(now.n_files, base.n_files);
  EXPECT_LE(now.n_threads, base.n_threads);
  EXPECT_LE(now.anonymous_kb, base.anonymous_kb + kSlackKb);
}

// With a key there are more steps: offers and proofs before the hello.
TEST(Opening, FC37_silence_in_the_proof_of_the_key_ends_in_time_with_its_cause) {
  const outrider::test::TempDir dir;
  const std::string path = dir.file("link.key");
  std::ofstream(path) << "link" << std::string(32, 'k');
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const auto key = read_key_file(path);
  ASSERT_TRUE(key) << key.error().text;
  ServerOptions options = roomy();
  options.secure = [&](std::unique_ptr<Transport> plain, int64_t deadline_ns) {
    return secure_as_host(std::move(plain), key.value(), deadline_ns);
  };
  const Host host(fake_config(64), "tcp://127.0.0.1:0", options);
  FaultProxy proxy(host.port());
  const std::string more = ",\"key_file\":\"" + path + "\"";
  for (const bool forth : {false, true})
    EXPECT_GT(silence_everywhere(proxy, forth, more), 2 * wire::kHeaderBytes + 64);
  Drive drive(proxy.endpoint(), {.more = more});
  ASSERT_TRUE(drive.is_open()) << drive.open_error();
  EXPECT_EQ(drive.ticks(2), 2);
}

}  // namespace
}  // namespace outrider::link::faults
