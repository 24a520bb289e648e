#include "policy/checkpoint.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "gguf/gguf.h"
#include "policy/fast_answer.h"
#include "policy/pipeline.h"

namespace outrider {
namespace fs = std::filesystem;

namespace {

constexpr const char* kPolicyFile = "policy.json";

bool is_file(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Of a path in a document: beside the document unless it is absolute.
std::string beside(const std::string& folder, const std::string& path) {
  return fs::path(path).is_absolute() ? path
                                      : (fs::path(folder) / path).lexically_normal().string();
}

struct Place {
  std::string folder;       // of the description
  std::string description;  // its path, "" without one
  std::string text;
};

Result<Place> find_description(const std::string& path) {
  Place out;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0)
    return make_error(Code::kNotFound, "policy_dir: cannot open \"%.350s\": %s", path.c_str(),
                      std::strerror(errno));
  if (S_ISDIR(info.st_mode)) {
    out.folder = path;
    if (is_file(path + "/" + kPolicyFile)) out.description = path + "/" + kPolicyFile;
  } else {
    out.description = path;
    out.folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path().string() : ".";
  }
  if (out.description.empty()) return out;
  auto text = read_small_file(out.description, kMaxPolicyBytes);
  if (!text) return text.error();
  out.text = std::move(text.value());
  return out;
}

Result<SpmTokenizer> read_tokenizer(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) {
    auto gguf = GgufFile::open(path.c_str());
    if (!gguf) return gguf.error();
    return SpmTokenizer::from_gguf(gguf.value());
  }
  return SpmTokenizer::from_sentencepiece(bytes, path);
}

// The path, or a refusal that lists where it was looked for.
Result<std::string> find_tokenizer(const Place& place, const std::string& folder,
                                   const std::string& named) {
  if (!named.empty()) return beside(place.folder, named);
  std::string looked;
  for (const std::string& where :
       {folder, folder + "/assets", folder + "/tokenizer", place.folder}) {
    for (const char* name : {"tokenizer.model", "paligemma_tokenizer.model"}) {
      if (is_file(where + "/" + name)) return where + "/" + name;
    }
    if (looked.find(where) == std::string::npos) looked += (looked.empty() ? "" : ", ") + where;
  }
  const bool json =
      is_file(folder + "/tokenizer.json") || is_file(folder + "/tokenizer/tokenizer.json");
  return make_error(
      Code::kNotFound,
      "no tokenizer.model or paligemma_tokenizer.model in %.250s%s; put PaliGemma's SentencePiece "
      "file there, or name it in policy.json: tokenizer",
      looked.c_str(), json ? " (tokenizer.json is another format)" : "");
}

// The folder of PI0-FAST's action tokens.
Result<std::string> find_action_tokens(const Place& place, const std::string& folder,
                                       const std::string& named) {
  if (!named.empty()) return beside(place.folder, named);
  std::string looked;
  for (const std::string& where : {folder, place.folder}) {
    for (const char* name : {"fast", "action_tokenizer", "assets/fast"}) {
      if (is_file(where + "/" + name + "/tokenizer.json")) return where + "/" + name;
      looked += (looked.empty() ? "" : ", ") + where + "/" + name;
    }
    if (folder == place.folder) break;
  }
  return make_error(Code::kNotFound,
                    "no tokenizer.json of action tokens in %.300s; put the folder of "
                    "physical-intelligence/fast there, or name it in policy.json: "
                    "action_tokens.tokenizer",
                    looked.c_str());
}

}  // namespace

// The ids of action tokens are counted from the end of the vocabulary.
Result<void> check_fast_vocabulary(const std::string& path, const SpmTokenizer& tokenizer,
                                   const ActionTokens& tokens, const PiConfig& config,
                                   bool lerobot) {
  if (tokenizer.n_pieces() != config.vocab)
    return make_error(Code::kNotFound,
                      "%.200s has %d pieces, the embedding %lld rows; PI0-FAST counts its action "
                      "ids from the end, so both must be equal",
                      path.c_str(), tokenizer.n_pieces(), static_cast<long long>(config.vocab));
  if (tokenizer.vocab().eos < 0)
    return make_error(Code::kNotFound, "%.300s: the vocabulary names no end-of-text id",
                      path.c_str());
  const FastAnswer::Rule rule = {.lerobot = lerobot, .fit = false};
  auto answer = FastAnswer::make(tokenizer, tokens, config.action_steps, config.action_dim,
                                 config.answer_tokens, rule);
  if (!answer) return answer.error();
  return {};
}

