#include <cmath>
#include <string_view>

#include "models/size_reader.h"
#include "models/vlm_weights.h"

namespace outrider {
namespace {

constexpr int64_t kMaxSide = 8192, kMaxPatch = 256, kMaxWidth = 1 << 14, kMaxMlp = 1 << 17,
                  kMaxLayers = 256, kMaxHeads = 256, kMaxOut = 1 << 16, kMaxMerge = 64,
                  kMaxTokens = 1 << 14, kMaxLongest = 1 << 16;

struct KindRow {
  VlmKind kind;
  const char* name;
};
constexpr KindRow kKinds[] = {{VlmKind::kGemma3, "gemma3"},
                              {VlmKind::kQwen25Vl, "qwen2.5vl_merger"},
                              {VlmKind::kIdefics3, "idefics3"}};

const KindRow* find_kind(const GgufFile& file) {
  const auto name = file.string("clip.projector_type");
  if (!name) return nullptr;
  for (const KindRow& row : kKinds)
    if (name.value() == row.name) return &row;
  return nullptr;
}

constexpr const char* kPrefix = "clip.vision.";

class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, VlmKind kind) : file_(file), size_(file) { c_.kind = kind; }

  Result<VlmConfig> read() {
    OUTRIDER_TRY(read_sizes());
    OUTRIDER_TRY(check_sizes());
    OUTRIDER_TRY(read_eps());
    OUTRIDER_TRY(read_activation());
    OUTRIDER_TRY(read_pixels("image_mean", c_.mean, false));
    OUTRIDER_TRY(read_pixels("image_std", c_.deviation, true));
    return c_;
  }

 private:
  static std::string key(const char* name) { return std::string(kPrefix) + name; }
  bool is_qwen() const { return c_.kind == VlmKind::kQwen25Vl; }

  Error wrong(const char* name, double value, const std::string& allowed) const {
    return make_error(Code::kNotFound, "%s: %s%s is %g, allowed is %s", file_.path().c_str(),
                      kPrefix, name, value, allowed.c_str());
  }

  Result<void> read_sizes() {
    c_.image_size = size_.required(key("image_size"), kMaxSide);
    c_.patch_size = size_.required(key("patch_size"), kMaxPatch);
    c_.width = size_.required(key("embedding_length"), kMaxWidth);
    c_.mlp = size_.required(key("feed_forward_length"), kMaxMlp);
    c_.n_layers = size_.required(key("block_count"), kMaxLayers);
    c_.n_heads = size_.required(key("attention.head_count"), kMaxHeads);
    c_.out_width = size_.required(key("projection_dim"), kMaxOut);
    if (c_.kind == VlmKind::kGemma3)
      c_.merge = size_.optional(key("projector.scale_factor"), 4, kMaxMerge);
    if (c_.kind == VlmKind::kIdefics3) {
      c_.merge = size_.required(key("projector.scale_factor"), kMaxMerge);
      c_.longest = size_.optional(key("preproc_image_size"), 0, kMaxLongest);
    }
    if (is_qwen()) {
      c_.merge = size_.optional(key("spatial_merge_size"), 2, kMaxMerge);
      const auto pattern = file_.unsigned_integer(key("n_wa_pattern"));
      if (!pattern) return pattern.error();
      if (pattern.value() > static_cast<uint64_t>(kMaxLayers))
        return wrong("n_wa_pattern", static_cast<double>(pattern.value()), "0..256");
      c_.full_every = static_cast<int64_t>(pattern.value());
    }
    return size_.ok() ? Result<void>() : size_.failure();
  }

  Result<void> check_sizes() const {
    if (c_.width % c_.n_heads != 0)
      return wrong("attention.head_count", static_cast<double>(c_.n_heads),
                   "a divisor of embedding_length " + std::to_string(c_.width));
    if (is_qwen()) {
      if (c_.merge != 2) return wrong("spatial_merge_size", static_cast<double>(c_.merge), "2");
      if (c_.head_dim() % 4 != 0)
        return wrong(
            "attention.head_count", static_cast<double>(c_.n_heads),
            "what divides embedding_length " + std::to_string(c_.width) + " into multiples of 4");
      return {};
    }
    if (c_.image_size % c_.patch_size != 0)
      return wrong("image_size", static_cast<double>(c_.image_size),
                   "a multiple of patch_size " + std::to_string(c_.patch_size));
    if (c_.kind == VlmKind::kGemma3 && c_.side() % c_.merge != 0)
      return wrong("projector.scale_factor", static_cast<double>(c_.merge),
                   "a divisor of the " + std::to_string(c_.side()) + " patches a side");
    if (c_.side() * c_.side() > kMaxTokens)
      return wrong("image_size", static_cast<double>(c_.image_size),
                   "what makes at most " + std::to_string(kMaxTokens) + " patches");
    return {};
  }

  Result<void> read_eps() {
    const auto eps = file_.real(key("attention.layer_norm_epsilon"));
    if (!eps) return eps.error();
    if (!(eps.value() > 0 && eps.value() < 1))
      return wrong("attention.layer_norm_epsilon", eps.value(), "a number above 0 and below 1");
    c_.eps = static_cast<float>(eps.value());
    return {};
  }

  // The flag decides; a file without it would silently be computed with another function.
  Result<void> read_activation() {
    const char* name = is_qwen() ? "clip.use_silu" : "clip.use_gelu";
    const auto flag = file_.boolean(name);
    if (!flag) return flag.error();
    if (is_qwen() && !flag.value())
      return make_error(Code::kUnsupported, "%s: %s is false; this build has SiLU here",
                        file_.path().c_str(), name);
    c_.activation = is_qwen()      ? Activation::kSilu
                    : flag.value() ? Activation::kGeluTanh
                                   : Activation::kGeluQuick;
    return {};
  }

