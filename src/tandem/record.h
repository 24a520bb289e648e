// The status record of a tandem: one small JSON file, replaced whole, that tells other processes
// who leads.
//
// Fields and rules: driving.md f.2. One writer: a thread of its own, so that neither the tick nor
// a lead that hangs delays it. It writes at a change of state, and at least once a second.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "record/runtime.h"
#include "tandem/handover.h"
#include "tandem/runner.h"

namespace outrider::tandem {

class Record {
 public:
  struct Parts {
    std::string path;
    const Glance* glance = nullptr;
    Signal* changed = nullptr;
    const Clock* clock = nullptr;
    std::function<std::string()> lead_identity;
  };
  static constexpr int64_t kPeriodNs = 1000000000;

  // [setup] Writes the first record, then starts the thread. Errors: kNotFound, kFailed: the path
  // cannot be written.
  static Result<std::unique_ptr<Record>> start(Parts parts);
  ~Record();  // writes a last record with state "unavailable"

 private:
  explicit Record(Parts parts);
  Result<void> write(const char* state);
  void run();

  Parts parts_;
  std::string boot_id_, session_, folder_, name_;
  int64_t pid_ = 0, start_ticks_ = 0;
  std::atomic<bool> stop_{false};
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
