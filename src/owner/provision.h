// When the provisioning run starts and when it is stopped: parked only. Pure.
//
// A run is a program of its own that borrows the link like everybody else, brings the host what it
// lacks and ends with 0 when nothing is left to do. Which model: pinned_choice().
#pragma once
#include <cstdint>
#include <string>

namespace outrider::owner {

inline constexpr int64_t kAfterBorrowerNs = 4'000'000'000;  // somebody let go a moment ago
inline constexpr int64_t kLeftWorkNs = 300'000'000'000;     // the last run ended with work left
inline constexpr int64_t kOwnTurnNs = 90'000'000'000;  // a run's end takes the device off the bus
inline constexpr int64_t kTermNs = 10'000'000'000;     // between SIGTERM and SIGKILL

class Provision {
 public:
  struct Input {
    int64_t now_ns = 0;
    bool link_on = false, parked = false;
    bool far_end_here = false;
    bool lent = false;         // to somebody who is not the run
    bool power_off = false;    // being asked: it comes first
    uint64_t wanted_hash = 0;  // of what should be there: pick and spec record
    bool running = false;      // the run
    int exit_status = -1;      // of a run that ended since the last step; -1: none did
  };
  enum class Do : uint8_t { kNothing, kStart, kTerminate, kKill };
  Do step(const Input& in) noexcept;

  bool unfinished() const noexcept { return unfinished_; }
  bool stopping() const noexcept { return stopping_; }

 private:
  bool due(const Input& in) noexcept;
  bool checked_ = false, unfinished_ = false, stopping_ = false, killed_ = false;
  bool was_here_ = false, was_lent_ = false;
  uint64_t checked_hash_ = 0, started_hash_ = 0;
  int64_t again_ns_ = INT64_MAX, free_ns_ = INT64_MIN, news_ns_ = INT64_MIN, term_ns_ = 0;
};

struct PinnedModel {
  std::string path, sha256;  // "": nothing to bring
};
struct Choice {
  std::string sha256;
  bool offers_choice = false;  // a picker may show more than one
};
// With neither a slot nor a catalog named there is one model, the pinned one, asked for by its
// hash; a picked hash (64 hexadecimal digits, read from the slot) comes first where there is a
// slot.
Choice pinned_choice(const std::string& slot_key, const std::string& catalog_key,
                     const std::string& picked, const PinnedModel& pinned);

}  // namespace outrider::owner
