// Which stages may run now: the order book of one session. Pure bookkeeping, no calls.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace outrider::host {

struct Stage {
  std::string name;
  uint32_t executor_ref = 0;    // what run_opaque is given: published, never the index
  std::vector<uint32_t> after;  // earlier stages, strictly increasing
};

// A stage may run once every stage in its `after` has run since the last tick began. Running one
// again is allowed (a text model decodes many times after one prefill) and makes what depends on it
// stale.
class StageOrder {
 public:
  explicit StageOrder(std::vector<Stage> stages);

  std::span<const Stage> stages() const { return stages_; }
  size_t size() const { return stages_.size(); }

  void begin_tick() noexcept;  // [hot] nothing has run yet
  int64_t first_missing(
      uint64_t stage) const noexcept;      // [hot] index of a stage it waits for, or -1
  void started(uint64_t stage) noexcept;   // [hot] it and all that depend on it are stale
  void finished(uint64_t stage) noexcept;  // [hot] it ran well
  void timed(uint64_t stage, int64_t took_ns) noexcept { ns_[stage] = took_ns; }
  int64_t last_ns(uint64_t stage) const noexcept { return ns_[stage]; }

 private:
  std::vector<Stage> stages_;
  std::vector<uint8_t> done_;
  std::vector<int64_t> ns_;
};

}  // namespace outrider::host
