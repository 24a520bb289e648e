#include "models/pi_case.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "models/guidance.h"
#include "models/pi_run.h"
#include "models/pi_safetensors.h"

namespace outrider {
namespace {

constexpr double kF32Tolerance = 2e-4, kBf16Tolerance = 3e-2, kInt8Tolerance = 0.2;
// Guidance multiplies an error of the velocity by up to (cap - 1) in the first steps.
constexpr double kBf16GuidedTolerance = 0.1, kInt8GuidedTolerance = 0.6;
// Guided, trained-prefix and extra-token cases state this one for f32.
constexpr double kVariantTolerance = 5e-4;

Error bad_meta(const std::string& folder, const char* field) {
  return make_error(Code::kNotFound, "%s/meta.json: field %s is missing or of the wrong type",
                    folder.c_str(), field);
}

Result<Json> read_meta(const std::string& folder) {
  auto file = MappedFile::open((folder + "/meta.json").c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  return Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Integer members of one JSON object; the first that is missing is kept.
class Fields {
 public:
  Fields(const Json* object, std::string folder) : object_(object), folder_(std::move(folder)) {}
  int64_t integer(const char* name) {
    const Json* value = object_ == nullptr ? nullptr : object_->find(name);
    if (value != nullptr && value->is_integer() && value->integer() > 0 &&
        value->integer() < (1 << 24))
      return value->integer();
    if (failure_.code == Code::kOk) failure_ = bad_meta(folder_, name);
    return 1;
  }
  const Error& failure() const { return failure_; }

 private:
  const Json* object_;
  std::string folder_;
  Error failure_;
};

Result<GemmaConfig> read_gemma(const Json* object, const std::string& folder) {
  Fields field(object, folder);
  GemmaConfig c;
  c.width = field.integer("width");
  c.mlp = field.integer("mlp_dim");
  c.n_layers = field.integer("depth");
  c.n_heads = field.integer("num_heads");
  c.n_kv_heads = field.integer("num_kv_heads");
  c.head_dim = field.integer("head_dim");
  if (field.failure().code != Code::kOk) return field.failure();
  return c;
}

Result<PiConfig> read_config(const Json& meta, const std::string& folder) {
  const Json* object = meta.find("config");
  if (object == nullptr) return bad_meta(folder, "config");
  const Json* pi05 = object->find("pi05");
  if (pi05 == nullptr || !pi05->is_bool()) return bad_meta(folder, "config.pi05");
  PiConfig c;
  c.family = pi05->boolean() ? PiFamily::kPi05 : PiFamily::kPi0;
  auto backbone = read_gemma(object->find("paligemma"), folder);
  if (!backbone) return backbone.error();
  auto expert = read_gemma(object->find("expert"), folder);
  if (!expert) return expert.error();
  c.backbone = backbone.value();
  c.expert = expert.value();
  Fields vision(object->find("vision"), folder), top(object, folder), root(&meta, folder);
  c.vision.image_size = vision.integer("image_size");
  c.vision.patch_size = vision.integer("patch_size");
  c.vision.width = vision.integer("hidden_size");
  c.vision.mlp = vision.integer("intermediate_size");
  c.vision.n_layers = vision.integer("num_hidden_layers");
  c.vision.n_heads = vision.integer("num_attention_heads");
  c.vocab = top.integer("vocab");
  c.action_dim = top.integer("action_dim");
  c.action_steps = top.integer("action_horizon");
  c.n_denoise_steps = root.integer("num_steps");
  for (const Fields* fields : {&vision, &top, &root}) {
    if (fields->failure().code != Code::kOk) return fields->failure();
  }
  return c;
}

bool flag(const Json& meta, const char* name) {
  const Json* value = meta.find(name);
  return value != nullptr && value->is_bool() && value->boolean();
}

// The stored arrays of a case.
class Arrays {
 public:
  explicit Arrays(const SafeTensorsFile& file) : file_(file) {}
  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

  template <class T>
  Result<std::vector<T>> read(const std::string& name, DType dtype, int64_t n_values) const {
    const SafeTensor* tensor = file_.tensor(name);
    if (tensor == nullptr)
      return make_error(Code::kNotFound, "%s: array %s is missing", file_.path().c_str(),
                        name.c_str());
    if (tensor->dtype != dtype || tensor->n_values() != n_values) {
      return make_error(
          Code::kShape, "%s: array %s has %lld values of type %s, wanted %lld of type %s",
          file_.path().c_str(), name.c_str(), static_cast<long long>(tensor->n_values()),
          std::string(dtype_info(tensor->dtype).name).c_str(), static_cast<long long>(n_values),
          std::string(dtype_info(dtype).name).c_str());
    }
    const auto* first = reinterpret_cast<const T*>(tensor->data);
    std::vector<T> out(static_cast<size_t>(n_values));
    std::copy_n(reinterpret_cast<const std::byte*>(first), out.size() * sizeof(T),
                reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  // f32 array whatever its size; empty when absent.
  std::vector<float> floats(const std::string& name) const {
    const SafeTensor* tensor = file_.tensor(name);
    if (tensor == nullptr || tensor->dtype != DType::kF32) return {};
    auto values = read<float>(name, DType::kF32, tensor->n_values());
    return values ? std::move(values.value()) : std::vector<float>();
  }

 private:
  const SafeTensorsFile& file_;
};

struct Inputs {
  std::vector<uint8_t> images, image_mask, token_mask;
  std::vector<int64_t> tokens;
  std::vector<float> state, noise;
  int64_t n_views = 0, n_slots = 0;

  std::vector<int32_t> seen_tokens() const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (token_mask[i] != 0) ids.push_back(static_cast<int32_t>(tokens[i]));
    }
    return ids;
  }
  // Rows of the padded prefix that are attended.
  std::vector<int64_t> seen_rows(int64_t tokens_per_view) const {
    std::vector<int64_t> rows;
    for (int64_t v = 0; v < n_views; ++v) {
      for (int64_t t = 0; t < tokens_per_view; ++t) {
        if (image_mask[static_cast<size_t>(v)] != 0) rows.push_back(v * tokens_per_view + t);
      }
    }
    for (int64_t t = 0; t < n_slots; ++t) {
      if (token_mask[static_cast<size_t>(t)] != 0) rows.push_back(n_views * tokens_per_view + t);
    }
    return rows;
  }
};

Result<Inputs> read_inputs(const SafeTensorsFile& file, const PiConfig& c) {
  const Arrays arrays(file);
  Inputs in;
  const SafeTensor *mask = file.tensor("in.image_mask"), *tokens = file.tensor("in.tokens");
  in.n_views = mask != nullptr ? mask->n_values() : 0;
  in.n_slots = tokens != nullptr ? tokens->n_values() : 0;
  auto images = arrays.read<uint8_t>("in.images_u8", DType::kU8,
                                     in.n_views * c.vision.image_size * c.vision.image_size * 3);
  if (!images) return images.error();
  auto image_mask = arrays.read<uint8_t>("in.image_mask", DType::kBool, in.n_views);
  if (!image_mask) return image_mask.error();
  auto token_mask = arrays.read<uint8_t>("in.token_mask", DType::kBool, in.n_slots);
  if (!token_mask) return token_mask.error();
  auto ids = arrays.read<int64_t>("in.tokens", DType::kI64, in.n_slots);
  if (!ids) return ids.error();
  auto state = arrays.read<float>("in.state", DType::kF32, c.action_dim);
  if (!state) return state.error();
  auto noise = arrays.read<float>("in.noise", DType::kF32, c.action_dim * c.action_steps);
  if (!noise) return noise.error();
  in.images = std::move(images.value());
  in.image_mask = std::move(image_mask.value());
  in.token_mask = std::move(token_mask.value());
  in.tokens = std::move(ids.value());
  in.state = std::move(state.value());
  in.noise = std::move(noise.value());
  for (const int64_t id : in.tokens) {
    if (id < 0 || id >= c.vocab) {
      return make_error(Code::kShape, "%s: in.tokens holds %lld, allowed 0..%lld",
                        file.path().c_str(), static_cast<long long>(id),
                        static_cast<long long>(c.vocab - 1));
    }
  }
  return in;
}

PiCaseStage compare(std::string name, const std::vector<float>& got,
                    const std::vector<float>& wanted, double tolerance) {
  PiCaseStage stage{std::move(name), static_cast<int64_t>(got.size()), 0, 1, tolerance};
  if (got.size() != wanted.size()) {
    stage.max_abs = INFINITY;
    return stage;
  }
  double dot = 0, got2 = 0, wanted2 = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = wanted[i], diff = std::abs(a - b);
    if (!(diff <= stage.max_abs)) stage.max_abs = std::isfinite(diff) ? diff : INFINITY;
    dot += a * b;
    got2 += a * a;
    wanted2 += b * b;
  }
  stage.cosine =
      got2 > 0 && wanted2 > 0 ? dot / std::sqrt(got2 * wanted2) : (got2 == wanted2 ? 1 : 0);
  return stage;
}

// What a run has besides pictures, text and noise, and where its recorded arrays are.
struct Variant {
  std::string label;  // in front of the stages: "guided_exp_b5."
  std::vector<float> chunk, weights, extra;
  float most = 0;      // guidance; recorded guided velocities have a wider bound
  int64_t n_hard = 0;  // rows of `chunk` that are given
};

int64_t integer_of(const Json& meta, const char* name) {
  const Json* value = meta.find(name);
  return value != nullptr && value->is_integer() ? value->integer() : -1;
}

// The variants of a case by its kind: "pi-policy" has one without a label.
Result<std::vector<Variant>> read_variants(const Json& meta, const std::string& folder,
                                           const Arrays& arrays, const PiConfig& c) {
  const Json* kind = meta.find("kind");
  const std::string name = kind != nullptr && kind->is_string() ? kind->text() : "";
  const auto n_chunk = static_cast<size_t>(c.action_steps * c.action_dim);
  Variant plain;
  if (name == "pi-policy-rtc") {
    const int64_t start = integer_of(meta, "inference_delay"),
                  end = integer_of(meta, "execution_horizon");
    plain.chunk = arrays.floats("in.prev_chunk_left_over");
    if (start < 0 || end < 1 || plain.chunk.empty() || plain.chunk.size() > n_chunk)
      return bad_meta(folder, "inference_delay, execution_horizon or in.prev_chunk_left_over");
    plain.chunk.resize(n_chunk, 0.0f);
    std::vector<Variant> out;
    for (const bool exponential : {false, true}) {
      Variant guided = plain;
      guided.label = exponential ? "guided_exp_b5." : "guided_linear_b10.";
      guided.most = exponential ? 5.0f : 10.0f;
      guided.weights = row_weights(exponential ? RowSchedule::kExp : RowSchedule::kLinear,
                                   c.action_steps, start, end);
      out.push_back(std::move(guided));
    }
    return out;
  }
  if (name == "pi-policy-rtc-trained") {
    plain.chunk = arrays.floats("in.hard_prefix");
    plain.n_hard = integer_of(meta, "delay");
    if (plain.chunk.size() != n_chunk || plain.n_hard < 1 || plain.n_hard >= c.action_steps)
      return bad_meta(folder, "delay or in.hard_prefix");
  } else if (name == "pi-policy-extra-tokens") {
    plain.extra = arrays.floats("in.extra_tokens");
    const auto most = static_cast<size_t>(kMaxExtraTokens * c.expert.width);
    if (plain.extra.empty() || plain.extra.size() > most ||
        plain.extra.size() % static_cast<size_t>(c.expert.width) != 0)
      return bad_meta(folder, "in.extra_tokens");
  } else if (name != "pi-policy") {
    return bad_meta(folder, "kind");
  }
  return std::vector<Variant>{plain};
}

// Compares taps with stored arrays, in the order the model computes them.
class Comparison {
 public:
  Comparison(const PiConfig& config, const Inputs& in, const TapRecorder& taps,
             const Arrays& arrays, std::string label, double tolerance)
      : config_(config),
        label_(std::move(label)),
        rows_(in.seen_rows(config.vision.n_tokens())),
        n_padded_(in.n_views * config.vision.n_tokens() + in.n_slots),
        taps_(taps),
        arrays_(arrays),
        tolerance_(tolerance) {}

  std::vector<PiCaseStage> run() {
    const int64_t last = config_.backbone.n_layers - 1;
    positions();
    prefix_rows("out.prefix_embs", "prefix_embd", "prefix_embs");
    cache("out.k_first", "prefix_k_0", "k_first");
    cache("out.v_first", "prefix_v_0", "v_first");
    cache("out.k_last", "prefix_k_" + std::to_string(last), "k_last");
    cache("out.v_last", "prefix_v_" + std::to_string(last), "v_last");
    for (int64_t k = 0; k < config_.n_denoise_steps; ++k) {
      step_rows("suffix_embs", "suffix_embd", k);
      step_rows("v", "velocity", k);
      step_rows("x", "x", k);
    }
    return std::move(stages_);
  }
  void add(PiCaseStage stage) { stages_.push_back(std::move(stage)); }

 private:
  const std::vector<float>* tap(const std::string& name) const {
    const auto found = taps_.taps().find(name);
    return found == taps_.taps().end() ? nullptr : &found->second.values;
  }
  void add(const std::string& label, const std::vector<float>* got,
           const std::vector<float>& wanted) {
    stages_.push_back(
        compare(label, got != nullptr ? *got : std::vector<float>(), wanted, tolerance_));
  }

  // Rows that are seen stand at 0, 1, 2, ...: what is masked takes no position.
  void positions() {
    const auto stored = arrays_.read<int64_t>("out.prefix_pos", DType::kI64, n_padded_);
    if (!stored) return;
    std::vector<float> got, wanted;
    for (const int64_t row : rows_) {
      got.push_back(static_cast<float>(got.size()));
      wanted.push_back(static_cast<float>(stored.value()[static_cast<size_t>(row)]));
    }
    stages_.push_back(compare("prefix_pos", got, wanted, 0));
  }

  void prefix_rows(const std::string& array, const std::string& name, const std::string& label) {
    const std::vector<float> stored = arrays_.floats(array);
    const int64_t width = config_.backbone.width;
    if (static_cast<int64_t>(stored.size()) != n_padded_ * width) return;
    std::vector<float> wanted;
    for (const int64_t row : rows_)
      wanted.insert(wanted.end(), stored.begin() + row * width, stored.begin() + (row + 1) * width);
    add(label, tap(name), wanted);
  }

  // Stored as [kv head][token][head]; taps are [token][kv head * head].
  void cache(const std::string& array, const std::string& name, const std::string& label) {
    const std::vector<float> stored = arrays_.floats(array);
    const int64_t heads = config_.backbone.n_kv_heads, d = config_.backbone.head_dim;
    if (static_cast<int64_t>(stored.size()) != n_padded_ * heads * d) return;
    std::vector<float> wanted;
    for (const int64_t row : rows_) {
      for (int64_t h = 0; h < heads; ++h) {
        const auto first = stored.begin() + (h * n_padded_ + row) * d;
        wanted.insert(wanted.end(), first, first + d);
      }
    }
    add(label, tap(name), wanted);
  }

  // A labelled variant has its arrays and stages under its own name.
  void step_rows(const std::string& array, const std::string& name, int64_t step) {
    const std::vector<float> stored = arrays_.floats("out." + label_ + array);
    const auto* got = tap(name + "_" + std::to_string(step));
    if (stored.empty() || stored.size() % static_cast<size_t>(config_.n_denoise_steps) != 0) return;
    const auto n = static_cast<int64_t>(stored.size()) / config_.n_denoise_steps;
    add(label_ + array + "_" + std::to_string(step), got,
        std::vector<float>(stored.begin() + step * n, stored.begin() + (step + 1) * n));
  }

  const PiConfig& config_;
  std::string label_;
  std::vector<int64_t> rows_;
  int64_t n_padded_;
  const TapRecorder& taps_;
  const Arrays& arrays_;
  double tolerance_;
  std::vector<PiCaseStage> stages_;
};

// What the time makes of the adaptive norms, computed once at open: stored for each step, or for
// each step and row where the first rows are given and stand at time 0.
void compare_conditions(const PiModel& model, const Arrays& arrays, const Variant& variant,
                        double tolerance, std::vector<PiCaseStage>& stages) {
  const std::vector<float> stored = arrays.floats("out." + variant.label + "cond");
  const PiConfig& c = model.config;
  const auto width = static_cast<size_t>(c.expert.width);
  const int64_t n_steps = c.n_denoise_steps;
  if (stored.empty() || model.cond.empty()) return;
  const bool by_row = stored.size() == static_cast<size_t>(n_steps * c.action_steps) * width;
  std::vector<float> got;
  for (int64_t k = 0; k < n_steps; ++k)
    for (int64_t row = 0; row < (by_row ? c.action_steps : 1); ++row) {
      const int64_t step = by_row && row < variant.n_hard ? n_steps : k;
      const auto from = model.cond.begin() + step * static_cast<int64_t>(width);
      got.insert(got.end(), from, from + static_cast<int64_t>(width));
    }
  stages.push_back(compare(variant.label + "cond", got, stored, tolerance));
}

void run_once(PiRun& run, const PiConfig& c, const Inputs& in, const Variant& variant) {
  std::vector<const uint8_t*> views;
  const int64_t view_bytes = c.vision.image_size * c.vision.image_size * 3;
  for (int64_t v = 0; v < in.n_views; ++v) {
    if (in.image_mask[static_cast<size_t>(v)] != 0)
      views.push_back(in.images.data() + v * view_bytes);
  }
  run.encode_views(views);
  run.encode_prefix(in.seen_tokens());
  run.start(in.noise, in.state);
  run.condition({variant.chunk, variant.n_hard}, variant.extra);
  const PiGuidance guidance = {variant.chunk, variant.weights, variant.most};
  for (int64_t k = 0; k < c.n_denoise_steps; ++k) run.denoise(k, guidance);
}

}  // namespace

bool PiCaseReport::passed() const {
  return !stages.empty() &&
         std::all_of(stages.begin(), stages.end(), [](const PiCaseStage& s) { return s.passed(); });
}

std::string PiCaseReport::first_deviation() const {
  for (const PiCaseStage& stage : stages) {
    if (!stage.passed()) return stage.name;
  }
  return {};
}

Result<PiCaseReport> run_pi_case(const std::string& folder, Ops& ops, Precision precision,
                                 double tolerance) {
  auto meta = read_meta(folder);
  if (!meta) return meta.error();
  auto config = read_config(meta.value(), folder);
  if (!config) return config.error();
  const PiConfig& c = config.value();
  const Json* weights_path = meta.value().find("weights");
  if (weights_path == nullptr || !weights_path->is_string()) return bad_meta(folder, "weights");
  auto weights_file = SafeTensorsFile::open((folder + "/" + weights_path->text()).c_str());
  if (!weights_file) return weights_file.error();
  auto io = SafeTensorsFile::open((folder + "/io.safetensors").c_str());
  if (!io) return io.error();
  auto in = read_inputs(io.value(), c);
  if (!in) return in.error();
  auto weights = read_pi_safetensors(weights_file.value(), c);
  if (!weights) return weights.error();

  PiOptions options;
  options.precision = precision;
  options.numerics.rope_bf16 = flag(meta.value(), "rope_bf16");
  const int64_t n_text = std::max<int64_t>(in.value().n_slots, 1);
  OUTRIDER_TRY(ops.reserve(
      pi_limits(c, in.value().n_views, PiRun::max_prefix(c, in.value().n_views, n_text))));
  auto model = PiModel::build(weights.value(), options, ops, {}, nullptr);
  if (!model) return model.error();
  auto run =
      PiRun::make(model.value(), ops, {.max_views = in.value().n_views, .max_text_tokens = n_text});
  if (!run) return run.error();
  const Arrays arrays(io.value());
  auto variants = read_variants(meta.value(), folder, arrays, c);
  if (!variants) return variants.error();
  TapRecorder taps;
  run.value()->record_to(&taps);
  PiCaseReport report;
  report.family = c.family;
  for (const Variant& variant : variants.value()) {
    taps.clear();
    run_once(*run.value(), c, in.value(), variant);
    const bool plain = variant.chunk.empty() && variant.extra.empty();
    const bool guided = variant.most > 0;
    const double allowed = tolerance > 0                             ? tolerance
                           : guided && precision == Precision::kBf16 ? kBf16GuidedTolerance
                           : guided && precision == Precision::kInt8 ? kInt8GuidedTolerance
                           : precision == Precision::kBf16           ? kBf16Tolerance
                           : precision == Precision::kInt8           ? kInt8Tolerance
                           : plain                                   ? kF32Tolerance
                                                                     : kVariantTolerance;
    const std::vector<float> times = arrays.floats("out.time");
    if (!times.empty() && &variant == &variants.value().front())
      report.stages.push_back(compare("time", model.value()->times, times, 0));
    compare_conditions(*model.value(), arrays, variant, kF32Tolerance, report.stages);
    Comparison comparison(c, in.value(), taps, arrays, variant.label, allowed);
    for (PiCaseStage& stage : comparison.run()) report.stages.push_back(std::move(stage));
    const std::vector<float> wanted = arrays.floats("out." + variant.label + "actions");
    if (wanted.empty() && !plain) continue;  // there the last x is the chunk
    const auto actions = run.value()->actions();
    report.stages.push_back(
        compare(variant.label + "actions", {actions.begin(), actions.end()}, wanted, allowed));
  }
  return report;
}

}  // namespace outrider
