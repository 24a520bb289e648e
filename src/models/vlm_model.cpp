#include "models/vlm_model.h"

#include "models/pack_list.h"

namespace outrider {
namespace {

void less_one(std::vector<float>& weights) {
  for (float& w : weights) w -= 1;
}

VlmNormRef kept(VlmNormRef norm) {
  if (norm.bias.empty()) less_one(norm.weight);
  return norm;
}

// Rows of the parts side by side, in f32.
std::vector<float> side_by_side(std::initializer_list<const Matrix*> parts) {
  std::vector<float> out;
  const int64_t n_out = (*parts.begin())->n_out;
  for (int64_t row = 0; row < n_out; ++row) {
    for (const Matrix* m : parts) {
      const size_t at = out.size(), bytes = row_bytes(m->dtype, m->n_in);
      out.resize(at + static_cast<size_t>(m->n_in));
      dequantize_row(m->dtype,
                     static_cast<const std::byte*>(m->data) + static_cast<size_t>(row) * bytes,
                     out.data() + at, m->n_in);
    }
  }
  return out;
}

std::vector<float> transposed(const Matrix& m) {
  const std::vector<float> rows = side_by_side({&m});
  std::vector<float> out(rows.size());
  for (int64_t i = 0; i < m.n_out; ++i)
    for (int64_t j = 0; j < m.n_in; ++j)
      out[static_cast<size_t>(j * m.n_out + i)] = rows[static_cast<size_t>(i * m.n_in + j)];
  return out;
}

}  // namespace

class VlmModelBuilder {
 public:
  VlmModelBuilder(const VlmWeights& weights, Precision precision, Ops& ops)
      : weights_(weights), precision_(precision), ops_(ops), model_(std::make_shared<VlmModel>()) {}

  Result<std::shared_ptr<const VlmModel>> build(std::span<const MappedFile* const> files) {
    VlmModel& m = *model_;
    m.config = weights_.config;
    m.precision = precision_;
    m.position = weights_.position;
    m.post = kept(weights_.post);
    m.token_norm = weights_.token_norm;
    less_one(m.token_norm);
    m.layers.resize(weights_.layers.size());
    for (size_t i = 0; i < m.layers.size(); ++i) plan_layer(weights_.layers[i], m.layers[i]);
    plan_ends();
    OUTRIDER_TRY(list_.run(ops_, m.storage_, files));
    return std::shared_ptr<const VlmModel>(model_);
  }

 private:
  void plan(const LinearRef& from, VlmLinear& to) {
    list_.add({from.w}, precision_, &to.w);
    to.bias = from.bias;
  }

  void plan_layer(const VlmLayerRef& from, VlmLayer& to) {
    to.norm1 = kept(from.norm1);
    to.norm2 = kept(from.norm2);
    list_.add({from.q.w, from.k.w, from.v.w}, precision_, &to.qkv.w);
    for (const auto* part : {&from.q, &from.k, &from.v})
      to.qkv.bias.insert(to.qkv.bias.end(), part->bias.begin(), part->bias.end());
    plan(from.out, to.out);
    const bool gated = from.gate.w.data != nullptr;
    plan(gated ? from.up : from.fc1, to.fc1);
    plan(gated ? from.down : from.fc2, to.fc2);
    if (gated) plan(from.gate, to.gate);
  }

  void plan_ends() {
    VlmModel& m = *model_;
    const VlmConfig& c = m.config;
    switch (c.kind) {
      case VlmKind::kGemma3:
        plan(weights_.patch, m.patch);
        projector_ = transposed(weights_.projector);
        list_.add({Matrix{DType::kF32, c.out_width, c.width, projector_.data()}}, precision_,
                  &m.projector.w);
        return;
      case VlmKind::kIdefics3:
        plan(weights_.patch, m.patch);
        list_.add({weights_.projector}, precision_, &m.projector.w);
        return;
      case VlmKind::kQwen25Vl:
        patches_ = side_by_side({&weights_.patch.w, &weights_.patch2.w});
        list_.add({Matrix{DType::kF32, c.width, 2 * c.patch_values(), patches_.data()}}, precision_,
                  &m.patch.w);
        plan(weights_.merger1, m.merger);
        plan(weights_.merger2, m.projector);
        return;
    }
  }

  const VlmWeights& weights_;
  const Precision precision_;
  Ops& ops_;
  std::shared_ptr<VlmModel> model_;
  std::vector<float> projector_, patches_;  // live until they are packed
  PackList list_;
};

Result<std::shared_ptr<const VlmModel>> VlmModel::build(const VlmWeights& weights,
                                                        Precision precision, Ops& ops,
                                                        std::span<const MappedFile* const> files) {
  return VlmModelBuilder(weights, precision, ops).build(files);
}

}  // namespace outrider
