#include "models/llm_run.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace outrider {
namespace {

// x += t, shared between threads where that pays.
struct Sum {
  View<float> x, t;
  void part(int index, int n) const noexcept {
    const int64_t values = x.rows * x.cols, first = values * index / n,
                  last = values * (index + 1) / n;
    for (int64_t i = first; i < last; ++i) x.data[i] += t.data[i];
  }
};
constexpr int64_t kAloneValues = 16 * 1024;

void add(Ops& ops, View<float> x, View<float> t) noexcept {
  OUTRIDER_ASSERT(x.stride == x.cols && t.stride == t.cols);
  const Sum sum{x, t};
  if (x.rows * x.cols <= kAloneValues) return sum.part(0, 1);
  ops.share([](const void* context, int t_index,
               int n) { static_cast<const Sum*>(context)->part(t_index, n); },
            &sum);
}

}  // namespace

// Counts of values per buffer, so that the plan and the taking cannot disagree.
struct LlmRun::Sizes {
  size_t width, qkv, att, mlp, chunk, n_ctx, vocab, n_layers, cache_bytes, turns;

  Sizes(const LlmModel& model, const Ops& ops, const Options& options) {
    const LlmConfig& c = model.config;
    const auto rows = [&](int64_t n) {
      return static_cast<size_t>(options.chunk) * static_cast<size_t>(n);
    };
    width = rows(c.width);
    qkv = rows(c.q_width() + 2 * c.kv_width());
    att = rows(c.q_width());
    mlp = rows(c.mlp);
    turns = c.has_sections() ? rows(c.head_dim / 2) : 0;
    chunk = static_cast<size_t>(options.chunk);
    n_ctx = static_cast<size_t>(options.n_ctx);
    vocab = static_cast<size_t>(c.vocab);
    n_layers = static_cast<size_t>(c.n_layers);
    cache_bytes = ops.kv_bytes(options.n_ctx, static_cast<int32_t>(c.n_kv_heads),
                               static_cast<int32_t>(c.head_dim),
                               options.kv_8bit ? DType::kQ8_0 : model.kv_type());
  }

  size_t total_bytes() const {
    const auto floats = [](size_t n) { return Arena::cost<float>(n); };
    return 2 * floats(width) + floats(qkv) + floats(att) + floats(mlp) + floats(vocab) +
           2 * floats(turns) + Arena::cost<int32_t>(n_ctx) + 2 * Arena::cost<int32_t>(chunk) +
           Arena::cost<KvCache>(n_layers) + n_layers * Arena::cost<std::byte>(cache_bytes);
  }
};

Result<std::unique_ptr<LlmRun>> LlmRun::make(std::shared_ptr<const LlmModel> model, Ops& ops,
                                             const Options& options) {
  OUTRIDER_ASSERT(options.n_ctx >= 1 && options.n_ctx <= kMaxContext);
  OUTRIDER_ASSERT(options.chunk >= 1 && options.chunk <= options.n_ctx);
  std::unique_ptr<LlmRun> run(new LlmRun);
  const LlmConfig& c = model->config;
  run->model_ = std::move(model);
  run->ops_ = &ops;
  run->options_ = options;
  const Sizes sizes(*run->model_, ops, options);
  OUTRIDER_TRY(run->arena_.reserve(sizes.total_bytes()));
  run->take_views(sizes);
  run->rope_ = RopeTable::make_scaled(options.n_ctx, c.head_dim, c.rope_base, c.rope_factor,
                                      run->model_->rope_divisors);
  if (c.window > 0)
    run->local_rope_ =
        RopeTable::make_scaled(options.n_ctx, c.head_dim,
                               c.arch == LlmArch::kGemma3 ? c.rope_base_local : c.rope_base, 1, {});
  return run;
}

void LlmRun::take_views(const Sizes& sizes) {
  const LlmConfig& c = model_->config;
  x_ = arena_.take<float>(sizes.width).data();
  y_ = arena_.take<float>(sizes.width).data();
  qkv_ = arena_.take<float>(sizes.qkv).data();
  att_ = arena_.take<float>(sizes.att).data();
  mlp_ = arena_.take<float>(sizes.mlp).data();
  cos_ = arena_.take<float>(sizes.turns).data();
  sin_ = arena_.take<float>(sizes.turns).data();
  logits_ = arena_.take<float>(sizes.vocab);
  ids_ = arena_.take<int32_t>(sizes.n_ctx);
  visible_ = arena_.take<int32_t>(sizes.chunk);
  first_ = arena_.take<int32_t>(sizes.chunk);
  caches_ = arena_.take<KvCache>(sizes.n_layers);
  for (KvCache& cache : caches_)
    cache = {arena_.take_bytes(sizes.cache_bytes), options_.n_ctx,
             static_cast<int32_t>(c.n_kv_heads), static_cast<int32_t>(c.head_dim), kv_type()};
  kv_bytes_ = static_cast<int64_t>(sizes.cache_bytes * sizes.n_layers);
  arena_.seal();
}

