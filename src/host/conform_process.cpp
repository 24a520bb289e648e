// What a provider does to the process it lives in: memory that ticks keep, the end of the last
// instance, standard output. ABI text 6; field cases on memory that grows by the tick.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/clock.h"
#include "host/conform_bench.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OUTRIDER_KEEPS_FREED_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OUTRIDER_KEEPS_FREED_MEMORY 1
#endif
#endif

namespace outrider::host::conformance {
namespace {

// Memory is judged over windows of ticks. A cache that fills or an arena that is touched for the
// first time grows in some of them, a leak in every one.
constexpr int kWindows = 4;
constexpr int kMinTicks = 6, kMaxTicks = 250;       // in one window
constexpr int64_t kBudgetNs = INT64_C(3000000000);  // for the warm-up and all windows
constexpr int64_t kLimitNs = 4 * kBudgetNs;         // a provider that slows down is let go
constexpr int64_t kMinWindowBytes = 64 * 1024;      // below: pages that malloc moves about
constexpr int64_t kMaxTickBytes = 1024;             // what a tick may keep

// RssAnon + VmSwap of this process; -1 when the system does not tell.
int64_t anonymous_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return -1;
  char line[256];
  int64_t total_kb = 0, kb = 0;
  bool any = false;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "RssAnon: %" SCNd64, &kb) == 1)
      total_kb += kb, any = true;
    else if (std::sscanf(line, "VmSwap: %" SCNd64, &kb) == 1)
      total_kb += kb;
  }
  std::fclose(file);
  return any ? total_kb * 1024 : -1;
}

bool ticks(Bench& b, Verdict& v, int n, int64_t end_ns) {
  const MonotonicClock clock;
  for (int i = 0; i < n; ++i) {
    if (!b.run_tick(*b.main, v)) return false;
    (void)b.main->read_all();
    if (clock.now_ns() > end_ns) {
      v.skip("ticks became slower while they were counted");
      return false;
    }
  }
  return true;
}

void ticks_keep_no_memory(Bench& b, Verdict& v) {
#ifdef OUTRIDER_KEEPS_FREED_MEMORY
  (void)b;
  return v.skip("a sanitizer keeps freed memory in this build");
#else
  const MonotonicClock clock;
  const int64_t start_ns = clock.now_ns(), end_ns = start_ns + kLimitNs;
  if (!ticks(b, v, 1, INT64_MAX)) return;
  const int64_t tick_ns = std::max<int64_t>(clock.now_ns() - start_ns, 1);
  const int64_t affordable = kBudgetNs / tick_ns / (kWindows + 1);
  if (affordable < kMinTicks)
    return v.skip("a tick takes %" PRId64 " ms; too few of them fit into %" PRId64 " s",
                  tick_ns / 1000000, kBudgetNs / 1000000000);
  const int n = static_cast<int>(std::min<int64_t>(affordable, kMaxTicks));
  if (!ticks(b, v, n, end_ns)) return;  // warm-up
  const int64_t allowed = std::max(kMinWindowBytes, kMaxTickBytes * n);
  const int64_t begin_bytes = anonymous_bytes();
  int64_t bytes = begin_bytes;
  for (int window = 0; window < kWindows; ++window) {
    const int64_t before = bytes;
    if (!ticks(b, v, n, end_ns)) return;
    bytes = anonymous_bytes();
    if (before < 0 || bytes < 0) return v.skip("/proc/self/status does not tell RssAnon");
    if (bytes - before <= allowed) return;  // no leak; what is left cannot tell otherwise
  }
  const int64_t kept = bytes - begin_bytes;
  v.fail("%d ticks kept %" PRId64 " bytes, %" PRId64 " each; allowed are %" PRId64
         " in one of %d windows of %d ticks",
         kWindows * n, kept, kept / (kWindows * n), allowed, kWindows, n);
#endif
}

// The name is what is reported when a provider hangs or dies here.
void the_end_returns(Bench& b, Verdict&) {
  b.close();
}

void stdout_is_left_alone(Bench& b, Verdict& v) {
  const int fd = b.options().stdout_fd;
  if (fd < 0) return v.skip("standard output is not looked at");
  b.look_at_stdout("the last release");
  if (b.wrote_to_stdout().empty()) return;
  char text[121] = {};
  (void)!::pread(fd, text, sizeof text - 1, 0);
  v.fail("%" PRId64 " bytes, first in the check \"%s\": %s",
         static_cast<int64_t>(::lseek(fd, 0, SEEK_CUR)), b.wrote_to_stdout().c_str(), text);
}

constexpr Check kChecks[] = {
    {"memory: ticks keep none", Check::kSound, ticks_keep_no_memory},
    {"lifetime: the last release and the unloading return", Check::kLibrary, the_end_returns},
    {"output: never writes to standard output", Check::kNothing, stdout_is_left_alone},
};

}  // namespace

std::span<const Check> process_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
