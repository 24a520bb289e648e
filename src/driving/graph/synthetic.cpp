#include "driving/graph/synthetic.h"

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "driving/slices.h"

namespace outrider::driving {
namespace {

constexpr int64_t kHeight = 128, kWidth = 256;  // of a plane
constexpr int64_t kDesire = 8, kDesireRows = 33, kFeatureRows = 32, kTokens = 32, kTokenWidth = 512;
constexpr int64_t kHidden = kTokens * kTokenWidth, kHeads = 2066, kOutputs = 18452;
constexpr int64_t kSkip = kDefaultFrameSkip;

// Two strided convolutions, what the past comes down to, some dense layers.
struct Sizes {
  int64_t first, second;  // channels; the second leaves 4 x 8 places
  int64_t past;           // values kept of each feature row
  int64_t width, n_layers;
};
constexpr Sizes kTiny = {8, 16, 32, 64, 1}, kFull = {64, 512, 512, 4096, 4};

class Maker {
 public:
  Maker(const SyntheticDriving& what, onnx::ModelWriter& model)
      : m_(model), stream_seed_(what.seed), sizes_(what.full ? kFull : kTiny) {}

  void run(Layout layout) {
    layout == Layout::kQueued ? queued_inputs() : stateful_inputs();
    m_.input("traffic_convention", DType::kF32, {1, 2});
    m_.input("action_t", DType::kF32, {1, 2});
    m_.output("outputs", DType::kF32, {1, kOutputs});
    body();
    if (layout == Layout::kStateful) keep_features();
  }

 private:
  // ---- constants --------------------------------------------------------------------------------

