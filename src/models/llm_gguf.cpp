#include <array>
#include <cmath>
#include <set>

#include "models/llm_weights.h"
#include "models/size_reader.h"

namespace outrider {
namespace {

constexpr int64_t kMaxWidth = 1 << 16, kMaxMlp = 1 << 20, kMaxLayers = 1024, kMaxHeads = 1024,
                  kMaxHeadDim = 1024, kMaxContext = 1 << 30, kMaxPattern = 1024;

struct ArchRow {
  LlmArch arch;
  const char* name;
  bool adjacent_pairs, qk_norm, post_norms, gemma;
  int64_t pattern;  // of local layers; 0: the architecture has none
};
constexpr ArchRow kArchs[] = {
    {LlmArch::kLlama, "llama", true, false, false, false, 0},
    {LlmArch::kQwen2, "qwen2", false, false, false, false, 0},
    {LlmArch::kQwen3, "qwen3", false, true, false, false, 0},
    {LlmArch::kGemma, "gemma", false, false, false, true, 0},
    {LlmArch::kGemma2, "gemma2", false, false, true, true, 2},
    {LlmArch::kGemma3, "gemma3", false, true, true, true, 6},
    {LlmArch::kQwen2Vl, "qwen2vl", false, false, false, false, 0},
};

const ArchRow* find_arch(const GgufFile& file) {
  const auto name = file.string("general.architecture");
  if (!name) return nullptr;
  for (const ArchRow& row : kArchs)
    if (name.value() == row.name) return &row;
  return nullptr;
}

Error wrong(const GgufFile& file, const std::string& key, double value, const char* allowed) {
  return make_error(Code::kNotFound, "%s: %s is %g, allowed is %s", file.path().c_str(),
                    key.c_str(), value, allowed);
}

class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, const ArchRow& arch)
      : file_(file), arch_(arch), size_(file), prefix_(std::string(arch.name) + ".") {}

  Result<LlmConfig> read() {
    config_.arch = arch_.arch;
    config_.adjacent_pairs = arch_.adjacent_pairs;
    config_.qk_norm = arch_.qk_norm;
    config_.post_norms = arch_.post_norms;
    config_.activation = arch_.gemma ? Activation::kGeluTanh : Activation::kSilu;
    OUTRIDER_TRY(refuse_what_is_not_computed());
    OUTRIDER_TRY(read_sizes());
    OUTRIDER_TRY(read_numbers());
    OUTRIDER_TRY(read_window());
    OUTRIDER_TRY(read_sections());
    config_.embed_scale = arch_.gemma ? std::sqrt(static_cast<float>(config_.width)) : 1;
    config_.attention_scale = 1.0f / std::sqrt(static_cast<float>(scaled_by()));
    const GgufTensor* embed = file_.tensor("token_embd.weight");
    if (embed == nullptr)
      return make_error(Code::kNotFound, "%s: tensor token_embd.weight is missing",
                        file_.path().c_str());
    config_.vocab = embed->ne[1];
    config_.tied = file_.tensor("output.weight") == nullptr;
    return config_;
  }

 private:
  // The largest models of two families divide by the square root of width / heads.
  int64_t scaled_by() const {
    const bool largest = (arch_.arch == LlmArch::kGemma2 && config_.n_layers == 46) ||
                         (arch_.arch == LlmArch::kGemma3 && config_.n_layers == 62);
    return largest ? config_.width / config_.n_heads : config_.head_dim;
  }

  Result<void> refuse_what_is_not_computed() const {
    const std::string experts = prefix_ + "expert_count", scaling = prefix_ + "rope.scaling.type";
    if (file_.has(experts)) {
      const auto n = file_.unsigned_integer(experts);
      if (!n) return n.error();
      if (n.value() != 0)
        return make_error(Code::kUnsupported, "%s: %s is %llu; this build has no expert layers",
                          file_.path().c_str(), experts.c_str(),
                          static_cast<unsigned long long>(n.value()));
    }
    if (file_.has(scaling)) {
      const auto type = file_.string(scaling);
      if (!type) return type.error();
      if (type.value() != "none" && type.value() != "linear")
        return make_error(Code::kUnsupported, "%s: %s is \"%.40s\", this build has none and linear",
                          file_.path().c_str(), scaling.c_str(), std::string(type.value()).c_str());
    }
    return {};
  }

