#include "models/pi_gguf.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "models/size_reader.h"

namespace outrider {
namespace {

constexpr PiNames kNames = {
    "v.patch_embd",
    "v.position_embd",
    "v.blk.#.ln1",
    "v.blk.#.ln2",
    "v.blk.#.attn_q",
    "v.blk.#.attn_k",
    "v.blk.#.attn_v",
    "v.blk.#.attn_out",
    "v.blk.#.ffn_up",
    "v.blk.#.ffn_down",
    "v.post_ln",
    "mm.linear",
    /*mlp_names_may_be_exchanged=*/true,
    "token_embd.weight",
    {"blk.#.attn_norm", "blk.#.ffn_norm", "", "", "blk.#.attn_q", "blk.#.attn_k", "blk.#.attn_v",
     "blk.#.attn_output", "blk.#.ffn_gate", "blk.#.ffn_up", "blk.#.ffn_down"},
    {"blk.#.attn_norm", "blk.#.ffn_norm", "blk.#.attn_norm_dense", "blk.#.ffn_norm_dense",
     "blk.#.attn_q", "blk.#.attn_k", "blk.#.attn_v", "blk.#.attn_output", "blk.#.ffn_gate",
     "blk.#.ffn_up", "blk.#.ffn_down"},
    /*expert_first_layer=*/0,
    "output_norm",
    "output_norm_dense",
    "action_in_proj",
    "action_out_proj",
    "state_proj",
    "action_time_mlp_in",
    "action_time_mlp_out",
    "time_mlp_in",
    "time_mlp_out",
    /*backbone_norm=*/"output_norm",
    /*head=*/"output.weight"};

constexpr const char* kFastArchitecture = "pi0_fast";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string architecture(const GgufFile& file) {
  const auto value = file.string("general.architecture");
  return value ? lower(value.value()) : std::string();
}

std::string general_name(const GgufFile& file) {
  const auto value = file.string("general.name");
  return value ? lower(value.value()) : std::string();
}

bool says_pi05(const std::string& name) {
  return name.find("pi05") != std::string::npos || name.find("pi0.5") != std::string::npos;
}

constexpr int64_t kMaxWidth = 1 << 16, kMaxMlp = 1 << 20, kMaxLayers = 1024, kMaxHeads = 1024;

Error not_a_policy(const GgufFile& file) {
  return make_error(Code::kNotFound,
                    "%s: general.architecture is \"%s\", wanted pi0, pi05, pi0.5 or pi0_fast%s",
                    file.path().c_str(), architecture(file).c_str(),
                    is_pi_vision(file) ? "; this is a vision file: give it as mmproj_path" : "");
}

Error not_a_vision_file(const GgufFile& file) {
  return make_error(Code::kNotFound, "%s: general.architecture is \"%s\", wanted clip%s",
                    file.path().c_str(), architecture(file).c_str(),
                    is_pi_policy(file) ? "; this is a policy file: give it as model_path" : "");
}

Result<void> check_heads(const GgufFile& file, const GemmaConfig& config) {
  if (config.n_heads % config.n_kv_heads != 0) {
    return make_error(Code::kNotFound, "%s: head_count %lld is no multiple of head_count_kv %lld",
                      file.path().c_str(), static_cast<long long>(config.n_heads),
                      static_cast<long long>(config.n_kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    return make_error(Code::kNotFound, "%s: attention.key_length is %lld, wanted an even number",
                      file.path().c_str(), static_cast<long long>(config.head_dim));
  }
  return {};
}

// A count below what the file holds would drop layers without a word.
Result<void> check_no_more_layers(const GgufFile& file, const char* pattern, int64_t n_layers,
                                  const std::string& key) {
  const std::string name = at_layer(pattern, n_layers);
  if (file.tensor(name) == nullptr) return {};
  return make_error(Code::kNotFound, "%s: %s is %lld, but tensor %s is there", file.path().c_str(),
                    key.c_str(), static_cast<long long>(n_layers), name.c_str());
}

Result<void> read_vision_sizes(const GgufFile& file, VisionConfig& v) {
  SizeReader size(file);
  v.image_size = size.required("clip.vision.image_size", 4096);
  v.patch_size = size.required("clip.vision.patch_size", 1024);
  v.width = size.required("clip.vision.embedding_length", kMaxWidth);
  v.mlp = size.required("clip.vision.feed_forward_length", kMaxMlp);
  v.n_layers = size.required("clip.vision.block_count", kMaxLayers);
  v.n_heads = size.required("clip.vision.attention.head_count", kMaxHeads);
  if (!size.ok()) return size.failure();
  OUTRIDER_TRY(
      check_no_more_layers(file, "v.blk.#.attn_q.weight", v.n_layers, "clip.vision.block_count"));
  if (file.has("clip.use_gelu")) {
    const auto gelu = file.boolean("clip.use_gelu");
    if (!gelu) return gelu.error();
    v.use_gelu = gelu.value();
  }
  if (file.has("clip.vision.attention.layer_norm_epsilon")) {
    const auto eps = file.real("clip.vision.attention.layer_norm_epsilon");
    if (!eps) return eps.error();
    if (!(eps.value() > 0 && eps.value() < 1)) {
      return make_error(Code::kNotFound,
                        "%s: clip.vision.attention.layer_norm_epsilon is %g, allowed are numbers "
                        "above 0 and below 1",
                        file.path().c_str(), eps.value());
    }
  }
  if (v.image_size % v.patch_size != 0 || v.width % v.n_heads != 0) {
    return make_error(Code::kNotFound,
                      "%s: image_size %lld must be a multiple of patch_size %lld and "
                      "embedding_length %lld of head_count %lld",
                      file.path().c_str(), static_cast<long long>(v.image_size),
                      static_cast<long long>(v.patch_size), static_cast<long long>(v.width),
                      static_cast<long long>(v.n_heads));
  }
  return {};
}

Result<void> check_projector(const GgufFile& policy, const GgufFile& vision,
                             int64_t backbone_width) {
  const auto type = vision.string("clip.projector_type");
  if (type && type.value() != "pi0") {
    return make_error(Code::kNotFound,
                      "%s: clip.projector_type is \"%.*s\", wanted \"pi0\": the projector of "
                      "another model family",
                      vision.path().c_str(), static_cast<int>(type.value().size()),
                      type.value().data());
  }
  const GgufTensor* projector = vision.tensor("mm.linear.weight");
  if (vision.has("clip.vision.projection_dim") && projector != nullptr) {
    const auto stated = vision.unsigned_integer("clip.vision.projection_dim");
    if (!stated) return stated.error();
    if (stated.value() != static_cast<uint64_t>(projector->ne[1])) {
      return make_error(Code::kNotFound,
                        "%s: clip.vision.projection_dim is %llu, but mm.linear.weight makes %lld",
                        vision.path().c_str(), static_cast<unsigned long long>(stated.value()),
                        static_cast<long long>(projector->ne[1]));
    }
  }
  if (projector != nullptr && projector->ne[1] != backbone_width) {
    return make_error(Code::kNotFound,
                      "%s projects to width %lld, but %s has embedding_length %lld: the two files "
                      "do not belong together",
                      vision.path().c_str(), static_cast<long long>(projector->ne[1]),
                      policy.path().c_str(), static_cast<long long>(backbone_width));
  }
  return {};
}

}  // namespace

const PiNames& pi_gguf_names() {
  return kNames;
}

bool is_pi_policy(const GgufFile& file) {
  const std::string name = architecture(file);
  return name == "pi0" || name == "pi05" || name == "pi0.5" || name == kFastArchitecture;
}

bool is_pi_vision(const GgufFile& file) {
  const auto flag = file.boolean("clip.has_vision_encoder");
  return architecture(file) == "clip" || (flag && flag.value());
}

PiFamilyGuess guess_policy_family(const GgufFile& policy) {
  if (!is_pi_policy(policy)) return {};
  if (architecture(policy) == kFastArchitecture)
    return {PiFamily::kPi0Fast, "general.architecture is pi0_fast"};
  const auto has = [&](const char* name) { return policy.tensor(name) != nullptr; };
  if (has("output_norm_dense.weight"))
    return {PiFamily::kPi05, "tensor output_norm_dense.weight is present"};
  for (const GgufTensor& tensor : policy.tensors()) {
    if (tensor.name.find(".attn_norm_dense.") != std::string_view::npos ||
        tensor.name.find(".ffn_norm_dense.") != std::string_view::npos) {
      return {PiFamily::kPi05, "tensor " + std::string(tensor.name) + " is present"};
    }
  }
  if (has("time_mlp_in.weight") || has("time_mlp_out.weight"))
    return {PiFamily::kPi05, "tensor time_mlp_in/out.weight is present"};
  if (has("state_proj.weight")) return {PiFamily::kPi0, "tensor state_proj.weight is present"};
  if (has("action_time_mlp_in.weight") || has("action_time_mlp_out.weight")) {
    return {PiFamily::kPi0, "tensor action_time_mlp_in/out.weight is present"};
  }
  if (says_pi05(general_name(policy))) return {PiFamily::kPi05, "general.name says so"};
  return {};
}

PiFamilyGuess guess_vision_family(const GgufFile& vision) {
  if (!is_pi_vision(vision)) return {};
  const std::string name = general_name(vision);
  const auto gelu = vision.boolean("clip.use_gelu");
  if (says_pi05(name)) return {PiFamily::kPi05, "general.name says so"};
  if (gelu && !gelu.value()) return {PiFamily::kPi05, "clip.use_gelu is false"};
  if (name == "vit" && gelu && gelu.value())
    return {PiFamily::kPi0, "general.name is vit and clip.use_gelu is true"};
  return {};
}

Result<PiConfig> read_pi_policy_config(const GgufFile& policy) {
  if (!is_pi_policy(policy)) return not_a_policy(policy);
  const PiFamilyGuess guess = guess_policy_family(policy);
  PiConfig config;
  if (guess.family) config.family = *guess.family;
  SizeReader size(policy);
  std::string prefix = architecture(policy) + ".";
  if (!policy.has(prefix + "embedding_length")) prefix = "pi0.";
  GemmaConfig &b = config.backbone, &e = config.expert;
  const int64_t blocks = size.required(prefix + "block_count", 2 * kMaxLayers);
  b.width = size.required(prefix + "embedding_length", kMaxWidth);
  b.mlp = size.required(prefix + "feed_forward_length", kMaxMlp);
  b.n_heads = size.required(prefix + "attention.head_count", kMaxHeads);
  b.n_kv_heads = size.optional(prefix + "attention.head_count_kv", b.n_heads, kMaxHeads);
  b.head_dim = size.optional(prefix + "attention.key_length",
                             std::max<int64_t>(1, b.width / b.n_heads), 4096);
  const int64_t value_length = size.optional(prefix + "attention.value_length", b.head_dim, 4096);
  const bool fast = config.is_fast();
  b.n_layers = fast ? blocks : blocks / 2;
  config.n_denoise_steps = 0;
  if (!fast) {
    e = b;
    e.width = size.required(prefix + "embedding_length_ae", kMaxWidth);
    e.mlp = size.required(prefix + "intermediate_size_ae", kMaxMlp);
    config.n_denoise_steps = size.optional(prefix + "num_inference_steps", 10, 1000);
  } else {
    config.answer_tokens = size.optional(prefix + "max_answer_tokens", 256, 1024);
    config.own_head = policy.tensor(kNames.head) != nullptr;
  }
  config.action_steps = size.optional(prefix + "n_action_steps", 50, 4096);
  config.action_dim = size.optional(prefix + "max_action_dim", 32, 4096);
  if (!size.ok()) return size.failure();
  if (value_length != b.head_dim) {
    return make_error(Code::kNotFound,
                      "%s: %sattention.value_length is %lld, key_length %lld: they must be equal",
                      policy.path().c_str(), prefix.c_str(), static_cast<long long>(value_length),
                      static_cast<long long>(b.head_dim));
  }
  OUTRIDER_TRY(check_no_more_layers(policy, "blk.#.attn_q.weight", blocks, prefix + "block_count"));
  if (!fast && blocks % 2 != 0) {
    return make_error(Code::kNotFound,
                      "%s: %sblock_count is %lld, wanted an even number (backbone and expert)",
                      policy.path().c_str(), prefix.c_str(), static_cast<long long>(blocks));
  }
  if (policy.has(prefix + "rope.freq_base")) {
    const auto base = policy.real(prefix + "rope.freq_base");
    if (!base) return base.error();
    config.rope_base = base.value();
  }
  if (!(config.rope_base > 1) || !std::isfinite(config.rope_base)) {
    return make_error(Code::kNotFound, "%s: %srope.freq_base is %g, wanted above 1",
                      policy.path().c_str(), prefix.c_str(), config.rope_base);
  }
  OUTRIDER_TRY(check_heads(policy, b));
  const GgufTensor* embed = policy.tensor("token_embd.weight");
  if (embed == nullptr) {
    return make_error(Code::kNotFound, "%s: tensor token_embd.weight is missing",
                      policy.path().c_str());
  }
  config.vocab = embed->ne[1];
  return config;
}

Result<PiConfig> read_pi_config(const GgufFile& policy, const GgufFile& vision) {
  auto config = read_pi_policy_config(policy);
  if (!config) return config;
  if (!is_pi_vision(vision)) return not_a_vision_file(vision);
  const PiFamilyGuess by_policy = guess_policy_family(policy);
  // The tower of PI0-FAST is either family's: nothing in it tells.
  const PiFamilyGuess by_vision =
      by_policy.family == PiFamily::kPi0Fast ? PiFamilyGuess{} : guess_vision_family(vision);
  if (by_policy.family && by_vision.family && *by_policy.family != *by_vision.family) {
    return make_error(
        Code::kNotFound, "%s is %s (%s), but %s is %s (%s): the two files do not belong together",
        policy.path().c_str(), pi_family_name(*by_policy.family), by_policy.reason.c_str(),
        vision.path().c_str(), pi_family_name(*by_vision.family), by_vision.reason.c_str());
  }
  if (!by_policy.family && !by_vision.family) {
    return make_error(Code::kNotFound, "%s: neither its tensors nor %s tell PI0 from PI0.5",
                      policy.path().c_str(), vision.path().c_str());
  }
  config.value().family = by_policy.family ? *by_policy.family : *by_vision.family;
  OUTRIDER_TRY(read_vision_sizes(vision, config.value().vision));
  OUTRIDER_TRY(check_projector(policy, vision, config.value().backbone.width));
  return config;
}

Result<Matrix> read_pi_embedding(const GgufFile& policy, const PiConfig& config) {
  const GgufSource source(policy);
  WeightReader reader(source);
  const Matrix embed = reader.matrix(kNames.embed, config.vocab, config.backbone.width);
  if (!reader.ok()) return reader.failure();
  return embed;
}

Result<PiWeights> read_pi_gguf(const GgufFile& policy, const GgufFile& vision) {
  auto config = read_pi_config(policy, vision);
  if (!config) return config.error();
  PiNames names = kNames;
  names.expert_first_layer = config.value().backbone.n_layers;
  return read_pi_weights(GgufSource(policy), GgufSource(vision), names, config.value());
}

}  // namespace outrider
