// safetensors reader over a mapped file. Hostile input like gguf.h: the whole layout is checked at
// open. Tensors must cover the data region exactly, in any order, without holes or overlaps.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace outrider {

struct SafeTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // row major, last dimension contiguous
  const std::byte* data = nullptr;   // the format promises no alignment: copy or dequantize_row
  size_t n_bytes = 0;
  int64_t n_values() const;          // 1 for a scalar, 0 when a dimension is 0
};

class SafeTensorsFile {
 public:
  // Limits of the JSON header: a policy of a thousand tensors takes some 150 kB.
  static constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
  static constexpr size_t kMaxHeaderValues = size_t{1} << 20;
  static constexpr size_t kMaxDims = 8;

  // Errors: kNotFound naming file, tensor, bytes needed and present; kUnsupported (dtype).
  static Result<SafeTensorsFile> open(const char* path);
  static Result<SafeTensorsFile> parse(std::span<const std::byte> bytes, const char* name);

  const std::string& path() const { return path_; }
  const MappedFile& file() const { return file_; }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  const SafeTensor* tensor(std::string_view name) const;

 private:
  friend class SafeTensorsParser;
  MappedFile file_;
  std::string path_;
  std::vector<SafeTensor> tensors_;  // sorted by name
};

}  // namespace outrider
