#include "models/vlm_tower.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace outrider {
namespace {

// Patches worked on together: bounds the memory of what lies between two products.
constexpr int64_t kRows = 512;

int64_t most_rows(const VlmConfig& c, int64_t most_tokens) {
  return c.fixed_size() ? c.side() * c.side() : most_tokens * c.merge * c.merge;
}
int64_t chunk_rows(const VlmConfig& c, int64_t most_tokens) {
  return std::min(kRows, most_rows(c, most_tokens));
}
int64_t joined_width(const VlmConfig& c) {
  return c.kind == VlmKind::kGemma3 ? c.width : c.merge * c.merge * c.width;
}
// Rows of what is projected at once: all tokens of a frame, or those of a chunk of patches.
int64_t joined_rows(const VlmConfig& c, int64_t most_tokens) {
  return c.fixed_size() ? c.most_tokens() : chunk_rows(c, most_tokens) / (c.merge * c.merge);
}
int64_t patch_width(const VlmConfig& c) {
  return (c.fixed_size() ? 1 : 2) * c.patch_values();
}

// body(i) for i in [0, n), shared between threads.
template <class Body>
void share_rows(Ops& ops, int64_t n, const Body& body) noexcept {
  struct Context {
    const Body& body;
    int64_t n;
  };
  const Context context{body, n};
  ops.share(
      [](const void* p, int t, int n_parts) {
        const auto& c = *static_cast<const Context*>(p);
        for (int64_t i = c.n * t / n_parts; i < c.n * (t + 1) / n_parts; ++i) c.body(i);
      },
      &context);
}

// Patch at pixel (left, top): [channel][row][column].
void read_patch(const uint8_t* rgb, int64_t stride, int64_t left, int64_t top, int64_t size,
                const float (*pixel)[256], float* out) noexcept {
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (int64_t y = 0; y < size; ++y) {
      const uint8_t* from = rgb + ((top + y) * stride + left) * 3 + channel;
      for (int64_t x = 0; x < size; ++x) *out++ = pixel[channel][from[x * 3]];
    }
  }
}

}  // namespace

// ---- setup --------------------------------------------------------------------------------------

struct VlmTower::Sizes {
  size_t stream, chunk, qkv, mlp, gate, patches, joined, tokens, turns, order, windows, cache_bytes;
  int64_t rows;

  Sizes(const VlmModel& model, const Ops& ops, int64_t most_tokens) {
    const VlmConfig& c = model.config;
    const auto n = [](int64_t a, int64_t b) {
      return static_cast<size_t>(a) * static_cast<size_t>(b);
    };
    const bool qwen = !c.fixed_size();
    const int64_t part = chunk_rows(c, most_tokens), wide = joined_rows(c, most_tokens);
    rows = most_rows(c, most_tokens);
    stream = n(rows, c.width);
    chunk = n(part, c.width);
    qkv = n(part, 3 * c.width);
    mlp = n(part, c.mlp);
    gate = qwen ? mlp : 0;
    patches = n(part, patch_width(c));
    joined = n(wide, joined_width(c));
    tokens = qwen ? n(wide, c.out_width) : 0;
    turns = qwen ? n(rows, c.head_dim() / 2) : 0;
    order = qwen ? n(most_tokens, 1) : 0;
    windows = qwen ? n(rows, 1) : 0;
    cache_bytes = ops.kv_bytes(rows, static_cast<int32_t>(c.n_heads),
                               static_cast<int32_t>(c.head_dim()), model.kv_type());
  }

  size_t total_bytes() const {
    const auto floats = [](size_t n) { return Arena::cost<float>(n); };
    return 2 * floats(stream) + floats(chunk) + floats(qkv) + floats(mlp) + floats(gate) +
           floats(patches) + floats(joined) + floats(tokens) + 2 * floats(turns) +
           Arena::cost<int32_t>(order) + 2 * Arena::cost<int32_t>(windows) +
           Arena::cost<std::byte>(cache_bytes);
  }
};

Result<std::unique_ptr<VlmTower>> VlmTower::make(std::shared_ptr<const VlmModel> model, Ops& ops,
                                                 int64_t most_tokens) {
  OUTRIDER_ASSERT(most_tokens >= 1 && most_tokens <= VlmConfig::kMostTokens);
  std::unique_ptr<VlmTower> tower(new VlmTower);
  tower->model_ = std::move(model);
  tower->ops_ = &ops;
  const VlmConfig& c = tower->model_->config;
  const Sizes sizes(*tower->model_, ops, most_tokens);
  OUTRIDER_TRY(tower->arena_.reserve(sizes.total_bytes()));
  tower->take_views(sizes);
  if (!c.fixed_size())
    tower->rope_ = RopeTable::make_scaled(c.merge * most_tokens, c.head_dim() / 2, 10000, 1, {});
  for (int channel = 0; channel < 3; ++channel)
    for (int i = 0; i < 256; ++i)
      tower->pixel_[channel][i] =
          (static_cast<float>(i) / 255.0f - c.mean[channel]) / c.deviation[channel];
  return tower;
}

