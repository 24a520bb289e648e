// Numbers for a cold thread to make sentences of: hot code puts, readers follow at their own pace.
//
// One producer, any number of readers. `put` costs a few stores: it never blocks, allocates or
// fails, and overwrites the oldest entry when the ring is full. Every slot carries a sequence
// number (odd while it is being written), so a reader takes an entry whole or counts it as lost.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outrider {

struct Event {
  int64_t time_ns = 0;  // from the producer's Clock
  uint16_t id = 0;      // meaning of a and b: the producing module's list of events
  int64_t a = 0, b = 0;
  bool operator==(const Event&) const = default;
};

// kMidRead is for tests, which let the producer go on in the middle of a read.
template <size_t kSlots, void (*kMidRead)() = nullptr>
class EventRing {
  static_assert(kSlots > 0 && (kSlots & (kSlots - 1)) == 0, "a power of two");

 public:
  static constexpr size_t kCapacity = kSlots;

  // [hot] Producer thread only.
  void put(const Event& event) noexcept {
    const uint64_t ticket = n_put_.load(std::memory_order_relaxed);
    Slot& slot = slots_[ticket % kSlots];
    slot.sequence.store(writing(ticket), std::memory_order_relaxed);
    // Each store releases the odd number above: who sees a new field also sees that it is new.
    slot.time_ns.store(event.time_ns, std::memory_order_release);
    slot.id.store(event.id, std::memory_order_release);
    slot.a.store(event.a, std::memory_order_release);
    slot.b.store(event.b, std::memory_order_release);
    slot.sequence.store(written(ticket), std::memory_order_release);
    n_put_.store(ticket + 1, std::memory_order_release);
  }

  // [any] Entries put since the beginning, and how many of them newer ones have replaced.
  uint64_t n_put() const noexcept { return n_put_.load(std::memory_order_acquire); }
  uint64_t n_overwritten() const noexcept {
    const uint64_t n = n_put();
    return n > kSlots ? n - kSlots : 0;
  }

  // A place in the stream; starts at the oldest entry kept. One per reading thread. The ring must
  // outlive it.
  class Reader {
   public:
    explicit Reader(const EventRing& ring) : ring_(&ring), next_(ring.n_overwritten()) {}

    // The next entry, oldest first. False when there is none, or when the producer laps this
    // reader kSlots times in a row (then the next call goes on).
    bool take(Event& out) noexcept {
      for (size_t n_tries = 0; n_tries < kSlots; ++n_tries) {
        const uint64_t n_put = ring_->n_put();
        if (next_ == n_put) return false;
        if (n_put - next_ > kSlots) {
          n_lost_ += n_put - kSlots - next_;
          next_ = n_put - kSlots;
        }
        const bool whole = ring_->read(next_, out);
        ++next_;
        if (whole) return true;
        ++n_lost_;
      }
      return false;
    }
    // Entries that were replaced before this reader came to them.
    uint64_t n_lost() const noexcept { return n_lost_; }

   private:
    const EventRing* ring_;
    uint64_t next_, n_lost_ = 0;
  };

 private:
  struct Slot {
    std::atomic<uint64_t> sequence{0};
    std::atomic<int64_t> time_ns{0}, a{0}, b{0};
    std::atomic<uint16_t> id{0};
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free);

  // Sequence 0 is a slot never written.
  static constexpr uint64_t writing(uint64_t ticket) { return 2 * ticket + 1; }
  static constexpr uint64_t written(uint64_t ticket) { return 2 * ticket + 2; }

  bool read(uint64_t ticket, Event& out) const noexcept {
    const Slot& slot = slots_[ticket % kSlots];
    if (slot.sequence.load(std::memory_order_acquire) != written(ticket)) return false;
    Event copy;
    copy.time_ns = slot.time_ns.load(std::memory_order_acquire);
    copy.id = slot.id.load(std::memory_order_acquire);
    if constexpr (kMidRead != nullptr) kMidRead();
    copy.a = slot.a.load(std::memory_order_acquire);
    copy.b = slot.b.load(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) != written(ticket)) return false;
    out = copy;
    return true;
  }

  std::array<Slot, kSlots> slots_;
  std::atomic<uint64_t> n_put_{0};
};

}  // namespace outrider
