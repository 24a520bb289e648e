#include "models/synthetic_llm.h"

#include <cmath>
#include <string>

#include "base/assert.h"
#include "models/llm_weights.h"
#include "models/pi_gguf_keys.h"
#include "models/synthetic_file.h"
#include "models/synthetic_vocab.h"

namespace outrider {
namespace {

constexpr const char* kChatTemplate =
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
    "{{ message['content'] }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

bool is_gemma(LlmArch arch) {
  return arch == LlmArch::kGemma || arch == LlmArch::kGemma2 || arch == LlmArch::kGemma3;
}

void add_keys(SyntheticFile& file, const SyntheticLlm& what, const LlmConfig& c) {
  GgufWriter& keys = file.keys();
  const std::string name = llm_arch_name(c.arch), prefix = name + ".";
  keys.add_string("general.architecture", name);
  keys.add_string("general.name", "synthetic-" + name + (what.full ? "-full" : "-tiny"));
  keys.add_u32("general.file_type", gguf_file_type(what.dtype));
  if (dtype_info(what.dtype).block_values > 1) keys.add_u32("general.quantization_version", 2);
  const std::pair<const char*, int64_t> sizes[] = {
      {"context_length", c.trained_context}, {"embedding_length", c.width},
      {"block_count", c.n_layers},           {"feed_forward_length", c.mlp},
      {"attention.head_count", c.n_heads},   {"attention.head_count_kv", c.n_kv_heads},
      {"attention.key_length", c.head_dim},  {"attention.value_length", c.head_dim},
      {"rope.dimension_count", c.head_dim}};
  for (const auto& [key, value] : sizes) keys.add_u32(prefix + key, uint32_t(value));
  keys.add_f32(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  keys.add_f32(prefix + "rope.freq_base", float(c.rope_base));
  if (c.window > 0) keys.add_u32(prefix + "attention.sliding_window", uint32_t(c.window));
  if (c.attention_cap > 0) keys.add_f32(prefix + "attn_logit_softcapping", c.attention_cap);
  if (c.logit_cap > 0) keys.add_f32(prefix + "final_logit_softcapping", c.logit_cap);
  if (c.has_sections()) {
    int32_t sections[4] = {};
    for (size_t i = 0; i < 3; ++i) sections[i] = static_cast<int32_t>(c.sections[i]);
    keys.add_i32s(prefix + "rope.dimension_sections", sections);
  }
  const std::pair<const char*, int32_t> turns[] = {{"eot", what.end_of_turn}};
  SpmVocab vocab = synthetic_vocab(c.vocab);
  OUTRIDER_ASSERT(what.control_pieces.size() <= 62);
  for (size_t i = 0; i < what.control_pieces.size(); ++i)
    vocab.pieces[4 + i] = {what.control_pieces[i], 0, PieceType::kControl};
  add_vocab_keys(keys, vocab, turns);
  keys.add_string("tokenizer.chat_template", kChatTemplate);
}

// Branches write at half size, so that depth does not blow the stream up.
void add_layer(SyntheticFile& file, const std::string& blk, const LlmConfig& c) {
  const Spread norm{0.1f, 1.0f};
  file.vector(blk + "attn_norm.weight", c.width, norm);
  file.vector(blk + "ffn_norm.weight", c.width, norm);
  if (c.qk_norm) {
    file.vector(blk + "attn_q_norm.weight", c.head_dim, norm);
    file.vector(blk + "attn_k_norm.weight", c.head_dim, norm);
  }
  if (c.post_norms) {
    file.vector(blk + "post_attention_norm.weight", c.width, {0.1f, 0.7f});
    file.vector(blk + "post_ffw_norm.weight", c.width, {0.1f, 0.7f});
  }
  const auto matrix = [&](const char* name, int64_t n_in, int64_t n_out, float gain) {
    file.matrix(blk + name + ".weight", file.fitting(n_in), n_in, n_out, gain);
  };
  matrix("attn_q", c.width, c.q_width(), 1.3f);
  matrix("attn_k", c.width, c.kv_width(), 1.3f);
  matrix("attn_v", c.width, c.kv_width(), 1);
  if (c.arch == LlmArch::kQwen2 || c.arch == LlmArch::kQwen2Vl) {
    file.vector(blk + "attn_q.bias", c.q_width(), {0.3f});
    file.vector(blk + "attn_k.bias", c.kv_width(), {0.3f});
    file.vector(blk + "attn_v.bias", c.kv_width(), {0.3f});
  }
  matrix("attn_output", c.q_width(), c.width, 0.7f);
  matrix("ffn_gate", c.width, c.mlp, 1);
  matrix("ffn_up", c.width, c.mlp, 1);
  matrix("ffn_down", c.mlp, c.width, 0.7f);
}

}  // namespace

LlmConfig synthetic_llm_config(const SyntheticLlm& what) {
  LlmConfig c;
  c.arch = what.arch;
  if (what.full) {
    c.width = 1536, c.mlp = 8960, c.n_layers = 28, c.n_heads = 12, c.n_kv_heads = 2;
    c.head_dim = 128, c.vocab = 32768, c.trained_context = 32768;
  } else {
    c.width = 256, c.mlp = 256, c.n_layers = 2, c.n_heads = 4, c.n_kv_heads = 2;
    c.head_dim = 32, c.vocab = 640, c.trained_context = 2048;
  }
  if (what.arch == LlmArch::kGemma2) c.n_layers += 1, c.window = 24, c.pattern = 2;
  if (what.arch == LlmArch::kGemma3) c.n_layers += 5, c.window = 16, c.pattern = 6;
  if (what.arch == LlmArch::kGemma2) c.attention_cap = 50, c.logit_cap = 30;
  c.rope_base = is_gemma(what.arch) && what.arch != LlmArch::kGemma3 ? 10000 : 1000000;
  c.norm_eps = what.arch == LlmArch::kLlama ? 1e-5f : 1e-6f;
  c.qk_norm = what.arch == LlmArch::kQwen3 || what.arch == LlmArch::kGemma3;
  c.post_norms = what.arch == LlmArch::kGemma2 || what.arch == LlmArch::kGemma3;
  c.tied = is_gemma(what.arch);
  if (what.arch == LlmArch::kQwen2Vl) {
    c.sections[0] = c.head_dim / 8;
    c.sections[1] = c.sections[2] = c.head_dim * 3 / 16;
  }
  return c;
}

Result<OutputFile> stage_synthetic_llm(const SyntheticLlm& what, const char* path) {
  if (!dtype_info(what.dtype).can_be_weight)
    return make_error(Code::kUnsupported, "synthetic model: element type %s cannot be a weight",
                      dtype_info(what.dtype).name.data());
  const LlmConfig c = synthetic_llm_config(what);
  SyntheticFile file(what.dtype, what.seed);
  add_keys(file, what, c);
  // Gemma multiplies rows by the root of the width. Outputs are three times as large as their
  // input, so that the best token is clear.
  const float rows = is_gemma(c.arch) ? 1 / std::sqrt(float(c.width)) : 1;
  const DType type = file.fitting(c.width);
  file.tensor("token_embd.weight", type, {c.width, c.vocab}, {rows});
  file.vector("output_norm.weight", c.width, {0.1f, 1.0f});
  if (!c.tied) file.matrix("output.weight", type, c.width, c.vocab, 3);
  for (int64_t i = 0; i < c.n_layers; ++i) add_layer(file, "blk." + std::to_string(i) + ".", c);
  return file.stage(path);
}

Result<void> write_synthetic_llm(const SyntheticLlm& what, const char* path) {
  auto staged = stage_synthetic_llm(what, path);
  if (!staged) return staged.error();
  return staged.value().commit();
}

}  // namespace outrider
