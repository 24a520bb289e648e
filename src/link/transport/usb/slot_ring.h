// A fixed number of read buffers that are filled and emptied in order, by two threads.
//
//   filler   reserve() -> a free buffer, in order; fill(bytes) once it holds something
//   emptier  take(into, deadline): copies what is there, waits while there is nothing
//
// Several buffers may be reserved before the first is filled (reads posted ahead); fill() goes
// through them in the order in which they were reserved. All memory is taken when the ring is made.
// An end is sticky: what was filled before it is still delivered, then the end is.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "link/transport/transport.h"

namespace outrider::link::usb {

class SlotRing {
 public:
  SlotRing(uint32_t n_slots, uint32_t slot_bytes);  // [setup] touches every page

  // A buffer to read into, or an empty span when all are reserved or full.
  std::span<std::byte> reserve() noexcept;
  // As reserve(), but waits until there is one, the ring has ended (empty) or until_ns passed.
  std::span<std::byte> reserve_until(int64_t until_ns) noexcept;
  // The oldest reserved buffer now holds `bytes`. 0 frees it again: an empty packet is nothing.
  void fill(size_t bytes) noexcept;
  // No more will come; the first end wins. A shut() end does not wait for what is still in the
  // ring.
  void end(Io io) noexcept;

  Moved take(std::span<std::byte> into, int64_t deadline_ns) noexcept;
  Io ended() const noexcept;  // kDone: not yet
  uint64_t n_taken_bytes() const noexcept;
  uint32_t n_free() const noexcept;  // buffers that reserve() would still give

 private:
  std::span<std::byte> slot_bytes(uint64_t index) noexcept;
  std::span<std::byte> reserve_locked() noexcept;

  const uint32_t n_slots_, slot_size_;
  std::vector<std::byte> memory_;
  std::vector<size_t> held_bytes_;  // of each slot
  mutable std::mutex mutex_;
  std::condition_variable filled_, freed_;
  // Counts since the start; a slot's place is the count modulo n_slots_. emptied <= filled <=
  // reserved <= emptied + n_slots.
  uint64_t n_reserved_ = 0, n_filled_ = 0, n_emptied_ = 0;
  size_t head_offset_ = 0;  // taken bytes of slot n_emptied_
  uint64_t n_taken_bytes_ = 0;
  Io end_ = Io::kDone;
};

}  // namespace outrider::link::usb
