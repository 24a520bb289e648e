#include "tandem/record.h"

#include <sys/random.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/json.h"
#include "base/private_file.h"

namespace outrider::tandem {
namespace {

constexpr int64_t kMaxAgeNs = 1500000000, kMaxOutputAgeNs = 250000000;
constexpr const char* kStates[] = {"none",  "joining", "retrying",
                                   "ready", "running", "unavailable"};

std::string first_line(const char* path) {
  char text[1024] = {};
  if (std::FILE* file = std::fopen(path, "re")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = '\0';
    std::fclose(file);
  }
  text[strcspn(text, "\n")] = '\0';
  return text;
}

// Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and brackets.
int64_t start_ticks_of(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
  const std::string line = first_line(path);
  size_t at = line.rfind(')');
  if (at == std::string::npos) return -1;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  return at == std::string::npos ? -1 : std::strtoll(line.c_str() + at, nullptr, 10);
}

std::string random_hex() {
  unsigned char bytes[16] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return std::string(32, '0');
  std::string text;
  char two[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

bool is_hex(const std::string& text, size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The machine's leading and holding are both "running" for readers.
const char* state_word(Phase phase) {
  return phase == Phase::kLeading || phase == Phase::kHolding ? "running" : phase_name(phase);
}

std::string digest_of(const std::string& identity) {
  constexpr std::string_view kKey = "\nweights_sha256=";
  const size_t at = identity.find(kKey);
  if (at == std::string::npos) return {};
  const std::string digest = identity.substr(at + kKey.size(), 64);
  return is_hex(digest, 64) ? digest : std::string();
}

}  // namespace

Record::Record(Parts parts) : parts_(std::move(parts)) {
  const size_t slash = parts_.path.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : parts_.path.substr(0, slash);
  name_ = slash == std::string::npos ? parts_.path : parts_.path.substr(slash + 1);
  boot_id_ = first_line("/proc/sys/kernel/random/boot_id");
  session_ = random_hex();
  pid_ = getpid();
  start_ticks_ = start_ticks_of(pid_);
}

Result<std::unique_ptr<Record>> Record::start(Parts parts) {
  std::unique_ptr<Record> record(new Record(std::move(parts)));
  if (record->name_.empty())
    return make_error(Code::kInvalid, "record_path %.200s: names no file",
                      record->parts_.path.c_str());
  if (auto wrote = record->write(state_word(Phase::kJoining)); !wrote)
    return make_error(wrote.code(), "record_path %.200s: %s", record->parts_.path.c_str(),
                      wrote.error().text);
  record->thread_ = std::thread([raw = record.get()] { raw->run(); });
  return record;
}

Record::~Record() {
  if (!thread_.joinable()) return;
  stop_ = true;
  parts_.changed->raise();
  thread_.join();
  (void)write(phase_name(Phase::kUnavailable)).code();
}

void Record::run() {
  uint32_t seen = parts_.changed->now();
  while (!stop_) {
    const auto phase = static_cast<Phase>(parts_.glance->phase.load(std::memory_order_acquire));
    (void)write(state_word(phase)).code();  // a full disk must not end a drive; the record ages
    const int64_t until_ns = parts_.clock->now_ns() + kPeriodNs;
    parts_.changed->wait(seen, until_ns);
    seen = parts_.changed->now();
  }
}

Result<void> Record::write(const char* state) {
  const bool running = std::strcmp(state, "running") == 0;
  const int64_t output_ns =
      running ? parts_.glance->lead_output_ns.load(std::memory_order_relaxed) : 0;
  char text[1024];
  int n = std::snprintf(
      text, sizeof text,
      "{\"version\":1,\"boot_id\":\"%s\",\"session\":\"%s\",\"pid\":%" PRId64
      ",\"process_start_ticks\":%" PRId64 ",\"mono_ns\":%" PRId64
      ",\"state\":\"%s\",\"handovers\":%" PRId64 ",\"remote_output_mono_ns\":%" PRId64,
      boot_id_.c_str(), session_.c_str(), pid_, start_ticks_, parts_.clock->now_ns(), state,
      parts_.glance->handovers.load(std::memory_order_relaxed), output_ns);
  const std::string digest = running ? digest_of(parts_.lead_identity()) : std::string();
  std::string line(text, static_cast<size_t>(n));
  if (!digest.empty()) line += ",\"artifact_sha256\":\"" + digest + "\"";
  line += "}\n";
  const std::span<const std::byte> piece = std::as_bytes(std::span(line));
  return write_private_file(folder_, name_, std::span(&piece, 1));
}

RecordPlace here(const Clock& clock) {
  return {first_line("/proc/sys/kernel/random/boot_id"), clock.now_ns(), start_ticks_of};
}

RecordView read_record(std::string_view text, const RecordPlace& place) {
  const RecordView nothing;
  auto parsed = Json::parse(text);
  if (!parsed) return nothing;
  const Json& json = parsed.value();
  bool typed = true;
  const auto integer = [&](const char* key) -> int64_t {
    const Json* value = json.find(key);
    typed &= value != nullptr && value->is_number() && value->is_integer();
    return value != nullptr ? value->integer() : 0;
  };
  const auto word = [&](const char* key) -> std::string {
    const Json* value = json.find(key);
    typed &= value != nullptr && value->is_string();
    return value != nullptr ? value->text() : std::string();
  };
  const int64_t version = integer("version"), pid = integer("pid"),
                ticks = integer("process_start_ticks"), mono_ns = integer("mono_ns"),
                output_ns = integer("remote_output_mono_ns");
  RecordView view;
  view.handovers = integer("handovers");
  view.state = word("state");
  const std::string boot_id = word("boot_id"), session = word("session");
  bool known = false;
  for (const char* state : kStates) known |= view.state == state;
  const bool proven = typed && version == 1 && boot_id == place.boot_id && is_hex(session, 32) &&
                      pid > 0 && ticks > 0 && place.start_ticks(pid) == ticks && mono_ns > 0 &&
                      mono_ns <= place.now_ns && place.now_ns - mono_ns <= kMaxAgeNs &&
                      output_ns >= 0 && output_ns <= mono_ns && known && view.handovers >= 0;
  if (!proven) return nothing;
  const Json* digest = json.find("artifact_sha256");
  view.active = view.state == "running" && digest != nullptr && digest->is_string() &&
                is_hex(digest->text(), 64) && output_ns > 0 &&
                mono_ns - output_ns <= kMaxOutputAgeNs;
  return view;
}

}  // namespace outrider::tandem