void VlmTower::take_views(const Sizes& sizes) {
  const VlmConfig& c = model_->config;
  const auto floats = [&](size_t n) { return arena_.take<float>(n).data(); };
  h_ = floats(sizes.stream);
  q_ = floats(sizes.stream);
  y_ = floats(sizes.chunk);
  qkv_ = floats(sizes.qkv);
  mlp_ = floats(sizes.mlp);
  gate_ = floats(sizes.gate);
  patches_ = floats(sizes.patches);
  joined_ = floats(sizes.joined);
  tokens_ = floats(sizes.tokens);
  cos_ = floats(sizes.turns);
  sin_ = floats(sizes.turns);
  order_ = arena_.take<int32_t>(sizes.order);
  first_ = arena_.take<int32_t>(sizes.windows);
  visible_ = arena_.take<int32_t>(sizes.windows);
  cache_ = {arena_.take_bytes(sizes.cache_bytes), sizes.rows, static_cast<int32_t>(c.n_heads),
            static_cast<int32_t>(c.head_dim()), model_->kv_type()};
  arena_.seal();
}

OpsLimits VlmTower::limits(const VlmConfig& c, int64_t most_tokens) {
  OpsLimits limits;
  limits.max_rows = std::max(chunk_rows(c, most_tokens), joined_rows(c, most_tokens));
  limits.max_in = std::max({c.width, c.mlp, patch_width(c), joined_width(c)});
  limits.max_out = std::max({3 * c.width, c.mlp, joined_width(c), c.out_width});
  limits.max_keys = most_rows(c, most_tokens);
  limits.max_head_dim = static_cast<int32_t>(c.head_dim());
  return limits;
}

int64_t VlmTower::n_tokens(const VlmConfig& c, const VlmFrame& frame) {
  if (c.fixed_size()) return c.most_tokens();
  const int64_t unit = c.patch_size * c.merge;
  return (frame.width / unit) * (frame.height / unit);
}

// ---- the passes ---------------------------------------------------------------------------------

void VlmTower::norm(View<float> x, const VlmNormRef& n, View<float> y) noexcept {
  const float eps = model_->config.eps;
  if (n.bias.empty()) return ops_->rms_norm(x, n.weight.data(), nullptr, eps, y);
  ops_->layer_norm(x, n.weight.data(), n.bias.data(), eps, y);
}

// Windows row by row over the merged tokens, inside one row by row: order_, and per patch its
// window as rows [first_, visible_) and its turn by its place in the whole picture.
void VlmTower::order_windows(int64_t columns, int64_t lines) noexcept {
  const VlmConfig& c = model_->config;
  const bool windows = c.full_every != 0;
  const int64_t side = windows ? c.window() : std::max(columns, lines);
  const int64_t each = c.merge * c.merge, quarter = c.head_dim() / 4;
  int64_t at = 0;
  for (int64_t top = 0; top < lines; top += side) {
    for (int64_t left = 0; left < columns; left += side) {
      const int64_t begin = at, bottom = std::min(top + side, lines),
                    right = std::min(left + side, columns);
      for (int64_t y = top; y < bottom; ++y)
        for (int64_t x = left; x < right; ++x)
          order_[static_cast<size_t>(at++)] = static_cast<int32_t>(y * columns + x);
      std::fill(first_.begin() + begin * each, first_.begin() + at * each,
                static_cast<int32_t>(begin * each));
      std::fill(visible_.begin() + begin * each, visible_.begin() + at * each,
                static_cast<int32_t>(at * each));
    }
  }
  for (int64_t r = 0; r < rows_; ++r) {
    const int64_t token = order_[static_cast<size_t>(r / each)], part = r % each;
    const int64_t y = token / columns * c.merge + part / c.merge,
                  x = token % columns * c.merge + part % c.merge;
    float *cos = cos_ + r * 2 * quarter, *sin = sin_ + r * 2 * quarter;
    std::copy_n(rope_.cos(y, 1).data, quarter, cos);
    std::copy_n(rope_.cos(x, 1).data, quarter, cos + quarter);
    std::copy_n(rope_.sin(y, 1).data, quarter, sin);
    std::copy_n(rope_.sin(x, 1).data, quarter, sin + quarter);
  }
}

