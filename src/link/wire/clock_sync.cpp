#include "link/wire/clock_sync.h"

namespace outrider::link::wire {
namespace {
// Stamps beyond this are no monotonic clock: sums of them could leave int64.
constexpr int64_t kMaxStampNs = INT64_MAX / 4;
bool sane(int64_t ns) noexcept {
  return ns >= 0 && ns <= kMaxStampNs;
}
}  // namespace

void ClockSync::add(int64_t our_send, int64_t peer_receive, int64_t peer_send,
                    int64_t our_receive) noexcept {
  if (!sane(our_send) || !sane(peer_receive) || !sane(peer_send) || !sane(our_receive)) return;
  const int64_t trip = (our_receive - our_send) - (peer_send - peer_receive);
  if (our_receive < our_send || peer_send < peer_receive || trip < 0) return;
  const Sample sample{((peer_receive - our_send) + (peer_send - our_receive)) / 2, trip};
  ++n_exchanges_;
  last_trip_ = trip;
  if (n_ > 0) {
    const int64_t apart =
        sample.offset > best_.offset ? sample.offset - best_.offset : best_.offset - sample.offset;
    const bool contradicts = apart > sample.trip / 2 + best_.trip / 2 + kSlackNs;
    votes_ = contradicts ? votes_ + 1 : 0;
    if (contradicts && votes_ < kStepVotes) return;  // one of them may be a mistake
    if (contradicts) {
      ++n_steps_;
      n_ = next_ = 0;
      votes_ = 0;
    }
  }
  window_[next_] = sample;
  next_ = (next_ + 1) % kWindow;
  if (n_ < kWindow) ++n_;
  choose();
}

void ClockSync::choose() noexcept {
  best_ = window_[0];
  for (size_t i = 1; i < n_; ++i)
    if (window_[i].trip < best_.trip) best_ = window_[i];
}

void ClockSync::reset() noexcept {
  *this = ClockSync();
}

}  // namespace outrider::link::wire
