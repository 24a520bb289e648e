#include "models/pi_gguf_keys.h"

#include <string>
#include <vector>

namespace outrider {

uint32_t gguf_file_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kQ4_K:
      return 15;
    case DType::kQ6_K:
      return 18;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kQ2_K:
      return 10;
    case DType::kQ3_K:
      return 12;
    case DType::kQ5_K:
      return 17;
    default:
      return 32;  // BF16
  }
}

namespace {

// One language model: no expert, no Euler steps.
void add_fast_size_keys(GgufWriter& keys, const PiConfig& c, uint32_t context_length) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"context_length", context_length},
      {"embedding_length", c.backbone.width},
      {"block_count", c.backbone.n_layers},
      {"feed_forward_length", c.backbone.mlp},
      {"attention.head_count", c.backbone.n_heads},
      {"attention.head_count_kv", c.backbone.n_kv_heads},
      {"attention.key_length", c.backbone.head_dim},
      {"attention.value_length", c.backbone.head_dim},
      {"n_action_steps", c.action_steps},
      {"max_action_dim", c.action_dim},
      {"max_answer_tokens", c.answer_tokens}};
  for (const auto& [name, value] : sizes)
    keys.add_u32(std::string("pi0_fast.") + name, uint32_t(value));
  keys.add_f32("pi0_fast.attention.layer_norm_rms_epsilon", 1e-6f);
}

}  // namespace

void add_pi_size_keys(GgufWriter& keys, const PiConfig& c, uint32_t context_length) {
  if (c.is_fast()) return add_fast_size_keys(keys, c, context_length);
  const std::pair<const char*, int64_t> sizes[] = {
      {"context_length", context_length},
      {"embedding_length", c.backbone.width},
      {"block_count", c.backbone.n_layers + c.expert.n_layers},
      {"feed_forward_length", c.backbone.mlp},
      {"attention.head_count", c.backbone.n_heads},
      {"attention.head_count_kv", c.backbone.n_kv_heads},
      {"attention.key_length", c.backbone.head_dim},
      {"attention.value_length", c.backbone.head_dim},
      {"embedding_length_ae", c.expert.width},
      {"intermediate_size_ae", c.expert.mlp},
      {"num_inference_steps", c.n_denoise_steps},
      {"n_action_steps", c.action_steps},
      {"max_action_dim", c.action_dim}};
  for (const auto& [name, value] : sizes) keys.add_u32(std::string("pi0.") + name, uint32_t(value));
  keys.add_f32("pi0.attention.layer_norm_rms_epsilon",
               1e-5f);  // so in real files; readers use 1e-6
  keys.add_f32("pi0.attention.layer_norm_epsilon", 1e-6f);
  keys.add_bool("pi0.pi05", true);  // real files of both families say so: tensor names decide
}

void add_pi_vision_keys(GgufWriter& keys, const PiConfig& c) {
  const VisionConfig& v = c.vision;
  keys.add_bool("clip.has_text_encoder", false);
  keys.add_bool("clip.has_vision_encoder", true);
  keys.add_bool("clip.has_llava_projector", true);
  keys.add_string("clip.projector_type", "pi0");
  const std::pair<const char*, int64_t> sizes[] = {
      {"image_size", v.image_size},        {"patch_size", v.patch_size},
      {"embedding_length", v.width},       {"feed_forward_length", v.mlp},
      {"block_count", v.n_layers},         {"attention.head_count", v.n_heads},
      {"projection_dim", c.backbone.width}};
  for (const auto& [name, value] : sizes)
    keys.add_u32(std::string("clip.vision.") + name, uint32_t(value));
  keys.add_f32("clip.vision.attention.layer_norm_epsilon", 1e-6f);
  // Must be present in such files and is not used by this projector.
  const float mean[] = {0.48145466f, 0.4578275f, 0.40821073f};
  const float deviation[] = {0.26862954f, 0.26130258f, 0.27577711f};
  keys.add_f32s("clip.vision.image_mean", mean);
  keys.add_f32s("clip.vision.image_std", deviation);
  keys.add_bool("clip.use_gelu", v.use_gelu);
}

void add_vocab_keys(GgufWriter& keys, const SpmVocab& vocab,
                    std::span<const std::pair<const char*, int32_t>> further_ids) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const Piece& piece : vocab.pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(int32_t(piece.type));
  }
  keys.add_string("tokenizer.ggml.model", "llama");
  keys.add_string("tokenizer.ggml.pre", "default");
  keys.add_strings("tokenizer.ggml.tokens", tokens);
  keys.add_f32s("tokenizer.ggml.scores", scores);
  keys.add_i32s("tokenizer.ggml.token_type", types);
  const auto add_id = [&](const char* name, int32_t id) {
    if (id >= 0) keys.add_u32(std::string("tokenizer.ggml.") + name + "_token_id", uint32_t(id));
  };
  add_id("bos", vocab.bos);
  add_id("eos", vocab.eos);
  add_id("unknown", vocab.unk);
  add_id("padding", vocab.pad);
  for (const auto& [name, id] : further_ids) add_id(name, id);
  keys.add_bool("tokenizer.ggml.add_bos_token", vocab.add_bos);
  keys.add_bool("tokenizer.ggml.add_eos_token", vocab.add_eos);
  keys.add_bool("tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
}

}  // namespace outrider
