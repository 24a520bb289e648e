#include "kernels/cpu_ops.h"

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "base/cpu_budget.h"
#include "kernels/attention.h"
#include "kernels/channel_conv.h"
#include "kernels/dispatch.h"
#include "kernels/kv_cache.h"
#include "kernels/linear.h"
#include "kernels/packing.h"
#include "kernels/scratch.h"
#include "kernels/thread_pool.h"

namespace outrider {
namespace {

static_assert(static_cast<int>(Activation::kNone) == kActNone);
static_assert(static_cast<int>(Activation::kGeluTanh) == kActGeluTanh);
static_assert(static_cast<int>(Activation::kGeluQuick) == kActGeluQuick);
static_assert(static_cast<int>(Activation::kSilu) == kActSilu);
static_assert(static_cast<int>(Activation::kRelu) == kActRelu);
static_assert(static_cast<int>(Activation::kSigmoid) == kActSigmoid);
static_assert(static_cast<int>(Activation::kTanh) == kActTanh);
static_assert(static_cast<int>(Activation::kElu) == kActElu);
static_assert(static_cast<int>(Activation::kHardSwish) == kActHardSwish);

// A row operation on fewer values than this is done before a second thread has heard of it.
constexpr int64_t kAloneValues = 4096;

bool same_shape(const View<const float>& a, const View<const float>& b) {
  return a.rows == b.rows && a.cols == b.cols;
}

class CpuOps final : public Ops {
 public:
  CpuOps(const KernelTable& table, std::unique_ptr<ThreadPool> pool)
      : table_(table), pool_(std::move(pool)), linear_(table, *pool_), attention_(table, *pool_) {}

  Result<size_t> packed_bytes(std::span<const Matrix> parts, Stack stack,
                              Precision precision) const override {
    const auto plan = plan_packing(parts, stack, precision);
    if (!plan) return plan.error();
    return plan.value().bytes;
  }

  Result<Weight> pack(std::span<const Matrix> parts, Stack stack, Precision precision,
                      std::span<std::byte> storage) override {
    const auto planned = plan_packing(parts, stack, precision);
    if (!planned) return planned.error();
    const PackPlan& plan = planned.value();
    if (storage.size() < plan.bytes)
      return make_error(Code::kNoMemory, "packed weight: storage of %zu bytes, %zu are needed",
                        storage.size(), plan.bytes);
    if (reinterpret_cast<uintptr_t>(storage.data()) % 64 != 0)
      return make_error(Code::kInvalid, "packed weight: storage is not aligned to 64 bytes");
    OUTRIDER_TRY(pack_weights(parts, plan, table_, *pool_, storage.data()));
    Weight weight;
    weight.n_out = plan.n_out;
    weight.n_in = plan.n_in;
    weight.format = static_cast<uint32_t>(plan.format) | (plan.paired ? kPackPaired : 0);
    weight.data = storage.data();
    return weight;
  }

  Result<void> reserve(const OpsLimits& limits) override {
    OUTRIDER_TRY(linear_.reserve(limits.max_rows, limits.max_in));
    OUTRIDER_TRY(right_.reserve(static_cast<size_t>(limits.max_right) * sizeof(float)));
    return attention_.reserve(limits.max_keys, limits.max_head_dim, limits.kv_8bit);
  }

  int n_threads() const override { return pool_->n_threads(); }
  const char* kernel_table() const override { return table_.name; }

  void linear(const LinearIn& x, const Weight& w, const LinearOut& out) noexcept override {
    OUTRIDER_ASSERT((w.format & kPackPaired) == 0);
    linear_.run({x.x, w, out, x.norm});
  }

  void gated_linear(const LinearIn& x, const Weight& gate_up, Activation activation,
                    View<float> y) noexcept override {
    OUTRIDER_ASSERT((gate_up.format & kPackPaired) != 0);
    LinearOut out;
    out.y = y;
    out.activation = activation;
    linear_.run({x.x, gate_up, out, x.norm});
  }

