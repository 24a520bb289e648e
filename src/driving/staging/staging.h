// The history of a queued driving graph and how its inputs follow from it, bit exact (link
// specification 8). Queues hold float16; pictures are kept as the bytes they came as, which is the
// same values. Rows that were never pushed count as zero, so a reset is a number, not a fill.
//
// Per frame, in this order: push both pictures, the desire, the kept hidden state; then gather,
// oldest first: pictures and features take logical rows 0, skip, 2*skip, ...; the desire is the
// maximum of each group of skip rows, by numpy's rules: a NaN wins and the first of two is kept, of
// two equal values the earlier.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "driving/spec.h"
#include "tensor/dtype.h"

namespace outrider::driving {

// Rows of one length in a fixed block, the newest n_rows of all that were pushed.
template <class T>
class Ring {
 public:
  // [setup]
  Ring(int64_t n_rows, int64_t row_values)
      : n_rows_(n_rows), row_(row_values), data_(static_cast<size_t>(n_rows * row_values)) {}
  // [hot] Where the next row goes: write all of it, then it is the newest.
  std::span<T> push() noexcept {
    T* at = data_.data() + next_ * row_;
    next_ = next_ + 1 == n_rows_ ? 0 : next_ + 1;
    if (n_valid_ < n_rows_) ++n_valid_;
    return {at, static_cast<size_t>(row_)};
  }
  // [hot] Row i of n_rows, 0 the oldest. Empty: it was never pushed, all zero.
  std::span<const T> row(int64_t i) const noexcept {
    if (i < n_rows_ - n_valid_) return {};
    const int64_t at = next_ + i < n_rows_ ? next_ + i : next_ + i - n_rows_;
    return {data_.data() + at * row_, static_cast<size_t>(row_)};
  }
  // [hot] All rows become zero. No address changes.
  void reset() noexcept { n_valid_ = 0; }
  int64_t n_rows() const { return n_rows_; }
  int64_t row_values() const { return row_; }
  const T* data() const { return data_.data(); }

 private:
  int64_t n_rows_, row_, next_ = 0, n_valid_ = 0;
  std::vector<T> data_;
};

// Where a graph wants an input: its array and element type.
struct Target {
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
};
struct QueuedInputs {
  Target img, big_img;     // U8, F16 or F32
  Target features_buffer;  // F16 or F32
  Target desire_pulse;     // F16 or F32
};

class Staging {
 public:
  // [setup] Takes all memory. `spec` is of layout kQueued. Errors: kUnsupported (element type),
  // kNoMemory.
  static Result<std::unique_ptr<Staging>> make(const Spec& spec, const QueuedInputs& inputs);

  // [hot] One frame: frames u8 {2,6,H,W}, desire n_desire floats (a pulse), both read once.
  void stage(const std::byte* frames, const float* desire) noexcept;
  // [hot] What an answered frame leaves for the next: its hidden range, spec.hidden.size() floats.
  void keep_hidden(const float* hidden) noexcept;
  // [hot] The next frame pushes these, spec.feature_floats floats at any address, instead of what
  // was kept.
  void take_hidden(const std::byte* hidden) noexcept;
  // [hot] HELLO: the kept hidden state is zero from here on, the queues stay.
  void forget_hidden() noexcept;
  // [hot] Queues and hidden state are zero.
  void reset() noexcept;

  // For the proof that a reset moves nothing.
  std::vector<const void*> addresses() const;

 private:
  explicit Staging(const Spec& spec, const QueuedInputs& inputs);
  void gather_images(const Ring<uint8_t>& ring, const Target& to) const noexcept;
  void gather_features() const noexcept;
  void gather_desire() const noexcept;

  Spec spec_;
  QueuedInputs to_;
  Ring<uint8_t> img_, big_img_;
  Ring<uint16_t> features_, desire_;
  std::vector<uint16_t> hidden_;  // of the last good frame
};

// [hot] Values as a graph wants them, with a cast: f32 to F32 or F16; u8 to U8, F16 or F32.
void cast_floats(const float* from, int64_t n, const Target& to) noexcept;
void cast_bytes(const uint8_t* from, int64_t n, const Target& to) noexcept;

}  // namespace outrider::driving
