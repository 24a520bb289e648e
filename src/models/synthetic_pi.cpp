#include "models/synthetic_pi.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"
#include "models/pi_gguf_keys.h"
#include "models/synthetic_file.h"
#include "models/synthetic_vocab.h"

namespace outrider {
namespace {

using PiFile = SyntheticFile;

void add_vocabulary(PiFile& file, int64_t n_pieces) {
  const std::pair<const char*, int32_t> markers[] = {
      {"prefix", 67}, {"suffix", 69}, {"middle", 68}, {"fsep", 70}, {"eot", 107}};
  add_vocab_keys(file.keys(), synthetic_vocab(n_pieces), markers);
}

void add_policy_keys(PiFile& file, const SyntheticPi& what, const PiConfig& c) {
  GgufWriter& keys = file.keys();
  const bool pi05 = what.family == PiFamily::kPi05;
  keys.add_string("general.architecture", "pi0");
  keys.add_string("general.name", std::string(pi05 ? "synthetic-pi05" : "synthetic-pi0") +
                                      (what.full ? "-full" : "-tiny"));
  keys.add_u32("general.file_type", gguf_file_type(what.dtype));
  if (dtype_info(what.dtype).block_values > 1) keys.add_u32("general.quantization_version", 2);
  add_pi_size_keys(keys, c, what.full ? 131072 : 1024);
  add_vocabulary(file, c.vocab);
}

// Action, state and time layers around the expert.
void add_policy_ends(PiFile& file, const PiConfig& c) {
  const int64_t a = c.expert.width, d = c.action_dim;
  file.matrix("token_embd.weight", file.fitting(c.backbone.width), c.backbone.width, c.vocab, 1);
  file.linear("action_in_proj", DType::kF32, d, a, 1);
  file.linear("action_out_proj", DType::kF32, a, d, 0.7f);
  if (c.family == PiFamily::kPi05) {
    // SiLU roughly halves its input; the gains make up for it.
    file.linear("time_mlp_in", DType::kF32, a, a, 1.5f);
    file.linear("time_mlp_out", DType::kF32, a, a, 1.5f);
    file.matrix("output_norm_dense.weight", DType::kF32, a, 3 * a, 0.3f);
    file.vector("output_norm_dense.bias", 3 * a, {0.1f});
  } else {
    file.linear("state_proj", file.fitting(d), d, a, 1);
    file.linear("action_time_mlp_in", DType::kF32, 2 * a, a, 1.5f);
    file.linear("action_time_mlp_out", DType::kF32, a, a, 1.5f);
    file.vector("output_norm.weight", a, {0.1f});
  }
}

// One Gemma layer. Residual branches write at half size, so that depth does not blow the stream up.
void add_gemma_layer(PiFile& file, const std::string& blk, const GemmaConfig& g, bool adaptive) {
  for (const char* norm : {"attn_norm", "ffn_norm"}) {
    if (adaptive) {
      file.matrix(blk + norm + "_dense.weight", DType::kF32, g.width, 3 * g.width, 0.3f);
      // Gates around 0.4, both signs possible; scale and shift share the offset.
      file.vector(blk + norm + "_dense.bias", 3 * g.width, {0.2f, 0.4f});
    } else {
      file.vector(blk + norm + ".weight", g.width, {0.1f});  // an offset from 1
    }
  }
  const auto matrix = [&](const char* name, int64_t n_in, int64_t n_out, float gain) {
    file.matrix(blk + name + ".weight", file.fitting(n_in), n_in, n_out, gain);
  };
  matrix("attn_q", g.width, g.q_width(), 1);
  matrix("attn_k", g.width, g.kv_width(), 1);
  matrix("attn_v", g.width, g.kv_width(), 1);
  matrix("attn_output", g.q_width(), g.width, 0.7f);
  matrix("ffn_gate", g.width, g.mlp, 1);
  matrix("ffn_up", g.width, g.mlp, 1);
  matrix("ffn_down", g.mlp, g.width, 0.7f);
}

void add_vision_keys(PiFile& file, const SyntheticPi& what, const PiConfig& c) {
  GgufWriter& keys = file.keys();
  keys.add_string("general.architecture", "clip");
  keys.add_string("general.name", what.family == PiFamily::kPi05 ? "Pi05_VIT" : "vit");
  keys.add_u32("general.file_type", gguf_file_type(what.dtype));
  if (dtype_info(what.dtype).block_values > 1) keys.add_u32("general.quantization_version", 2);
  add_pi_vision_keys(keys, c);
}

void add_layer_norm(PiFile& file, const std::string& name, int64_t n) {
  file.vector(name + ".weight", n, {0.1f, 1.0f});
  file.vector(name + ".bias", n, {0.1f});
}

void add_vision_layer(PiFile& file, const std::string& blk, const VisionConfig& v) {
  add_layer_norm(file, blk + "ln1", v.width);
  add_layer_norm(file, blk + "ln2", v.width);
  const DType type = file.fitting(v.width);
  for (const char* name : {"attn_q", "attn_k", "attn_v"})
    file.linear(blk + name, type, v.width, v.width, 1);
  file.linear(blk + "attn_out", type, v.width, v.width, 0.7f);
  // The two names are exchanged in such files: ffn_down is the first matrix.
  file.linear(blk + "ffn_down", type, v.width, v.mlp, 1);
  file.linear(blk + "ffn_up", file.fitting(v.mlp), v.mlp, v.width, 0.7f);
}

Result<OutputFile> stage_policy(const SyntheticPi& what, const PiConfig& c, const char* path) {
  PiFile file(what.dtype, what.seed * 2);
  add_policy_keys(file, what, c);
  add_policy_ends(file, c);
  const int64_t n = c.backbone.n_layers;
  for (int64_t i = 0; i < n; ++i)
    add_gemma_layer(file, "blk." + std::to_string(i) + ".", c.backbone, false);
  for (int64_t i = n; i < n + c.expert.n_layers; ++i)
    add_gemma_layer(file, "blk." + std::to_string(i) + ".", c.expert, c.family == PiFamily::kPi05);
  return file.stage(path);
}

Result<OutputFile> stage_vision(const SyntheticPi& what, const PiConfig& c, const char* path) {
  PiFile file(what.dtype, what.seed * 2 + 1);
  const VisionConfig& v = c.vision;
  const int64_t p = v.patch_size;
  add_vision_keys(file, what, c);
  // Pixels lie in -1..1 and neighbours agree; 1.5 brings a patch to about unit size.
  file.tensor("v.patch_embd.weight", DType::kF16, {p, p, 3, v.width},
              {1.5f / std::sqrt(float(3 * p * p))});
  file.vector("v.patch_embd.bias", v.width, {0.1f});
  file.tensor("v.position_embd.weight", file.plain(), {v.width, v.n_tokens()}, {0.5f});
  for (int64_t i = 0; i < v.n_layers; ++i)
    add_vision_layer(file, "v.blk." + std::to_string(i) + ".", v);
  add_layer_norm(file, "v.post_ln", v.width);
  file.linear("mm.linear", file.fitting(v.width), v.width, c.backbone.width, 1);
  // Real files carry a pooling head that nobody reads.
  file.tensor("v.head.probe", DType::kF32, {v.width, 1}, {1});
  return file.stage(path);
}

PiConfig base_sizes() {
  PiConfig c;
  c.vision = {224, 14, 1152, 4304, 27, 16, true};
  c.backbone = {2048, 16384, 18, 8, 1, 256};
  c.expert = {1024, 4096, 18, 8, 1, 256};
  c.vocab = 257152;
  c.action_dim = 32, c.action_steps = 50;
  return c;
}

// Small and awkward: vision heads of 40 or 36 values, three query heads on one key head, rows that
// blocks of 32 divide in some matrices and not in others, and one (expert, ffn_down) with 256.
PiConfig tiny_sizes(PiFamily family) {
  const bool pi05 = family == PiFamily::kPi05;
  PiConfig c;
  c.vision =
      pi05 ? VisionConfig{56, 14, 120, 96, 2, 3, true} : VisionConfig{56, 14, 72, 160, 2, 2, true};
  c.backbone = {64, 128, 2, 3, 1, 32};
  c.expert = {32, 256, 2, 3, 1, 32};
  c.vocab = 1024;
  c.action_dim = pi05 ? 8 : 7, c.action_steps = 10;
  return c;
}

}  // namespace

PiConfig synthetic_pi_config(const SyntheticPi& what) {
  PiConfig c = what.full ? base_sizes() : tiny_sizes(what.family);
  c.family = what.family;
  c.vision.use_gelu = what.family == PiFamily::kPi0;
  c.n_denoise_steps = 10;
  return c;
}

Result<void> write_synthetic_pi(const SyntheticPi& what, const char* policy_path,
                                const char* vision_path) {
  if (!dtype_info(what.dtype).can_be_weight)
    return make_error(Code::kUnsupported, "synthetic policy: element type %s cannot be a weight",
                      dtype_info(what.dtype).name.data());
  if (std::strcmp(policy_path, vision_path) == 0)
    return make_error(Code::kInvalid, "synthetic policy: policy and vision file are both %s",
                      policy_path);
  // Minutes of work are not begun for a name that cannot be written.
  auto policy_target = examine_output(policy_path), vision_target = examine_output(vision_path);
  if (!policy_target) return policy_target.error();
  if (!vision_target) return vision_target.error();
  if (policy_target.value().same_file(vision_target.value()))
    return make_error(Code::kInvalid, "synthetic policy: %s and %s are one file", policy_path,
                      vision_path);
  const PiConfig config = synthetic_pi_config(what);
  auto vision = stage_vision(what, config, vision_path);
  if (!vision) return vision.error();
  auto policy = stage_policy(what, config, policy_path);
  if (!policy) return policy.error();
  // Both are whole on the disk: what stood there before stays until here.
  OUTRIDER_TRY(vision.value().commit());
  return policy.value().commit();
}

}  // namespace outrider
