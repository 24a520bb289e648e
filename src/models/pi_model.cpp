#include "models/pi_model.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "models/flow_time.h"
#include "models/pack_list.h"

namespace outrider {
namespace {

std::vector<float> joined(std::initializer_list<const std::vector<float>*> parts) {
  std::vector<float> out;
  for (const auto* part : parts) out.insert(out.end(), part->begin(), part->end());
  return out;
}

std::vector<float> dequantized(const Matrix& m) {
  std::vector<float> out(static_cast<size_t>(m.n_out * m.n_in));
  const size_t bytes = row_bytes(m.dtype, m.n_in);
  for (int64_t i = 0; i < m.n_out; ++i) {
    dequantize_row(m.dtype, static_cast<const std::byte*>(m.data) + i * static_cast<int64_t>(bytes),
                   out.data() + i * m.n_in, m.n_in);
  }
  return out;
}

// Columns [first, first + n) of a matrix as a matrix of its own.
std::vector<float> columns(const std::vector<float>& values, int64_t n_in, int64_t first,
                           int64_t n) {
  std::vector<float> out;
  for (size_t at = static_cast<size_t>(first); at < values.size();
       at += static_cast<size_t>(n_in)) {
    out.insert(out.end(), values.begin() + static_cast<int64_t>(at),
               values.begin() + static_cast<int64_t>(at) + n);
  }
  return out;
}

}  // namespace

class PiModelBuilder {
 public:
  PiModelBuilder(const PiWeights& weights, const PiOptions& options, Ops& ops)
      : weights_(weights), options_(options), ops_(ops), model_(std::make_shared<PiModel>()) {}

  Result<std::shared_ptr<const PiModel>> build(std::span<const MappedFile* const> files,
                                               std::shared_ptr<const void> keep_alive) {
    model_->config = weights_.config;
    model_->options = options_;
    model_->keep_alive_ = std::move(keep_alive);
    std::vector<float> action_columns;
    plan_vision();
    plan_backbone();
    plan_expert();
    plan_heads(action_columns);
    OUTRIDER_TRY(list_.run(ops_, model_->storage_, files));
    model_->packed_ = model_->storage_.used();
    OUTRIDER_TRY(model_->take_embedding(weights_.embed, files));
    OUTRIDER_TRY(compute_time_dependents());
    return std::shared_ptr<const PiModel>(model_);
  }

 private:
  void plan(const LinearRef& ref, Precision precision, PackedLinear& out) {
    list_.add({ref.w}, precision, &out.w);
    out.bias = ref.bias;
  }

  void plan_vision() {
    PiModel& m = *model_;
    const Precision precision = options_.precision;
    plan(weights_.patch, precision, m.patch);
    m.position = weights_.position;
    m.post_ln = weights_.post_ln;
    plan(weights_.projector, precision, m.projector);
    m.vision.resize(weights_.vision.size());
    for (size_t i = 0; i < m.vision.size(); ++i) {
      const VisionLayerRef& from = weights_.vision[i];
      VisionLayer& to = m.vision[i];
      to.ln1 = from.ln1;
      to.ln2 = from.ln2;
      list_.add({from.q.w, from.k.w, from.v.w}, precision, &to.qkv.w);
      to.qkv.bias = joined({&from.q.bias, &from.k.bias, &from.v.bias});
      plan(from.out, precision, to.out);
      plan(from.fc1, precision, to.fc1);
      plan(from.fc2, precision, to.fc2);
    }
  }

  void plan_layer(const GemmaLayerRef& from, GemmaLayer& to) {
    const Precision precision = options_.precision;
    to.norm1 = from.norm1.scale;
    to.norm2 = from.norm2.scale;
    list_.add({from.q, from.k, from.v}, precision, &to.qkv);
    list_.add({from.o}, precision, &to.o);
    list_.add({from.gate, from.up}, precision, &to.gate_up, Stack::kPaired);
    list_.add({from.down}, precision, &to.down);
  }

