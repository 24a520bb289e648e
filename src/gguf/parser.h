// One pass over a GGUF file: header, metadata, tensor table, then the placement of every tensor.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace outrider {

// Reads little-endian values from bytes and never past their end. Every failure names what was
// wanted, the bytes needed and the bytes present.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string file)
      : bytes_(bytes), file_(std::move(file)) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& file() const { return file_; }

  Result<uint32_t> u32(const char* what);
  Result<uint64_t> u64(const char* what);
  // u64 length, then that many bytes; at most max_bytes.
  Result<std::string_view> string(const char* what, uint64_t max_bytes);
  Result<std::span<const std::byte>> take(const char* what, uint64_t n_bytes);
  // Where the cursor is, for messages: "metadata entry 3 of 20 (general.name)".
  void set_place(std::string place) { place_ = std::move(place); }
  const std::string& place() const { return place_; }
  Error truncated(const char* what, uint64_t needed) const;

 private:
  std::span<const std::byte> bytes_;
  std::string file_, place_ = "header";
  size_t position_ = 0;
};

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const char* name);
  Result<GgufFile> parse();

 private:
  // Claimed by the tensor table, not checked against the data region yet.
  struct Placement {
    uint64_t offset = 0, n_bytes = 0;
  };

  Result<void> header();
  Result<void> metadata();
  Result<GgufValue> value();
  Result<GgufValue> array();
  Result<void> alignment();
  Result<void> tensor_table();
  Result<GgufTensor> tensor_info(Placement& placement);
  Result<void> shape(GgufTensor& tensor);
  Result<uint64_t> sized(const GgufTensor& tensor) const;
  Result<void> place_tensors();
  Result<void> refuse_overlaps(uint64_t data_begin) const;
  Result<void> index_names();

  GgufCursor in_;
  GgufFile out_;
  std::vector<Placement> placements_;
  uint64_t n_tensors_ = 0, n_keys_ = 0, alignment_ = 0;
};

}  // namespace outrider
