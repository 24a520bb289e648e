// NumPy's .npy container, version 1 (and 2 when reading): one array, hostile input.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider::cli {

struct NpyArray {
  std::string type;  // "f4", "f2", "u1", "i4", "i8", "f8", ...: kind and bytes, little endian
  std::vector<int64_t> shape;  // row major; empty: one value
  std::vector<std::byte> bytes;
  size_t n_values() const;
};

// Errors: kNotFound naming file, field, found and wanted (magic, version, header, Fortran order,
// big endian, a data part that is not exactly as long as the shape says).
Result<NpyArray> read_npy(const std::string& path);
Result<NpyArray> parse_npy(std::span<const std::byte> bytes, const char* name);

// f32 values of a row-major array; the product of shape is values.size() (asserted).
std::vector<std::byte> npy_bytes(std::span<const float> values, std::span<const int64_t> shape);
// Errors: those of write_output.
Result<void> write_npy(const std::string& path, std::span<const float> values,
                       std::span<const int64_t> shape);

}  // namespace outrider::cli
