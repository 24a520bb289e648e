#include "models/pi_checkpoint.h"

#include <array>
#include <cmath>

#include "models/pi_safetensors.h"

namespace outrider {
namespace {

constexpr std::string_view kLerobotPrefix = "model.";
constexpr int64_t kBaseHeadDim = 256, kBaseVisionWidth = 1152, kBaseVisionHeads = 16;
constexpr int64_t kMaxLayers = 1024, kMaxSide = 1 << 20;

// Time layers of PI0.5 and what converted PI0 checkpoints call them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kTimeLayers = {
    {{"time_mlp_in.", "action_time_mlp_in."}, {"time_mlp_out.", "action_time_mlp_out."}}};

// Reads shapes and keeps the first failure.
class Shapes {
 public:
  explicit Shapes(const PiCheckpointSource& source) : source_(source) {}

  std::vector<int64_t> of(const std::string& name, size_t rank) {
    const auto info = source_.find(name);
    std::vector<int64_t> shape(rank, 1);
    if (!info) {
      fail(make_error(Code::kNotFound,
                      "%.250s: tensor %.160s is missing; this folder is no complete policy",
                      source_.path().c_str(), name.c_str()));
      return shape;
    }
    bool good = info->shape.size() == rank;
    for (const int64_t side : info->shape) good = good && side >= 1 && side <= kMaxSide;
    if (!good)
      fail(make_error(Code::kNotFound, "%.250s: tensor %.120s has shape %.60s, wanted rank %zu",
                      source_.path().c_str(), name.c_str(), shape_text(info->shape).c_str(), rank));
    return good ? info->shape : shape;
  }
  int64_t count_layers(const std::string& pattern) {
    int64_t n = 0;
    while (n < kMaxLayers && source_.find(at_layer(pattern, n))) ++n;
    return n;
  }
  void fail(const Error& error) {
    if (ok()) failure_ = error;
  }
  bool ok() const { return failure_.code == Code::kOk; }
  const Error& failure() const { return failure_; }
  const char* path() const { return source_.path().c_str(); }

 private:
  const PiCheckpointSource& source_;
  Error failure_;
};

void read_vision(Shapes& shapes, const PiNames& names, const PiSizeHints& hints, VisionConfig& v) {
  const auto patch = shapes.of(std::string(names.patch) + ".weight", 4);
  const auto position = shapes.of(std::string(names.position) + ".weight", 2);
  v.width = patch[0];
  v.patch_size = patch[3];
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(position[0]))));
  if (side * side != position[0] || patch[1] != 3 || patch[2] != patch[3] || v.patch_size > 1024 ||
      side > 1024)
    shapes.fail(make_error(Code::kNotFound,
                           "%.250s: patch projection [%lld, %lld, %lld, %lld] with %lld positions "
                           "is no square picture of RGB patches",
                           shapes.path(), static_cast<long long>(patch[0]),
                           static_cast<long long>(patch[1]), static_cast<long long>(patch[2]),
                           static_cast<long long>(patch[3]), static_cast<long long>(position[0])));
  v.image_size = side * v.patch_size;
  v.n_layers = shapes.count_layers(std::string(names.v_q) + ".weight");
  v.mlp = shapes.of(at_layer(names.v_fc1, 0) + ".weight", 2)[0];
  v.n_heads = hints.vision_heads > 0        ? hints.vision_heads
              : v.width == kBaseVisionWidth ? kBaseVisionHeads
                                            : 0;
  if (v.n_heads == 0 || v.width % v.n_heads != 0)
    shapes.fail(make_error(Code::kShape,
                           "%.250s: a vision tower of width %lld with %lld heads; say how many in "
                           "policy.json: model.vision_heads",
                           shapes.path(), static_cast<long long>(v.width),
                           static_cast<long long>(v.n_heads)));
}

