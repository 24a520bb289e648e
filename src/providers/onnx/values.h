// Small things that every face of a graph needs.
#pragma once
#include <cstddef>
#include <string>

#include "tensor/dtype.h"

namespace outrider {

bool has_port_type(DType dtype);   // can a port be of it?
uint32_t port_dtype(DType dtype);  // its number in the ABI

bool is_real(DType dtype);  // F32, F16, BF16
// [hot] Of values of a real type. False: value `at` is `found`.
bool all_finite(DType dtype, const std::byte* data, size_t n_bytes, size_t& at,
                double& found) noexcept;

}  // namespace outrider
