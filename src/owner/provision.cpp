#include "owner/provision.h"

#include "record/process.h"

namespace outrider::owner {

bool Provision::due(const Input& in) noexcept {
  const bool turned_up = in.far_end_here && !was_here_ && in.now_ns >= news_ns_;
  return !checked_ || in.wanted_hash != checked_hash_ || turned_up || in.now_ns >= again_ns_;
}

Provision::Do Provision::step(const Input& in) noexcept {
  if (in.exit_status >= 0) {
    // Stopped by us is work left too, but the next parked moment is soon enough.
    const bool good = in.exit_status == 0 && !stopping_;
    checked_ = !stopping_;
    checked_hash_ = started_hash_;
    unfinished_ = !good;
    again_ns_ = good ? INT64_MAX : in.now_ns + kLeftWorkNs;
    stopping_ = killed_ = false;
    news_ns_ = in.now_ns + kOwnTurnNs;
  }
  if (was_lent_ && !in.lent) free_ns_ = in.now_ns + kAfterBorrowerNs;
  was_lent_ = in.lent;
  const bool may_run = in.link_on && in.parked && !in.power_off;
  if (in.running) {
    was_here_ = in.far_end_here;
    if (may_run && !stopping_) return Do::kNothing;
    if (!stopping_) {
      stopping_ = true;
      term_ns_ = in.now_ns;
      return Do::kTerminate;
    }
    if (!killed_ && in.now_ns - term_ns_ >= kTermNs) {
      killed_ = true;
      return Do::kKill;
    }
    return Do::kNothing;
  }
  // What turns up while no run may start is remembered: it counts when one may.
  if (!may_run || in.lent || in.now_ns < free_ns_) {
    if (!in.far_end_here) was_here_ = false;
    return Do::kNothing;
  }
  const bool start = in.far_end_here && due(in);
  was_here_ = in.far_end_here;
  if (!start) return Do::kNothing;
  started_hash_ = in.wanted_hash;
  again_ns_ = INT64_MAX;
  return Do::kStart;
}

Choice pinned_choice(const std::string& slot_key, const std::string& catalog_key,
                     const std::string& picked, const PinnedModel& pinned) {
  Choice choice{pinned.sha256, !slot_key.empty() && !catalog_key.empty()};
  if (!slot_key.empty() && record::is_hex(picked, 64)) choice.sha256 = picked;
  return choice;
}

}  // namespace outrider::owner
