// The inputs of the last ticks, copied: the lead reads them from another thread, at its own pace,
// and replays them before it takes over.
//
// The caller's thread stages and commits; one other thread borrows. No locks: a slot is claimed by
// one compare-and-swap, and whoever comes second takes another one (caller) or goes without
// (borrower).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "tandem/answer.h"
#include "tandem/ports.h"

namespace outrider::tandem {

class InputRing {
 public:
  struct Payload {
    uint64_t version = 0;             // 0: never staged
    uint64_t bytes = 0;               // as set_input takes them
    std::span<std::byte> data;        // plain bytes, or pixels
    std::span<frt_image_view> views;  // images: these point into data
    const void* given() const {
      return views.empty() ? static_cast<const void*>(data.data()) : views.data();
    }
  };
  struct Slot {
    std::vector<Payload> inputs;  // one for each of Ports::in
    Answer answer;                // what was published for this tick
    std::atomic<int64_t> tick{-1}, answered{-1};
    std::atomic<uint32_t> claim{0};  // 0 free, 1 being written, 2 borrowed
  };

  // [setup] n_ticks kept at least; two more slots, so that a borrowed one never stops the caller.
  static uint64_t room_bytes(const Ports& ports, int64_t n_ticks, bool with_answers);
  InputRing(const Ports& ports, int64_t n_ticks, bool with_answers, Arena& arena);

  // ---- caller's thread, [hot] -----------------------------------------------------------------
  // Copies a payload. -4 when it is larger than the room of its port, -1 for a malformed image.
  int stage(size_t input, const void* data, uint64_t bytes) noexcept;
  void forget(size_t input) noexcept { staged_[input].version = 0; }
  bool staged(size_t input) const noexcept { return staged_[input].version != 0; }
  // What is staged becomes the inputs of this tick.
  void commit(int64_t tick) noexcept;
  // The answer of the tick committed last, for comparison.
  void put_answer(const Answer& answer) noexcept;

  // ---- borrower's thread ------------------------------------------------------------------------
  // The inputs of a tick, or nullptr when they were overwritten. Give back before the next one.
  Slot* borrow(int64_t tick) noexcept;
  void give_back(Slot* slot) noexcept;
  int64_t n_ticks() const { return n_ticks_; }
  // The tick that was committed last; 0: none.
  int64_t newest() const noexcept { return newest_.load(std::memory_order_acquire); }

 private:
  Payload take_payload(const Port& port, Arena& arena);
  int stage_image(Payload& to, const void* data, uint64_t bytes) noexcept;

  const Ports& ports_;
  int64_t n_ticks_;
  bool with_answers_;
  uint64_t version_ = 0;
  std::vector<Payload> staged_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Slot* current_ = nullptr;
  std::atomic<int64_t> newest_{0};
};

}  // namespace outrider::tandem
