#include "providers/gguf/pi_files.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/dispatch.h"
#include "models/pi_gguf.h"
#include "models/pi_image.h"
#include "providers/gguf/digest_cache.h"

namespace outrider {
namespace {

// Values that live as long as somebody uses them, by key. Only touched during open.
template <class T>
class SharedByKey {
 public:
  template <class Make>
  Result<std::shared_ptr<const T>> get(const std::string& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(map_, [](const auto& entry) { return entry.second.expired(); });
    if (auto found = map_[key].lock()) return found;
    Result<std::shared_ptr<const T>> made = make();
    if (made) {
      map_[key] = made.value();
    } else {
      map_.erase(key);
    }
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const T>> map_;
};

SharedByKey<PiFiles>& shared_files() {
  static SharedByKey<PiFiles> shared;
  return shared;
}
SharedByKey<CachedPiModel>& shared_models() {
  static SharedByKey<CachedPiModel> shared;
  return shared;
}

bool has_bf16_dot() {
  return std::strstr(cpu_features(), "avx512_bf16") != nullptr;
}

Result<std::shared_ptr<const PiFiles>> load_files(GgufFile policy, GgufFile vision,
                                                  const std::string& cache_dir) {
  auto config = read_pi_config(policy, vision);
  if (!config) return config.error();
  auto tokenizer = SpmTokenizer::from_gguf(policy);
  if (!tokenizer) return tokenizer.error();
  if (tokenizer.value().n_pieces() > config.value().vocab) {
    return make_error(
        Code::kNotFound,
        "%s: tokenizer.ggml.tokens has %d pieces, but token_embd.weight has %lld rows",
        policy.path().c_str(), tokenizer.value().n_pieces(),
        static_cast<long long>(config.value().vocab));
  }
  auto policy_sha = file_digest(policy.file(), cache_dir);
  if (!policy_sha) return policy_sha.error();
  auto vision_sha = file_digest(vision.file(), cache_dir);
  if (!vision_sha) return vision_sha.error();
  const FileDigest &p = policy_sha.value(), &v = vision_sha.value();
  return std::shared_ptr<const PiFiles>(new PiFiles{
      std::move(policy), std::move(vision), std::move(tokenizer.value()), config.value(), p.sha256,
      v.sha256, p.remembered && v.remembered, p.settled && v.settled});
}

bool unchanged(const MappedFile& file) {
  const auto now = MappedFile::open(file.path().c_str());
  return now && now.value().id() == file.id();
}

Result<std::shared_ptr<const PiModel>> build_pi_model(const std::shared_ptr<const PiFiles>& files,
                                                      const PiConfig& config,
                                                      const PiOptions& options, Ops& ops) {
  auto weights = read_pi_gguf(files->policy, files->vision);
  if (!weights) return weights.error();
  weights.value().config.n_denoise_steps = config.n_denoise_steps;
  const MappedFile* mapped[] = {&files->policy.file(), &files->vision.file()};
  return PiModel::build(weights.value(), options, ops, mapped, files);
}

// Keeps a model for the next open. Returns what the status says.
std::string keep_image(const PiModel& model, const PiFiles& files, const std::string& dir,
                       const PiImageName& name) {
  if (!files.settled) return "miss: not written, a model file was changed a moment ago";
  if (!unchanged(files.policy.file()) || !unchanged(files.vision.file()))
    return "miss: not written, a model file changed during the open";
  const auto written = write_pi_image(model, dir, name);
  return written ? "miss: written" : std::string("miss: not written, ") + written.error().text;
}

Result<CachedPiModel> load_pi_model(const std::shared_ptr<const PiFiles>& files,
                                    const PiConfig& config, const PiOptions& options,
                                    const std::string& cache_dir, Ops& ops) {
  auto name = pi_image_name(config, options, ops, files->policy_sha256, files->vision_sha256);
  if (!name) return name.error();
  auto embed = read_pi_embedding(files->policy, config);
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

Result<std::shared_ptr<const PiFiles>> open_pi_files(const PiOpenConfig& config) {
  auto policy = GgufFile::open(config.model_path.c_str());
  if (!policy) return policy.error();
  auto vision = GgufFile::open(config.mmproj_path.c_str());
  if (!vision) return vision.error();
  const std::string key = id_text(policy.value().file().id()) + id_text(vision.value().file().id());
  return shared_files().get(key, [&] {
    return load_files(std::move(policy.value()), std::move(vision.value()), config.cache_dir);
  });
}

Result<std::shared_ptr<const CachedPiModel>> open_pi_model(
    const std::shared_ptr<const PiFiles>& files, const PiConfig& config, const PiOptions& options,
    const std::string& cache_dir, Ops& ops) {
  char key[512];
  const PiNumerics& n = options.numerics;
  std::snprintf(key, sizeof key, "%s%s%d:%d%d%d:%lld:%s",
                id_text(files->policy.file().id()).c_str(),
                id_text(files->vision.file().id()).c_str(), static_cast<int>(options.precision),
                n.rope_bf16, n.exact_times, n.quick_gelu_by_flag,
                static_cast<long long>(config.n_denoise_steps), ops.kernel_table());
  return shared_models().get(key, [&]() -> Result<std::shared_ptr<const CachedPiModel>> {
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
    case PrecisionChoice::kStored:
      return Precision::kF32;
    case PrecisionChoice::kBf16:
      return Precision::kBf16;
    case PrecisionChoice::kInt8:
      return Precision::kInt8;
    case PrecisionChoice::kAuto:
      break;
  }
  // Parity runs and f32 files keep f32; everything else takes the fast path where the CPU has it.
  const GgufTensor* sample = files.policy.tensor("blk.0.ffn_down.weight");
  const bool stored_f32 = sample != nullptr && sample->dtype == DType::kF32;
  if (config.numerics == NumericsChoice::kJetsonPi || stored_f32 || !has_bf16_dot())
    return Precision::kF32;
  return Precision::kBf16;
}

}  // namespace outrider
