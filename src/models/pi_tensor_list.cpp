#include "models/pi_tensor_list.h"

#include "models/pi_gguf.h"
#include "models/pi_safetensors.h"

namespace outrider {
namespace {

class Lister {
 public:
  explicit Lister(const PiConfig& config) : config_(config) {}

  std::vector<PiTensorName> list() {
    matrix(&PiNames::embed);
    gemma(&PiNames::backbone, config_.backbone.n_layers, 0, false);
    if (config_.is_fast()) {
      norm(&PiNames::backbone_norm);
      if (config_.own_head) matrix(&PiNames::head);
    } else {
      expert();
    }
    vision();
    return std::move(out_);
  }

 private:
  using Field = const char* PiNames::*;
  using GemmaField = const char* PiNames::Gemma::*;

  void expert() {
    gemma(&PiNames::expert, config_.expert.n_layers, config_.backbone.n_layers,
          config_.family == PiFamily::kPi05);
    if (config_.family == PiFamily::kPi05) {
      pair(&PiNames::expert_norm_dense, false);
    } else {
      norm(&PiNames::expert_norm);
    }
    pair(&PiNames::action_in, false);
    pair(&PiNames::action_out, false);
    if (config_.family == PiFamily::kPi0) {
      for (const auto field :
           {&PiNames::state, &PiNames::action_time_in, &PiNames::action_time_out})
        pair(field, false);
    } else {
      for (const auto field : {&PiNames::time_in, &PiNames::time_out}) pair(field, false);
    }
  }

  void add(std::string gguf, std::string checkpoint, bool large) {
    out_.push_back({std::move(gguf), std::move(checkpoint), in_vision_, large});
  }
  void norm(Field field) {
    add(std::string(gguf_.*field) + ".weight", std::string(checkpoint_.*field) + ".weight", false);
  }
  void matrix(Field field) { add(gguf_.*field, checkpoint_.*field, true); }
  void pair(Field field, bool large, int64_t layer = 0) {
    for (const char* part : {".weight", ".bias"})
      add(at_layer(gguf_.*field, layer) + part, at_layer(checkpoint_.*field, layer) + part,
          large && part[1] == 'w');
  }
  void gemma(PiNames::Gemma PiNames::*names, int64_t n_layers, int64_t first, bool adaptive) {
    const PiNames::Gemma &g = gguf_.*names, &c = checkpoint_.*names;
    const auto one = [&](GemmaField field, int64_t i, const char* part, bool large) {
      add(at_layer(g.*field, first + i) + part, at_layer(c.*field, i) + part, large);
    };
    for (int64_t i = 0; i < n_layers; ++i) {
      for (const auto& [plain, dense] :
           {std::pair<GemmaField, GemmaField>{&PiNames::Gemma::norm1, &PiNames::Gemma::norm1_dense},
            {&PiNames::Gemma::norm2, &PiNames::Gemma::norm2_dense}}) {
        if (!adaptive) {
          one(plain, i, ".weight", false);
          continue;
        }
        one(dense, i, ".weight", false);
        one(dense, i, ".bias", false);
      }
      for (const GemmaField field :
           {&PiNames::Gemma::q, &PiNames::Gemma::k, &PiNames::Gemma::v, &PiNames::Gemma::o,
            &PiNames::Gemma::gate, &PiNames::Gemma::up, &PiNames::Gemma::down})
        one(field, i, ".weight", true);
    }
  }
  void exchanged(const char* gguf, const char* checkpoint, int64_t layer) {
    add(at_layer(gguf, layer) + ".weight", at_layer(checkpoint, layer) + ".weight", true);
    add(at_layer(gguf, layer) + ".bias", at_layer(checkpoint, layer) + ".bias", false);
  }
  void vision() {
    in_vision_ = true;
    pair(&PiNames::patch, false);
    add(std::string(gguf_.position) + ".weight", std::string(checkpoint_.position) + ".weight",
        false);
    for (int64_t i = 0; i < config_.vision.n_layers; ++i) {
      for (const Field field : {&PiNames::v_ln1, &PiNames::v_ln2}) pair(field, false, i);
      for (const Field field : {&PiNames::v_q, &PiNames::v_k, &PiNames::v_v, &PiNames::v_out})
        pair(field, true, i);
      // In GGUF vision files the first matrix goes by the second one's name, as converters write
      // it.
      exchanged(gguf_.v_fc2, checkpoint_.v_fc1, i);
      exchanged(gguf_.v_fc1, checkpoint_.v_fc2, i);
    }
    pair(&PiNames::post_ln, false);
    pair(&PiNames::projector, true);
  }

  const PiConfig& config_;
  const PiNames& gguf_ = pi_gguf_names();
  const PiNames& checkpoint_ = pi_safetensors_names();
  std::vector<PiTensorName> out_;
  bool in_vision_ = false;
};

}  // namespace

std::vector<PiTensorName> pi_tensor_list(const PiConfig& config) {
  return Lister(config).list();
}

}  // namespace outrider
