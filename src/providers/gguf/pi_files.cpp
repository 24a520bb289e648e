#include "providers/gguf/pi_files.h"

#include <cstdio>

#include "base/input_file.h"
#include "base/sha256.h"
#include "models/pi_gguf.h"
#include "models/pi_image.h"
#include "models/pi_safetensors.h"
#include "models/pi_weights_key.h"
#include "policy/checkpoint.h"
#include "policy/gguf_policy.h"
#include "providers/gguf/digest_cache.h"
#include "providers/gguf/open_choices.h"
#include "providers/gguf/shared_by_key.h"

namespace outrider {
namespace {

SharedByKey<PiFiles>& shared_files() {
  static SharedByKey<PiFiles> shared;
  return shared;
}
SharedByKey<CachedPiModel>& shared_models() {
  static SharedByKey<CachedPiModel> shared;
  return shared;
}

Error too_many_pieces(const std::string& path, const SpmTokenizer& tokenizer,
                      const PiConfig& config) {
  return make_error(
      Code::kNotFound,
      "%.300s: tokenizer.ggml.tokens has %d pieces, but token_embd.weight has %lld rows",
      path.c_str(), tokenizer.n_pieces(), static_cast<long long>(config.vocab));
}

// Digests of all files; several make one digest of their digests.
Result<void> digest(PiFiles& files, const std::string& cache_dir) {
  files.digests_remembered = files.settled = true;
  std::vector<std::string> all;
  const auto mapped = files.mapped();
  for (const MappedFile* file : mapped) {
    if (file != mapped[0] && file->id() == mapped[0]->id()) continue;  // one file given twice
    auto one = file_digest(*file, cache_dir);
    if (!one) return one.error();
    files.digests_remembered = files.digests_remembered && one.value().remembered;
    files.settled = files.settled && one.value().settled;
    if (all.empty() || !files.policy) files.policy_bytes += file->size();
    all.push_back(one.value().sha256);
  }
  files.policy_sha256 = all[0];
  if (files.policy && all.size() == 2) files.vision_sha256 = all[1];
  if (files.policy || all.size() == 1) return {};
  Sha256 together;
  for (const std::string& one : all) together.add(std::as_bytes(std::span(one)));
  auto hex = together.hex();
  if (!hex) return hex.error();
  files.policy_sha256 = hex.value();
  return {};
}

// What the robot face computes besides the weights: description and vocabulary.
Result<void> digest_robot(PiFiles& files) {
  if (!files.robot) return {};
  Sha256 sha;
  const std::string text = policy_json(*files.robot);
  sha.add(std::as_bytes(std::span(text)));
  for (const Piece& piece : files.tokenizer.vocab().pieces) {
    sha.add(std::as_bytes(std::span(piece.text)));
    sha.add(std::as_bytes(std::span(&piece.score, 1)));
    sha.add(std::as_bytes(std::span(&piece.type, 1)));
  }
  if (files.action_tokens) {
    const ActionTokens& tokens = *files.action_tokens;
    const int64_t least = tokens.min_token();
    const double scale = tokens.scale();
    sha.add(std::as_bytes(std::span(&least, 1)));
    sha.add(std::as_bytes(std::span(&scale, 1)));
    for (int64_t id = 0; id < tokens.n_tokens(); ++id) {
      const std::string_view bytes = tokens.bytes(id);
      const size_t n = bytes.size();
      sha.add(std::as_bytes(std::span(&n, 1)));
      sha.add(std::as_bytes(std::span(bytes)));
    }
  }
  auto hex = sha.hex();
  if (!hex) return hex.error();
  files.robot_sha256 = hex.value();
  return {};
}

Result<std::shared_ptr<const PiFiles>> finish(PiFiles files, const std::string& cache_dir) {
  OUTRIDER_TRY(digest_robot(files));
  OUTRIDER_TRY(digest(files, cache_dir));
  return std::make_shared<const PiFiles>(std::move(files));
}

Result<PiFiles> load_pair(GgufFile policy, GgufFile vision) {
  auto config = read_pi_config(policy, vision);
  if (!config) return config.error();
  auto tokenizer = SpmTokenizer::from_gguf(policy);
  if (!tokenizer) return tokenizer.error();
  if (tokenizer.value().n_pieces() > config.value().vocab)
    return too_many_pieces(policy.path(), tokenizer.value(), config.value());
  const std::string path = policy.path();
  return PiFiles{.policy = std::move(policy),
                 .vision = std::move(vision),
                 .checkpoint = {},
                 .tokenizer = std::move(tokenizer.value()),
                 .config = config.value(),
                 .robot = {},
                 .action_tokens = {},
                 .policy_sha256 = {},
                 .vision_sha256 = {},
                 .robot_sha256 = {},
                 .weights_path = path,
                 .tokenizer_path = path,
                 .notes = {},
                 .digests_remembered = false,
                 .settled = false};
}

bool is_gguf(const std::string& path) {
  return read_file_begin(path, 4) == "GGUF";
}

// What a described file needs besides: how long an answer may be, and what its tokens mean.
Result<void> take_action_tokens(PiFiles& files) {
  if (!files.config.is_fast()) return {};
  files.config.answer_tokens = answer_tokens(*files.robot);
  auto tokens = read_gguf_action_tokens(*files.policy, files.tokenizer, files.config, *files.robot);
  if (!tokens) return tokens.error();
  files.action_tokens = std::move(tokens.value());
  files.notes.push_back("action tokens: inside " + files.policy->path());
  return {};
}

// A GGUF file with a policy inside: its vision half lies in it too, or where the configuration
// says.
Result<PiFiles> load_policy_file(const std::string& path, const PiOpenConfig& config) {
  auto policy = GgufFile::open(path.c_str());
  if (!policy) return policy.error();
  const std::string vision_path = config.mmproj_path.empty() ? path : config.mmproj_path;
  auto vision = GgufFile::open(vision_path.c_str());
  if (!vision) return vision.error();
  auto files = load_pair(std::move(policy.value()), std::move(vision.value()));
  if (!files) return files;
  auto robot = read_gguf_policy(*files.value().policy, files.value().config);
  if (!robot) return robot.error();
  files.value().robot = std::move(robot.value());
  files.value().notes = {"description and statistics: inside " + path};
  OUTRIDER_TRY(take_action_tokens(files.value()));
  return files;
}

// A GGUF pair that a description from elsewhere makes a robot's policy.
Result<PiFiles> load_described_pair(const PiOpenConfig& config) {
  auto policy = GgufFile::open(config.model_path.c_str());
  if (!policy) return policy.error();
  const std::string vision_path =
      config.mmproj_path.empty() ? config.model_path : config.mmproj_path;
  auto vision = GgufFile::open(vision_path.c_str());
  if (!vision) return vision.error();
  auto files = load_pair(std::move(policy.value()), std::move(vision.value()));
  if (!files) return files;
  auto robot = open_policy_description(config.policy_dir, files.value().config);
  if (!robot) return robot.error();
  files.value().robot = std::move(robot.value());
  files.value().notes = {"description: " + config.policy_dir,
                         "statistics: " + files.value().robot->statistics.origin};
  OUTRIDER_TRY(take_action_tokens(files.value()));
  return files;
}

Result<PiFiles> load_checkpoint(const std::string& path) {
  auto opened = open_policy_checkpoint(path);
  if (!opened) return opened.error();
  PolicyCheckpoint& c = opened.value();
  return PiFiles{.policy = {},
                 .vision = {},
                 .checkpoint = std::move(c.source),
                 .tokenizer = std::move(c.tokenizer),
                 .config = c.config,
                 .robot = std::move(c.policy),
                 .action_tokens = std::move(c.action_tokens),
                 .policy_sha256 = {},
                 .vision_sha256 = {},
                 .robot_sha256 = {},
                 .weights_path = c.folder,
                 .tokenizer_path = c.tokenizer_path,
                 .notes = std::move(c.notes),
                 .digests_remembered = false,
                 .settled = false};
}

bool unchanged(const MappedFile& file) {
  const auto now = MappedFile::open(file.path().c_str());
  return now && now.value().id() == file.id();
}

Result<std::shared_ptr<const PiModel>> build_pi_model(const std::shared_ptr<const PiFiles>& files,
                                                      const PiConfig& config,
                                                      const PiOptions& options, Ops& ops) {
  auto weights = files->weights();
  if (!weights) return weights.error();
  weights.value().config.n_denoise_steps = config.n_denoise_steps;
  weights.value().config.answer_tokens = config.answer_tokens;  // a description may say another
  return PiModel::build(weights.value(), options, ops, files->mapped(), files);
}

// Keeps a model for the next open. Returns what the status says.
std::string keep_image(const PiModel& model, const PiFiles& files, const std::string& dir,
                       const PiImageName& name) {
  if (!files.settled) return "miss: not written, a model file was changed a moment ago";
  for (const MappedFile* file : files.mapped())
    if (!unchanged(*file)) return "miss: not written, a model file changed during the open";
  const auto written = write_pi_image(model, dir, name);
  return written ? "miss: written" : std::string("miss: not written, ") + written.error().text;
}

// What the weights are; read for it once, then remembered like a digest.
Result<std::string> weights_key(const PiFiles& files, const std::string& cache_dir) {
  const auto mapped = files.mapped();
  std::string key = remembered_weights(mapped, cache_dir);
  if (!key.empty()) return key;
  auto weights = files.weights();
  if (!weights) return weights.error();
  auto computed = pi_weights_key(weights.value());
  if (computed) keep_weights(mapped, computed.value(), cache_dir);
  return computed;
}

Result<CachedPiModel> load_pi_model(const std::shared_ptr<const PiFiles>& files,
                                    const PiConfig& config, const PiOptions& options,
                                    const std::string& cache_dir, Ops& ops) {
  auto key = weights_key(*files, cache_dir);
  if (!key) return key.error();
  auto name = pi_image_name(config, options, ops, key.value());
  if (!name) return name.error();
  auto embed = files->embedding();
  if (!embed) return embed.error();
  auto image = read_pi_image(cache_dir, name.value(), config, options, embed.value(), files);
  if (image) return CachedPiModel{image.value(), "hit"};
  auto built = build_pi_model(files, config, options, ops);
  if (!built) return built.error();
  std::string outcome = keep_image(*built.value(), *files, cache_dir, name.value());
  if (image.code() != Code::kNotFound)
    outcome += std::string("; the one before was refused: ") + image.error().text;
  return CachedPiModel{built.value(), outcome};
}

}  // namespace

Result<void> fit_robot(const PiOpenConfig& config, bool from_checkpoint, const std::string& path,
                       PolicyDescription& robot, PiConfig& model) {
  const auto differ = [&](const char* key, int64_t given, int64_t wanted) {
    return make_error(Code::kShape, "config: %s is %lld, the policy at %.200s has %lld", key,
                      static_cast<long long>(given), path.c_str(), static_cast<long long>(wanted));
  };
  const auto n_cameras = static_cast<int64_t>(robot.cameras.size());
  if (config.n_views > 0 && config.n_views != n_cameras)
    return differ("n_views", config.n_views, n_cameras);
  if (config.image_channels > 0 && config.image_channels != 3)
    return differ("image_channels", config.image_channels, 3);
  if ((config.image_height > 0) != (config.image_width > 0))
    return make_error(
        Code::kInvalid, "config: image_height %lld and image_width %lld; give both or neither",
        static_cast<long long>(config.image_height), static_cast<long long>(config.image_width));
  // A checkpoint does not know its own horizon when nobody wrote it down.
  if (from_checkpoint && robot.horizon == 0 && config.action_steps > 0) {
    robot.horizon = config.action_steps;
    model.action_steps = config.action_steps;
  }
  if (config.action_steps > 0 && config.action_steps != model.action_steps)
    return differ("action_steps", config.action_steps, model.action_steps);
  if (config.action_dim > 0 && config.action_dim != robot.action_width &&
      config.action_dim != model.action_dim)
    return differ("action_dim", config.action_dim, robot.action_width);
  if (model.action_steps > 4096) return differ("action_steps", model.action_steps, 4096);
  return {};
}

std::vector<const MappedFile*> PiFiles::mapped() const {
  if (policy) return {&policy->file(), &vision->file()};
  std::vector<const MappedFile*> out;
  for (const SafeTensorsFile& file : checkpoint->folder().files()) out.push_back(&file.file());
  return out;
}

std::string PiFiles::ids() const {
  std::string text;
  for (const MappedFile* file : mapped()) text += id_text(file->id());
  return text;
}

Result<PiWeights> PiFiles::weights() const {
  return policy ? read_pi_gguf(*policy, *vision) : read_pi_checkpoint(*checkpoint, config);
}

Result<Matrix> PiFiles::embedding() const {
  return policy ? read_pi_embedding(*policy, config)
                : read_pi_checkpoint_embedding(*checkpoint, config);
}

std::optional<DType> PiFiles::stored_as() const {
  if (policy) {
    const GgufTensor* sample = policy->tensor("blk.0.ffn_down.weight");
    return sample != nullptr ? std::optional(sample->dtype) : std::nullopt;
  }
  const auto sample =
      checkpoint->find(at_layer(pi_safetensors_names().backbone.down, 0) + ".weight");
  return sample ? std::optional(sample->dtype) : std::nullopt;
}

Result<std::shared_ptr<const PiFiles>> open_pi_files(const PiOpenConfig& config) {
  if (config.plain_face()) {
    auto policy = GgufFile::open(config.model_path.c_str());
    if (!policy) return policy.error();
    auto vision = GgufFile::open(config.mmproj_path.c_str());
    if (!vision) return vision.error();
    const std::string key =
        id_text(policy.value().file().id()) + id_text(vision.value().file().id());
    return shared_files().get(key, [&]() -> Result<std::shared_ptr<const PiFiles>> {
      auto files = load_pair(std::move(policy.value()), std::move(vision.value()));
      if (!files) return files.error();
      if (files.value().config.is_fast())
        return make_error(Code::kUnsupported,
                          "%.300s is PI0-FAST, which has no face in normalised units; open it by "
                          "model_path alone, without sizes",
                          config.model_path.c_str());
      return finish(std::move(files.value()), config.cache_dir);
    });
  }
  const bool elsewhere = !config.policy_dir.empty() && !config.model_path.empty();
  const std::string& path = config.policy_dir.empty() ? config.model_path : config.policy_dir;
  auto files = elsewhere       ? load_described_pair(config)
               : is_gguf(path) ? load_policy_file(path, config)
                               : load_checkpoint(path);
  if (!files) return files.error();
  OUTRIDER_TRY(fit_robot(config, files.value().checkpoint.has_value(), files.value().weights_path,
                         *files.value().robot, files.value().config));
  OUTRIDER_TRY(digest_robot(files.value()));
  const std::string key = files.value().ids() + files.value().robot_sha256;
  return shared_files().get(key, [&]() -> Result<std::shared_ptr<const PiFiles>> {
    return finish(std::move(files.value()), config.cache_dir);
  });
}

Result<std::shared_ptr<const CachedPiModel>> open_pi_model(
    const std::shared_ptr<const PiFiles>& files, const PiConfig& config, const PiOptions& options,
    const std::string& cache_dir, Ops& ops) {
  char key[512];
  const PiNumerics& n = options.numerics;
  std::snprintf(key, sizeof key, "%d:%d%d%d:%lld:%lld:%lld:%lld:%s",
                static_cast<int>(options.precision), n.rope_bf16, n.exact_times,
                n.quick_gelu_by_flag, static_cast<long long>(config.n_denoise_steps),
                static_cast<long long>(config.action_steps),
                static_cast<long long>(config.action_dim),
                static_cast<long long>(config.answer_tokens), ops.kernel_table());
  return shared_models().get(
      files->ids() + key, [&]() -> Result<std::shared_ptr<const CachedPiModel>> {
        Result<CachedPiModel> loaded = CachedPiModel{nullptr, "off"};
        if (cache_dir.empty()) {
          auto built = build_pi_model(files, config, options, ops);
          if (!built) return built.error();
          loaded.value().model = built.value();
        } else {
          loaded = load_pi_model(files, config, options, cache_dir, ops);
          if (!loaded) return loaded.error();
        }
        return std::make_shared<const CachedPiModel>(std::move(loaded.value()));
      });
}

Result<Precision> resolve_precision(const PiOpenConfig& config, const PiFiles& files) {
  switch (config.precision) {
    case PrecisionChoice::kF32:
      return Precision::kF32;
    case PrecisionChoice::kStored:
      return Precision::kStored;
    case PrecisionChoice::kBf16:
      return Precision::kBf16;
    case PrecisionChoice::kInt8:
      return Precision::kInt8;
    case PrecisionChoice::kAuto:
      break;
  }
  // Parity runs and f32 files keep f32; everything else takes the fast path where the CPU has it.
  const bool stored_f32 = files.stored_as() == DType::kF32;
  if (config.numerics == NumericsChoice::kJetsonPi || stored_f32 || !cpu_has_bf16_dot())
    return Precision::kF32;
  return Precision::kBf16;
}

}  // namespace outrider
