#include "policy/gguf_policy.h"

#include <sys/stat.h>

#include <filesystem>

#include "policy/checkpoint.h"
#include "policy/pipeline.h"

namespace outrider {
namespace {

// A description must fit the file that it is used with.
Result<void> check_fit(const PolicyDescription& policy, const PiConfig& config) {
  auto pipeline =
      PolicyPipeline::make(policy, config.family, config.action_dim, policy.action_width);
  if (!pipeline) return pipeline.error();
  if (policy.horizon > 0 && policy.horizon != config.action_steps)
    return make_error(Code::kShape, "policy: horizon is %lld, the model file's chunk has %lld rows",
                      static_cast<long long>(policy.horizon),
                      static_cast<long long>(config.action_steps));
  return {};
}

}  // namespace

bool has_policy(const GgufFile& file) {
  return file.has(kGgufPolicyKey);
}

Result<PolicyDescription> read_gguf_policy(const GgufFile& file, const PiConfig& config) {
  if (!has_policy(file))
    return make_error(
        Code::kNotFound,
        "%.300s: no robot is described inside (key %s); give a configuration with "
        "n_views and the sizes for normalised units, or policy_dir with a policy.json",
        file.path().c_str(), kGgufPolicyKey);
  const auto text = file.string(kGgufPolicyKey);
  if (!text) return text.error();
  const std::string name = file.path() + ": " + kGgufPolicyKey;
  auto policy = read_policy(text.value(), name, config.family);
  if (!policy) return make_error(Code::kNotFound, "%s", policy.error().text);
  OUTRIDER_TRY(check_policy(policy.value(), config.family));
  OUTRIDER_TRY(check_fit(policy.value(), config));
  return policy;
}

Result<std::optional<ActionTokens>> read_gguf_action_tokens(const GgufFile& file,
                                                            const SpmTokenizer& tokenizer,
                                                            const PiConfig& config,
                                                            const PolicyDescription& policy) {
  if (!config.is_fast()) return std::optional<ActionTokens>();
  std::string_view texts[2];
  for (size_t i = 0; i < 2; ++i) {
    const char* key = i == 0 ? kGgufActionTokensKey : kGgufActionRulesKey;
    if (!file.has(key))
      return make_error(Code::kNotFound,
                        "%.300s: key %s is missing: a PI0-FAST model without its action tokens "
                        "cannot be read; write the file anew with outrider convert",
                        file.path().c_str(), key);
    const auto text = file.string(key);
    if (!text) return text.error();
    texts[i] = text.value();
  }
  auto tokens = ActionTokens::read(texts[0], texts[1], file.path() + ": action_tokens");
  if (!tokens) return tokens.error();
  OUTRIDER_TRY(check_fast_vocabulary(file.path(), tokenizer, tokens.value(), config,
                                     lerobot_fast(policy, config.family)));
  return std::optional<ActionTokens>(std::move(tokens.value()));
}

void add_policy(GgufWriter& writer, const PolicyDescription& policy, const PiConfig& config) {
  PolicyDescription inside = policy;
  inside.family = config.family;
  inside.checkpoint.clear();
  inside.tokenizer.clear();
  inside.asset_id.clear();
  inside.statistics_path.clear();
  inside.action_tokens.tokenizer.clear();
  inside.horizon = config.action_steps;
  inside.num_steps = config.n_denoise_steps;
  inside.model = {};
  writer.add_string(kGgufPolicyKey, policy_json(inside));
}

Result<PolicyDescription> open_policy_description(const std::string& path, const PiConfig& config) {
  namespace fs = std::filesystem;
  struct stat info = {};
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  const std::string document = is_folder ? path + "/policy.json" : path;
  const std::string folder = is_folder ? path
                             : fs::path(path).has_parent_path()
                                 ? fs::path(path).parent_path().string()
                                 : ".";
  auto text = read_small_file(document, kMaxPolicyBytes);
  if (!text) return text.error();
  auto policy = read_policy(text.value(), document, config.family);
  if (!policy) return policy;
  std::vector<std::string> notes;
  OUTRIDER_TRY(take_statistics(folder, folder, false, policy.value(), notes));
  OUTRIDER_TRY(check_fit(policy.value(), config));
  return policy;
}

}  // namespace outrider
