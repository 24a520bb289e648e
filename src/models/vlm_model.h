// A vision tower ready to run: packed weights. Const after build; shared by all sessions.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/mapped_file.h"
#include "models/vlm_weights.h"
#include "tensor/ops.h"

namespace outrider {

struct VlmLinear {
  Weight w;
  std::vector<float> bias;
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

// Root-mean-square norms (bias empty) are kept less one: Ops::rms_norm multiplies by 1 + scale.
struct VlmLayer {
  VlmNormRef norm1, norm2;
  VlmLinear qkv, out;
  VlmLinear fc1, fc2;  // kQwen25Vl: fc1 is up, fc2 down
  VlmLinear gate;      // kQwen25Vl
};

struct VlmModel {
  // [setup] Packs all weights with `ops`. `files` are told to drop the pages that were packed.
  // Errors: kUnsupported, kShape (a precision or type that the products do not have), kNoMemory.
  static Result<std::shared_ptr<const VlmModel>> build(const VlmWeights& weights,
                                                       Precision precision, Ops& ops,
                                                       std::span<const MappedFile* const> files);

  VlmConfig config;
  Precision precision = Precision::kF32;
  VlmLinear patch;              // kQwen25Vl: of both frames side by side, [width, 2 * patch values]
  std::vector<float> position;  // [patches, width]; empty: none
  std::vector<VlmLayer> layers;
  VlmNormRef post;
  std::vector<float> token_norm;  // less one
  VlmLinear projector;            // kQwen25Vl: the second of the merger
  VlmLinear merger;               // kQwen25Vl: the first

  int64_t packed_bytes() const { return static_cast<int64_t>(storage_.used_bytes()); }
  DType kv_type() const {
    return precision == Precision::kF32 || precision == Precision::kStored ? DType::kF32
                                                                           : DType::kBf16;
  }

 private:
  friend class VlmModelBuilder;
  Arena storage_;
};

}  // namespace outrider