int64_t LlmRun::begin(std::span<const int32_t> ids) noexcept {
  int64_t shared = 0;
  if (options_.reuse) {
    const int64_t most = std::min<int64_t>(n_past_, static_cast<int64_t>(ids.size()) - 1);
    while (shared < most && ids_[static_cast<size_t>(shared)] == ids[static_cast<size_t>(shared)] &&
           ids[static_cast<size_t>(shared)] != kPictureId)
      ++shared;
  }
  // Only words were kept: each took a position.
  n_past_ = position_ = shared;
  return shared;
}

bool LlmRun::append(std::span<const int32_t> ids, bool with_logits,
                    const std::atomic<bool>* cancel) noexcept {
  OUTRIDER_ASSERT(n_past_ + static_cast<int64_t>(ids.size()) <= options_.n_ctx);
  while (!ids.empty()) {
    const auto part = ids.first(std::min(ids.size(), static_cast<size_t>(options_.chunk)));
    const auto n = static_cast<int64_t>(part.size());
    embed(part);
    place_text(n);
    if (!layers(n, cancel)) return false;
    std::copy(part.begin(), part.end(), ids_.begin() + n_past_);
    n_past_ += n;
    position_ += n;
    ids = ids.subspan(part.size());
    if (ids.empty() && with_logits) compute_logits(n - 1);
  }
  return true;
}

bool LlmRun::append(const LlmPicture& picture, bool with_logits,
                    const std::atomic<bool>* cancel) noexcept {
  const View<const float>& tokens = picture.tokens;
  OUTRIDER_ASSERT(tokens.rows >= 1 && n_past_ + tokens.rows <= options_.n_ctx);
  OUTRIDER_ASSERT(tokens.cols == model_->config.width && picture.columns >= 1);
  OUTRIDER_ASSERT(tokens.rows % picture.columns == 0);
  OUTRIDER_ASSERT(!picture.both_ways || tokens.rows <= options_.chunk);
  for (int64_t first = 0; first < tokens.rows;) {
    const int64_t n = std::min(tokens.rows - first, options_.chunk);
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(tokens.row(first + i), tokens.cols, x_ + i * tokens.cols);
    place_picture(picture, first, n);
    if (!layers(n, cancel)) return false;
    std::fill_n(ids_.begin() + n_past_, n, kPictureId);
    n_past_ += n;
    first += n;
    if (first == tokens.rows && with_logits) compute_logits(n - 1);
  }
  position_ += model_->config.has_sections()
                   ? std::max(picture.columns, tokens.rows / picture.columns)
                   : tokens.rows;
  return true;
}

bool LlmRun::layers(int64_t n, const std::atomic<bool>* cancel) noexcept {
  for (size_t i = 0; i < model_->layers.size(); ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    layer(i, n);
  }
  return true;
}

// Row of the chunk: which keys it sees and how it is turned.
void LlmRun::place_text(int64_t n) noexcept {
  for (int64_t r = 0; r < n; ++r) {
    visible_[static_cast<size_t>(r)] = static_cast<int32_t>(n_past_ + r + 1);
    turn(r, position_ + r, position_ + r, position_ + r);
  }
}

void LlmRun::place_picture(const LlmPicture& picture, int64_t first, int64_t n) noexcept {
  for (int64_t r = 0; r < n; ++r) {
    visible_[static_cast<size_t>(r)] =
        static_cast<int32_t>(n_past_ + (picture.both_ways ? n : r + 1));
    const int64_t token = first + r;
    turn(r, position_, position_ + token / picture.columns, position_ + token % picture.columns);
  }
}

// The frequencies go on from one section into the next.
void LlmRun::turn(int64_t row, int64_t time, int64_t line, int64_t column) noexcept {
  const LlmConfig& c = model_->config;
  if (!c.has_sections()) return;
  const int64_t half = c.head_dim / 2;
  float *cos = cos_ + row * half, *sin = sin_ + row * half;
  int64_t j = 0;
  for (const auto& [n, at] :
       {std::pair{c.sections[0], time}, {c.sections[1], line}, {c.sections[2], column}}) {
    const float *cos_at = rope_.cos(at, 1).data, *sin_at = rope_.sin(at, 1).data;
    for (const int64_t end = j + n; j < end; ++j) cos[j] = cos_at[j], sin[j] = sin_at[j];
  }
}

void LlmRun::embed(std::span<const int32_t> ids) noexcept {
  const Matrix& table = model_->embed;
  const size_t bytes = row_bytes(table.dtype, table.n_in);
  const float scale = model_->config.embed_scale;
  float* out = x_;
  for (const int32_t id : ids) {
    OUTRIDER_ASSERT(id >= 0 && id < table.n_out);
    dequantize_row(table.dtype,
                   static_cast<const std::byte*>(table.data) + static_cast<size_t>(id) * bytes, out,
                   table.n_in);
    if (scale != 1)
      for (int64_t j = 0; j < table.n_in; ++j) out[j] *= scale;
    out += table.n_in;
  }
}

