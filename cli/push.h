// A model file and what it needs, from this machine into the store of a host.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/input_file.h"
#include "base/result.h"
#include "link/client/connection.h"
#include "link/provision/pusher.h"
#include "link/store/info.h"
#include "link/store/progress.h"

namespace outrider::cli {

// A regular file read by pieces, not mapped: somebody may cut it while it is pushed.
class FileBytes final : public link::PushBytes {
 public:
  // Errors: kNotFound (missing, unreadable, no regular file).
  static Result<FileBytes> open(const std::string& path);
  FileBytes() = default;
  uint64_t size() const override { return file_.size_bytes(); }
  Result<std::span<const std::byte>> read(uint64_t at, size_t n) override;

 private:
  InputFile file_;
  std::string path_;
  std::vector<std::byte> buffer_;
};

struct PushedFile {
  std::string path, name, sha256;
  store::Role role = store::Role::kModel;
  FileBytes bytes;
  // Of the connection that brought it to its end:
  uint64_t resumed_at = 0, sent_bytes = 0;
  bool was_there = false;  // published already
};

struct PushPlan {
  std::vector<PushedFile> files;  // companions first, the model last
};

// Stage of a file ("hash", then those of the store), bytes done.
using TellPush = std::function<void(const PushedFile& file, const char* stage, uint64_t n_done)>;

// [setup] The files: the vision file of a PI0 policy is `vision`, or when that is "" the one beside
// it. Errors: those of the files; kInvalid (empty file, vision file for something else).
Result<PushPlan> plan_push(const std::string& path, const std::string& vision,
                           const std::string& name);

// [setup] Reads all bytes once for their SHA-256. Errors: of FileBytes::read.
Result<void> hash_files(PushPlan& plan, const TellPush& tell);

struct PushOutcome {
  int n_connections = 0;
  bool refused = false;  // the error is the host's answer; otherwise the link failed
};

// [setup] Pushes; connects again after every loss and goes on where the host is, until nothing
// moved for `timeout_ns`. The first connection must succeed at once. Waits while another device
// pushes the same file. Errors: the host's, or those of the link ("link: ...").
Result<void> push_files(PushPlan& plan, link::Dialer& dialer, const Clock& clock,
                        int64_t timeout_ns, const TellPush& tell, PushOutcome& outcome);

// [setup] A connection whose host keeps models. Errors: of the link, kUnsupported (no store there).
Result<std::unique_ptr<link::Connection>> connect_store(link::Dialer& dialer, const Clock& clock,
                                                        int64_t deadline_ns);

}  // namespace outrider::cli
