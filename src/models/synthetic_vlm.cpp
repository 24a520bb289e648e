#include "models/synthetic_vlm.h"

#include <cmath>
#include <cstring>
#include <string>

#include "models/pi_gguf_keys.h"
#include "models/synthetic_file.h"

namespace outrider {
namespace {

void add_keys(SyntheticFile& file, const SyntheticVlm& what, const VlmConfig& c) {
  GgufWriter& keys = file.keys();
  keys.add_string("general.architecture", "clip");
  keys.add_string("general.name", std::string("synthetic-vision-") + vlm_kind_name(c.kind));
  keys.add_u32("general.file_type", gguf_file_type(what.dtype));
  if (dtype_info(what.dtype).block_values > 1) keys.add_u32("general.quantization_version", 2);
  keys.add_bool("clip.has_vision_encoder", true);
  keys.add_string("clip.projector_type", vlm_kind_name(c.kind));
  keys.add_bool(c.fixed_size() ? "clip.use_gelu" : "clip.use_silu", true);
  const auto u32 = [&](const char* name, int64_t value) {
    keys.add_u32(std::string("clip.vision.") + name, static_cast<uint32_t>(value));
  };
  u32("image_size", c.image_size);
  u32("patch_size", c.patch_size);
  u32("embedding_length", c.width);
  u32("feed_forward_length", c.mlp);
  u32("block_count", c.n_layers);
  u32("attention.head_count", c.n_heads);
  u32("projection_dim", c.out_width);
  u32(c.fixed_size() ? "projector.scale_factor" : "spatial_merge_size", c.merge);
  if (c.kind == VlmKind::kQwen25Vl) u32("n_wa_pattern", c.full_every);
  if (c.longest > 0) u32("preproc_image_size", c.longest);
  keys.add_f32("clip.vision.attention.layer_norm_epsilon", c.eps);
  keys.add_f32s("clip.vision.image_mean", c.mean);
  keys.add_f32s("clip.vision.image_std", c.deviation);
}

void add_norm(SyntheticFile& file, const std::string& name, const VlmConfig& c) {
  file.vector(name + ".weight", c.width, {0.1f, 1.0f});
  if (c.fixed_size()) file.vector(name + ".bias", c.width, {0.1f});
}

void add_layer(SyntheticFile& file, const std::string& blk, const VlmConfig& c) {
  const DType type = file.fitting(c.width), down = file.fitting(c.mlp);
  add_norm(file, blk + "ln1", c);
  add_norm(file, blk + "ln2", c);
  for (const char* name : {"attn_q", "attn_k", "attn_v"})
    file.linear(blk + name, type, c.width, c.width, 1.3f);
  file.linear(blk + "attn_out", type, c.width, c.width, 0.7f);
  if (!c.fixed_size()) file.linear(blk + "ffn_gate", type, c.width, c.mlp, 1);
  // Files of the first family carry the two names exchanged.
  const bool exchanged = c.kind == VlmKind::kGemma3;
  file.linear(blk + (exchanged ? "ffn_down" : "ffn_up"), type, c.width, c.mlp, 1);
  file.linear(blk + (exchanged ? "ffn_up" : "ffn_down"), down, c.mlp, c.width, 0.7f);
}

void add_projector(SyntheticFile& file, const VlmConfig& c) {
  const int64_t joined = c.merge * c.merge * c.width;
  switch (c.kind) {
    case VlmKind::kGemma3:
      file.vector("mm.soft_emb_norm.weight", c.width, {0.1f, 1.0f});
      file.tensor("mm.input_projection.weight", file.plain(), {c.out_width, c.width},
                  {1 / std::sqrt(float(c.width))});
      return;
    case VlmKind::kIdefics3:
      file.matrix("mm.model.fc.weight", file.fitting(joined), joined, c.out_width, 1);
      return;
    case VlmKind::kQwen25Vl:
      file.linear("mm.0", file.fitting(joined), joined, joined, 1);
      file.linear("mm.2", file.fitting(joined), joined, c.out_width, 1.5f);
      return;
  }
}

Result<OutputFile> stage_vision(const SyntheticVlm& what, const char* path) {
  const VlmConfig c = synthetic_vlm_config(what);
  SyntheticFile file(what.dtype, what.seed * 2 + 1);
  add_keys(file, what, c);
  const Spread patch = {1.5f / std::sqrt(float(c.patch_values()))};
  const auto& p = c.patch_size;
  file.tensor("v.patch_embd.weight", file.plain(), {p, p, 3, c.width}, patch);
  if (c.fixed_size()) {
    file.vector("v.patch_embd.bias", c.width, {0.1f});
    file.tensor("v.position_embd.weight", DType::kF32, {c.width, c.side() * c.side()}, {0.5f});
  } else {
    file.tensor("v.patch_embd.weight.1", file.plain(), {p, p, 3, c.width}, patch);
  }
  for (int64_t i = 0; i < c.n_layers; ++i) add_layer(file, "v.blk." + std::to_string(i) + ".", c);
  add_norm(file, "v.post_ln", c);
  add_projector(file, c);
  return file.stage(path);
}

}  // namespace

VlmConfig synthetic_vlm_config(const SyntheticVlm& what) {
  VlmConfig c;
  c.kind = what.kind;
  c.out_width = synthetic_llm_config(synthetic_vlm_text(what)).width;
  for (int i = 0; i < 3; ++i) c.mean[i] = c.deviation[i] = 0.5f;
  const bool full = what.full;
  switch (what.kind) {
    case VlmKind::kGemma3:
      c.merge = 4;
      c.image_size = full ? 896 : 112;
      c.patch_size = 14;
      break;
    case VlmKind::kIdefics3:
      c.merge = full ? 4 : 2;
      c.image_size = full ? 512 : 32;
      c.patch_size = full ? 16 : 8;
      c.longest = full ? 2048 : 96;
      break;
    case VlmKind::kQwen25Vl:
      c.merge = 2;
      c.image_size = 560;
      c.patch_size = 14;
      c.full_every = full ? 8 : 2;
      c.activation = Activation::kSilu;
      c.width = full ? 1280 : 96, c.mlp = full ? 3420 : 100;
      c.n_layers = full ? 32 : 3, c.n_heads = full ? 16 : 4;
      return c;
  }
  c.width = full ? 1152 : 72, c.mlp = full ? 4304 : 100;
  c.n_layers = full ? 27 : 2, c.n_heads = full ? 16 : 2;
  return c;
}

SyntheticLlm synthetic_vlm_text(const SyntheticVlm& what) {
  SyntheticLlm text;
  text.full = what.full;
  text.dtype = what.dtype;
  text.seed = what.seed * 2;
  switch (what.kind) {
    case VlmKind::kGemma3:
      text.arch = LlmArch::kGemma3;
      text.control_pieces = {"<start_of_image>", "<end_of_image>"};
      break;
    case VlmKind::kQwen25Vl:
      text.arch = LlmArch::kQwen2Vl;
      text.control_pieces = {"<|vision_start|>", "<|vision_end|>"};
      break;
    case VlmKind::kIdefics3:
      text.arch = LlmArch::kLlama;
      text.control_pieces = {"<fake_token_around_image>", "<global-img>", "\n\n"};
      for (int row = 1; row <= 4; ++row)
        for (int column = 1; column <= 4; ++column)
          text.control_pieces.push_back("<row_" + std::to_string(row) + "_col_" +
                                        std::to_string(column) + ">");
      break;
  }
  return text;
}

Result<void> write_synthetic_vision(const SyntheticVlm& what, const char* path) {
  if (!dtype_info(what.dtype).can_be_weight)
    return make_error(Code::kUnsupported, "synthetic model: element type %s cannot be a weight",
                      dtype_info(what.dtype).name.data());
  auto staged = stage_vision(what, path);
  if (!staged) return staged.error();
  return staged.value().commit();
}

Result<void> write_synthetic_vlm(const SyntheticVlm& what, const char* text_path,
                                 const char* vision_path) {
  // Minutes of work are not begun for a name that cannot be written.
  auto text_target = examine_output(text_path), vision_target = examine_output(vision_path);
  if (!text_target) return text_target.error();
  if (!vision_target) return vision_target.error();
  if (std::strcmp(text_path, vision_path) == 0 ||
      text_target.value().same_file(vision_target.value()))
    return make_error(Code::kInvalid, "synthetic pair: %s and %s are one file", text_path,
                      vision_path);
  auto text = stage_synthetic_llm(synthetic_vlm_text(what), text_path);
  if (!text) return text.error();
  auto vision = stage_vision(what, vision_path);
  if (!vision) return vision.error();
  OUTRIDER_TRY(vision.value().commit());
  return text.value().commit();
}

}  // namespace outrider