  // The last layer only has to leave its keys and values: the rest of it feeds nothing. In PI0-FAST
  // it feeds the output head.
  void plan_backbone() {
    auto& layers = model_->backbone;
    layers.resize(weights_.backbone.size());
    if (model_->config.is_fast()) {
      for (size_t i = 0; i < layers.size(); ++i) plan_layer(weights_.backbone[i], layers[i]);
      model_->backbone_norm = weights_.backbone_norm.scale;
      list_.add({model_->config.own_head ? weights_.head : weights_.embed}, options_.precision,
                &model_->head);
      return;
    }
    for (size_t i = 0; i + 1 < layers.size(); ++i) plan_layer(weights_.backbone[i], layers[i]);
    if (layers.empty()) return;
    const GemmaLayerRef& last = weights_.backbone.back();
    layers.back().norm1 = last.norm1.scale;
    list_.add({last.k, last.v}, options_.precision, &layers.back().qkv);
  }

  void plan_expert() {
    model_->expert.resize(weights_.expert.size());
    for (size_t i = 0; i < model_->expert.size(); ++i)
      plan_layer(weights_.expert[i], model_->expert[i]);
    model_->expert_norm = weights_.expert_norm.scale;
  }

  // Heads stay in f32 as in the reference: they are small and decide the action directly.
  void plan_heads(std::vector<float>& action_columns) {
    PiModel& m = *model_;
    if (m.config.is_fast()) return;
    plan(weights_.action_in, Precision::kF32, m.action_in);
    plan(weights_.action_out, Precision::kF32, m.action_out);
    if (m.config.family != PiFamily::kPi0) return;
    const int64_t width = m.config.expert.width;
    plan(weights_.state, Precision::kF32, m.state);
    plan(weights_.action_time_out, Precision::kF32, m.action_time_out);
    action_columns = columns(dequantized(weights_.action_time_in.w), 2 * width, 0, width);
    list_.add({Matrix{DType::kF32, width, width, action_columns.data()}}, Precision::kF32,
              &m.action_time_in);
  }

  // Runs one product with a weight that is not kept.
  Result<std::vector<float>> product(const Matrix& w, const std::vector<float>& bias,
                                     const std::vector<float>& x, Activation activation) {
    const int64_t rows = static_cast<int64_t>(x.size()) / w.n_in;
    auto bytes = ops_.packed_bytes(std::span(&w, 1), Stack::kRows, Precision::kF32);
    if (!bytes) return bytes.error();
    Arena storage;
    OUTRIDER_TRY(storage.reserve(Arena::cost<std::byte>(bytes.value()), false));
    auto packed = ops_.pack(std::span(&w, 1), Stack::kRows, Precision::kF32,
                            storage.take<std::byte>(bytes.value()));
    if (!packed) return packed.error();
    std::vector<float> y(static_cast<size_t>(rows * w.n_out));
    LinearOut out;
    out.y = View<float>(y.data(), rows, w.n_out);
    out.bias = bias.empty() ? nullptr : bias.data();
    out.activation = activation;
    ops_.linear(View<const float>(x.data(), rows, w.n_in), packed.value(), out);
    return y;
  }

  Result<void> modulate(const GemmaNormRef& norm, const std::vector<float>& cond, Modulation& out) {
    auto rows = product(norm.dense.w, norm.dense.bias, cond, Activation::kNone);
    if (!rows) return rows.error();
    out.rows = std::move(rows.value());
    out.width = model_->config.expert.width;
    return {};
  }

  Result<void> compute_time_dependents() {
    PiModel& m = *model_;
    if (m.config.is_fast()) return {};
    const int64_t width = m.config.expert.width, n_steps = m.config.n_denoise_steps;
    m.times = flow_times(n_steps, options_.numerics.exact_times);
    std::vector<float> embedded(static_cast<size_t>((n_steps + 1) * width));
    for (int64_t k = 0; k <= n_steps; ++k) {
      embed_time(
          k < n_steps ? m.times[static_cast<size_t>(k)] : 0.0f,
          std::span(embedded).subspan(static_cast<size_t>(k * width), static_cast<size_t>(width)));
    }
    return m.config.family == PiFamily::kPi0 ? compute_time_bias(embedded)
                                             : compute_modulations(embedded);
  }

