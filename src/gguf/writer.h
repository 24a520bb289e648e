// GGUF v3 writer: metadata first, then tensors streamed to disk one after the other.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace outrider {

class GgufWriter {
 public:
  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);

  // Values are asked for row by row (ne[0] values each, row index in 0 .. n_values/ne[0]) while
  // `write` runs, so a 7 GB file needs one row of memory. Asserts that ne[0] fits the block.
  using RowSource = std::function<void(int64_t row, std::span<float> values)>;
  // period > 0 promises that row r equals row r mod period: only the first `period` rows are asked
  // for, encoded once, kept, and repeated.
  void add_tensor(std::string_view name, DType dtype, std::span<const int64_t> ne, RowSource rows,
                  int64_t period = 0);

  // Writes to a temporary name beside `path`, fsyncs, renames; into `path` itself when that is no
  // plain file (see OutputFile). On any failure nothing is left behind and a file already at `path`
  // stays as it was. Errors: those of OutputFile.
  Result<void> write(const char* path) const;
  // The same without the rename: nothing is at `path` until commit() of what is returned.
  Result<OutputFile> stage(const char* path) const;

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> ne;
    RowSource rows;
    int64_t period;
    int64_t n_rows() const;
    uint64_t n_bytes() const;
  };
  class Output;

  void add_key(std::string_view key, uint32_t type);
  std::vector<std::byte> head() const;
  static void stream(const Tensor& tensor, Output& out);

  std::vector<std::byte> metadata_;
  uint64_t n_keys_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace outrider
