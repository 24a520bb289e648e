#include "tandem/record.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/helper_thread.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/private_file.h"

namespace outrider::tandem {
namespace {

// The machine's leading and holding are both "running" for readers.
const char* state_word(Phase phase) {
  return phase == Phase::kLeading || phase == Phase::kHolding ? "running" : phase_name(phase);
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
  if (auto free =
          find_own_file(record->parts_.path, record::kMaxRuntimeBytes, record::is_runtime_record);
      !free)
    return make_error(free.code(), "record_path: %s", free.error().text);
  if (auto wrote = record->write(state_word(Phase::kJoining), false); !wrote)
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
  (void)write(phase_name(Phase::kUnavailable), false).code();
}

// Until the time has come or something changed; what changed meanwhile counts.
void Record::sleep(int64_t until_ns, uint32_t& seen) {
  parts_.changed->wait(seen, until_ns);
  seen = parts_.changed->now();
}

void Record::run() {
  become_helper_thread();
  const char* written = state_word(Phase::kJoining);
  bool written_led = false;
  int64_t written_ns = parts_.clock->now_ns();
  uint32_t seen = parts_.changed->now();
  while (!stop_) {
    const auto phase = static_cast<Phase>(parts_.glance->phase.load(std::memory_order_acquire));
    const char* state = state_word(phase);
    const bool led = parts_.glance->lead_output_ns.load(std::memory_order_relaxed) > 0;
    const int64_t now_ns = parts_.clock->now_ns();
    const bool changed = std::strcmp(state, written) != 0 || led != written_led || rewrite_;
    const int64_t due_ns = written_ns + (changed ? kLeastNs : kPeriodNs);
    if (now_ns < due_ns) {
      sleep(due_ns, seen);
      continue;
    }
    rewrite_ = false;
    (void)write(state, led).code();  // a full disk must not end a drive; the record ages
    written = state;
    written_led = led;
    written_ns = now_ns;
  }
}

void Record::note_warp(std::string route, std::string reason) {
  {
    const std::scoped_lock lock(warp_mutex_);
    warp_route_ = std::move(route);
    warp_reason_ = std::move(reason);
  }
  rewrite_ = true;
  parts_.changed->raise();
}

Result<void> Record::write(const char* state, bool led) {
  const int64_t output_ns = led && std::strcmp(state, "running") == 0
                                ? parts_.glance->lead_output_ns.load(std::memory_order_relaxed)
                                : 0;
  char text[1024];
  const int n = std::snprintf(
      text, sizeof text,
      "{\"version\":1,\"boot_id\":\"%s\",\"session\":\"%s\",\"pid\":%" PRId64
      ",\"process_start_ticks\":%" PRId64 ",\"mono_ns\":%" PRId64
      ",\"state\":\"%s\",\"handovers\":%" PRId64 ",\"remote_output_mono_ns\":%" PRId64,
      boot_id_.c_str(), session_.c_str(), pid_, start_ticks_, parts_.clock->now_ns(), state,
      parts_.glance->handovers.load(std::memory_order_relaxed), output_ns);
  std::string line(text, static_cast<size_t>(n));
  const LeadName lead = output_ns > 0 ? parts_.lead_name() : LeadName();
  if (!lead.sha256.empty()) line += ",\"artifact_sha256\":\"" + lead.sha256 + "\"";
  if (lead.bytes > 0) line += ",\"artifact_nbytes\":" + std::to_string(lead.bytes);
  {
    const std::scoped_lock lock(warp_mutex_);
    if (!warp_route_.empty())
      line += ",\"warp_route\":" + json_quoted(printable(warp_route_, 200)) +
              ",\"warp_reason\":" + json_quoted(printable(warp_reason_, 200));
  }
  line += "}\n";
  const std::span<const std::byte> piece = std::as_bytes(std::span(line));
  return write_private_file(folder_, name_, std::span(&piece, 1));
}

}  // namespace outrider::tandem