// Rows first .. of the tower's order.
void VlmTower::read_patches(const VlmFrame& frame, int64_t first, View<float> out) noexcept {
  const VlmConfig& c = model_->config;
  const int64_t size = c.patch_size, columns = frame.width / size;
  const int64_t each = c.merge * c.merge, merged = columns / c.merge;
  const int64_t stride = frame.stride != 0 ? frame.stride : frame.width;
  share_rows(*ops_, out.rows, [&](int64_t i) {
    const int64_t r = first + i;
    int64_t y = r / columns, x = r % columns;
    if (!c.fixed_size()) {
      const int64_t token = order_[static_cast<size_t>(r / each)], part = r % each;
      y = token / merged * c.merge + part / c.merge;
      x = token % merged * c.merge + part % c.merge;
    }
    float* row = out.row(i);
    read_patch(frame.rgb, stride, x * size, y * size, size, pixel_, row);
    if (c.fixed_size()) return;
    const uint8_t* second = frame.second != nullptr ? frame.second : frame.rgb;
    read_patch(second, stride, x * size, y * size, size, pixel_, row + c.patch_values());
  });
}

void VlmTower::embed(const VlmFrame& frame) noexcept {
  const VlmModel& m = *model_;
  const int64_t width = m.config.width;
  for (int64_t first = 0; first < rows_; first += kRows) {
    const int64_t n = std::min(kRows, rows_ - first);
    const View<float> patches(patches_, n, patch_width(m.config)), h(h_ + first * width, n, width);
    read_patches(frame, first, patches);
    ops_->linear(patches, m.patch.w, {.y = h, .bias = m.patch.bias_or_null()});
    if (m.position.empty()) continue;
    const float* position = m.position.data() + first * width;
    for (int64_t i = 0; i < n * width; ++i) h.data[i] += position[i];
  }
}

// Keys and values of all patches, and their queries to q_.
void VlmTower::keys(const VlmLayer& layer) noexcept {
  const VlmConfig& c = model_->config;
  const int64_t width = c.width, half = c.head_dim() / 2;
  for (int64_t first = 0; first < rows_; first += kRows) {
    const int64_t n = std::min(kRows, rows_ - first);
    const View<float> h(h_ + first * width, n, width), y(y_, n, width), all(qkv_, n, 3 * width);
    norm(h, layer.norm1, y);
    ops_->linear(y, layer.qkv.w, {.y = all, .bias = layer.qkv.bias_or_null()});
    const View<float> q = all.cols_from(0, width), k = all.cols_from(width, width);
    if (!c.fixed_size()) {
      const View<const float> cos(cos_ + first * half, n, half), sin(sin_ + first * half, n, half);
      ops_->rope(q, static_cast<int32_t>(c.head_dim()), cos, sin);
      ops_->rope(k, static_cast<int32_t>(c.head_dim()), cos, sin);
    }
    ops_->kv_store(cache_, first, k, all.cols_from(2 * width, width));
    for (int64_t i = 0; i < n; ++i) std::copy_n(q.row(i), width, q_ + (first + i) * width);
  }
}

void VlmTower::layer(size_t i) noexcept {
  const VlmConfig& c = model_->config;
  const VlmLayer& layer = model_->layers[i];
  const int64_t width = c.width;
  const bool full = c.full_every == 0 || (static_cast<int64_t>(i) + 1) % c.full_every == 0;
  keys(layer);
  for (int64_t first = 0; first < rows_; first += kRows) {
    const int64_t n = std::min(kRows, rows_ - first);
    const View<float> h(h_ + first * width, n, width), y(y_, n, width);
    AttentionArgs args;
    args.q = View<const float>(q_ + first * width, n, width);
    args.n_heads = static_cast<int32_t>(c.n_heads);
    args.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim()));
    args.n_keys = rows_;
    args.first = full ? nullptr : first_.data() + first;
    args.visible = full ? nullptr : visible_.data() + first;
    args.out = y;
    ops_->attention(args, cache_);
    ops_->linear(y, layer.out.w, {.y = h, .bias = layer.out.bias_or_null(), .add = true});
    norm(h, layer.norm2, y);
    feed_forward(layer, h, y);
  }
}

void VlmTower::feed_forward(const VlmLayer& layer, View<float> h, View<float> y) noexcept {
  const VlmConfig& c = model_->config;
  const View<float> mlp(mlp_, h.rows, c.mlp);
  if (c.fixed_size()) {
    ops_->linear(y, layer.fc1.w,
                 {.y = mlp, .bias = layer.fc1.bias_or_null(), .activation = c.activation});
  } else {
    const View<float> gate(gate_, h.rows, c.mlp);
    ops_->linear(y, layer.gate.w,
                 {.y = gate, .bias = layer.gate.bias_or_null(), .activation = c.activation});
    ops_->linear(y, layer.fc1.w, {.y = mlp, .bias = layer.fc1.bias_or_null()});
    share_rows(*ops_, h.rows, [&](int64_t i) {
      for (int64_t j = 0; j < c.mlp; ++j) mlp.row(i)[j] *= gate.row(i)[j];
    });
  }
  ops_->linear(mlp, layer.fc2.w, {.y = h, .bias = layer.fc2.bias_or_null(), .add = true});
}

