#include "driving/staging/staging.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tensor/float16.h"

namespace outrider::driving {
namespace {

using detail::float_to_half;
using detail::half_to_float;

size_t value_bytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kF16 ? 2 : 1;
}

// A gathered row: n halves as the graph wants them; no row: zeros.
void put_halves(std::span<const uint16_t> row, int64_t n, DType dtype, std::byte* to) noexcept {
  if (row.empty()) {
    std::memset(to, 0, static_cast<size_t>(n) * value_bytes(dtype));
  } else if (dtype == DType::kF16) {
    std::memcpy(to, row.data(), row.size_bytes());
  } else {
    auto* out = reinterpret_cast<float*>(to);
    for (size_t i = 0; i < row.size(); ++i) out[i] = half_to_float(row[i]);
  }
}

// numpy's maximum: a NaN wins and the first of two is kept; of two equal values the first is kept.
bool keeps_first(uint16_t first, uint16_t second) noexcept {
  const float a = half_to_float(first), b = half_to_float(second);
  return a >= b || a != a;
}

Error bad_type(const char* input, const char* allowed) {
  return make_error(Code::kUnsupported, "driving: the element type of input %s, allowed are %s",
                    input, allowed);
}

}  // namespace

void cast_floats(const float* from, int64_t n, const Target& to) noexcept {
  if (to.dtype == DType::kF32) {
    std::memcpy(to.data, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<uint16_t*>(to.data);
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_half(from[i]);
}

void cast_bytes(const uint8_t* from, int64_t n, const Target& to) noexcept {
  if (to.dtype == DType::kU8) {
    std::memcpy(to.data, from, static_cast<size_t>(n));
  } else if (to.dtype == DType::kF16) {
    auto* out = reinterpret_cast<uint16_t*>(to.data);
    for (int64_t i = 0; i < n; ++i) out[i] = float_to_half(static_cast<float>(from[i]));
  } else {
    auto* out = reinterpret_cast<float*>(to.data);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(from[i]);
  }
}

Result<std::unique_ptr<Staging>> Staging::make(const Spec& spec, const QueuedInputs& inputs) {
  for (const auto& [name, target] :
       {std::pair{"img", &inputs.img}, std::pair{"big_img", &inputs.big_img}})
    if (target->dtype != DType::kU8 && target->dtype != DType::kF16 && target->dtype != DType::kF32)
      return bad_type(name, "u8, f16 and f32");
  for (const auto& [name, target] : {std::pair{"features_buffer", &inputs.features_buffer},
                                     std::pair{"desire_pulse", &inputs.desire_pulse}})
    if (target->dtype != DType::kF16 && target->dtype != DType::kF32)
      return bad_type(name, "f16 and f32");
  try {
    return std::unique_ptr<Staging>(new Staging(spec, inputs));
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "driving: no memory for the queues");
  }
}

Staging::Staging(const Spec& spec, const QueuedInputs& inputs)
    : spec_(spec),
      to_(inputs),
      img_(spec.image_ring_rows(), spec.view_bytes()),
      big_img_(spec.image_ring_rows(), spec.view_bytes()),
      features_(spec.feature_ring_rows(), spec.feature_floats),
      desire_(spec.desire_ring_rows(), spec.n_desire),
      hidden_(static_cast<size_t>(spec.feature_floats), 0) {}

void Staging::stage(const std::byte* frames, const float* desire) noexcept {
  for (Ring<uint8_t>* ring : {&img_, &big_img_}) {
    const auto row = ring->push();
    std::memcpy(row.data(), frames, row.size());
    frames += row.size();
  }
  const auto pulse = desire_.push();
  for (size_t i = 0; i < pulse.size(); ++i) pulse[i] = float_to_half(desire[i]);
  std::ranges::copy(hidden_, features_.push().begin());
  gather_images(img_, to_.img);
  gather_images(big_img_, to_.big_img);
  gather_features();
  gather_desire();
}

void Staging::gather_images(const Ring<uint8_t>& ring, const Target& to) const noexcept {
  Target at = to;
  const size_t row_bytes = static_cast<size_t>(ring.row_values()) * value_bytes(to.dtype);
  for (int64_t i = 0; i < ring.n_rows(); i += spec_.frame_skip, at.data += row_bytes) {
    const auto row = ring.row(i);
    if (row.empty())
      std::memset(at.data, 0, row_bytes);
    else
      cast_bytes(row.data(), ring.row_values(), at);
  }
}

void Staging::gather_features() const noexcept {
  std::byte* to = to_.features_buffer.data;
  const DType dtype = to_.features_buffer.dtype;
  for (int64_t i = 0; i < features_.n_rows(); i += spec_.frame_skip) {
    put_halves(features_.row(i), spec_.feature_floats, dtype, to);
    to += static_cast<size_t>(spec_.feature_floats) * value_bytes(dtype);
  }
}

void Staging::gather_desire() const noexcept {
  std::byte* to = to_.desire_pulse.data;
  const DType dtype = to_.desire_pulse.dtype;
  for (int64_t group = 0; group < desire_.n_rows(); group += spec_.frame_skip)
    for (size_t i = 0; i < static_cast<size_t>(spec_.n_desire); ++i, to += value_bytes(dtype)) {
      const auto value_of = [&](int64_t row) {
        const auto values = desire_.row(row);
        return values.empty() ? uint16_t{0} : values[i];
      };
      uint16_t most = value_of(group);
      for (int64_t k = 1; k < spec_.frame_skip; ++k) {
        const uint16_t other = value_of(group + k);
        if (!keeps_first(most, other)) most = other;
      }
      put_halves({&most, 1}, 1, dtype, to);
    }
}

void Staging::keep_hidden(const float* hidden) noexcept {
  if (spec_.hidden.size() == 0) return;
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = float_to_half(hidden[i]);
}

void Staging::take_hidden(const std::byte* hidden) noexcept {
  for (size_t i = 0; i < hidden_.size(); ++i) {
    float value;
    std::memcpy(&value, hidden + i * sizeof value, sizeof value);
    hidden_[i] = float_to_half(value);
  }
}

void Staging::forget_hidden() noexcept {
  std::ranges::fill(hidden_, uint16_t{0});
}

void Staging::reset() noexcept {
  img_.reset();
  big_img_.reset();
  features_.reset();
  desire_.reset();
  forget_hidden();
}

std::vector<const void*> Staging::addresses() const {
  return {img_.data(), big_img_.data(), features_.data(), desire_.data(), hidden_.data()};
}

}  // namespace outrider::driving