  void product(View<const float> a, View<const float> b, bool transposed,
               View<float> y) noexcept override {
    const int64_t n = y.cols, k = a.cols, n_panels = (n + kPanelLanes - 1) / kPanelLanes;
    OUTRIDER_ASSERT((transposed ? b.cols : b.rows) == k && (transposed ? b.rows : b.cols) == n);
    OUTRIDER_ASSERT(static_cast<size_t>(n_panels * kPanelLanes * k) * sizeof(float) <=
                    right_.bytes());
    auto* packed = reinterpret_cast<float*>(right_.data());
    const auto pack = [&](Range panels) {
      for (int64_t p = panels.first; p < panels.last; ++p)
        pack_right(b, transposed, p, k, n, packed + p * kPanelLanes * k);
    };
    if (n * k <= kAloneValues)
      pack({0, n_panels});
    else
      pool_->run([&](int t) { pack(part_of(n_panels, t, pool_->n_threads())); });
    Weight weight;
    weight.n_out = n;
    weight.n_in = k;
    weight.format = static_cast<uint32_t>(PackFormat::kF32);
    weight.data = packed;
    LinearOut out;
    out.y = y;
    linear_.run({a, weight, out, {}});
  }

  void correlate(const Correlation& c) noexcept override {
    OUTRIDER_ASSERT(c.lanes == 8 || c.lanes == 1);
    const int64_t n_blocks = (c.n_out + c.lanes - 1) / c.lanes, n_pairs = (c.n_rows + 1) / 2;
    const auto part = [&](Range range) {
      for (int64_t item = range.first; item < range.last; ++item)
        windows(c, item / n_pairs, item % n_pairs * 2);
    };
    const int64_t n_items = n_blocks * n_pairs;
    if (n_items * 2 * c.n_taps * c.n * c.lanes <= 16 * kAloneValues) return part({0, n_items});
    pool_->run([&](int t) { part(part_of(n_items, t, pool_->n_threads())); });
  }

  void convolve(const ChannelConv& job) noexcept override {
    convolve_channels(job, table_, *pool_);
  }

  void rms_norm(View<const float> x, const float* scale, const float* shift, float eps,
                View<float> y) noexcept override {
    OUTRIDER_ASSERT(same_shape(x, y));
    for_rows(x.rows, x.cols, [&](int64_t i) {
      table_.rms_norm_row(x.row(i), scale, shift, eps, x.cols, y.row(i));
    });
  }

  void layer_norm(View<const float> x, const float* weight, const float* bias, float eps,
                  View<float> y) noexcept override {
    OUTRIDER_ASSERT(same_shape(x, y));
    for_rows(x.rows, x.cols, [&](int64_t i) {
      table_.layer_norm_row(x.row(i), weight, bias, eps, x.cols, y.row(i));
    });
  }

  void rope(View<float> x, int32_t head_dim, View<const float> cos,
            View<const float> sin) noexcept override {
    OUTRIDER_ASSERT(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0);
    OUTRIDER_ASSERT(cos.rows >= x.rows && cos.cols == head_dim / 2 && same_shape(cos, sin));
    for_rows(x.rows, x.cols, [&](int64_t i) {
      for (float* head = x.row(i); head < x.row(i) + x.cols; head += head_dim)
        table_.rope_head(head, head_dim / 2, cos.row(i), sin.row(i));
    });
  }

  void activate(View<float> x, Activation activation) noexcept override {
    for_rows(x.rows, x.cols, [&](int64_t i) {
      table_.activate_row(x.row(i), x.cols, static_cast<int32_t>(activation));
    });
  }

  void share(Part part, const void* context) noexcept override {
    const int n = pool_->n_threads();
    pool_->run([&](int t) { part(context, t, n); });
  }

  size_t kv_bytes(int64_t capacity, int32_t n_kv_heads, int32_t head_dim,
                  DType type) const override {
    return kv_cache_bytes(capacity, n_kv_heads, head_dim, type);
  }
  void kv_store(const KvCache& cache, int64_t first, View<const float> k,
                View<const float> v) noexcept override {
    kv_cache_store(cache, first, k, v, table_, *pool_);
  }
  void kv_load(const KvCache& cache, int64_t first, int64_t n, float* k,
               float* v) const noexcept override {
    kv_cache_load(cache, first, n, k, v);
  }
  void attention(const AttentionArgs& args, const KvCache& cache) noexcept override {
    attention_.run(args, cache);
  }

