#include "tandem/record.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/private_file.h"

namespace outrider::tandem {
namespace {

// The machine's leading and holding are both "running" for readers.
const char* state_word(Phase phase) {
  return phase == Phase::kLeading || phase == Phase::kHolding ? "running" : phase_name(phase);
}

std::string digest_of(const std::string& identity) {
  constexpr std::string_view kKey = "\nweights_sha256=";
  const size_t at = identity.find(kKey);
  if (at == std::string::npos) return {};
  const std::string digest = identity.substr(at + kKey.size(), 64);
  return record::is_hex(digest, 64) ? digest : std::string();
}

}  // namespace

Record::Record(Parts parts) : parts_(std::move(parts)) {
  const size_t slash = parts_.path.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : parts_.path.substr(0, slash);
  name_ = slash == std::string::npos ? parts_.path : parts_.path.substr(slash + 1);
  boot_id_ = record::boot_id();
  session_ = record::random_session();
  pid_ = getpid();
  start_ticks_ = record::start_ticks_of(pid_);
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

}  // namespace outrider::tandem
