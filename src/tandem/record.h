// The status record of a tandem: one small JSON file, replaced whole, that tells other processes
// who leads.
//
// Fields and rules: driving.md f.2. One writer: a thread of its own, so that neither the tick nor
// a lead that hangs delays it. It writes when the state changes, when the first output of a lead
// that took over is there, and else once a second; the machine's leading and holding are one state
// to it, and two writes are never closer than kLeastNs.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "record/runtime.h"
#include "tandem/handover.h"
#include "tandem/lead_driver.h"
#include "tandem/runner.h"

namespace outrider::tandem {

class Record {
 public:
  struct Parts {
    std::string path;
    const Glance* glance = nullptr;
    Signal* changed = nullptr;
    const Clock* clock = nullptr;
    std::function<LeadName()> lead_name;
  };
  static constexpr int64_t kPeriodNs = 1000000000, kLeastNs = 50000000;

  // [setup] Writes the first record, then starts the thread. A record that a tandem left is
  // replaced, nothing else. Errors: kInvalid (something else is at the path), kNotFound, kFailed:
  // the path cannot be written.
  static Result<std::unique_ptr<Record>> start(Parts parts);
  // [setup] What the record says of the warp from now on. Any thread.
  void note_warp(std::string route, std::string reason);
  ~Record();  // writes a last record with state "unavailable"

 private:
  explicit Record(Parts parts);
  Result<void> write(const char* state, bool led);
  void run();
  void sleep(int64_t until_ns, uint32_t& seen);

  Parts parts_;
  std::string boot_id_, session_, folder_, name_;
  int64_t pid_ = 0, start_ticks_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex warp_mutex_;  // cold threads only
  std::string warp_route_, warp_reason_;
  std::atomic<bool> rewrite_{false};
  std::thread thread_;
};

// Its reader is record/runtime.h.
using RecordView = record::RuntimeView;
using RecordPlace = record::Place;
using record::here;
inline RecordView read_record(std::string_view text, const RecordPlace& place) {
  return record::read_runtime(text, place);
}

}  // namespace outrider::tandem