// x += norm(in w + bias), without the norm where the model has none.
void LlmRun::branch(View<const float> in, const Weight& w, const float* bias,
                    const std::vector<float>& post_norm) noexcept {
  const LlmConfig& c = model_->config;
  const View<float> x(x_, in.rows, c.width), y(y_, in.rows, c.width);
  if (post_norm.empty()) return ops_->linear(in, w, {.y = x, .bias = bias, .add = true});
  ops_->linear(in, w, {.y = y, .bias = bias});
  ops_->rms_norm(y, post_norm.data(), nullptr, c.norm_eps, y);
  add(*ops_, x, y);
}

void LlmRun::layer(size_t i, int64_t n) noexcept {
  const LlmConfig& c = model_->config;
  const LlmLayer& layer = model_->layers[i];
  const View<float> x(x_, n, c.width), y(y_, n, c.width), mlp(mlp_, n, c.mlp);
  const RowNorm norm2{RowNorm::Kind::kRms, layer.norm2.data(), nullptr, c.norm_eps};
  ops_->rms_norm(x, layer.norm1.data(), nullptr, c.norm_eps, y);
  attend(i, n);
  branch(View<const float>(att_, n, c.q_width()), layer.o.w, layer.o.bias_or_null(),
         layer.post_norm1);
  ops_->gated_linear({x, norm2}, layer.gate_up, c.activation, mlp);
  branch(mlp, layer.down, nullptr, layer.post_norm2);
}

// y to q, k and v, with bias and the norm per head.
void LlmRun::project(const LlmLayer& layer, View<float> y, View<float>& q, View<float>& k,
                     View<float>& v) noexcept {
  const LlmConfig& c = model_->config;
  const int64_t n = y.rows, q_width = c.q_width(), kv_width = c.kv_width();
  if (layer.fused) {
    const View<float> all(qkv_, n, q_width + 2 * kv_width);
    ops_->linear(y, layer.qkv.w, {.y = all, .bias = layer.qkv.bias_or_null()});
    q = all.cols_from(0, q_width);
    k = all.cols_from(q_width, kv_width);
    v = all.cols_from(q_width + kv_width, kv_width);
    return;
  }
  q = {qkv_, n, q_width};
  k = {qkv_ + n * q_width, n, kv_width};
  v = {qkv_ + n * (q_width + kv_width), n, kv_width};
  ops_->linear(y, layer.q.w, {.y = q, .bias = layer.q.bias_or_null()});
  ops_->linear(y, layer.k.w, {.y = k, .bias = layer.k.bias_or_null()});
  ops_->linear(y, layer.v.w, {.y = v, .bias = layer.v.bias_or_null()});
  if (layer.q_norm.empty()) return;
  const View<float> q_heads(q.data, n * c.n_heads, c.head_dim),
      k_heads(k.data, n * c.n_kv_heads, c.head_dim);
  ops_->rms_norm(q_heads, layer.q_norm.data(), nullptr, c.norm_eps, q_heads);
  ops_->rms_norm(k_heads, layer.k_norm.data(), nullptr, c.norm_eps, k_heads);
}

void LlmRun::attend(size_t i, int64_t n) noexcept {
  const LlmConfig& c = model_->config;
  const bool local = c.is_local(static_cast<int64_t>(i));
  const RopeTable& rope = local ? local_rope_ : rope_;
  const auto head_dim = static_cast<int32_t>(c.head_dim);
  View<float> q, k, v;
  project(model_->layers[i], {y_, n, c.width}, q, k, v);
  View<const float> cos = rope.cos(n_past_, n), sin = rope.sin(n_past_, n);
  if (c.has_sections()) {
    cos = {cos_, n, c.head_dim / 2};
    sin = {sin_, n, c.head_dim / 2};
  }
  ops_->rope(q, head_dim, cos, sin);
  ops_->rope(k, head_dim, cos, sin);
  ops_->kv_store(caches_[i], n_past_, k, v);
  for (int64_t r = 0; local && r < n; ++r)
    first_[static_cast<size_t>(r)] =
        static_cast<int32_t>(std::max<int64_t>(0, n_past_ + r + 1 - c.window));
  AttentionArgs args;
  args.q = q;
  args.n_heads = static_cast<int32_t>(c.n_heads);
  args.scale = c.attention_scale;
  args.n_keys = n_past_ + n;
  args.visible = visible_.data();
  args.first = local ? first_.data() : nullptr;
  args.soft_cap = c.attention_cap;
  args.out = {att_, n, c.q_width()};
  ops_->attention(args, caches_[i]);
}

void LlmRun::compute_logits(int64_t row) noexcept {
  const LlmConfig& c = model_->config;
  const View<float> x(x_ + row * c.width, 1, c.width), logits(logits_.data(), 1, c.vocab);
  const RowNorm norm{RowNorm::Kind::kRms, model_->norm.data(), nullptr, c.norm_eps};
  ops_->linear({x, norm}, model_->output, {.y = logits});
  if (!(c.logit_cap > 0)) return;
  for (float& v : logits_) v /= c.logit_cap;
  ops_->activate(logits, Activation::kTanh);
  for (float& v : logits_) v *= c.logit_cap;
}

}  // namespace outrider
