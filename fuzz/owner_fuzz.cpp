// Everything that the owner daemon, its borrowers and its readers parse: lines of the lending
// protocol, status and runtime record, power-off request, configuration, journal of settings. What
// is accepted keeps its ranges and reads the same after being written again; a record that names
// another boot or process is never believed; a journal never leads outside the settings.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "owner/config.h"
#include "owner/power_off.h"
#include "owner/settings.h"
#include "owner/status.h"
#include "record/runtime.h"

namespace outrider::owner {
namespace {

constexpr const char* kBoot = "b";

// Files in memory; remembers what was written.
class MemorySystem final : public System {
 public:
  int64_t now_ns() override { return 1'000'000'000'000; }
  std::string boot_id() override { return kBoot; }
  int64_t pid() override { return 1; }
  void pause(int64_t) override {}
  int64_t start_ticks(int64_t) override { return 5; }
  int read(const std::string& path, std::string& text) override {
    if (files.count(path) == 0) return -2;
    text = files[path];
    return 0;
  }
  int write(const std::string& path, std::string_view text) override {
    OUTRIDER_ASSERT(path.starts_with("/sys/") || path.starts_with("/proc/sys/"));
    OUTRIDER_ASSERT(path.find("/../") == std::string::npos);
    files[path] = text;
    return 0;
  }
  int replace(const std::string& path, std::string_view text, bool) override {
    files[path] = text;
    return 0;
  }
  int remove(const std::string& path) override { return files.erase(path) ? 0 : -2; }
  int64_t spawn(const std::vector<std::string>&, const std::string&) override { return -1; }
  int64_t group(int64_t) override { return -1; }
  int signal_group(int64_t, int) override { return 0; }
  std::optional<int> reap(int64_t) override { return std::nullopt; }
  std::map<std::string, std::string> files;
};

std::string without_newline(std::string line) {
  OUTRIDER_ASSERT(line.find('\n') == line.size() - 1);
  line.pop_back();
  return line;
}

void try_lines(std::string_view text) {
  if (auto request = read_request(text)) {
    const std::string line = without_newline(to_line(request.value()));
    auto again = read_request(line);
    OUTRIDER_ASSERT(bool(again));
    OUTRIDER_ASSERT(to_line(again.value()) == line + "\n");
    if (request.value().op == Op::kBorrow) OUTRIDER_ASSERT(is_name(request.value().name));
  }
  if (auto reply = read_reply(text)) {
    const std::string line = without_newline(to_line(reply.value()));
    auto again = read_reply(line);
    // A reply may name no serial or path ("" is a text): writing leaves it away.
    if (again) OUTRIDER_ASSERT(to_line(again.value()) == line + "\n");
  }
  LineReader reader;
  std::string line;
  for (size_t at = 0; at < text.size(); at += 100) {
    if (!reader.add(text.substr(at, 100))) break;
    while (reader.next(line)) OUTRIDER_ASSERT(line.size() <= kMaxLineBytes);
  }
}

void try_records(std::string_view text) {
  const record::Place nobody{kBoot, 1'000'000'000'000, [](int64_t) { return int64_t{-1}; }};
  OUTRIDER_ASSERT(!read_status(text, nobody).alive);
  OUTRIDER_ASSERT(!record::read_runtime(text, nobody).active);
  const record::Place anybody{kBoot, 1'000'000'000'000, [](int64_t) { return int64_t{5}; }};
  const OwnerView view = read_status(text, anybody);
  if (view.alive) {
    OUTRIDER_ASSERT(view.status.boot_id == kBoot && view.status.start_ticks == 5);
    const std::string line = without_newline(status_text(view.status));
    OUTRIDER_ASSERT(read_status(line, anybody).alive);
  }
  const record::RuntimeView runtime = record::read_runtime(text, anybody);
  OUTRIDER_ASSERT(!runtime.active || record::is_hex(runtime.artifact_sha256, 64));
  OUTRIDER_ASSERT(!runtime.active || runtime.state == "running");
  if (auto request = read_power_off(text, kBoot, 1'000'000'000'000)) {
    const int64_t wait = request.value().deadline_ns - request.value().asked_ns;
    OUTRIDER_ASSERT(wait >= 0 && wait <= kPowerOffNs);
  }
}

void try_files(std::string_view text) {
  if (auto config = parse_config(text, "owner.json")) {
    OUTRIDER_ASSERT(config.value().socket[0] == '/');
    OUTRIDER_ASSERT(!config.value().plaintext || config.value().key_file.empty());
  }
  MemorySystem system;
  system.files["/j"] = text;
  system.files["/sys/a"] = "1";
  Settings settings(system, "/j");
  (void)settings.recover().code();
  OUTRIDER_ASSERT(settings.n_changed() == 0);
}

}  // namespace
}  // namespace outrider::owner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  outrider::owner::try_lines(text);
  outrider::owner::try_records(text);
  outrider::owner::try_files(text);
  return 0;
}