  // One number, or one a layer that is the same for all of them.
  int64_t same_for_all(const char* name, int64_t fallback, int64_t most) {
    const std::string key = prefix_ + name;
    const GgufValue* value = file_.value(key);
    if (value == nullptr && fallback > 0) return fallback;
    if (value == nullptr || value->type != GgufType::kArray) return size_.required(key, most);
    const auto numbers = file_.numbers(key);
    if (!numbers) {
      size_.fail(numbers.error());
      return 1;
    }
    for (const double n : numbers.value()) {
      if (n == numbers.value()[0] && n >= 1 && n <= static_cast<double>(most) && n == std::floor(n))
        continue;
      size_.fail(make_error(Code::kUnsupported,
                            "%s: %s holds %g and %g; this build wants one number for all layers",
                            file_.path().c_str(), key.c_str(), numbers.value()[0], n));
      return 1;
    }
    if (numbers.value().empty()) size_.fail(wrong(file_, key, 0, "one number a layer"));
    return size_.ok() ? static_cast<int64_t>(numbers.value()[0]) : 1;
  }

  Result<void> read_sizes() {
    LlmConfig& c = config_;
    c.n_layers = size_.required(prefix_ + "block_count", kMaxLayers);
    c.width = size_.required(prefix_ + "embedding_length", kMaxWidth);
    c.mlp = same_for_all("feed_forward_length", 0, kMaxMlp);
    c.n_heads = same_for_all("attention.head_count", 0, kMaxHeads);
    c.n_kv_heads = same_for_all("attention.head_count_kv", c.n_heads, kMaxHeads);
    const int64_t divided = std::max<int64_t>(1, c.width / c.n_heads);
    c.head_dim = size_.optional(prefix_ + "attention.key_length", divided, kMaxHeadDim);
    const int64_t value =
        size_.optional(prefix_ + "attention.value_length", c.head_dim, kMaxHeadDim);
    const int64_t rotated =
        size_.optional(prefix_ + "rope.dimension_count", c.head_dim, kMaxHeadDim);
    c.trained_context = size_.optional(prefix_ + "context_length", 0, kMaxContext);
    if (!size_.ok()) return size_.failure();
    const auto differ = [&](const char* a, int64_t x, const char* b, int64_t y) {
      return make_error(Code::kUnsupported,
                        "%s: %s%s is %lld, %s %lld: this build wants them equal",
                        file_.path().c_str(), prefix_.c_str(), a, static_cast<long long>(x), b,
                        static_cast<long long>(y));
    };
    if (value != c.head_dim)
      return differ("attention.value_length", value, "key_length", c.head_dim);
    if (rotated != c.head_dim)
      return differ("rope.dimension_count", rotated, "attention.key_length", c.head_dim);
    if (c.n_heads % c.n_kv_heads != 0)
      return make_error(Code::kNotFound, "%s: head_count %lld is no multiple of head_count_kv %lld",
                        file_.path().c_str(), static_cast<long long>(c.n_heads),
                        static_cast<long long>(c.n_kv_heads));
    if (c.head_dim % 2 != 0)
      return make_error(Code::kNotFound, "%s: attention.key_length is %lld, wanted an even number",
                        file_.path().c_str(), static_cast<long long>(c.head_dim));
    const std::string behind = at_layer("blk.#.attn_norm.weight", c.n_layers);
    if (file_.tensor(behind) != nullptr)
      return make_error(Code::kNotFound, "%s: %sblock_count is %lld, but tensor %s is there",
                        file_.path().c_str(), prefix_.c_str(), static_cast<long long>(c.n_layers),
                        behind.c_str());
    return {};
  }

  // least < value < most, or the fallback when the key is absent and there is one.
  Result<double> number(const std::string& key, double least, double most, double fallback,
                        const char* allowed) const {
    if (!file_.has(key) && fallback >= 0) return fallback;
    const auto value = file_.real(key);
    if (!value) return value.error();
    if (!(value.value() > least && value.value() < most))
      return wrong(file_, key, value.value(), allowed);
    return value.value();
  }

