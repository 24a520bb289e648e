#include "providers/gguf/llm_files.h"

#include <optional>

#include "providers/gguf/digest_cache.h"
#include "providers/gguf/open_choices.h"
#include "providers/gguf/shared_by_key.h"

namespace outrider {
namespace {

SharedByKey<LlmFiles>& shared_files() {
  static SharedByKey<LlmFiles> shared;
  return shared;
}
SharedByKey<LlmModel>& shared_models() {
  static SharedByKey<LlmModel> shared;
  return shared;
}
SharedByKey<VlmFiles>& shared_pairs() {
  static SharedByKey<VlmFiles> shared;
  return shared;
}
SharedByKey<VlmModel>& shared_towers() {
  static SharedByKey<VlmModel> shared;
  return shared;
}

Result<std::shared_ptr<const LlmFiles>> load(GgufFile file, const std::string& cache_dir) {
  // All of it, so that no size is believed that the tensors do not have.
  auto weights = read_llm_weights(file);
  if (!weights) return weights.error();
  const LlmConfig config = weights.value().config;
  auto tokenizer = LanguageTokenizer::from_gguf(file);
  if (!tokenizer) return tokenizer.error();
  const int64_t n_pieces = tokenizer.value().n_pieces();
  if (n_pieces > config.vocab)
    return make_error(
        Code::kNotFound,
        "%.300s: tokenizer.ggml.tokens has %lld pieces, but token_embd.weight has %lld rows",
        file.path().c_str(), static_cast<long long>(n_pieces),
        static_cast<long long>(config.vocab));
  auto digest = file_digest(file.file(), cache_dir);
  if (!digest) return digest.error();
  return std::make_shared<const LlmFiles>(
      LlmFiles{std::move(file), config, std::move(tokenizer.value()), digest.value().sha256,
               digest.value().remembered});
}

Result<std::shared_ptr<const VlmFiles>> load_pair(std::shared_ptr<const LlmFiles> text,
                                                  GgufFile file, const std::string& cache_dir) {
  // All of it, so that no size is believed that the tensors do not have.
  auto weights = read_vlm_weights(file);
  if (!weights) return weights.error();
  const VlmConfig config = weights.value().config;
  OUTRIDER_TRY(check_vlm_pair(text->file, file, text->tokenizer));
  auto pieces = VlmPieces::find(config, text->tokenizer);
  if (!pieces) return pieces.error();
  auto digest = file_digest(file.file(), cache_dir);
  if (!digest) return digest.error();
  return std::make_shared<const VlmFiles>(VlmFiles{std::move(text), std::move(file), config,
                                                   std::move(pieces.value()), digest.value().sha256,
                                                   digest.value().remembered});
}

}  // namespace

Result<std::shared_ptr<const LlmFiles>> open_llm_files(const LlmOpenConfig& config) {
  auto file = GgufFile::open(config.model_path.c_str());
  if (!file) return file.error();
  const std::string key = id_text(file.value().file().id());
  return shared_files().get(key, [&] { return load(std::move(file.value()), config.cache_dir); });
}

Result<std::shared_ptr<const VlmFiles>> open_vlm_files(const LlmOpenConfig& config) {
  auto text = open_llm_files(config);
  if (!text) return text.error();
  auto file = GgufFile::open(config.mmproj_path.c_str());
  if (!file) return file.error();
  const std::string key =
      id_text(text.value()->file.file().id()) + id_text(file.value().file().id());
  return shared_pairs().get(
      key, [&] { return load_pair(text.value(), std::move(file.value()), config.cache_dir); });
}

namespace {

Precision resolve(PrecisionChoice choice, const GgufTensor* sample) {
  switch (choice) {
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
  const DType type = sample != nullptr ? sample->dtype : DType::kF32;
  if (type == DType::kF32) return Precision::kF32;
  return type == DType::kBf16 && cpu_has_bf16_dot() ? Precision::kBf16 : Precision::kStored;
}

}  // namespace

Precision resolve_precision(const LlmOpenConfig& config, const LlmFiles& files) {
  return resolve(config.precision, files.file.tensor("blk.0.ffn_down.weight"));
}

Precision resolve_precision(const LlmOpenConfig& config, const VlmFiles& files) {
  return resolve(config.precision, files.file.tensor("v.blk.0.ffn_down.weight"));
}

Result<std::shared_ptr<const LlmModel>> open_llm_model(const std::shared_ptr<const LlmFiles>& files,
                                                       Precision precision, Ops& ops) {
  const std::string key =
      id_text(files->file.file().id()) + precision_name(precision) + ":" + ops.kernel_table();
  return shared_models().get(key, [&]() -> Result<std::shared_ptr<const LlmModel>> {
    auto weights = read_llm_weights(files->file);
    if (!weights) return weights.error();
    const MappedFile* const mapped[] = {&files->file.file()};
    return LlmModel::build(weights.value(), precision, ops, mapped, files);
  });
}

Result<std::shared_ptr<const VlmModel>> open_vlm_model(const std::shared_ptr<const VlmFiles>& files,
                                                       Precision precision, Ops& ops) {
  const std::string key =
      id_text(files->file.file().id()) + precision_name(precision) + ":" + ops.kernel_table();
  return shared_towers().get(key, [&]() -> Result<std::shared_ptr<const VlmModel>> {
    auto weights = read_vlm_weights(files->file);
    if (!weights) return weights.error();
    const MappedFile* const mapped[] = {&files->file.file()};
    return VlmModel::build(weights.value(), precision, ops, mapped);
  });
}

}  // namespace outrider
