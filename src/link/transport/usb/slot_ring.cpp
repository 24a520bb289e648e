#include "link/transport/usb/slot_ring.h"

#include <algorithm>

#include "base/assert.h"
#include "link/transport/usb/wait.h"

namespace outrider::link::usb {

SlotRing::SlotRing(uint32_t n_slots, uint32_t slot_bytes)
    : n_slots_(n_slots),
      slot_size_(slot_bytes),
      memory_(size_t{n_slots} * slot_bytes),
      held_bytes_(n_slots) {
  OUTRIDER_ASSERT(n_slots > 0 && slot_bytes > 0);
}

std::span<std::byte> SlotRing::slot_bytes(uint64_t index) noexcept {
  return std::span(memory_).subspan((index % n_slots_) * size_t{slot_size_}, slot_size_);
}

std::span<std::byte> SlotRing::reserve_locked() noexcept {
  if (end_ != Io::kDone || n_reserved_ - n_emptied_ >= n_slots_) return {};
  return slot_bytes(n_reserved_++);
}

std::span<std::byte> SlotRing::reserve() noexcept {
  std::lock_guard lock(mutex_);
  return reserve_locked();
}

std::span<std::byte> SlotRing::reserve_until(int64_t until_ns) noexcept {
  std::unique_lock lock(mutex_);
  wait_until(freed_, lock, until_ns,
             [&] { return end_ != Io::kDone || n_reserved_ - n_emptied_ < n_slots_; });
  return reserve_locked();
}

void SlotRing::fill(size_t bytes) noexcept {
  OUTRIDER_ASSERT(bytes <= slot_size_);
  std::lock_guard lock(mutex_);
  OUTRIDER_ASSERT(n_filled_ < n_reserved_);
  held_bytes_[n_filled_ % n_slots_] = bytes;
  ++n_filled_;
  filled_.notify_one();
}

void SlotRing::end(Io io) noexcept {
  OUTRIDER_ASSERT(io != Io::kDone && io != Io::kLate);
  std::lock_guard lock(mutex_);
  if (end_ == Io::kDone || io == Io::kShut) end_ = io;
  filled_.notify_all();
  freed_.notify_all();
}

Moved SlotRing::take(std::span<std::byte> into, int64_t deadline_ns) noexcept {
  OUTRIDER_ASSERT(!into.empty());
  std::unique_lock lock(mutex_);
  Moved moved;
  do {
    const bool woken = wait_until(filled_, lock, deadline_ns,
                                  [&] { return n_emptied_ < n_filled_ || end_ != Io::kDone; });
    if (!woken) return {Io::kLate, 0};
    if (end_ == Io::kShut || n_emptied_ == n_filled_) return {end_, 0};
    while (n_emptied_ < n_filled_ && moved.bytes < into.size()) {
      const size_t held = held_bytes_[n_emptied_ % n_slots_] - head_offset_;
      const size_t bytes = std::min(held, into.size() - moved.bytes);
      const auto from = slot_bytes(n_emptied_).subspan(head_offset_, bytes);
      std::copy(from.begin(), from.end(), into.begin() + static_cast<ptrdiff_t>(moved.bytes));
      moved.bytes += bytes;
      head_offset_ += bytes;
      if (bytes == held) {
        head_offset_ = 0;
        ++n_emptied_;
      }
    }
  } while (moved.bytes == 0);  // only empty packets so far
  n_taken_bytes_ += moved.bytes;
  freed_.notify_one();
  return moved;
}

Io SlotRing::ended() const noexcept {
  std::lock_guard lock(mutex_);
  return end_;
}

uint64_t SlotRing::n_taken_bytes() const noexcept {
  std::lock_guard lock(mutex_);
  return n_taken_bytes_;
}

uint32_t SlotRing::n_free() const noexcept {
  std::lock_guard lock(mutex_);
  return n_slots_ - static_cast<uint32_t>(n_reserved_ - n_emptied_);
}

}  // namespace outrider::link::usb
