// A text model in double, one obvious loop for each line of its description: the oracle of LlmRun.
// Knows weights by role only, not how they are packed, cached or cut.
#pragma once
#include <cmath>
#include <map>
#include <vector>

#include "models/llm_weights.h"

namespace outrider::test {

using Row = std::vector<double>;

class LlmReference {
 public:
  explicit LlmReference(const LlmWeights& weights) : w_(weights) {}

  // Logits behind every id.
  std::vector<Row> logits(const std::vector<int32_t>& ids) const {
    const LlmConfig& c = w_.config;
    std::vector<Row> x;
    for (const int32_t id : ids) {
      x.push_back(stored_row(w_.embed, id));
      for (double& v : x.back()) v *= c.embed_scale;
    }
    for (size_t i = 0; i < w_.layers.size(); ++i) layer(int64_t(i), x);
    std::vector<Row> out;
    for (const Row& row : x) {
      out.push_back(times(w_.output, normed(row, w_.norm)));
      if (c.logit_cap > 0)
        for (double& v : out.back()) v = c.logit_cap * std::tanh(v / c.logit_cap);
    }
    return out;
  }

 private:
  static Row stored_row(const Matrix& m, int64_t i) {
    std::vector<float> values(size_t(m.n_in));
    dequantize_row(m.dtype,
                   static_cast<const std::byte*>(m.data) + size_t(i) * row_bytes(m.dtype, m.n_in),
                   values.data(), m.n_in);
    return {values.begin(), values.end()};
  }
  // All rows of a matrix; each is read from the file once.
  const std::vector<Row>& rows_of(const Matrix& m) const {
    std::vector<Row>& rows = rows_[m.data];
    if (rows.empty())
      for (int64_t i = 0; i < m.n_out; ++i) rows.push_back(stored_row(m, i));
    return rows;
  }
  Row times(const Matrix& m, const Row& x, const std::vector<float>& bias = {}) const {
    Row y;
    const std::vector<Row>& rows = rows_of(m);
    for (int64_t i = 0; i < m.n_out; ++i) {
      const Row& row = rows[size_t(i)];
      double sum = bias.empty() ? 0 : double(bias[size_t(i)]);
      for (size_t k = 0; k < row.size(); ++k) sum += row[k] * x[k];
      y.push_back(sum);
    }
    return y;
  }
  Row normed(const Row& x, const std::vector<float>& weight) const {
    return heads_normed(x, weight, x.size());
  }
  // Every `n` values on their own.
  Row heads_normed(Row x, const std::vector<float>& weight, size_t n) const {
    for (size_t h = 0; h < x.size(); h += n) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += x[h + i] * x[h + i];
      const double scale = 1 / std::sqrt(sum / double(n) + w_.config.norm_eps);
      for (size_t i = 0; i < n; ++i) x[h + i] *= scale * weight[i];
    }
    return x;
  }
  void rotate(Row& x, int64_t position, bool local) const {
    const LlmConfig& c = w_.config;
    const auto d = size_t(c.head_dim);
    const bool own_base = local && c.arch == LlmArch::kGemma3;
    for (size_t h = 0; h < x.size(); h += d)
      for (size_t j = 0; j < d / 2; ++j) {
        double f =
            std::pow(own_base ? c.rope_base_local : c.rope_base, -2.0 * double(j) / double(d));
        if (!local) f /= c.rope_factor;
        if (!local && !w_.rope_divisors.empty()) f /= w_.rope_divisors[j];
        const size_t a = h + (c.adjacent_pairs ? 2 * j : j),
                     b = h + (c.adjacent_pairs ? 2 * j + 1 : j + d / 2);
        const double u = x[a], v = x[b], angle = double(position) * f;
        x[a] = u * std::cos(angle) - v * std::sin(angle);
        x[b] = u * std::sin(angle) + v * std::cos(angle);
      }
  }
  double activated(double v) const {
    if (w_.config.activation == Activation::kSilu) return v / (1 + std::exp(-v));
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  }

  void layer(int64_t i, std::vector<Row>& x) const {
    const LlmConfig& c = w_.config;
    const LlmLayerRef& l = w_.layers[size_t(i)];
    const bool local = c.is_local(i);
    const auto d = size_t(c.head_dim);
    std::vector<Row> q, k, v;
    for (size_t p = 0; p < x.size(); ++p) {
      const Row y = normed(x[p], l.norm1);
      q.push_back(times(l.q, y, l.q_bias));
      k.push_back(times(l.k, y, l.k_bias));
      v.push_back(times(l.v, y, l.v_bias));
      if (c.qk_norm) {
        q[p] = heads_normed(q[p], l.q_norm, d);
        k[p] = heads_normed(k[p], l.k_norm, d);
      }
      rotate(q[p], int64_t(p), local);
      rotate(k[p], int64_t(p), local);
    }
    for (size_t p = 0; p < x.size(); ++p) {
      Row out = times(l.o, attended(q[p], k, v, p, local), l.o_bias);
      if (c.post_norms) out = normed(out, l.post_norm1);
      for (size_t j = 0; j < out.size(); ++j) x[p][j] += out[j];
      const Row y = normed(x[p], l.norm2), gate = times(l.gate, y), up = times(l.up, y);
      Row hidden;
      for (size_t j = 0; j < gate.size(); ++j) hidden.push_back(activated(gate[j]) * up[j]);
      out = times(l.down, hidden);
      if (c.post_norms) out = normed(out, l.post_norm2);
      for (size_t j = 0; j < out.size(); ++j) x[p][j] += out[j];
    }
  }

  Row attended(const Row& q, const std::vector<Row>& k, const std::vector<Row>& v, size_t position,
               bool local) const {
    const LlmConfig& c = w_.config;
    const auto d = size_t(c.head_dim);
    Row out(q.size());
    for (size_t h = 0; h < size_t(c.n_heads); ++h) {
      const size_t kv = h / size_t(c.n_heads / c.n_kv_heads) * d;
      Row weights;
      double sum = 0;
      for (size_t j = 0; j <= position; ++j) {
        double s = 0;
        for (size_t i = 0; i < d; ++i) s += q[h * d + i] * k[j][kv + i];
        s *= c.attention_scale;
        if (c.attention_cap > 0) s = c.attention_cap * std::tanh(s / c.attention_cap);
        const bool seen = !local || position - j < size_t(c.window);
        weights.push_back(seen ? std::exp(s) : 0);
        sum += weights.back();
      }
      for (size_t j = 0; j <= position; ++j)
        for (size_t i = 0; i < d; ++i) out[h * d + i] += weights[j] / sum * v[j][kv + i];
    }
    return out;
  }

  const LlmWeights& w_;
  mutable std::map<const void*, std::vector<Row>> rows_;
};

}  // namespace outrider::test