  Result<void> read_numbers() {
    LlmConfig& c = config_;
    const auto eps = number(prefix_ + "attention.layer_norm_rms_epsilon", 0, 1, -1,
                            "a number above 0 and below 1");
    if (!eps) return eps.error();
    c.norm_eps = static_cast<float>(eps.value());
    const char* above_one = "a finite number above 1";
    const auto base = number(prefix_ + "rope.freq_base", 1, 1e30, 10000, above_one);
    const auto local = number(prefix_ + "rope.freq_base_swa", 1, 1e30, 10000, above_one);
    const auto factor = number(prefix_ + "rope.scaling.factor", 0, 1e6, 1, "above 0");
    const auto cap = number(prefix_ + "attn_logit_softcapping", 0, 1e6, 0, "above 0");
    const auto last = number(prefix_ + "final_logit_softcapping", 0, 1e6, 0, "above 0");
    for (const auto* value : {&base, &local, &factor, &cap, &last})
      if (!*value) return value->error();
    c.rope_base = base.value();
    c.rope_base_local = local.value();
    const auto type = file_.string(prefix_ + "rope.scaling.type");
    if (type && type.value() == "linear") c.rope_factor = factor.value();
    c.attention_cap = static_cast<float>(cap.value());
    c.logit_cap = static_cast<float>(last.value());
    return {};
  }

  Result<void> read_window() {
    const std::string key = prefix_ + "attention.sliding_window";
    if (!file_.has(key)) return {};
    const auto window = file_.unsigned_integer(key);
    if (!window) return window.error();
    if (window.value() == 0) return {};
    if (arch_.pattern == 0)
      return make_error(
          Code::kUnsupported, "%s: %s is %llu; this build has windows in gemma2 and gemma3 only",
          file_.path().c_str(), key.c_str(), static_cast<unsigned long long>(window.value()));
    config_.window = size_.required(key, kMaxContext);
    config_.pattern =
        size_.optional(prefix_ + "attention.sliding_window_pattern", arch_.pattern, kMaxPattern);
    return size_.ok() ? Result<void>() : size_.failure();
  }

  Result<void> read_sections() {
    if (arch_.arch != LlmArch::kQwen2Vl) return {};
    const std::string key = prefix_ + "rope.dimension_sections";
    const auto sections = file_.numbers(key);
    if (!sections) return sections.error();
    const auto& s = sections.value();
    const double half = static_cast<double>(config_.head_dim / 2);
    bool fits = s.size() == 4 && s[3] == 0 && s[0] + s[1] + s[2] == half;
    for (size_t i = 0; fits && i < 3; ++i) {
      fits = s[i] >= 0 && s[i] == std::floor(s[i]);
      config_.sections[i] = fits ? static_cast<int64_t>(s[i]) : 0;
    }
    if (fits) return {};
    return make_error(Code::kNotFound,
                      "%s: %s has %zu numbers, allowed are 4: time, rows, columns, 0, which sum up "
                      "to half a head, %g",
                      file_.path().c_str(), key.c_str(), s.size(), half);
  }

  const GgufFile& file_;
  const ArchRow& arch_;
  SizeReader size_;
  const std::string prefix_;
  LlmConfig config_;
};

// Takes tensors by name and remembers which.
class LayerReader {
 public:
  LayerReader(const GgufFile& file, const LlmConfig& config)
      : file_(file), source_(file), reader_(source_), config_(config) {}

  LlmWeights read() {
    LlmWeights w;
    const LlmConfig& c = w.config = config_;
    w.embed = matrix("token_embd.weight", c.vocab, c.width);
    w.output = c.tied ? w.embed : matrix("output.weight", c.vocab, c.width);
    w.norm = values("output_norm.weight", c.width);
    if (reader_.has("rope_freqs.weight")) w.rope_divisors = divisors();
    for (int64_t i = 0; i < c.n_layers && reader_.ok(); ++i) w.layers.push_back(layer(i));
    refuse_the_rest();
    return w;
  }
  const Error& failure() const { return reader_.failure(); }
  bool ok() const { return reader_.ok(); }

 private:
  Matrix matrix(const std::string& name, int64_t n_out, int64_t n_in) {
    taken_.insert(name);
    return reader_.matrix(name, n_out, n_in);
  }
  std::vector<float> values(const std::string& name, int64_t n) {
    taken_.insert(name);
    return reader_.values(name, n);
  }
  std::vector<float> optional(const std::string& name, int64_t n) {
    return reader_.has(name) ? values(name, n) : std::vector<float>();
  }

  std::vector<float> divisors() {
    auto out = values("rope_freqs.weight", config_.head_dim / 2);
    for (const float v : out)
      if (!(v > 0) || !std::isfinite(v))
        reader_.fail(wrong(file_, "tensor rope_freqs.weight", v, "finite values above 0"));
    return out;
  }