 private:
  // Panel p of a right side: [k][16], zero behind n.
  void pack_right(const View<const float>& b, bool transposed, int64_t p, int64_t k, int64_t n,
                  float* out) const noexcept {
    const int64_t first = p * kPanelLanes, width = std::min<int64_t>(kPanelLanes, n - first);
    if (transposed && width == kPanelLanes) {
      const float* rows[kPanelLanes];
      for (int i = 0; i < kPanelLanes; ++i) rows[i] = b.row(first + i);
      return table_.pack_f32(rows, kPanelLanes, k, 0, 0, out);
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < width; ++j)
        out[i * kPanelLanes + j] = transposed ? b.row(first + j)[i] : b.row(i)[first + j];
      for (int64_t j = width; j < kPanelLanes; ++j) out[i * kPanelLanes + j] = 0;
    }
  }

  // Rows r and r + 1 (when there is one) of a block of outputs.
  void windows(const Correlation& c, int64_t block, int64_t r) noexcept {
    const int64_t first = block * c.lanes, plane = c.n_rows * c.n;
    WindowRow row = {};
    row.x = c.x + block * c.x_step + c.row[r];
    row.tap = c.tap;
    row.n_taps = c.n_taps;
    row.n = c.n;
    row.w = c.w + block * c.n_taps * c.lanes;
    row.bias = c.bias != nullptr ? c.bias + first : nullptr;
    row.y = c.y + first * plane + r * c.n;
    row.y_stride = plane;
    row.lanes = c.lanes;
    row.n_outputs = static_cast<int32_t>(std::min<int64_t>(c.lanes, c.n_out - first));
    row.n_rows = r + 1 < c.n_rows ? 2 : 1;
    row.x_next = row.n_rows == 2 ? c.row[r + 1] - c.row[r] : 0;
    row.y_next = c.n;
    row.relu = c.activation == Activation::kRelu ? 1 : 0;
    table_.window_row(&row);
    if (c.activation == Activation::kNone || row.relu != 0) return;
    // Two rows of one output lie behind each other.
    for (int32_t o = 0; o < row.n_outputs; ++o)
      table_.activate_row(row.y + o * plane, c.n * row.n_rows, static_cast<int32_t>(c.activation));
  }

  // f(row) for every row; rows are shared between threads when there is enough to do.
  template <class F>
  void for_rows(int64_t n_rows, int64_t n_cols, const F& f) noexcept {
    const auto rows = [&](Range range) {
      for (int64_t i = range.first; i < range.last; ++i) f(i);
    };
    if (n_rows <= 1 || n_rows * n_cols <= kAloneValues) return rows({0, n_rows});
    pool_->run([&](int t) { rows(part_of(n_rows, t, pool_->n_threads())); });
  }

  const KernelTable& table_;
  std::unique_ptr<ThreadPool> pool_;
  LinearRunner linear_;
  AttentionRunner attention_;
  Scratch right_;  // packed right side of product()
};

}  // namespace

Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions& options) {
  auto table = find_kernel_table(options.kernel_table);
  if (!table) return table.error();
  if (options.n_threads > static_cast<int>(kMaxThreads))
    return make_error(Code::kInvalid, "threads: %d asked for, at most %u are allowed",
                      options.n_threads, kMaxThreads);
  auto pool = ThreadPool::create(
      static_cast<int>(choose_threads(options.n_threads, cpu_budget()).n_threads), options.wishes);
  if (!pool) return pool.error();
  std::unique_ptr<Ops> ops(new (std::nothrow) CpuOps(*table.value(), std::move(pool.value())));
  if (!ops) return make_error(Code::kNoMemory, "kernels: no memory for the CPU's operations");
  return ops;
}

}  // namespace outrider
