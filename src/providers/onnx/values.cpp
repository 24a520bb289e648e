#include "providers/onnx/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx/model.h"
#include "outrider/frt_v1.h"

namespace outrider {
namespace {

// Has every value an exponent whose bits are not all set? No branch inside: the loop becomes
// vectors.
template <class T>
[[gnu::optimize("O3")]] bool all_below(const std::byte* data, size_t n, T exponent) {
  T bad = 0;
  for (size_t i = 0; i < n; ++i) {
    T bits;
    std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
    bad |= static_cast<T>((bits & exponent) == exponent);
  }
  return bad == 0;
}

}  // namespace

bool has_port_type(DType dtype) {
  return is_real(dtype) || dtype == DType::kU8 || dtype == DType::kBool || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

uint32_t port_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return FRT_DTYPE_F32;
    case DType::kF16:
      return FRT_DTYPE_F16;
    case DType::kBf16:
      return FRT_DTYPE_BF16;
    case DType::kI32:
      return FRT_DTYPE_I32;
    case DType::kI64:
      return FRT_DTYPE_I64;
    default:
      return FRT_DTYPE_U8;  // a truth value is a byte, 0 or 1
  }
}

bool is_real(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

bool all_finite(DType dtype, const std::byte* data, size_t n_bytes, size_t& at,
                double& found) noexcept {
  const size_t size = onnx::dtype_bytes(dtype);
  if (dtype == DType::kF32
          ? all_below<uint32_t>(data, n_bytes / size, 0x7F800000u)
          : all_below<uint16_t>(data, n_bytes / size, dtype == DType::kF16 ? 0x7C00u : 0x7F80u))
    return true;
  for (at = 0; at * size < n_bytes; ++at) {
    uint16_t half = 0;
    float value = 0;
    if (dtype == DType::kF32) {
      std::memcpy(&value, data + at * size, sizeof value);
    } else {
      std::memcpy(&half, data + at * size, sizeof half);
      value = dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
    if (std::isfinite(value)) continue;
    found = static_cast<double>(value);
    return false;
  }
  return true;
}

}  // namespace outrider