void read_gemma(Shapes& shapes, const PiNames::Gemma& names, const char* which,
                const PiSizeHints& hints, GemmaConfig& c) {
  const auto q = shapes.of(at_layer(names.q, 0) + ".weight", 2);
  const auto k = shapes.of(at_layer(names.k, 0) + ".weight", 2);
  c.width = q[1];
  c.mlp = shapes.of(at_layer(names.gate, 0) + ".weight", 2)[0];
  c.n_layers = shapes.count_layers(std::string(names.q) + ".weight");
  c.head_dim = hints.head_dim > 0 ? hints.head_dim : kBaseHeadDim;
  if (q[0] % c.head_dim != 0 || k[0] % c.head_dim != 0 || c.head_dim % 2 != 0) {
    shapes.fail(make_error(Code::kShape,
                           "%.250s: %s: q and k have %lld and %lld rows, no multiples of a head of "
                           "%lld; say its size in policy.json: model.head_dim",
                           shapes.path(), which, static_cast<long long>(q[0]),
                           static_cast<long long>(k[0]), static_cast<long long>(c.head_dim)));
    c.n_heads = c.n_kv_heads = 1;
    return;
  }
  c.n_heads = q[0] / c.head_dim;
  c.n_kv_heads = k[0] / c.head_dim;
  if (c.n_heads % c.n_kv_heads != 0)
    shapes.fail(make_error(Code::kShape, "%.250s: %s: %lld heads, no multiple of %lld key heads",
                           shapes.path(), which, static_cast<long long>(c.n_heads),
                           static_cast<long long>(c.n_kv_heads)));
}

// Sizes that no tensor of a PI0-FAST model tells.
Result<PiConfig> check_fast(const Shapes& shapes, const PiConfig& c) {
  const GemmaConfig& b = c.backbone;
  if (b.n_layers == 0 || c.vision.n_layers == 0)
    return make_error(Code::kNotFound,
                      "%.250s: language model of %lld layers, vision tower of %lld; none may be 0",
                      shapes.path(), static_cast<long long>(b.n_layers),
                      static_cast<long long>(c.vision.n_layers));
  if (c.action_dim < 1 || c.action_steps < 1 || c.answer_tokens < 1)
    return make_error(Code::kShape,
                      "%.250s: PI0-FAST with %lld rows of %lld actions in at most %lld tokens; all "
                      "must be above 0 and no tensor tells them: say actions.size and horizon in "
                      "policy.json",
                      shapes.path(), static_cast<long long>(c.action_steps),
                      static_cast<long long>(c.action_dim),
                      static_cast<long long>(c.answer_tokens));
  return c;
}

}  // namespace

Result<PiCheckpointSource> PiCheckpointSource::make(
    std::shared_ptr<const SafeTensorsFolder> folder) {
  PiCheckpointSource out;
  out.folder_ = std::move(folder);
  OUTRIDER_TRY(out.detect());
  return out;
}

Result<void> PiCheckpointSource::detect() {
  constexpr std::string_view kDense = ".dense.weight";
  const std::string norm = std::string(pi_safetensors_names().backbone_norm) + ".weight";
  for (const std::string& name : {std::string("action_in_proj.weight"), norm}) {
    if (folder_->tensor(name) != nullptr) break;
    if (folder_->tensor(std::string(kLerobotPrefix) + name) != nullptr) prefix_ = kLerobotPrefix;
  }
  std::string dense;
  bool expert = tensor("action_in_proj.weight") != nullptr;
  for (const SafeTensorsFile& file : folder_->files()) {
    for (const SafeTensor& tensor : file.tensors()) {
      if (std::string_view(tensor.name).ends_with(kDense) && dense.empty()) dense = tensor.name;
      expert = expert || tensor.name.find("gemma_expert.") != std::string::npos;
    }
  }
  const bool time_layers = tensor("time_mlp_in.weight") != nullptr;
  if (time_layers || !dense.empty()) {
    family_ = PiFamily::kPi05;
    reason_ = "tensor " + (time_layers ? std::string("time_mlp_in.weight") : dense) + " is present";
    time_layers_renamed_ = !time_layers;
    return {};
  }
  if (tensor("state_proj.weight") != nullptr && tensor("action_time_mlp_in.weight") != nullptr) {
    family_ = PiFamily::kPi0;
    reason_ = "tensors state_proj.weight and action_time_mlp_in.weight are present";
    return {};
  }
  if (!expert && tensor(norm) != nullptr) {
    family_ = PiFamily::kPi0Fast;
    reason_ = "a language model with its final norm, and no tensor of an action expert";
    return {};
  }
  return make_error(Code::kNotFound,
                    "%.300s: no tensor tells PI0 from PI0.5 (looked for time_mlp_in, *.dense, "
                    "state_proj with action_time_mlp_in), nor is it a PI0-FAST model without any "
                    "expert; is it another model family?",
                    folder_->path().c_str());
}

