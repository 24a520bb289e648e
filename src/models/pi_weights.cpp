#include "models/pi_weights.h"

namespace outrider {
namespace {

NormRef read_norm(WeightReader& reader, const std::string& prefix, int64_t n) {
  return {reader.values(prefix + ".weight", n), reader.values(prefix + ".bias", n)};
}

VisionLayerRef read_vision_layer(WeightReader& reader, const PiNames& names,
                                 const VisionConfig& config, int64_t i) {
  const int64_t width = config.width;
  const auto linear = [&](const char* pattern, int64_t n_out, int64_t n_in) {
    return reader.linear(at_layer(pattern, i), n_out, n_in);
  };
  VisionLayerRef layer;
  layer.ln1 = read_norm(reader, at_layer(names.v_ln1, i), width);
  layer.ln2 = read_norm(reader, at_layer(names.v_ln2, i), width);
  layer.q = linear(names.v_q, width, width);
  layer.k = linear(names.v_k, width, width);
  layer.v = linear(names.v_v, width, width);
  layer.out = linear(names.v_out, width, width);
  const char *fc1 = names.v_fc1, *fc2 = names.v_fc2;
  if (names.mlp_names_may_be_exchanged) {  // the matrix that reads `width` is the first
    const auto second = reader.info(at_layer(fc2, i) + ".weight");
    if (second && second->shape.size() == 2 && second->shape[1] == width) std::swap(fc1, fc2);
  }
  layer.fc1 = linear(fc1, config.mlp, width);
  layer.fc2 = linear(fc2, width, config.mlp);
  return layer;
}

GemmaNormRef read_gemma_norm(WeightReader& reader, const std::string& plain,
                             const std::string& dense, int64_t width, bool adaptive) {
  GemmaNormRef norm;
  if (adaptive) {
    norm.dense = reader.linear(dense, 3 * width, width);
  } else {
    norm.scale = reader.values(plain + ".weight", width);
  }
  return norm;
}

GemmaLayerRef read_gemma_layer(WeightReader& reader, const PiNames::Gemma& names,
                               const GemmaConfig& config, int64_t i, bool adaptive) {
  const auto matrix = [&](const char* pattern, int64_t n_out, int64_t n_in) {
    return reader.matrix(at_layer(pattern, i) + ".weight", n_out, n_in);
  };
  GemmaLayerRef layer;
  layer.norm1 = read_gemma_norm(reader, at_layer(names.norm1, i), at_layer(names.norm1_dense, i),
                                config.width, adaptive);
  layer.norm2 = read_gemma_norm(reader, at_layer(names.norm2, i), at_layer(names.norm2_dense, i),
                                config.width, adaptive);
  layer.q = matrix(names.q, config.q_width(), config.width);
  layer.k = matrix(names.k, config.kv_width(), config.width);
  layer.v = matrix(names.v, config.kv_width(), config.width);
  layer.o = matrix(names.o, config.width, config.q_width());
  layer.gate = matrix(names.gate, config.mlp, config.width);
  layer.up = matrix(names.up, config.mlp, config.width);
  layer.down = matrix(names.down, config.width, config.mlp);
  return layer;
}

void read_vision(WeightReader& reader, const PiNames& names, const PiConfig& config,
                 PiWeights& out) {
  const VisionConfig& v = config.vision;
  out.patch = reader.linear(names.patch, v.width, 3 * v.patch_size * v.patch_size);
  out.position = reader.values(std::string(names.position) + ".weight", v.n_tokens() * v.width);
  for (int64_t i = 0; i < v.n_layers && reader.ok(); ++i) {
    out.vision.push_back(read_vision_layer(reader, names, v, i));
  }
  out.post_ln = read_norm(reader, names.post_ln, v.width);
  out.projector = reader.linear(names.projector, config.backbone.width, v.width);
}

void read_heads(WeightReader& reader, const PiNames& names, const PiConfig& config,
                PiWeights& out) {
  const int64_t width = config.expert.width, dim = config.action_dim;
  if (config.is_fast()) {
    out.backbone_norm.scale =
        reader.values(std::string(names.backbone_norm) + ".weight", config.backbone.width);
    if (config.own_head) out.head = reader.matrix(names.head, config.vocab, config.backbone.width);
    return;
  }
  out.expert_norm = read_gemma_norm(reader, names.expert_norm, names.expert_norm_dense, width,
                                    config.family == PiFamily::kPi05);
  out.action_in = reader.linear(names.action_in, width, dim);
  out.action_out = reader.linear(names.action_out, dim, width);
  if (config.family == PiFamily::kPi0) {
    out.state = reader.linear(names.state, width, dim);
    out.action_time_in = reader.linear(names.action_time_in, width, 2 * width);
    out.action_time_out = reader.linear(names.action_time_out, width, width);
  } else {
    out.time_in = reader.linear(names.time_in, width, width);
    out.time_out = reader.linear(names.time_out, width, width);
  }
}

}  // namespace

Result<PiWeights> read_pi_weights(const TensorSource& policy, const TensorSource& vision,
                                  const PiNames& names, const PiConfig& config) {
  PiWeights out;
  out.config = config;
  WeightReader policy_reader(policy), vision_reader(vision);
  const bool adaptive = config.family == PiFamily::kPi05;
  out.embed = policy_reader.matrix(names.embed, config.vocab, config.backbone.width);
  for (int64_t i = 0; i < config.backbone.n_layers && policy_reader.ok(); ++i) {
    out.backbone.push_back(
        read_gemma_layer(policy_reader, names.backbone, config.backbone, i, false));
  }
  for (int64_t i = 0; i < config.expert.n_layers && policy_reader.ok(); ++i) {
    out.expert.push_back(read_gemma_layer(policy_reader, names.expert, config.expert,
                                          names.expert_first_layer + i, adaptive));
  }
  read_heads(policy_reader, names, config, out);
  if (!policy_reader.ok()) return policy_reader.failure();
  read_vision(vision_reader, names, config, out);
  if (!vision_reader.ok()) return vision_reader.failure();
  return out;
}

}  // namespace outrider