  Result<void> read_pixels(const char* name, float* out, bool divides) const {
    const auto values = file_.numbers(key(name));
    if (!values) return values.error();
    if (values.value().size() != 3)
      return wrong(name, static_cast<double>(values.value().size()), "an array of 3 numbers");
    for (size_t i = 0; i < 3; ++i) {
      const double v = values.value()[i];
      if (!std::isfinite(v) || std::fabs(v) > 1e3 || (divides && v < 1e-6))
        return wrong(name, v, divides ? "three numbers of 1e-6..1000" : "three of -1000..1000");
      out[i] = static_cast<float>(v);
    }
    return {};
  }

  const GgufFile& file_;
  SizeReader size_;
  VlmConfig c_;
};

// ---- weights ------------------------------------------------------------------------------------

VlmNormRef read_norm(WeightReader& reader, const std::string& prefix, const VlmConfig& c) {
  VlmNormRef norm;
  norm.weight = reader.values(prefix + ".weight", c.width);
  if (c.fixed_size()) norm.bias = reader.values(prefix + ".bias", c.width);
  return norm;
}

VlmLayerRef read_layer(WeightReader& reader, const VlmConfig& c, int64_t i) {
  const std::string blk = "v.blk." + std::to_string(i) + ".";
  VlmLayerRef l;
  l.norm1 = read_norm(reader, blk + "ln1", c);
  l.norm2 = read_norm(reader, blk + "ln2", c);
  l.q = reader.linear(blk + "attn_q", c.width, c.width);
  l.k = reader.linear(blk + "attn_k", c.width, c.width);
  l.v = reader.linear(blk + "attn_v", c.width, c.width);
  l.out = reader.linear(blk + "attn_out", c.width, c.width);
  // Files may carry the two names exchanged: the matrix that reads `width` is the first.
  std::string up = blk + "ffn_up", down = blk + "ffn_down";
  const auto info = reader.info(down + ".weight");
  if (!info) {
    reader.matrix(down + ".weight", c.width, c.mlp);  // says that it is missing
    return l;
  }
  if (info->shape.size() == 2 && info->shape[1] == c.width) std::swap(up, down);
  if (c.fixed_size()) {
    l.fc1 = reader.linear(up, c.mlp, c.width);
    l.fc2 = reader.linear(down, c.width, c.mlp);
    return l;
  }
  l.gate = reader.linear(blk + "ffn_gate", c.mlp, c.width);
  l.up = reader.linear(up, c.mlp, c.width);
  l.down = reader.linear(down, c.width, c.mlp);
  return l;
}

void read_projector(WeightReader& reader, VlmWeights& w) {
  const VlmConfig& c = w.config;
  const int64_t joined = c.merge * c.merge * c.width;
  switch (c.kind) {
    case VlmKind::kGemma3:
      w.token_norm = reader.values("mm.soft_emb_norm.weight", c.width);
      w.projector = reader.matrix("mm.input_projection.weight", c.width, c.out_width);
      return;
    case VlmKind::kIdefics3:
      w.projector = reader.matrix("mm.model.fc.weight", c.out_width, joined);
      return;
    case VlmKind::kQwen25Vl:
      w.merger1 = reader.linear("mm.0", joined, joined);
      w.merger2 = reader.linear("mm.2", c.out_width, joined);
      return;
  }
}

}  // namespace

const char* vlm_kind_name(VlmKind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row.name;
  return "?";
}

bool is_vlm(const GgufFile& file) {
  return find_kind(file) != nullptr;
}

Result<VlmConfig> read_vlm_config(const GgufFile& file) {
  const auto arch = file.string("general.architecture");
  if (!arch) return arch.error();
  if (arch.value() != "clip")
    return make_error(Code::kNotFound,
                      "%s: general.architecture is \"%.40s\", a vision file has \"clip\"",
                      file.path().c_str(), std::string(arch.value()).c_str());
  const auto name = file.string("clip.projector_type");
  if (!name) return name.error();
  const KindRow* kind = find_kind(file);
  if (kind != nullptr) return ConfigReader(file, kind->kind).read();
  return make_error(Code::kUnsupported,
                    "%s: clip.projector_type is \"%.40s\"; this build has \"gemma3\", "
                    "\"qwen2.5vl_merger\" and \"idefics3\"",
                    file.path().c_str(), std::string(name.value()).c_str());
}

Result<VlmWeights> read_vlm_weights(const GgufFile& file) {
  auto config = read_vlm_config(file);
  if (!config) return config.error();
  const GgufSource source(file);
  WeightReader reader(source);
  VlmWeights w;
  const VlmConfig& c = w.config = config.value();
  w.patch = reader.linear("v.patch_embd", c.width, c.patch_values(), c.fixed_size());
  if (c.fixed_size())
    w.position = reader.values("v.position_embd.weight", c.side() * c.side() * c.width);
  else
    w.patch2.w = reader.matrix("v.patch_embd.weight.1", c.width, c.patch_values());
  for (int64_t i = 0; i < c.n_layers && reader.ok(); ++i)
    w.layers.push_back(read_layer(reader, c, i));
  w.post = read_norm(reader, "v.post_ln", c);
  read_projector(reader, w);
  const std::string behind = at_layer("v.blk.#.ln1.weight", c.n_layers);
  if (reader.ok() && reader.has(behind))
    return make_error(Code::kNotFound,
                      "%s: clip.vision.block_count is %lld, but tensor %s is there",
                      file.path().c_str(), static_cast<long long>(c.n_layers), behind.c_str());
  if (!reader.ok()) return reader.failure();
  return w;
}

}  // namespace outrider