Result<std::string> read_small_file(const std::string& path, size_t max_bytes) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  const auto bytes = file.value().bytes();
  if (bytes.size() > max_bytes)
    return make_error(Code::kNotFound, "%.300s: %zu bytes, allowed %zu", path.c_str(), bytes.size(),
                      max_bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<void> take_statistics(const std::string& base, const std::string& folder, bool lerobot,
                             PolicyDescription& policy, std::vector<std::string>& notes) {
  const bool inside = policy.statistics.state.width() > 0 || policy.statistics.actions.width() > 0;
  PolicyStatistics beside_weights;
  std::string looked = inside ? "" : "no statistics found; looked for ";
  if (!policy.statistics_path.empty()) {
    const std::string path = beside(base, policy.statistics_path);
    auto text = read_small_file(path, size_t{16} << 20);
    if (!text) return text.error();
    auto read = read_norm_stats(text.value(), path);
    if (!read) return read.error();
    beside_weights = std::move(read.value());
  } else if (!lerobot) {
    auto found = find_norm_stats(folder, policy.asset_id);
    // Several robots below assets/ are no question when the description has its own numbers.
    if (!found && !(inside && policy.asset_id.empty())) return found.error();
    if (found) {
      beside_weights = std::move(found.value().statistics);
      if (policy.asset_id.empty()) policy.asset_id = found.value().asset_id;
    }
    looked += folder + "/assets/*/norm_stats.json";
  } else {
    looked += folder + "/policy_preprocessor_step_*.safetensors";
  }
  const bool outside = !beside_weights.origin.empty();
  if (inside && outside) {
    const auto differ = [](const FieldStatistics& a, const FieldStatistics& b) {
      return a.width() > 0 && b.width() > 0 && !(a == b);
    };
    if (differ(policy.statistics.state, beside_weights.state) ||
        differ(policy.statistics.actions, beside_weights.actions))
      return make_error(Code::kNotFound,
                        "%.220s and %.220s disagree about the statistics; remove the wrong ones",
                        policy.statistics.origin.c_str(), beside_weights.origin.c_str());
  }
  if (!inside && outside) policy.statistics = std::move(beside_weights);
  if (policy.statistics.origin.empty()) policy.statistics.origin = looked;
  notes.push_back("statistics: " + policy.statistics.origin);
  return {};
}

Result<PolicyCheckpoint> open_policy_checkpoint(const std::string& path) {
  auto place = find_description(path);
  if (!place) return place.error();
  // What the description says of the folder and the family is known before the weights are.
  std::string folder = place.value().folder;
  if (!place.value().text.empty()) {
    auto first = read_policy(place.value().text, place.value().description, PiFamily::kPi05);
    if (!first) return first.error();
    if (!first.value().checkpoint.empty()) folder = beside(folder, first.value().checkpoint);
  }
  auto weights = SafeTensorsFolder::open(folder);
  if (!weights) return weights.error();
  auto source = PiCheckpointSource::make(
      std::make_shared<const SafeTensorsFolder>(std::move(weights.value())));
  if (!source) return source.error();
  const PiFamily family = source.value().family();

  // A config.json with "type" is LeRobot's, whatever the names of the tensors.
  bool lerobot = false;
  if (is_file(folder + "/config.json")) {
    auto text = read_small_file(folder + "/config.json", size_t{4} << 20);
    if (!text) return text.error();
    auto json = Json::parse(text.value());
    if (!json)
      return make_error(Code::kNotFound, "%.250s/config.json: %s", folder.c_str(),
                        json.error().text);
    lerobot = json.value().find("type") != nullptr;
  }
  auto facts = lerobot ? read_lerobot_folder(folder, source.value())
                       : read_openpi_folder(folder, source.value());
  if (!facts) return facts.error();
  PolicyDescription policy = facts.value().policy;
  std::vector<std::string> notes = {std::string(pi_family_name(family)) + ": " +
                                    source.value().reason() + "; names as " +
                                    source.value().layout() + " writes them"};
  notes.insert(notes.end(), facts.value().notes.begin(), facts.value().notes.end());
  if (!place.value().text.empty()) {
    auto read = read_policy(place.value().text, place.value().description, family, &policy);
    if (!read) return read.error();
    policy = std::move(read.value());
    notes.push_back("description: " + place.value().description);
  } else if (!facts.value().known) {
    return make_error(Code::kNotFound,
                      "%.200s: %.220s; say robot, cameras, state and actions in policy.json",
                      folder.c_str(), facts.value().why_not.c_str());
  }
  if (policy.family && *policy.family != family)
    return make_error(Code::kNotFound, "%.250s: family is %s, but %.150s",
                      place.value().description.c_str(), pi_family_name(*policy.family),
                      source.value().reason().c_str());
  OUTRIDER_TRY(take_statistics(place.value().folder, folder, lerobot, policy, notes));

  PiSizeHints hints = facts.value().hints;
  if (policy.model.head_dim > 0) hints.head_dim = policy.model.head_dim;
  if (policy.model.vision_heads > 0) hints.vision_heads = policy.model.vision_heads;
  const int64_t stated = facts.value().stated_action_dim;
  hints.action_dim = policy.model.action_dim > 0 ? policy.model.action_dim
                     : stated > 0                ? stated
                                                 : policy.action_width;
  hints.answer_tokens = answer_tokens(policy);
  hints.action_steps = horizon(policy);
  hints.n_denoise_steps = num_steps(policy);
  auto config = read_pi_checkpoint_config(source.value(), hints);
  if (!config) return config.error();
  if (stated > 0 && stated != config.value().action_dim)
    return make_error(Code::kShape,
                      "%.250s/config.json states an action width of %lld, the model has %lld",
                      folder.c_str(), static_cast<long long>(stated),
                      static_cast<long long>(config.value().action_dim));
  // Does the robot fit? Known before a weight is read.
  auto pipeline =
      PolicyPipeline::make(policy, family, config.value().action_dim, policy.action_width);
  if (!pipeline) return pipeline.error();

  auto tokenizer_path = find_tokenizer(place.value(), folder, policy.tokenizer);
  if (!tokenizer_path) return tokenizer_path.error();
  auto tokenizer = read_tokenizer(tokenizer_path.value());
  if (!tokenizer) return tokenizer.error();
  if (tokenizer.value().n_pieces() > config.value().vocab)
    return make_error(Code::kNotFound, "%.250s has %d pieces, the embedding has %lld rows",
                      tokenizer_path.value().c_str(), tokenizer.value().n_pieces(),
                      static_cast<long long>(config.value().vocab));
  notes.push_back("tokenizer: " + tokenizer_path.value());
  std::optional<ActionTokens> action_tokens;
  std::string action_tokens_path;
  if (family == PiFamily::kPi0Fast) {
    auto at = find_action_tokens(place.value(), folder, policy.action_tokens.tokenizer);
    if (!at) return at.error();
    action_tokens_path = at.value();
    auto tokens = ActionTokens::open(action_tokens_path);
    if (!tokens) return tokens.error();
    OUTRIDER_TRY(check_fast_vocabulary(tokenizer_path.value(), tokenizer.value(), tokens.value(),
                                       config.value(), lerobot_fast(policy, family)));
    action_tokens = std::move(tokens.value());
    notes.push_back("action tokens: " + action_tokens_path);
  }
  return PolicyCheckpoint{folder,
                          std::move(policy),
                          config.value(),
                          std::move(source.value()),
                          std::move(tokenizer.value()),
                          tokenizer_path.value(),
                          std::move(action_tokens),
                          std::move(action_tokens_path),
                          std::move(notes)};
}

}  // namespace outrider
