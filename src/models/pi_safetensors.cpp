#include "models/pi_safetensors.h"

namespace outrider {
namespace {

#define OUTRIDER_VISION "paligemma_with_expert.paligemma.model.vision_tower.vision_model."
#define OUTRIDER_LANGUAGE "paligemma_with_expert.paligemma.model.language_model."
#define OUTRIDER_EXPERT "paligemma_with_expert.gemma_expert.model."

constexpr PiNames kNames = {
    OUTRIDER_VISION "embeddings.patch_embedding",
    OUTRIDER_VISION "embeddings.position_embedding",
    OUTRIDER_VISION "encoder.layers.#.layer_norm1",
    OUTRIDER_VISION "encoder.layers.#.layer_norm2",
    OUTRIDER_VISION "encoder.layers.#.self_attn.q_proj",
    OUTRIDER_VISION "encoder.layers.#.self_attn.k_proj",
    OUTRIDER_VISION "encoder.layers.#.self_attn.v_proj",
    OUTRIDER_VISION "encoder.layers.#.self_attn.out_proj",
    OUTRIDER_VISION "encoder.layers.#.mlp.fc1",
    OUTRIDER_VISION "encoder.layers.#.mlp.fc2",
    OUTRIDER_VISION "post_layernorm",
    "paligemma_with_expert.paligemma.model.multi_modal_projector.linear",
    /*mlp_names_may_be_exchanged=*/false,
    OUTRIDER_LANGUAGE "embed_tokens.weight",
    {OUTRIDER_LANGUAGE "layers.#.input_layernorm",
     OUTRIDER_LANGUAGE "layers.#.post_attention_layernorm", "", "",
     OUTRIDER_LANGUAGE "layers.#.self_attn.q_proj", OUTRIDER_LANGUAGE "layers.#.self_attn.k_proj",
     OUTRIDER_LANGUAGE "layers.#.self_attn.v_proj", OUTRIDER_LANGUAGE "layers.#.self_attn.o_proj",
     OUTRIDER_LANGUAGE "layers.#.mlp.gate_proj", OUTRIDER_LANGUAGE "layers.#.mlp.up_proj",
     OUTRIDER_LANGUAGE "layers.#.mlp.down_proj"},
    {OUTRIDER_EXPERT "layers.#.input_layernorm",
     OUTRIDER_EXPERT "layers.#.post_attention_layernorm",
     OUTRIDER_EXPERT "layers.#.input_layernorm.dense",
     OUTRIDER_EXPERT "layers.#.post_attention_layernorm.dense",
     OUTRIDER_EXPERT "layers.#.self_attn.q_proj", OUTRIDER_EXPERT "layers.#.self_attn.k_proj",
     OUTRIDER_EXPERT "layers.#.self_attn.v_proj", OUTRIDER_EXPERT "layers.#.self_attn.o_proj",
     OUTRIDER_EXPERT "layers.#.mlp.gate_proj", OUTRIDER_EXPERT "layers.#.mlp.up_proj",
     OUTRIDER_EXPERT "layers.#.mlp.down_proj"},
    /*expert_first_layer=*/0,
    OUTRIDER_EXPERT "norm",
    OUTRIDER_EXPERT "norm.dense",
    "action_in_proj",
    "action_out_proj",
    "state_proj",
    "action_time_mlp_in",
    "action_time_mlp_out",
    "time_mlp_in",
    "time_mlp_out",
    OUTRIDER_LANGUAGE "norm",
    "paligemma_with_expert.paligemma.lm_head.weight"};

#undef OUTRIDER_VISION
#undef OUTRIDER_LANGUAGE
#undef OUTRIDER_EXPERT

}  // namespace

const PiNames& pi_safetensors_names() {
  return kNames;
}

Result<PiFamily> guess_family(const SafeTensorsFile& file) {
  constexpr std::string_view kDense = ".dense.weight";
  if (file.tensor("time_mlp_in.weight") != nullptr) return PiFamily::kPi05;
  for (const SafeTensor& tensor : file.tensors()) {
    if (std::string_view(tensor.name).ends_with(kDense)) return PiFamily::kPi05;
  }
  if (file.tensor("state_proj.weight") != nullptr &&
      file.tensor("action_time_mlp_in.weight") != nullptr) {
    return PiFamily::kPi0;
  }
  return make_error(
      Code::kNotFound,
      "%s: no tensor tells PI0 from PI0.5 (looked for time_mlp_in, *.dense, state_proj)",
      file.path().c_str());
}

Result<PiWeights> read_pi_safetensors(const SafeTensorsFile& file, const PiConfig& config) {
  PiNames names = kNames;
  // The embedding is tied to the output head; a file may hold either name.
  if (file.tensor(names.embed) == nullptr) names.embed = names.head;
  const SafeTensorsSource source(file);
  return read_pi_weights(source, source, names, config);
}

}  // namespace outrider
