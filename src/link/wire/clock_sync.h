// How far the peer's clock is from ours, from the stamps of ordinary messages.
//
// Every exchange gives an offset that is wrong by at most half of what the round trip cost beyond
// the peer's own stay. Of the last kWindow exchanges the one with the shortest trip counts. A clock
// that jumped shows as an exchange that contradicts the estimate by more than both can be wrong:
// kStepVotes of them in a row throw the window away.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider::link::wire {

class ClockSync {
 public:
  static constexpr size_t kWindow = 32;
  static constexpr uint32_t kStepVotes = 3;
  // What two good clocks drift apart while the window fills, beyond the measured bound.
  static constexpr int64_t kSlackNs = 100'000;

  // [hot] One exchange, all ns. our_send and our_receive by our clock; peer_receive and peer_send
  // by the peer's. Nonsense (time that runs backwards) is ignored.
  void add(int64_t our_send, int64_t peer_receive, int64_t peer_send, int64_t our_receive) noexcept;

  bool known() const noexcept { return n_ > 0; }
  int64_t offset_ns() const noexcept { return best_.offset; }  // peer clock minus ours
  int64_t bound_ns() const noexcept {
    return best_.trip / 2;
  }                                                        // the offset is wrong by at most this
  int64_t trip_ns() const noexcept { return best_.trip; }  // shortest round trip in the window
  int64_t last_trip_ns() const noexcept { return last_trip_; }
  uint64_t n_exchanges() const noexcept { return n_exchanges_; }
  uint64_t n_steps() const noexcept { return n_steps_; }

  // The peer's point in time by our clock, and the other way.
  int64_t to_ours(int64_t peer_ns) const noexcept { return peer_ns - best_.offset; }
  int64_t to_peers(int64_t our_ns) const noexcept { return our_ns + best_.offset; }

  void reset() noexcept;

 private:
  struct Sample {
    int64_t offset = 0, trip = 0;
  };
  void choose() noexcept;
  std::array<Sample, kWindow> window_{};
  size_t n_ = 0, next_ = 0;
  Sample best_;
  int64_t last_trip_ = 0;
  uint32_t votes_ = 0;
  uint64_t n_exchanges_ = 0, n_steps_ = 0;
};

}  // namespace outrider::link::wire
