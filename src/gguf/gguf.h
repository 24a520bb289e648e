// GGUF v3 reader over a mapped file. Hostile input: every offset, length and product is checked
// before it is used, and nothing is allocated in proportion to a claimed size.
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

enum class GgufType : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64
};

// One metadata value. Strings and array payloads are views into the mapping.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;     // of an array
  uint64_t n_elements = 0;              // of an array
  std::span<const std::byte> payload;   // scalar bytes, string bytes, or the array's raw elements
};

struct GgufTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  uint32_t n_dims = 0;
  int64_t ne[4] = {1, 1, 1, 1};         // ne[0] is contiguous
  const std::byte* data = nullptr;      // inside the mapping
  size_t n_bytes = 0;
  int64_t n_values() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

class GgufFile {
 public:
  // Errors (kNotFound: damaged or not GGUF; kUnsupported: version or element type) name the file,
  // the field or tensor, bytes needed and bytes present.
  static Result<GgufFile> open(const char* path);
  // The same over memory that outlives the object: for fuzzing and tests.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const char* name);

  const std::string& path() const { return path_; }
  const MappedFile& file() const { return file_; }
  uint32_t version() const { return version_; }

  struct KeyValue { std::string_view key; GgufValue value; };
  const std::vector<KeyValue>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;
  const GgufValue* value(std::string_view key) const;

  // Typed look-ups. Missing key: kNotFound naming file and key. Wrong type: kNotFound naming both.
  // Integers are accepted in any width and sign as long as the value fits.
  Result<std::string_view> string(std::string_view key) const;
  Result<uint64_t> unsigned_integer(std::string_view key) const;
  Result<double> real(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  // Array of strings as views; array of numbers converted to double.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;
  bool has(std::string_view key) const { return value(key) != nullptr; }

 private:
  friend class GgufParser;
  MappedFile file_;
  std::string path_;
  uint32_t version_ = 0;
  std::vector<KeyValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> tensor_index_, key_index_;  // positions sorted by name
};

}  // namespace outrider