// ---- projectors ---------------------------------------------------------------------------------

// Means of merge x merge patches, normed and projected.
void VlmTower::pool(View<float> out) noexcept {
  const VlmModel& m = *model_;
  const VlmConfig& c = m.config;
  const int64_t k = c.merge, side = c.side(), tokens = c.tokens_a_side(), width = c.width;
  const View<float> joined(joined_, out.rows, width);
  share_rows(*ops_, out.rows, [&](int64_t i) {
    const int64_t top = i / tokens * k, left = i % tokens * k;
    float* sum = joined.row(i);
    std::fill_n(sum, width, 0.0f);
    for (int64_t dy = 0; dy < k; ++dy)
      for (int64_t dx = 0; dx < k; ++dx) {
        const float* patch = h_ + ((top + dy) * side + left + dx) * width;
        for (int64_t j = 0; j < width; ++j) sum[j] += patch[j];
      }
    for (int64_t j = 0; j < width; ++j) sum[j] /= static_cast<float>(k * k);
  });
  ops_->rms_norm(joined, m.token_norm.data(), nullptr, 1e-6f, joined);
  ops_->linear(joined, m.projector.w, {.y = out});
}

// merge x merge patches side by side, row by row; what lies outside the frame is zero.
void VlmTower::shuffle(View<float> out) noexcept {
  const VlmModel& m = *model_;
  const VlmConfig& c = m.config;
  const int64_t k = c.merge, side = c.side(), tokens = c.tokens_a_side(), width = c.width;
  const View<float> joined(joined_, out.rows, joined_width(c));
  share_rows(*ops_, out.rows, [&](int64_t i) {
    const int64_t top = i / tokens * k, left = i % tokens * k;
    float* to = joined.row(i);
    for (int64_t y = top; y < top + k; ++y)
      for (int64_t x = left; x < left + k; ++x, to += width) {
        if (y < side && x < side)
          std::copy_n(h_ + (y * side + x) * width, width, to);
        else
          std::fill_n(to, width, 0.0f);
      }
  });
  ops_->linear(joined, m.projector.w, {.y = out});
}

// Four patches that follow each other are one token already; tokens go back to raster order.
void VlmTower::merge(View<float> out) noexcept {
  const VlmModel& m = *model_;
  const VlmConfig& c = m.config;
  const int64_t each = c.merge * c.merge, part = kRows / each;
  for (int64_t first = 0; first < out.rows; first += part) {
    const int64_t n = std::min(part, out.rows - first);
    const View<float> rows(h_ + first * each * c.width, n, joined_width(c)),
        joined(joined_, n, joined_width(c)), tokens(tokens_, n, c.out_width);
    ops_->linear(
        rows, m.merger.w,
        {.y = joined, .bias = m.merger.bias_or_null(), .activation = Activation::kGeluTanh});
    ops_->linear(joined, m.projector.w, {.y = tokens, .bias = m.projector.bias_or_null()});
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(tokens.row(i), c.out_width, out.row(order_[static_cast<size_t>(first + i)]));
  }
}

bool VlmTower::encode(const VlmFrame& frame, View<float> out,
                      const std::atomic<bool>* cancel) noexcept {
  const VlmConfig& c = model_->config;
  const int64_t unit = c.fixed_size() ? c.image_size : c.patch_size * c.merge;
  OUTRIDER_ASSERT(frame.width % unit == 0 && frame.height % unit == 0);
  OUTRIDER_ASSERT(!c.fixed_size() || (frame.width == unit && frame.height == unit));
  OUTRIDER_ASSERT(out.rows == n_tokens(c, frame) && out.cols == c.out_width);
  rows_ = (frame.width / c.patch_size) * (frame.height / c.patch_size);
  OUTRIDER_ASSERT(rows_ >= 1 && rows_ <= cache_.capacity);
  if (!c.fixed_size()) order_windows(frame.width / unit, frame.height / unit);
  embed(frame);
  for (size_t i = 0; i < model_->layers.size(); ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    layer(i);
  }
  for (int64_t first = 0; first < rows_; first += kRows) {
    const View<float> h(h_ + first * c.width, std::min(kRows, rows_ - first), c.width);
    norm(h, model_->post, h);
  }
  switch (c.kind) {
    case VlmKind::kGemma3:
      pool(out);
      break;
    case VlmKind::kQwen25Vl:
      merge(out);
      break;
    case VlmKind::kIdefics3:
      shuffle(out);
      break;
  }
  return true;
}

}  // namespace outrider
