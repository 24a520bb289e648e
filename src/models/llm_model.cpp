#include "models/llm_model.h"

#include <algorithm>

#include "models/pack_list.h"

namespace outrider {
namespace {

// The sum w - 1 + 1 is w again from 0.5 on; below, it is within 3e-8 of w.
std::vector<float> less_one(std::vector<float> weights) {
  for (float& w : weights) w -= 1;
  return weights;
}

}  // namespace

class LlmModelBuilder {
 public:
  LlmModelBuilder(const LlmWeights& weights, Precision precision, Ops& ops)
      : weights_(weights), precision_(precision), ops_(ops), model_(std::make_shared<LlmModel>()) {}

  Result<std::shared_ptr<const LlmModel>> build(std::span<const MappedFile* const> files,
                                                std::shared_ptr<const void> keep_alive) {
    LlmModel& m = *model_;
    m.config = weights_.config;
    m.precision = precision_;
    m.keep_alive_ = std::move(keep_alive);
    m.norm = less_one(weights_.norm);
    m.rope_divisors = weights_.rope_divisors;
    m.layers.resize(weights_.layers.size());
    for (size_t i = 0; i < m.layers.size(); ++i) plan_layer(weights_.layers[i], m.layers[i]);
    // The table before the packing: that drops the pages of a tied one.
    auto table = copy_matrix(weights_.embed, m.table_);
    if (!table) return table.error();
    m.embed = table.value();
    list_.add({weights_.output}, precision_, &m.output);
    OUTRIDER_TRY(list_.run(ops_, m.storage_, files));
    drop_pages(weights_.embed, files);
    return std::shared_ptr<const LlmModel>(model_);
  }

 private:
  void plan_layer(const LlmLayerRef& from, LlmLayer& to) {
    to.norm1 = less_one(from.norm1);
    to.norm2 = less_one(from.norm2);
    to.q_norm = less_one(from.q_norm);
    to.k_norm = less_one(from.k_norm);
    to.post_norm1 = less_one(from.post_norm1);
    to.post_norm2 = less_one(from.post_norm2);
    plan_attention(from, to);
    list_.add({from.o}, precision_, &to.o.w);
    to.o.bias = from.o_bias;
    list_.add({from.gate, from.up}, precision_, &to.gate_up, Stack::kPaired);
    list_.add({from.down}, precision_, &to.down);
  }

  void plan_attention(const LlmLayerRef& from, LlmLayer& to) {
    const LlmConfig& c = weights_.config;
    const int64_t head_rows = c.adjacent_pairs ? c.head_dim : 0;
    std::vector<float> q_bias = from.q_bias, k_bias = from.k_bias, v_bias = from.v_bias;
    unpair_rows(q_bias, head_rows);
    unpair_rows(k_bias, head_rows);
    const bool alike = from.q.dtype == from.k.dtype && from.q.dtype == from.v.dtype;
    const size_t n_biases = !q_bias.empty() + !k_bias.empty() + !v_bias.empty();
    to.fused = !c.qk_norm && (n_biases == 0 || n_biases == 3) &&
               (alike || precision_ != Precision::kStored);
    const PackPart q(from.q, head_rows), k(from.k, head_rows), v(from.v);
    if (!to.fused) {
      list_.add({q}, precision_, &to.q.w);
      list_.add({k}, precision_, &to.k.w);
      list_.add({v}, precision_, &to.v.w);
      to.q.bias = std::move(q_bias);
      to.k.bias = std::move(k_bias);
      to.v.bias = std::move(v_bias);
      return;
    }
    list_.add({q, k, v}, precision_, &to.qkv.w);
    for (const auto* bias : {&q_bias, &k_bias, &v_bias})
      to.qkv.bias.insert(to.qkv.bias.end(), bias->begin(), bias->end());
  }

  const LlmWeights& weights_;
  const Precision precision_;
  Ops& ops_;
  std::shared_ptr<LlmModel> model_;
  PackList list_;
};

Result<std::shared_ptr<const LlmModel>> LlmModel::build(const LlmWeights& weights,
                                                        Precision precision, Ops& ops,
                                                        std::span<const MappedFile* const> files,
                                                        std::shared_ptr<const void> keep_alive) {
  return LlmModelBuilder(weights, precision, ops).build(files, std::move(keep_alive));
}

OpsLimits llm_limits(const LlmConfig& c, int64_t max_rows, int64_t n_ctx, bool kv_8bit) {
  OpsLimits limits;
  limits.max_rows = max_rows;
  limits.max_in = std::max({c.width, c.mlp, c.q_width()});
  limits.max_out = std::max({c.vocab, 2 * c.mlp, c.q_width() + 2 * c.kv_width(), c.width});
  limits.max_keys = n_ctx;
  limits.max_head_dim = static_cast<int32_t>(c.head_dim);
  limits.kv_8bit = kv_8bit;
  return limits;
}

}  // namespace outrider
