// One face over GGUF and safetensors: tensors by name, and a reader that checks shapes and keeps
// the first failure, so that loading code reads like the list of weights it is.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "safetensors/safetensors.h"
#include "tensor/ops.h"

namespace outrider {

struct TensorInfo {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row major, last is contiguous
  const void* data = nullptr;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::optional<TensorInfo> find(std::string_view name) const = 0;
  virtual const std::string& path() const = 0;
};

class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const GgufFile& file) : file_(file) {}
  std::optional<TensorInfo> find(std::string_view name) const override;
  const std::string& path() const override { return file_.path(); }

 private:
  const GgufFile& file_;
};

class SafeTensorsSource final : public TensorSource {
 public:
  explicit SafeTensorsSource(const SafeTensorsFile& file) : file_(file) {}
  std::optional<TensorInfo> find(std::string_view name) const override;
  const std::string& path() const override { return file_.path(); }

 private:
  const SafeTensorsFile& file_;
};

// A matrix with an optional bias. The matrix borrows the file; the bias is a copy in f32.
struct LinearRef {
  Matrix w;
  std::vector<float> bias;
};

class WeightReader {
 public:
  explicit WeightReader(const TensorSource& source) : source_(source) {}

  // [n_out, n_in]; higher ranks are accepted when their trailing dimensions multiply to n_in.
  Matrix matrix(const std::string& name, int64_t n_out, int64_t n_in);
  // n values in f32. Only F32, F16 and BF16 make sense for norms, biases and tables.
  std::vector<float> values(const std::string& name, int64_t n);
  LinearRef linear(const std::string& prefix, int64_t n_out, int64_t n_in, bool with_bias = true);
  bool has(const std::string& name) const { return source_.find(name).has_value(); }
  std::optional<TensorInfo> info(const std::string& name) const { return source_.find(name); }

  // The first thing that was missing or wrong; code kOk when all was well.
  const Error& failure() const { return failure_; }
  bool ok() const { return failure_.code == Code::kOk; }
  void fail(const Error& error) {
    if (ok()) failure_ = error;
  }

 private:
  const TensorSource& source_;
  Error failure_;
};

// "blk.#.attn_q" and 3 -> "blk.3.attn_q".
std::string at_layer(std::string_view pattern, int64_t layer);
// "[288, 96]" for messages.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace outrider
