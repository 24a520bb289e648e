#include "cli/flops.h"

namespace outrider::cli {
namespace {

struct Counter {
  Work work;
  // A product of m rows with an n_out x n_in weight, `times` over.
  void product(int64_t m, int64_t n_out, int64_t n_in, int64_t times = 1) {
    const double values =
        static_cast<double>(n_out) * static_cast<double>(n_in) * static_cast<double>(times);
    work.flop += 2 * static_cast<double>(m) * values;
    work.weight_values += values;
  }
  // Scores and weighted values of n_q rows over n_keys keys; heads_width is all query heads
  // together.
  void attention(int64_t n_q, int64_t n_keys, int64_t heads_width, int64_t times) {
    work.flop += 4 * static_cast<double>(n_q) * static_cast<double>(n_keys) *
                 static_cast<double>(heads_width) * static_cast<double>(times);
  }
};

Work vision_work(const VisionConfig& v, int64_t n_views, int64_t out_width) {
  Counter c;
  const int64_t rows = n_views * v.n_tokens();
  c.product(rows, v.width, 3 * v.patch_size * v.patch_size);
  c.product(rows, v.width, v.width, 4 * v.n_layers);
  c.product(rows, v.mlp, v.width, v.n_layers);
  c.product(rows, v.width, v.mlp, v.n_layers);
  c.attention(rows, v.n_tokens(), v.width, v.n_layers);
  c.product(rows, out_width, v.width);
  return c.work;
}

// `full` layers in whole; keys and values of all.
Counter gemma_work(const GemmaConfig& g, int64_t rows, int64_t n_keys, int64_t layers,
                   int64_t full) {
  Counter c;
  c.product(rows, g.kv_width(), g.width, 2 * layers);
  c.product(rows, g.q_width(), g.width, full);
  c.product(rows, g.width, g.q_width(), full);
  c.product(rows, g.mlp, g.width, 2 * full);
  c.product(rows, g.width, g.mlp, full);
  c.attention(rows, n_keys, g.q_width(), full);
  return c;
}

Work expert_work(const PiConfig& config, int64_t prefix_rows, bool savings) {
  const GemmaConfig& g = config.expert;
  const int64_t rows = config.suffix_tokens(), steps = config.n_denoise_steps, a = g.width;
  const int64_t layers = g.n_layers * steps;
  Counter c = gemma_work(g, rows, prefix_rows + rows, layers, layers);
  c.product(config.action_steps, a, config.action_dim, steps);
  c.product(config.action_steps, config.action_dim, a, steps);
  if (config.family == PiFamily::kPi0) {
    c.product(config.action_steps, a, savings ? a : 2 * a, steps);  // the time half is made at load
    c.product(config.action_steps, a, a, steps);
    c.product(1, a, config.action_dim, savings ? 1 : steps);
  } else if (!savings) {
    c.product(1, 3 * a, a, (2 * g.n_layers + 1) * steps);
    c.product(1, a, a, 2 * steps);
  }
  return c.work;
}

}  // namespace

PiWork pi_work(const PiConfig& config, const WorkOptions& options) {
  const GemmaConfig& b = config.backbone;
  const int64_t rows = options.n_views * config.vision.n_tokens() + options.n_text;
  return {vision_work(config.vision, options.n_views, b.width),
          gemma_work(b, rows, rows, b.n_layers, options.savings ? b.n_layers - 1 : b.n_layers).work,
          expert_work(config, rows, options.savings)};
}

}  // namespace outrider::cli
