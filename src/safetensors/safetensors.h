// safetensors reader over a mapped file. Hostile input like gguf.h.
#pragma once
#include <cstdint>
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
  const std::byte* data = nullptr;
  size_t n_bytes = 0;
  int64_t n_values() const;
};

class SafeTensorsFile {
 public:
  // Errors: kNotFound naming file, tensor, bytes needed and present; kUnsupported (dtype).
  static Result<SafeTensorsFile> open(const char* path);
  static Result<SafeTensorsFile> parse(std::span<const std::byte> bytes, const char* name);

  const std::string& path() const { return path_; }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  const SafeTensor* tensor(std::string_view name) const;

 private:
  MappedFile file_;
  std::string path_;
  std::vector<SafeTensor> tensors_;  // sorted by name
};

}  // namespace outrider
