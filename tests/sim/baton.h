// Two strands that take turns in simulated time: the caller of the tick and the control thread of
// the tandem. One runs at a time, so the same seed gives the same run; time moves only while both
// sleep. Between two moments fate may strike: a host dies, a cable is cut, the device stands still.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sim/turns.h"

namespace outrider::sim {

class Baton {
 public:
  explicit Baton(int64_t& now_ns) : now_ns_(now_ns) {}

  // ---- of the actor whose turn it is
  // Returns at this time, later when the device stood still, earlier when it was woken. The other
  // one runs meanwhile.
  void sleep_until(Actor me, int64_t at_ns) {
    wake_ns_[me] = at_ns;
    asleep_[me] = true;
    pass(me);
    asleep_[me] = false;
  }
  // The other one, if it sleeps, goes on at once (when this one sleeps).
  void wake(Actor other) {
    if (asleep_[other]) wake_ns_[other] = now_ns_;
  }
  // The control thread: begins when the caller first sleeps. After its end only the caller is left.
  void start(std::function<void()> body) {
    turns_.start([this, body = std::move(body)] {
      body();
      over_ = true;
      wake_ns_[kControl] = INT64_MAX;
    });
  }
  bool over() const { return over_; }

  // What happens between two moments: at its time, in order, with whoever sleeps woken after it.
  void strike_at(int64_t at_ns, std::function<void()> what) {
    const auto place =
        std::find_if(fates_.begin(), fates_.end(), [&](const Fate& f) { return f.at_ns > at_ns; });
    fates_.insert(place, {at_ns, std::move(what)});
  }
  // The device stands still from now on: nobody runs before that has passed.
  void stand_still(int64_t ns) {
    still_until_ns_ = std::max(still_until_ns_, now_ns_ + ns);
    stalled_ns += ns;
  }
  int64_t stalled_ns = 0;  // all of it

 private:
  struct Fate {
    int64_t at_ns;
    std::function<void()> what;
  };

  void pass(Actor me) {
    const Actor other = me == kCaller ? kControl : kCaller;
    for (;;) {
      // A tie goes to the control thread.
      const bool mine =
          me == kControl ? wake_ns_[me] <= wake_ns_[other] : wake_ns_[me] < wake_ns_[other];
      const Actor next = mine ? me : other;
      if (!fates_.empty() && fates_.front().at_ns <= wake_ns_[next]) {
        const Fate fate = std::move(fates_.front());
        fates_.erase(fates_.begin());
        now_ns_ = std::max(now_ns_, fate.at_ns);
        fate.what();
        wake(kControl);
        continue;
      }
      now_ns_ = std::max({now_ns_, wake_ns_[next], still_until_ns_});
      if (next == me) return;
      turns_.give(me, other);
      return;
    }
  }

  int64_t& now_ns_;
  int64_t wake_ns_[2] = {0, 0};
  int64_t still_until_ns_ = 0;
  bool asleep_[2] = {false, true};
  std::vector<Fate> fates_;
  bool over_ = false;
  Turns turns_;
};

}  // namespace outrider::sim
