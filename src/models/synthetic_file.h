// One model file with random weights being put together: names and spreads in, GGUF out.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/output_file.h"
#include "gguf/writer.h"
#include "tensor/dtype.h"

namespace outrider {

// How a tensor's values are spread: near normal around `offset`, never beyond 3.5 deviations.
struct Spread {
  float deviation = 0, offset = 0;
};

class SyntheticFile {
 public:
  // dtype: of the large matrices. Values are drawn from the seed and the tensor's name: same seed,
  // same bytes, whatever the order.
  SyntheticFile(DType dtype, uint64_t seed) : seed_(seed), dtype_(dtype) {}

  GgufWriter& keys() { return writer_; }
  Result<OutputFile> stage(const char* path) const { return writer_.stage(path); }

  // A large tensor repeats its first rows (about a million values, an odd number of rows).
  void tensor(const std::string& name, DType type, std::initializer_list<int64_t> ne,
              Spread spread);
  void vector(const std::string& name, int64_t n, Spread spread) {
    tensor(name, DType::kF32, {n}, spread);
  }
  // Outputs are `gain` times as large as inputs of unit size.
  void matrix(const std::string& name, DType type, int64_t n_in, int64_t n_out, float gain);
  // y = W x + b with a small bias.
  void linear(const std::string& name, DType type, int64_t n_in, int64_t n_out, float gain) {
    matrix(name + ".weight", type, n_in, n_out, gain);
    vector(name + ".bias", n_out, {0.1f});
  }
  // The wanted type, or F16 where its blocks do not divide a row.
  DType fitting(int64_t n_in) const {
    return n_in % dtype_info(dtype_).block_values == 0 ? dtype_ : DType::kF16;
  }
  DType plain() const { return dtype_ == DType::kF32 ? DType::kF32 : DType::kF16; }

 private:
  GgufWriter writer_;
  uint64_t seed_;
  DType dtype_;
};

}  // namespace outrider
