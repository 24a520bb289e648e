#include "bench/link_soak.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "bench/link_pair.h"
#include "outrider/ext/status.h"

namespace outrider::link_bench {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr long kMayGrowKb = 256;

struct Held {
  int n_files = 0, n_threads = 0;
  long anonymous_kb = 0;
};

int count_entries(const std::string& path) {
  DIR* dir = ::opendir(path.c_str());
  int n = -2;  // . and ..
  while (dir != nullptr && ::readdir(dir) != nullptr) ++n;
  if (dir != nullptr) ::closedir(dir);
  return n;
}

Held held_by(pid_t pid) {
  const std::string root = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid));
  Held held{count_entries(root + "/fd"), count_entries(root + "/task"), 0};
  std::FILE* status = std::fopen((root + "/status").c_str(), "re");
  char line[256];
  while (status != nullptr && std::fgets(line, sizeof line, status) != nullptr)
    if (std::sscanf(line, "RssAnon: %ld", &held.anonymous_kb) == 1) break;
  if (status != nullptr) std::fclose(status);
  return held;
}

int64_t counter(const link::Runtime& runtime, const char* name) {
  const void* table = nullptr;
  const frt_model_runtime_v1& face = runtime.face();
  if (face.query_extension(&face, OUTRIDER_EXT_STATUS, 1, &table) != 0) return -1;
  const auto* status = static_cast<const outrider_status_v1*>(table);
  std::vector<outrider_counter_v1> all(status->read(status->self, nullptr, 0));
  status->read(status->self, all.data(), all.size());
  for (const auto& c : all)
    if (std::strcmp(c.name, name) == 0) return c.value;
  return -1;
}

void sleep_until(int64_t at_ns) {
  const timespec at = {static_cast<time_t>(at_ns / kSecond), static_cast<long>(at_ns % kSecond)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

void print_held(const char* name, const Held& before, const Held& after) {
  std::printf(",\"%s\":{\"files\":[%d,%d],\"threads\":[%d,%d],\"anonymous_kb\":[%ld,%ld]}", name,
              before.n_files, after.n_files, before.n_threads, after.n_threads, before.anonymous_kb,
              after.anonymous_kb);
}

bool grew(const Held& before, const Held& after) {
  return after.n_files > before.n_files || after.n_threads > before.n_threads ||
         after.anonymous_kb > before.anonymous_kb + kMayGrowKb;
}

}  // namespace

int run_soak(const Soak& soak, const std::string& lib) {
  const KeyFile key;
  const HostProcess host(lib, soak.encrypted ? key.path() : "");
  auto local = open_runtime(lib + "/provider_fake.so", fake_config(kTickSide));
  auto remote = host.open("tick", 200);
  Request here(kTickSide), there(kTickSide);
  const auto period_ns = static_cast<int64_t>(1e9 / soak.rate_hz);
  const auto n_ticks = static_cast<int64_t>(soak.seconds * soak.rate_hz);
  const int64_t warm = n_ticks / 10;
  // Written to once, so that filling it later is no growth.
  std::vector<double> ms(static_cast<size_t>(n_ticks), 1.0);
  ms.clear();
  int64_t lost = 0, late = 0;
  Held device_before, host_before;
  int64_t next_ns = clock_here().now_ns();
  for (int64_t i = 0; i < n_ticks; ++i) {
    if (i == warm) device_before = held_by(0), host_before = held_by(host.pid());
    sleep_until(next_ns);
    const int64_t begin = clock_here().now_ns();
    there.set_number(static_cast<float>(i % 100'000));
    const int code = there.tick(*remote);
    ms.push_back(static_cast<double>(clock_here().now_ns() - begin) / 1e6);
    if (code != 0 && ++lost < 5)
      std::fprintf(stderr, "tick %lld: %s\n", static_cast<long long>(i), remote->last_error());
    if (i % 10 == 0 && code == 0) {  // every tenth answer is compared
      here.set_number(static_cast<float>(i % 100'000));
      here.tick_ms(*local);
      if (here.out() != there.out()) ++lost;
    }
    next_ns += period_ns;
    if (const int64_t now = clock_here().now_ns(); now > next_ns) {
      ++late;
      next_ns = now;  // no burst to catch up
    }
  }
  const Held device_after = held_by(0), host_after = held_by(host.pid());
  std::ranges::sort(ms);
  std::printf(
      "{\"version\":1,\"encrypted\":%s,\"seconds\":%.0f,\"rate_hz\":%.0f,\"ticks\":%lld,"
      "\"lost\":%lld,\"late\":%lld,\"reconnects\":%lld,\"corrupted\":%lld,"
      "\"ms\":{\"p50\":%.3f,\"p99\":%.3f,\"p99.9\":%.3f,\"max\":%.3f}",
      soak.encrypted ? "true" : "false", soak.seconds, soak.rate_hz,
      static_cast<long long>(n_ticks), static_cast<long long>(lost), static_cast<long long>(late),
      static_cast<long long>(counter(*remote, "reconnects")),
      static_cast<long long>(counter(*remote, "corrupted_messages")), percentile(ms, 0.5),
      percentile(ms, 0.99), percentile(ms, 0.999), ms.back());
  print_held("device", device_before, device_after);
  print_held("host", host_before, host_after);
  std::printf("}\n");
  return lost > 0 || grew(device_before, device_after) || grew(host_before, host_after) ? 1 : 0;
}

}  // namespace outrider::link_bench
