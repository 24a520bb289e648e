// Convolutions and pools with constant weights, as real models have them (the standard's node tests
// give weights as inputs), against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "onnx/model_maker.h"

namespace outrider::onnx::test {
namespace {

struct Geometry {
  std::vector<int64_t> in, kernel, stride, dilation, before, after;
  int64_t n_batch = 1, groups = 1, in_each = 1, out_each = 1;
  size_t n() const { return in.size(); }
  int64_t out(size_t d) const {
    return (in[d] + before[d] + after[d] - (kernel[d] - 1) * dilation[d] - 1) / stride[d] + 1;
  }
};

int64_t product(const std::vector<int64_t>& v) {
  int64_t n = 1;
  for (const int64_t x : v) n *= x;
  return n;
}
// Index `flat` of a box.
std::vector<int64_t> unflat(int64_t flat, const std::vector<int64_t>& size) {
  std::vector<int64_t> at(size.size());
  for (size_t d = size.size(); d-- > 0; flat /= size[d]) at[d] = flat % size[d];
  return at;
}
// Where a tap of a place reads, or -1 in the padding.
int64_t source(const Geometry& g, const std::vector<int64_t>& place,
               const std::vector<int64_t>& tap) {
  int64_t flat = 0;
  for (size_t d = 0; d < g.n(); ++d) {
    const int64_t x = place[d] * g.stride[d] + tap[d] * g.dilation[d] - g.before[d];
    if (x < 0 || x >= g.in[d]) return -1;
    flat = flat * g.in[d] + x;
  }
  return flat;
}
std::vector<int64_t> out_size(const Geometry& g) {
  std::vector<int64_t> size;
  for (size_t d = 0; d < g.n(); ++d) size.push_back(g.out(d));
  return size;
}

std::vector<double> convolved(const Geometry& g, const std::vector<float>& x,
                              const std::vector<float>& w, const std::vector<float>& bias) {
  const auto size = out_size(g);
  const int64_t n_out = product(size), n_in = product(g.in), n_kernel = product(g.kernel);
  std::vector<double> y;
  for (int64_t b = 0; b < g.n_batch; ++b)
    for (int64_t o = 0; o < g.groups * g.out_each; ++o)
      for (int64_t p = 0; p < n_out; ++p) {
        double sum = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
        for (int64_t c = 0; c < g.in_each; ++c)
          for (int64_t t = 0; t < n_kernel; ++t) {
            const int64_t from = source(g, unflat(p, size), unflat(t, g.kernel));
            const int64_t channel = o / g.out_each * g.in_each + c;
            if (from >= 0)
              sum +=
                  static_cast<double>(w[static_cast<size_t>((o * g.in_each + c) * n_kernel + t)]) *
                  x[static_cast<size_t>((b * g.groups * g.in_each + channel) * n_in + from)];
          }
        y.push_back(sum);
      }
  return y;
}

std::vector<float> values(std::mt19937& random, int64_t n) {
  std::uniform_real_distribution<float> d(-1, 1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = d(random);
  return v;
}

std::vector<float> run(const ModelMaker& m, const std::vector<float>& x, int n_threads = 1) {
  auto model = m.read();
  EXPECT_TRUE(model) << model.error().text;
  if (!model) return {};
  auto runner = make_runner(std::move(model.value()), {}, n_threads);
  EXPECT_TRUE(runner) << runner.error().text;
  if (!runner) return {};
  auto& r = *runner.value().run;
  EXPECT_EQ(r.input(0).size(), x.size() * 4);
  std::memcpy(r.input(0).data(), x.data(), x.size() * 4);
  r.run();
  r.run();  // the second tick finds what the first left in its memory
  std::vector<float> y(r.output(0).size() / 4);
  std::memcpy(y.data(), r.output(0).data(), y.size() * 4);
  return y;
}

std::vector<int64_t> with_front(std::initializer_list<int64_t> front,
                                const std::vector<int64_t>& tail) {
  std::vector<int64_t> all = front;
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}
void set_window(::onnx::NodeProto& node, const Geometry& g) {
  set_ints(node, "kernel_shape", g.kernel);
  set_ints(node, "strides", g.stride);
  set_ints(node, "dilations", g.dilation);
  std::vector<int64_t> pads = g.before;
  pads.insert(pads.end(), g.after.begin(), g.after.end());
  set_ints(node, "pads", pads);
}

Geometry random_geometry(std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Geometry g;
  const size_t n = static_cast<size_t>(pick(1, 3));
  for (size_t d = 0; d < n; ++d) {
    g.kernel.push_back(pick(1, n == 3 ? 2 : 5));
    g.stride.push_back(pick(1, 3));
    g.dilation.push_back(pick(1, 2));
    const int64_t reach = (g.kernel[d] - 1) * g.dilation[d];
    g.before.push_back(pick(0, reach));
    g.after.push_back(pick(0, reach));
    g.in.push_back(reach + pick(1, n == 3 ? 9 : 40));
  }
  g.n_batch = pick(1, 2);
  const int64_t kind = pick(0, 3);  // plain, grouped, depthwise, one input channel
  g.groups = kind == 1 ? 2 : kind == 2 ? pick(2, 9) : 1;
  g.in_each = kind == 2 || kind == 3 ? 1 : pick(1, 6);
  g.out_each = kind == 2 ? pick(1, 2) : pick(1, 19);
  // Channels in blocks: some of a whole one, some with lanes to spare, groups of blocks.
  if (n < 3 && pick(0, 2) == 0) {
    g.groups = kind == 1 ? 2 : kind == 2 ? pick(12, 40) : 1;
    g.in_each = kind == 2 ? 1 : kind == 1 ? 16 * pick(1, 2) : pick(1, 40);
    g.out_each = kind == 2 ? 1 : kind == 1 ? 16 * pick(1, 2) : pick(12, 90);
  }
  return g;
}

std::string text(const Geometry& g) {
  std::string s = std::to_string(g.n_batch) + "x" + std::to_string(g.groups) + "x" +
                  std::to_string(g.in_each) + "->" + std::to_string(g.out_each);
  for (size_t d = 0; d < g.n(); ++d)
    s += " [" + std::to_string(g.in[d]) + " k" + std::to_string(g.kernel[d]) + " s" +
         std::to_string(g.stride[d]) + " d" + std::to_string(g.dilation[d]) + " p" +
         std::to_string(g.before[d]) + "," + std::to_string(g.after[d]) + "]";
  return s;
}

TEST(OnnxConv, constant_weights_of_every_geometry_are_the_sums_in_double) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const Geometry g = random_geometry(random);
    const int64_t n_in = g.n_batch * g.groups * g.in_each, n_out = g.groups * g.out_each;
    const auto x = values(random, n_in * product(g.in));
    const auto w = values(random, n_out * g.in_each * product(g.kernel));
    const auto bias = i % 3 == 0 ? std::vector<float>{} : values(random, n_out);
    ModelMaker m;
    m.input("x", with_front({g.n_batch, g.groups * g.in_each}, g.in)).output("y");
    m.floats("w", with_front({n_out, g.in_each}, g.kernel), w);
    if (!bias.empty()) m.floats("b", {n_out}, bias);
    auto& node = m.node(
        "Conv",
        bias.empty() ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x", "w", "b"},
        {i % 2 == 0 ? "y" : "c"});
    set_window(node, g);
    set_int(node, "group", g.groups);
    if (i % 2 != 0) m.node("Relu", {"c"}, {"y"});
    const auto got = run(m, x, 1), again = run(m, x, 3);
    const auto wanted = convolved(g, x, w, bias);
    ASSERT_EQ(got.size(), wanted.size()) << text(g);
    // Every sum has at most k products of values below 1: k roundings of at most k.
    const double k = static_cast<double>(g.in_each * product(g.kernel) + 1);
    for (size_t j = 0; j < got.size(); ++j)
      ASSERT_NEAR(got[j], i % 2 == 0 ? wanted[j] : std::max(wanted[j], 0.0), k * k * 6e-8)
          << text(g) << " at " << j;
    ASSERT_EQ(std::memcmp(got.data(), again.data(), got.size() * 4), 0)
        << "three threads, other bits: " << text(g);
  }
}

TEST(OnnxPool, the_largest_of_every_geometry_with_a_nan_that_stays) {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    Geometry g = random_geometry(random);
    for (size_t d = 0; d < g.n(); ++d) {
      g.before[d] = std::min(g.before[d], g.kernel[d] - 1);
      g.after[d] = std::min(g.after[d], g.kernel[d] - 1);
    }
    g.groups = 3;
    g.in_each = g.out_each = 1;
    auto x = values(random, g.n_batch * 3 * product(g.in));
    if (i % 4 == 0) x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    ModelMaker m;
    m.input("x", with_front({g.n_batch, 3}, g.in)).output("y");
    set_window(m.node("MaxPool", {"x"}, {"y"}), g);
    const auto got = run(m, x, 2);
    const auto size = out_size(g);
    const int64_t n_out = product(size), n_in = product(g.in);
    ASSERT_EQ(got.size(), static_cast<size_t>(g.n_batch * 3 * n_out)) << text(g);
    for (size_t j = 0; j < got.size(); ++j) {
      const int64_t plane = static_cast<int64_t>(j) / n_out, p = static_cast<int64_t>(j) % n_out;
      float best = std::numeric_limits<float>::lowest();
      bool nan = false;
      for (int64_t t = 0; t < product(g.kernel); ++t) {
        const int64_t from = source(g, unflat(p, size), unflat(t, g.kernel));
        if (from < 0) continue;
        const float value = x[static_cast<size_t>(plane * n_in + from)];
        nan = nan || value != value;
        best = std::max(best, value);
      }
      if (nan)
        ASSERT_TRUE(std::isnan(got[j])) << text(g);
      else
        ASSERT_EQ(got[j], best) << text(g) << " at " << j;
    }
  }
}

