// A PI0, PI0.5 or PI0-FAST policy ready to run: packed weights and everything that depends only on
// the number of denoising steps. Const after build; shared by all runtimes of one file.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/mapped_file.h"
#include "models/pi_weights.h"
#include "models/rope_table.h"
#include "tensor/ops.h"

namespace outrider {

struct PackedLinear {
  Weight w;
  std::vector<float> bias;
};

struct VisionLayer {
  NormRef ln1, ln2;
  PackedLinear qkv, out, fc1, fc2;
};

struct GemmaLayer {
  std::vector<float> norm1, norm2;  // empty where the norms are adaptive
  Weight qkv;  // the last layer of a backbone that only leaves keys and values: k and v, no more
  Weight o, gate_up, down;
};

// Adaptive norm of PI0.5, one row a denoising step and one for time 0 behind them (rows that are
// given, not denoised): [n_steps + 1, 3 * width] = scale, shift, gate.
struct Modulation {
  std::vector<float> rows;
  int64_t width = 0;
  const float* scale(int64_t step) const { return rows.data() + step * 3 * width; }
  const float* shift(int64_t step) const { return scale(step) + width; }
  const float* gate(int64_t step) const { return scale(step) + 2 * width; }
};

struct PiModel {
  // [setup] A change of what this computes or keeps raises kPiImageRevision (pi_image.h).
  // Packs all weights with `ops` (its scratch must be reserved for pi_limits). `files` are
  // told to drop their pages once packed. keep_alive holds what the embedding table lies in.
  // Errors: kUnsupported (element type, precision), kNoMemory.
  static Result<std::shared_ptr<const PiModel>> build(const PiWeights& weights,
                                                      const PiOptions& options, Ops& ops,
                                                      std::span<const MappedFile* const> files,
                                                      std::shared_ptr<const void> keep_alive);

  PiConfig config;
  PiOptions options;
  PackedLinear patch;
  std::vector<float> position;
  std::vector<VisionLayer> vision;
  NormRef post_ln;
  PackedLinear projector;
  Matrix embed;
  std::vector<GemmaLayer> backbone, expert;
  PackedLinear action_in, action_out;
  std::vector<float> expert_norm;                    // PI0
  std::vector<Modulation> modulation1, modulation2;  // PI0.5: one a layer
  Modulation final_modulation;
  PackedLinear state, action_time_out;  // PI0
  Weight action_time_in;                // PI0: the columns that read the action
  std::vector<float>
      action_time_bias;              // PI0: [n_steps + 1, width], time part and bias; last: t = 0
  std::vector<float> times;          // t of every step
  std::vector<float> cond;           // PI0.5: what the modulations were made from, for comparisons;
                                     // [n_steps + 1, width], empty in a model read from a cache
  std::vector<float> backbone_norm;  // PI0-FAST
  Weight head;                       // PI0-FAST: the embedding once more, as [vocab, width]
  // Everything a tick reads: the packed weights and the embedding table.
  int64_t resident_bytes() const {
    return static_cast<int64_t>(packed_.size() + table_.used_bytes());
  }
  // What every Weight above lies in.
  std::span<const std::byte> packed() const { return packed_; }
  // [setup] Copies the embedding table out of the model file, so that a tick never reads the disk
  // and somebody who writes into the file changes nothing. Errors: kNoMemory.
  Result<void> take_embedding(const Matrix& stored, std::span<const MappedFile* const> files);
  // [setup] For a model that was not built but read back: where its weights lie, and what keeps
  // them there.
  void keep(std::span<const std::byte> packed, std::shared_ptr<const void> keep_alive) {
    packed_ = packed;
    keep_alive_ = std::move(keep_alive);
  }

 private:
  friend class PiModelBuilder;
  Arena storage_;
  Arena table_;  // rows of the embedding as they were stored
  std::span<const std::byte> packed_;
  std::shared_ptr<const void> keep_alive_;
};

// The largest shapes a run of this policy needs. max_prefix in tokens.
OpsLimits pi_limits(const PiConfig& config, int64_t max_views, int64_t max_prefix);

}  // namespace outrider
