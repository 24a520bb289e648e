#include "cli/push.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/sha256.h"
#include "cli/config.h"
#include "cli/link_host.h"
#include "cli/output.h"
#include "gguf/gguf.h"
#include "link/provision/store_client.h"
#include "models/pi_gguf.h"

namespace outrider::cli {
namespace {

constexpr int64_t kDialNs = 5'000'000'000;
constexpr int64_t kFirstPauseNs = 20'000'000, kLongestPauseNs = 2'000'000'000;
constexpr size_t kHashBytes = size_t{4} << 20;

enum class Kind : uint8_t { kPolicy, kVision, kOther };

Result<Kind> kind_of(const std::string& path) {
  auto bytes = FileBytes::open(path);
  if (!bytes) return bytes.error();
  if (bytes.value().size() < 4) return Kind::kOther;
  auto magic = bytes.value().read(0, 4);
  if (!magic) return magic.error();
  if (std::memcmp(magic.value().data(), "GGUF", 4) != 0) return Kind::kOther;
  auto file = GgufFile::open(path.c_str());
  if (!file) return file.error();
  const bool policy = is_pi_policy(file.value()), vision = is_pi_vision(file.value());
  if (policy && vision) return Kind::kOther;  // both halves in one file: it goes alone
  return policy ? Kind::kPolicy : vision ? Kind::kVision : Kind::kOther;
}

Result<void> add_file(PushPlan& plan, const std::string& path, const std::string& name,
                      store::Role role) {
  auto bytes = FileBytes::open(path);
  if (!bytes) return bytes.error();
  if (bytes.value().size() == 0)
    return make_error(Code::kInvalid, "%s: 0 bytes, a file to push has 1 or more",
                      shown(path, 300).c_str());
  PushedFile file;
  file.path = path;
  file.name = name.empty() ? std::filesystem::path(path).filename().string() : name;
  file.role = role;
  file.bytes = std::move(bytes.value());
  plan.files.push_back(std::move(file));
  return {};
}

// Everything that changes from one connection to the next.
class Pusher {
 public:
  Pusher(PushPlan& plan, link::Dialer& dialer, const Clock& clock, int64_t timeout_ns,
         const TellPush& tell, PushOutcome& outcome)
      : plan_(plan),
        dialer_(dialer),
        clock_(clock),
        timeout_ns_(timeout_ns),
        tell_(tell),
        outcome_(outcome) {}

  Result<void> run() {
    moved_ns_ = clock_.now_ns();
    for (;;) {
      const auto pushed = over_one_connection();
      if (pushed) return {};
      const bool again =
          outcome_.n_connections > 0 && (!outcome_.refused || pushed.code() == Code::kNotReady);
      if (!again || clock_.now_ns() - moved_ns_ >= timeout_ns_) return pushed;
      pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
      std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns_));
    }
  }

 private:
  Result<void> over_one_connection() {
    outcome_.refused = false;
    const int64_t most_ns = std::min(kDialNs, timeout_ns_);
    auto connection = connect_store(dialer_, clock_, clock_.now_ns() + most_ns);
    if (!connection) {
      outcome_.refused = connection.code() == Code::kUnsupported;
      return connection.error();
    }
    ++outcome_.n_connections;
    link::StoreClient client(*connection.value());
    for (; at_ < plan_.files.size(); ++at_, best_ = {}) OUTRIDER_TRY(push_one(client));
    return {};
  }

  Result<void> push_one(link::StoreClient& client) {
    PushedFile& file = plan_.files[at_];
    link::PushFile what{file.sha256, file.name, static_cast<uint8_t>(file.role), {}};
    if (at_ + 1 == plan_.files.size())
      for (size_t i = 0; i < at_; ++i) what.companions.push_back(plan_.files[i].sha256);
    link::PushLimits limits;
    limits.silence_ns = std::min(limits.silence_ns, timeout_ns_);
    limits.stall_ns = std::min(limits.stall_ns, timeout_ns_);
    auto pushed = push_file(client, what, file.bytes, limits, clock_,
                            [&](const store::Progress& progress) { return on_progress(progress); });
    if (pushed) {
      file.resumed_at = pushed.value().resumed_at;
      file.sent_bytes = pushed.value().sent_bytes;
      file.was_there = pushed.value().was_there;
      return {};
    }
    outcome_.refused = client.refused();
    if (outcome_.refused && pushed.code() == Code::kNotReady) watch_other(client, file);
    return pushed.error();
  }