const SafeTensor* PiCheckpointSource::tensor(std::string_view name) const {
  return prefix_.empty() ? folder_->tensor(name) : folder_->tensor(prefix_ + std::string(name));
}

std::optional<TensorInfo> PiCheckpointSource::find(std::string_view name) const {
  const SafeTensor* found = tensor(name);
  const PiNames& names = pi_safetensors_names();
  if (found == nullptr && name == names.embed) found = tensor(names.head);
  if (found == nullptr && time_layers_renamed_) {
    for (const auto& [ours, theirs] : kTimeLayers) {
      if (name.starts_with(ours))
        found = tensor(std::string(theirs) + std::string(name.substr(ours.size())));
    }
  }
  if (found == nullptr) return std::nullopt;
  return TensorInfo{found->dtype, found->shape, found->data};
}

Result<PiConfig> read_pi_checkpoint_config(const PiCheckpointSource& source,
                                           const PiSizeHints& hints) {
  const PiNames& names = pi_safetensors_names();
  Shapes shapes(source);
  PiConfig c;
  c.family = source.family();
  read_vision(shapes, names, hints, c.vision);
  read_gemma(shapes, names.backbone, "language model", hints, c.backbone);
  c.vocab = shapes.of(names.embed, 2)[0];
  c.action_steps = hints.action_steps;
  if (c.is_fast()) {
    c.n_denoise_steps = 0;
    c.action_dim = hints.action_dim;
    c.answer_tokens = hints.answer_tokens;
    // Trained apart from the embedding, both are there; tied, a file has either name.
    const auto embed = source.find(names.embed), head = source.find(names.head);
    c.own_head = embed && head && embed->data != head->data;
    if (!shapes.ok()) return shapes.failure();
    return check_fast(shapes, c);
  }
  read_gemma(shapes, names.expert, "action expert", hints, c.expert);
  c.action_dim = shapes.of(std::string(names.action_in) + ".weight", 2)[1];
  c.n_denoise_steps = hints.n_denoise_steps;
  if (!shapes.ok()) return shapes.failure();
  const GemmaConfig &b = c.backbone, &e = c.expert;
  if (b.n_layers != e.n_layers || b.n_heads != e.n_heads || b.n_kv_heads != e.n_kv_heads ||
      b.n_layers == 0 || c.vision.n_layers == 0)
    return make_error(Code::kNotFound,
                      "%.250s: language model of %lld layers, %lld heads, %lld key heads, expert "
                      "of %lld, %lld, %lld, vision tower of %lld layers; the first two must be "
                      "equal and no count 0",
                      source.path().c_str(), static_cast<long long>(b.n_layers),
                      static_cast<long long>(b.n_heads), static_cast<long long>(b.n_kv_heads),
                      static_cast<long long>(e.n_layers), static_cast<long long>(e.n_heads),
                      static_cast<long long>(e.n_kv_heads),
                      static_cast<long long>(c.vision.n_layers));
  return c;
}

Result<PiWeights> read_pi_checkpoint(const PiCheckpointSource& source, const PiConfig& config) {
  return read_pi_weights(source, source, pi_safetensors_names(), config);
}

Result<Matrix> read_pi_checkpoint_embedding(const PiCheckpointSource& source,
                                            const PiConfig& config) {
  WeightReader reader(source);
  const Matrix embed =
      reader.matrix(pi_safetensors_names().embed, config.vocab, config.backbone.width);
  if (!reader.ok()) return reader.failure();
  return embed;
}

}  // namespace outrider
