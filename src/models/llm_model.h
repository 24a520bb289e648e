// A text model ready to run: packed weights. Const after build; shared by all sessions of one file.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/mapped_file.h"
#include "models/llm_weights.h"
#include "tensor/ops.h"

namespace outrider {

// A product with an optional bias (empty: none).
struct LlmLinear {
  Weight w;
  std::vector<float> bias;
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

// Norm weights are kept less one: Ops::rms_norm multiplies by 1 + scale.
struct LlmLayer {
  std::vector<float> norm1, norm2, q_norm, k_norm, post_norm1, post_norm2;
  // One product where the three are stored alike and nothing has to be normed per head; else apart.
  bool fused = false;
  LlmLinear qkv, q, k, v;
  LlmLinear o;
  Weight gate_up, down;
};

struct LlmModel {
  // [setup] Packs all weights with `ops` (reserved for llm_limits). `files` are told to drop the
  // pages that were packed; keep_alive lives as long as the model. Errors: kUnsupported, kShape
  // (a precision or type that the products do not have), kNoMemory.
  static Result<std::shared_ptr<const LlmModel>> build(const LlmWeights& weights,
                                                       Precision precision, Ops& ops,
                                                       std::span<const MappedFile* const> files,
                                                       std::shared_ptr<const void> keep_alive);

  LlmConfig config;
  Precision precision = Precision::kF32;
  Matrix embed;  // a copy of the file's table
  std::vector<LlmLayer> layers;
  std::vector<float> norm;  // less one
  Weight output;
  std::vector<float> rope_divisors;

  // Bytes of the weights that one generated token reads: everything packed.
  int64_t packed_bytes() const { return static_cast<int64_t>(storage_.used_bytes()); }
  // The same and the embedding table.
  int64_t resident_bytes() const {
    return packed_bytes() + static_cast<int64_t>(table_.used_bytes());
  }
  // What keys and values are kept in: f32 where products are exact, else bf16.
  DType kv_type() const {
    return precision == Precision::kF32 || precision == Precision::kStored ? DType::kF32
                                                                           : DType::kBf16;
  }

 private:
  friend class LlmModelBuilder;
  Arena storage_, table_;
  std::shared_ptr<const void> keep_alive_;
};

// The largest shapes of a run that evaluates at most max_rows tokens at once in a context of n_ctx.
// kv_8bit: of one that keeps keys and values in 8 bits.
OpsLimits llm_limits(const LlmConfig& config, int64_t max_rows, int64_t n_ctx,
                     bool kv_8bit = false);

}  // namespace outrider