  // PI0: W [a; t] + b = W_a a + (W_t t + b); the second part is known now.
  Result<void> compute_time_bias(const std::vector<float>& embedded) {
    const int64_t width = model_->config.expert.width;
    const std::vector<float> time_columns =
        columns(dequantized(weights_.action_time_in.w), 2 * width, width, width);
    auto rows = product({DType::kF32, width, width, time_columns.data()},
                        weights_.action_time_in.bias, embedded, Activation::kNone);
    if (!rows) return rows.error();
    model_->action_time_bias = std::move(rows.value());
    return {};
  }

  Result<void> compute_modulations(const std::vector<float>& embedded) {
    PiModel& m = *model_;
    auto hidden = product(weights_.time_in.w, weights_.time_in.bias, embedded, Activation::kSilu);
    if (!hidden) return hidden.error();
    auto cond =
        product(weights_.time_out.w, weights_.time_out.bias, hidden.value(), Activation::kSilu);
    if (!cond) return cond.error();
    m.modulation1.resize(weights_.expert.size());
    m.modulation2.resize(weights_.expert.size());
    for (size_t i = 0; i < weights_.expert.size(); ++i) {
      OUTRIDER_TRY(modulate(weights_.expert[i].norm1, cond.value(), m.modulation1[i]));
      OUTRIDER_TRY(modulate(weights_.expert[i].norm2, cond.value(), m.modulation2[i]));
    }
    OUTRIDER_TRY(modulate(weights_.expert_norm, cond.value(), m.final_modulation));
    m.cond = std::move(cond.value());
    return {};
  }

  const PiWeights& weights_;
  const PiOptions options_;
  Ops& ops_;
  std::shared_ptr<PiModel> model_;
  PackList list_;
};

Result<void> PiModel::take_embedding(const Matrix& stored,
                                     std::span<const MappedFile* const> files) {
  auto copy = copy_matrix(stored, table_);
  if (!copy) return copy.error();
  embed = copy.value();
  drop_pages(stored, files);
  return {};
}

Result<std::shared_ptr<const PiModel>> PiModel::build(const PiWeights& weights,
                                                      const PiOptions& options, Ops& ops,
                                                      std::span<const MappedFile* const> files,
                                                      std::shared_ptr<const void> keep_alive) {
  return PiModelBuilder(weights, options, ops).build(files, std::move(keep_alive));
}

OpsLimits pi_limits(const PiConfig& config, int64_t max_views, int64_t max_prefix) {
  const VisionConfig& v = config.vision;
  const GemmaConfig &b = config.backbone, &e = config.expert;
  OpsLimits limits;
  limits.max_rows =
      std::max({max_views * v.n_tokens(), max_prefix, config.suffix_tokens() + kMaxExtraTokens,
                config.n_denoise_steps + 1});
  limits.max_in = std::max({3 * v.patch_size * v.patch_size, v.width, v.mlp, b.width, b.mlp,
                            b.q_width(), e.width, e.mlp, config.action_dim});
  limits.max_out =
      std::max({3 * v.width, v.mlp, b.q_width() + 2 * b.kv_width(), 2 * b.mlp, b.width, 3 * e.width,
                2 * e.mlp, config.action_dim, config.is_fast() ? config.vocab : 0});
  limits.max_keys = std::max(v.n_tokens(), max_prefix + config.suffix_tokens() + kMaxExtraTokens);
  limits.max_head_dim = static_cast<int32_t>(std::max(v.head_dim(), b.head_dim));
  return limits;
}

}  // namespace outrider