  // Uniform with the spread that keeps outputs as large as inputs.
  void weights(const std::string& name, const std::vector<int64_t>& dims, int64_t n_in,
               float gain) {
    int64_t n = 1;
    for (const int64_t dim : dims) n *= dim;
    const UniformStream stream(stream_seed_, name);
    const float scale = gain * std::sqrt(3.0f / static_cast<float>(n_in));
    std::string raw(static_cast<size_t>(n) * sizeof(float), '\0');
    for (int64_t i = 0; i < n; ++i) {
      const float value = scale * stream.symmetric(static_cast<uint64_t>(i));
      std::memcpy(raw.data() + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
    }
    m_.constant(name, DType::kF32, dims, std::move(raw));
  }
  void scalar(const std::string& name, float value) {
    m_.constant(name, DType::kF32, {1},
                std::string(reinterpret_cast<const char*>(&value), sizeof value));
  }
  // y = activation(W x + b)
  std::string dense(const std::string& x, const std::string& name, int64_t n_in, int64_t n_out,
                    float gain, const char* activation) {
    weights(name + ".w", {n_out, n_in}, n_in, gain);
    weights(name + ".b", {n_out}, 100, gain);
    const std::string y =
        m_.node("Gemm", {x, name + ".w", name + ".b"}, name + ".y", {{"transB", {1}, true}});
    return activation == nullptr ? y : m_.node(activation, {y}, name + ".a");
  }
  std::string conv(const std::string& x, const std::string& name, int64_t in, int64_t out,
                   int64_t stride) {
    weights(name + ".w", {out, in, stride, stride}, in * stride * stride, 1.4f);
    const std::string y =
        m_.node("Conv", {x, name + ".w"}, name + ".y",
                {{"kernel_shape", {stride, stride}}, {"strides", {stride, stride}}});
    return m_.node("Relu", {y}, name + ".a");
  }
  std::string reshape(const std::string& x, const std::string& y,
                      const std::vector<int64_t>& dims) {
    m_.constant(y + ".dims", dims);
    return m_.node("Reshape", {x, y + ".dims"}, y);
  }
  std::string slice(const std::string& x, const std::string& y, int64_t start, int64_t stop,
                    int64_t axis, int64_t step) {
    for (const auto& [name, value] : {std::pair{".start", start}, std::pair{".stop", stop},
                                      std::pair{".axis", axis}, std::pair{".step", step}})
      m_.constant(y + name, {value});
    return m_.node("Slice", {x, y + ".start", y + ".stop", y + ".axis", y + ".step"}, y);
  }
  // The queue without its oldest row, and `row` behind it.
  void shift(const std::string& queue, const std::string& row, int64_t n_rows, int64_t axis) {
    const std::string kept = slice(queue, queue + ".kept", 1, n_rows, axis, 1);
    m_.node("Concat", {kept, row}, "next_" + queue, {{"axis", {axis}, true}});
  }

  // ---- layouts: both lead to images_ (1,24,H,W) u8, features_ (1,32,32,512) f16, desire_ (1,33,8)
  // ----

  void queued_inputs() {
    for (const char* name : {"img", "big_img"})
      m_.input(name, DType::kU8, {1, 12, kHeight, kWidth});
    m_.input("desire_pulse", DType::kF32, {1, kDesireRows, kDesire});
    m_.input("features_buffer", DType::kF16, {1, kFeatureRows, kTokens, kTokenWidth});
    images_ = m_.node("Concat", {"img", "big_img"}, "images", {{"axis", {1}, true}});
    features_ = "features_buffer";
    desire_ = "desire_pulse";
  }

  void stateful_inputs() {
    const std::vector<int64_t> image_queue = {2, kSkip + 1, 6, kHeight, kWidth},
                               desire_queue = {kSkip * kDesireRows, 1, kDesire},
                               feature_queue = {kSkip * kFeatureRows, 1, kHidden};
    m_.input("new_img", DType::kU8, {2, 6, kHeight, kWidth});
    m_.input("desire", DType::kF32, {kDesire});
    const auto state = [&](const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
      m_.input(name, dtype, dims);
      m_.output("next_" + name, dtype, dims);
    };
    state("state_img_q", DType::kU8, image_queue);
    state("state_desire_q", DType::kF32, desire_queue);
    state("state_feat_q", DType::kF16, feature_queue);
    shift("state_img_q", reshape("new_img", "new_row", {2, 1, 6, kHeight, kWidth}), kSkip + 1, 1);
    const std::string two = slice("next_state_img_q", "sampled", 0, kSkip + 1, 1, kSkip);
    images_ = reshape(two, "images", {1, 24, kHeight, kWidth});
    shift("state_desire_q", reshape("desire", "desire_row", {1, 1, kDesire}), kSkip * kDesireRows,
          0);
    const std::string groups =
        reshape("next_state_desire_q", "desire_groups", {kDesireRows, kSkip, kDesire});
    const std::string pooled =
        m_.node("ReduceMax", {groups}, "desire_pooled", {{"axes", {1}}, {"keepdims", {0}, true}});
    desire_ = reshape(pooled, "desire_rows", {1, kDesireRows, kDesire});
    // The state holds the hidden states up to the last frame's, as the queue does after its push.
    features_ =
        reshape(slice("state_feat_q", "features_sampled", 0, kSkip * kFeatureRows, 0, kSkip),
                "features_rows", {1, kFeatureRows, kTokens, kTokenWidth});
  }

  void keep_features() {
    const std::string row = reshape("hidden", "hidden_row", {1, 1, kHidden});
    m_.node("Cast", {row}, "hidden_half", {{"to", {onnx::type_number(DType::kF16)}, true}});
    shift("state_feat_q", "hidden_half", kSkip * kFeatureRows, 0);
  }

  // ---- what both compute
  // --------------------------------------------------------------------------

  void body() {
    const Sizes& s = sizes_;
    scalar("zero_level", 128);
    scalar("contrast", 1.0f / 64);
    const ModelWriterInts to_float = {"to", {onnx::type_number(DType::kF32)}, true};
    m_.node("Cast", {images_}, "pixels", {to_float});
    m_.node("Sub", {"pixels", "zero_level"}, "centred");
    const std::string scaled = m_.node("Mul", {"centred", "contrast"}, "scaled");
    const std::string seen =
        reshape(conv(conv(scaled, "conv1", 24, s.first, 8), "conv2", s.first, s.second, 4), "seen",
                {1, s.second * 32});
    m_.node("Cast", {features_}, "features", {to_float});
    const std::string tokens = m_.node("ReduceMean", {"features"}, "past_tokens",
                                       {{"axes", {2}}, {"keepdims", {0}, true}});
    weights("past.w", {kTokenWidth, s.past}, kTokenWidth, 4);
    m_.node("MatMul", {tokens, "past.w"}, "past");
    const std::string past = reshape("past", "past_row", {1, kFeatureRows * s.past});
    const std::string wishes = reshape(desire_, "wishes", {1, kDesireRows * kDesire});
    std::string x = m_.node("Concat", {seen, past, wishes, "traffic_convention", "action_t"},
                            "everything", {{"axis", {1}, true}});
    int64_t width = s.second * 32 + kFeatureRows * s.past + kDesireRows * kDesire + 4;
    for (int64_t i = 0; i < s.n_layers; ++i, width = s.width)
      x = dense(x, "dense" + std::to_string(i), width, s.width, 1.5f, "Tanh");
    outputs(x);
  }

  // Heads, the hidden state as an outer product, and the padding.
  void outputs(const std::string& x) {
    const int64_t width = sizes_.width;
    const std::string heads = dense(x, "heads", width, kHeads, 1, nullptr);
    const std::string rows =
        reshape(dense(x, "rows", width, kTokens, 1, "Tanh"), "rows_column", {1, kTokens, 1});
    const std::string columns = reshape(dense(x, "columns", width, kTokenWidth, 1, "Tanh"),
                                        "columns_row", {1, 1, kTokenWidth});
    const std::string product = m_.node("MatMul", {rows, columns}, "hidden_tokens");
    const std::string hidden = reshape(product, "hidden", {1, kHidden});
    m_.constant("pad", DType::kF32, {1, 2}, std::string(8, '\0'));
    m_.node("Concat", {heads, hidden, "pad"}, "outputs", {{"axis", {1}, true}});
  }

  using ModelWriterInts = onnx::ModelWriter::Ints;
  onnx::ModelWriter& m_;
  uint64_t stream_seed_;
  Sizes sizes_;
  std::string images_, features_, desire_;
};

}  // namespace

const std::vector<NamedRange>& shipped_slices() {
  static const std::vector<NamedRange> slices = {
      {"lane_lines", {0, 528}},
      {"lane_lines_prob", {528, 536}},
      {"road_edges", {536, 800}},
      {"meta", {800, 855}},
      {"desire_pred", {855, 887}},
      {"pose", {887, 899}},
      {"wide_from_device_euler", {899, 905}},
      {"road_transform", {905, 917}},
      {"plan", {917, 1907}},
      {"lead", {1907, 2051}},
      {"lead_prob", {2051, 2054}},
      {"desire_state", {2054, 2062}},
      {"action", {2062, 2066}},
      {"hidden_state", {2066, 18450}},
      {"pad", {18450, 18452}},
  };
  return slices;
}

void add_synthetic_driving(const SyntheticDriving& what, onnx::ModelWriter& model) {
  Maker(what, model).run(what.layout);
  model.metadata(kSlicesKey, encode_slices(shipped_slices()));
  model.metadata(kCheckpointKey, std::string("synthetic ") + (what.full ? "full" : "tiny") +
                                     " seed " + std::to_string(what.seed));
}

Result<void> write_synthetic_driving(const SyntheticDriving& what, const std::string& path) {
  onnx::ModelWriter model("outrider");
  add_synthetic_driving(what, model);
  return model.write(path);
}

}  // namespace outrider::driving