// A network whose arrays stay in channel blocks. With `rows` a Reshape to the same shape behind
// every node lays them out in rows, so that every operator computes on rows or makes its blocks
// anew.
class Network {
 public:
  Network(bool rows, int64_t n_batch, int64_t width) : rows_(rows) {
    m.input("x", {n_batch, 3, 21, 19}).output("y").output("z").output("s");
    m.ints("same", {4}, {0, 0, 0, 0});
    conv("x", "c1", 3, width, 3, 2);
    layer("Relu", {"c1"}, "r1");
    set_window(layer("MaxPool", {"r1"}, "p1"), {{}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
    conv("p1", "c2", width, 2 * width, 3, 1);
    layer("HardSwish", {"c2"}, "h2");
    conv("h2", "d2", 2 * width, 2 * width, 3, 1, 2 * width);
    layer("Add", {"d2", "h2"}, "a2");
    layer("Relu", {"a2"}, "r2");
    squeeze("r2", 2 * width);
    set_int(layer("Concat", {"e2", "c1"}, "k"), "axis", 1);
    auto& pool = layer("AveragePool", {"k"}, "p2");
    set_window(pool, {{}, {2, 3}, {2, 2}, {1, 1}, {0, 1}, {1, 1}});
    set_int(pool, "count_include_pad", 1);
    conv("p2", "y", 3 * width, 5, 1, 1);
    conv("p2", "z", 3 * width, 17, 3, 1);
  }
  std::vector<std::vector<float>> outputs(const std::vector<float>& x, int n_threads) {
    auto model = m.read();
    EXPECT_TRUE(model) << model.error().text;
    auto runner = make_runner(std::move(model.value()), {}, n_threads);
    EXPECT_TRUE(runner) << runner.error().text;
    if (!runner) return {};
    auto& r = *runner.value().run;
    n_laid_out = 0;
    for (const Step& step : r.plan().steps()) n_laid_out += step.what == "Rows";
    EXPECT_EQ(r.input(0).size(), x.size() * 4);
    std::vector<std::vector<float>> all;
    for (int tick = 0; tick < 2; ++tick) {
      all.clear();
      std::memcpy(r.input(0).data(), x.data(), x.size() * 4);
      r.run();
      for (size_t i = 0; i < r.plan().outputs().size(); ++i) {
        all.emplace_back(r.output(i).size() / 4);
        std::memcpy(all.back().data(), r.output(i).data(), r.output(i).size());
      }
    }
    return all;
  }
  size_t n_laid_out = 0;
  ModelMaker m;

 private:
  ::onnx::NodeProto& layer(const std::string& op, const std::vector<std::string>& in,
                           const std::string& out) {
    const size_t at = static_cast<size_t>(m.graph().node_size());
    m.node(op, in, {rows_ ? out + "_" : out});
    if (rows_) m.node("Reshape", {out + "_", "same"}, {out});
    return *m.graph().mutable_node(static_cast<int>(at));
  }
  void conv(const std::string& in, const std::string& out, int64_t n_in, int64_t n_out,
            int64_t kernel, int64_t stride, int64_t groups = 1) {
    const std::string w = "w_" + out, b = "b_" + out;
    m.floats(w, {n_out, n_in / groups, kernel, kernel},
             values(random_, n_out * n_in / groups * kernel * kernel));
    m.floats(b, {n_out}, values(random_, n_out));
    auto& node = layer("Conv", {in, w, b}, out);
    const int64_t pad = kernel / 2;
    set_window(node, {{}, {kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}});
    set_int(node, "group", groups);
  }
  // e2 = in times a factor for each channel that follows from its mean.
  void squeeze(const std::string& in, int64_t n) {
    layer("GlobalAveragePool", {in}, "mean");
    conv("mean", "s1", n, 7, 1, 1);
    conv("s1", "s", 7, n, 1, 1);
    layer("Sigmoid", {"s"}, "gate");
    layer("Mul", {in, "gate"}, "m2");
    m.floats("each", {n, 1, 1}, values(random_, n));
    layer("Mul", {"m2", "each"}, "n2");
    m.floats("one", {}, {0.75f});
    layer("Sub", {"one", "n2"}, "e2_wide");
    set_window(layer("MaxPool", {"e2_wide"}, "e2"), {{}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  }

  bool rows_;
  std::mt19937 random_{11};
};

// 16: blocks without a lane to spare, Concat in blocks; 20: with, and Concat by rows.
TEST(OnnxChannels, a_network_in_blocks_gives_the_bits_of_one_in_rows) {
  for (const int64_t width : {16, 20, 32})
    for (const int64_t n_batch : {1, 2}) {
      std::mt19937 random(12);
      const auto x = values(random, n_batch * 3 * 21 * 19);
      Network whole(false, n_batch, width), apart(true, n_batch, width);
      const auto got = whole.outputs(x, 1), again = whole.outputs(x, 3),
                 wanted = apart.outputs(x, 1);
      ASSERT_EQ(got.size(), 3u);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].size(), wanted[i].size());
        EXPECT_EQ(std::memcmp(got[i].data(), wanted[i].data(), got[i].size() * 4), 0)
            << "output " << i << ", width " << width << ", batch " << n_batch;
        EXPECT_EQ(std::memcmp(got[i].data(), again[i].data(), got[i].size() * 4), 0)
            << "three threads, output " << i << ", width " << width;
      }
      EXPECT_LT(whole.n_laid_out, apart.n_laid_out);
    }
}

}  // namespace
}  // namespace outrider::onnx::test