  // Only what no connection reached before counts as getting further.
  bool on_progress(const store::Progress& progress) {
    const auto stage = static_cast<size_t>(progress.stage);
    if (progress.n_done > best_[stage]) {
      best_[stage] = progress.n_done;
      moved();
    }
    tell_(plan_.files[at_], store::stage_name(progress.stage), progress.n_done);
    return true;
  }

  // Another device pushes the same file: as long as its bytes become more, there is hope.
  void watch_other(link::StoreClient& client, const PushedFile& file) {
    auto list = client.list(clock_.now_ns() + std::min(kDialNs, timeout_ns_));
    if (list)
      for (const link::wire::StoreEntry& entry : list.value().entries.items)
        if (entry.sha256.view() == file.sha256 && entry.have_bytes > other_bytes_) {
          other_bytes_ = entry.have_bytes;
          moved();
          tell_(file, "wait", entry.have_bytes);
        }
    outcome_.refused = true;
  }

  void moved() {
    moved_ns_ = clock_.now_ns();
    pause_ns_ = 0;
  }

  PushPlan& plan_;
  link::Dialer& dialer_;
  const Clock& clock_;
  const int64_t timeout_ns_;
  const TellPush& tell_;
  PushOutcome& outcome_;
  size_t at_ = 0;
  std::array<uint64_t, 3> best_{};  // of each stage
  uint64_t other_bytes_ = 0;
  int64_t moved_ns_ = 0, pause_ns_ = 0;
};

}  // namespace

// ---- files -------------------------------------------------------------------------------------

Result<FileBytes> FileBytes::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  FileBytes out;
  out.file_ = std::move(file.value());
  out.path_ = path;
  return out;
}

Result<std::span<const std::byte>> FileBytes::read(uint64_t at, size_t n) {
  buffer_.resize(std::max(buffer_.size(), n));
  const auto wanted = std::span(buffer_).first(n);
  auto got = file_.read_at(at, wanted);
  if (!got) return make_error(Code::kFailed, "%s", got.error().text);
  if (got.value() < n)
    return make_error(Code::kFailed,
                      "%s: it had %llu bytes and ends at byte %llu now; push it again when "
                      "nobody writes to it",
                      shown(path_, 200).c_str(), static_cast<unsigned long long>(size()),
                      static_cast<unsigned long long>(at + got.value()));
  return std::span<const std::byte>(wanted);
}

Result<PushPlan> plan_push(const std::string& path, const std::string& vision,
                           const std::string& name) {
  PushPlan plan;
  auto kind = kind_of(path);
  if (!kind) return kind.error();
  if (kind.value() != Kind::kPolicy && !vision.empty())
    return make_error(Code::kInvalid,
                      "--mmproj: only a PI0 or PI0.5 policy of two files has a vision file; %s "
                      "is none",
                      shown(path, 200).c_str());
  if (kind.value() == Kind::kPolicy) {
    auto beside = vision.empty() ? find_vision_file(path) : Result<std::string>(vision);
    if (!beside) return beside.error();
    OUTRIDER_TRY(add_file(plan, beside.value(), "", store::Role::kProjector));
  }
  OUTRIDER_TRY(
      add_file(plan, path, name,
               kind.value() == Kind::kVision ? store::Role::kProjector : store::Role::kModel));
  return plan;
}

Result<void> hash_files(PushPlan& plan, const TellPush& tell) {
  for (PushedFile& file : plan.files) {
    Sha256 sum;
    for (uint64_t at = 0; at < file.bytes.size(); at += kHashBytes) {
      tell(file, "hash", at);
      auto part = file.bytes.read(at, std::min<uint64_t>(kHashBytes, file.bytes.size() - at));
      if (!part) return part.error();
      sum.add(part.value());
    }
    auto hex = sum.hex();
    if (!hex) return hex.error();
    file.sha256 = std::move(hex.value());
  }
  return {};
}

Result<std::unique_ptr<link::Connection>> connect_store(link::Dialer& dialer, const Clock& clock,
                                                        int64_t deadline_ns) {
  link::LinkError why;
  auto connection = link::Connection::make(
      dialer, clock, link_name(link::wire::kFeatures | link::wire::kFeatureStore), deadline_ns,
      why);
  if (connection == nullptr) return why.error;
  if (!connection->has(link::wire::kFeatureStore))
    return make_error(Code::kUnsupported,
                      "the host at %s keeps no models: its service configuration has no \"store\"",
                      connection->channel().facts().peer);
  return connection;
}

Result<void> push_files(PushPlan& plan, link::Dialer& dialer, const Clock& clock,
                        int64_t timeout_ns, const TellPush& tell, PushOutcome& outcome) {
  return Pusher(plan, dialer, clock, timeout_ns, tell, outcome).run();
}

}  // namespace outrider::cli