  LlmLayerRef layer(int64_t i) {
    const LlmConfig& c = config_;
    const std::string blk = "blk." + std::to_string(i) + ".";
    LlmLayerRef l;
    l.norm1 = values(blk + "attn_norm.weight", c.width);
    l.norm2 = values(blk + "ffn_norm.weight", c.width);
    if (reader_.has(blk + "attn_qkv.weight"))
      take_fused(blk + "attn_qkv", l);
    else
      take_apart(blk, l);
    l.o = matrix(blk + "attn_output.weight", c.width, c.q_width());
    l.o_bias = optional(blk + "attn_output.bias", c.width);
    if (c.qk_norm) {
      l.q_norm = values(blk + "attn_q_norm.weight", c.head_dim);
      l.k_norm = values(blk + "attn_k_norm.weight", c.head_dim);
    }
    if (c.post_norms) {
      l.post_norm1 = values(blk + "post_attention_norm.weight", c.width);
      l.post_norm2 = values(blk + "post_ffw_norm.weight", c.width);
    }
    l.gate = matrix(blk + "ffn_gate.weight", c.mlp, c.width);
    l.up = matrix(blk + "ffn_up.weight", c.mlp, c.width);
    l.down = matrix(blk + "ffn_down.weight", c.width, c.mlp);
    return l;
  }

  void take_apart(const std::string& blk, LlmLayerRef& l) {
    const LlmConfig& c = config_;
    l.q = matrix(blk + "attn_q.weight", c.q_width(), c.width);
    l.k = matrix(blk + "attn_k.weight", c.kv_width(), c.width);
    l.v = matrix(blk + "attn_v.weight", c.kv_width(), c.width);
    l.q_bias = optional(blk + "attn_q.bias", c.q_width());
    l.k_bias = optional(blk + "attn_k.bias", c.kv_width());
    l.v_bias = optional(blk + "attn_v.bias", c.kv_width());
  }

  // q, k and v in one matrix, one below the other.
  void take_fused(const std::string& name, LlmLayerRef& l) {
    const LlmConfig& c = config_;
    const int64_t q = c.q_width(), kv = c.kv_width();
    const Matrix all = matrix(name + ".weight", q + 2 * kv, c.width);
    const auto bias = optional(name + ".bias", q + 2 * kv);
    if (!reader_.ok()) return;
    const auto rows = [&](int64_t first, int64_t n) {
      const auto* data = static_cast<const std::byte*>(all.data);
      return Matrix{all.dtype, n, all.n_in,
                    data + static_cast<size_t>(first) * row_bytes(all.dtype, all.n_in)};
    };
    l.q = rows(0, q), l.k = rows(q, kv), l.v = rows(q + kv, kv);
    if (bias.empty()) return;
    l.q_bias.assign(bias.begin(), bias.begin() + q);
    l.k_bias.assign(bias.begin() + q, bias.begin() + q + kv);
    l.v_bias.assign(bias.begin() + q + kv, bias.end());
  }

  void refuse_the_rest() {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!tensor.name.starts_with("blk.") || taken_.count(std::string(tensor.name)) != 0) continue;
      reader_.fail(make_error(
          Code::kUnsupported, "%s: tensor %s is no part of %s as this build computes it",
          file_.path().c_str(), std::string(tensor.name).c_str(), llm_arch_name(config_.arch)));
      return;
    }
  }

  const GgufFile& file_;
  const GgufSource source_;
  WeightReader reader_;
  const LlmConfig& config_;
  std::set<std::string> taken_;
};

}  // namespace

const char* llm_arch_name(LlmArch arch) {
  for (const ArchRow& row : kArchs)
    if (row.arch == arch) return row.name;
  return "?";
}

bool is_llm(const GgufFile& file) {
  return find_arch(file) != nullptr;
}

Result<LlmConfig> read_llm_config(const GgufFile& file) {
  const ArchRow* arch = find_arch(file);
  if (arch != nullptr) return ConfigReader(file, *arch).read();
  const auto name = file.string("general.architecture");
  if (!name) return name.error();
  std::string known;
  for (const ArchRow& row : kArchs) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return make_error(Code::kUnsupported,
                    "%s: general.architecture is \"%.60s\"; language models of this build: %s",
                    file.path().c_str(), std::string(name.value()).c_str(), known.c_str());
}

Result<LlmWeights> read_llm_weights(const GgufFile& file) {
  const auto config = read_llm_config(file);
  if (!config) return config.error();
  LayerReader reader(file, config.value());
  LlmWeights weights = reader.read();
  if (!reader.ok()) return reader.failure();
  return weights;
}

}  // namespace outrider
