#include "cli/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/input_file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/config_keys.h"
#include "cli/llm_model.h"
#include "cli/onnx_model.h"
#include "gguf/gguf.h"
#include "host/provider_path.h"
#include "models/llm_weights.h"
#include "models/pi_gguf.h"
#include "policy/gguf_policy.h"
#include "providers/gguf/llm_open_config.h"
#include "providers/gguf/pi_open_config.h"
#include "providers/onnx/onnx_open_config.h"

namespace outrider::cli {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr ConfigKey kPi0Keys[] = {
    {"model_family", nullptr, "\"pi0\" for PI0 and PI0.5", true},
    {"model_path", nullptr, "policy file (GGUF)", true},
    {"mmproj_path", nullptr, "vision file (GGUF)", true},
    {"backend", nullptr, "\"cpu\"", true},
    {"n_views", nullptr, "cameras, 1 to 3", false},
    {"image_height", nullptr, "rows of every picture handed in", false},
    {"image_width", nullptr, "columns of every picture handed in", false},
    {"image_channels", nullptr, "3", false},
    {"action_steps", nullptr, "rows of the action chunk; must equal the file's", false},
    {"action_dim", nullptr, "columns of the action chunk; must equal the file's", false},
    {"numerics", "\"reference\"", "\"reference\" or \"jetson-pi\"", true},
    {"precision", "\"auto\"", "\"auto\", \"f32\", \"bf16\", \"int8\" or \"stored\"", true},
    {"n_threads", "0", "0: as many as this process may use", false},
    {"num_steps", "0", "0: as the file says", false},
    {"noise_seed", "41", "seed of the action noise", false},
    {"rope_bf16", "\"auto\"", "\"auto\", \"on\" or \"off\"", true},
    {"reuse", "\"off\"", "\"on\" or \"off\": keep what unchanged inputs became", true},
    {"pin_threads", "\"off\"", "\"on\" or \"off\": each compute thread on a CPU of its own", true},
    {"rt_priority", "0", "real-time priority of the compute threads, 1 to 99; 0: none", false},
    {"cache_dir", "\"\"", "folder for packed weights; empty: none", true},
    {"policy_dir", "\"\"", "checkpoint folder, policy.json or GGUF with a policy; empty: none",
     true},
};

Error unreachable(const std::string& path, const char* cause) {
  return make_error(Code::kNotFound, "cannot open \"%.300s\": %s", path.c_str(), cause);
}

std::string quote(const std::string& text) {
  return to_json_text(Report(text), -1);
}

std::string literal_of(const Json& value) {
  return value.is_string() ? quote(value.text()) : value.text();
}

std::string join_json(const std::vector<Setting>& settings) {
  std::string json = "{";
  for (const Setting& setting : settings)
    json += (json.size() > 1 ? ", " : "") + quote(setting.key) + ": " + setting.literal;
  return json + "}";
}

// A flag wins over the file, and says so.
void put(Resolved& resolved, const char* key, const std::string& literal, const char* flag) {
  for (Setting& setting : resolved.settings) {
    if (setting.key != key) continue;
    if (setting.literal != literal)
      resolved.notes.push_back(
          fmt::format("{} {} replaces {} of {}", flag, literal, setting.literal, setting.origin));
    setting.literal = literal;
    setting.origin = flag;
    return;
  }
  resolved.settings.push_back({key, literal, flag});
}

// The keys of a family; empty for one that only its provider knows.
std::span<const ConfigKey> keys_of(std::string_view family) {
  if (family == "pi0") return kPi0Keys;
  if (family == "llm") return llm_keys();
  if (family == "mllm") return mllm_keys();
  return family == "onnx" ? onnx_keys() : std::span<const ConfigKey>();
}

// --set KEY=VALUE: the table says whether the value is a number or a text.
Result<void> apply_set(Resolved& resolved, const Wish& wish) {
  const std::span<const ConfigKey> keys = keys_of(resolved.family);
  std::vector<const char*> known;
  for (const ConfigKey& key : keys) known.push_back(key.name);
  for (const auto& entry : wish.set) {
    const std::string &name = entry.first, &value = entry.second;
    int64_t number = 0;
    std::string literal = read_integer(value, number) ? std::to_string(number) : quote(value);
    if (!keys.empty()) {
      const auto row =
          std::ranges::find_if(keys, [&](const ConfigKey& key) { return name == key.name; });
      if (row == keys.end()) {
        const char* near = nearest_name(name, known);
        return make_error(Code::kInvalid,
                          "--set: unknown key \"%.80s\" for model_family %.40s%s%s%s", name.c_str(),
                          resolved.family.c_str(),
                          near ? "; did you mean \"" : "; docs/reference/config.md lists its keys",
                          near ? near : "", near ? "\"?" : "");
      }
      const auto number_like = Json::parse(value);
      if (row->is_text)
        literal = quote(value);
      else if (number_like && number_like.value().is_number())
        literal = value;
    }
    put(resolved, name.c_str(), literal, "--set");
  }
  return {};
}

// A derived configuration is JSON, which cannot carry every name a file can have.
Result<void> check_nameable(const std::string& path) {
  const bool control = std::ranges::any_of(
      path, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (utf8_valid(path) && !control) return {};
  return make_error(
      Code::kInvalid, "%s: %s in the name, which a configuration cannot carry; rename the file",
      shown(path, 300).c_str(), control ? "a control byte is" : "bytes that are not UTF-8 are");
}

// A runtime in front of others: what computes, and how, is said where they are.
bool is_front(std::string_view family) {
  return family == "remote" || family == "tandem" || family == "camera";
}

// Does the family have the key that a flag stands for?
Result<void> check_flag(const Resolved& resolved, const char* flag, const char* key) {
  const std::span<const ConfigKey> keys = keys_of(resolved.family);
  const bool front = is_front(resolved.family);
  const auto is_key = [&](const ConfigKey& row) { return std::string_view(key) == row.name; };
  if (!front && (keys.empty() || std::ranges::any_of(keys, is_key))) return {};
  return make_error(Code::kInvalid, "%s has no effect here: family \"%.40s\" has no key %s; %s",
                    flag, resolved.family.c_str(), key,
                    !front ? "leave it out"
                    : resolved.family == "remote"
                        ? "give it to the host (outrider serve)"
                        : "say it in the configuration of the runtime behind");
}

Result<void> check_flags(const Resolved& resolved, const Wish& wish) {
  if (wish.n_threads) OUTRIDER_TRY(check_flag(resolved, "--threads", "n_threads"));
  if (wish.noise_seed)
    OUTRIDER_TRY(
        check_flag(resolved, "--seed", is_language(resolved.family) ? "seed" : "noise_seed"));
  if (wish.max_tokens) OUTRIDER_TRY(check_flag(resolved, "--max-tokens", "max_tokens"));
  if (wish.n_views) OUTRIDER_TRY(check_flag(resolved, "--views", "n_views"));
  if (!wish.mmproj.empty()) OUTRIDER_TRY(check_flag(resolved, "--mmproj", "mmproj_path"));
  return {};
}

Result<void> apply_flags(Resolved& resolved, const Wish& wish) {
  OUTRIDER_TRY(check_flags(resolved, wish));
  if (wish.n_threads) put(resolved, "n_threads", std::to_string(*wish.n_threads), "--threads");
  if (wish.noise_seed)
    put(resolved, is_language(resolved.family) ? "seed" : "noise_seed",
        std::to_string(*wish.noise_seed), "--seed");
  if (wish.max_tokens && is_language(resolved.family))
    put(resolved, "max_tokens", std::to_string(*wish.max_tokens), "--max-tokens");
  if (!wish.schema.empty()) {
    if (!is_language(resolved.family))
      return make_error(Code::kInvalid,
                        "--schema: this is of family \"%.40s\", which writes no text; a language "
                        "model (llm, mllm) follows a schema",
                        resolved.family.c_str());
    OUTRIDER_TRY(check_nameable(wish.schema));
    OUTRIDER_TRY(check_there(wish.schema));
    put(resolved, "schema_path", quote(wish.schema), "--schema");
  }
  return apply_set(resolved, wish);
}

void add_defaults(Resolved& resolved) {
  for (const ConfigKey& key : keys_of(resolved.family))
    if (key.by_default != nullptr && resolved.find(key.name) == nullptr)
      resolved.settings.push_back({key.name, key.by_default, kDefaultOrigin});
}

std::string text_of(const Resolved& resolved, const char* key) {
  const Setting* setting = resolved.find(key);
  auto json = Json::parse(setting == nullptr ? "\"\"" : setting->literal);
  return json && json.value().is_string() ? json.value().text() : std::string();
}

// The whole of it against the provider's own rules, so that nothing is called good here that its
// open refuses. A provider given by hand judges for itself.
Result<Resolved> checked(Resolved resolved, const std::string& path, const Wish& wish) {
  if (!keys_of(resolved.family).empty() && wish.provider.empty()) {
    auto json = Json::parse(resolved.json, Json::Dialect::kFlatOpen);
    if (!json) return make_error(Code::kInvalid, "%.200s: %s", path.c_str(), json.error().text);
    const auto judge = [&](const auto& config) -> Result<void> {
      if (config) return {};
      return make_error(config.code(), "%.200s: %s", path.c_str(), config.error().text);
    };
    OUTRIDER_TRY(resolved.family == "onnx"   ? judge(read_onnx_open_config(json.value()))
                 : resolved.family == "llm"  ? judge(read_llm_open_config(json.value()))
                 : resolved.family == "mllm" ? judge(read_mllm_open_config(json.value()))
                                             : judge(read_pi_open_config(json.value())));
  }
  resolved.model_path = text_of(resolved, "model_path");
  resolved.mmproj_path = text_of(resolved, "mmproj_path");
  resolved.policy_dir = text_of(resolved, "policy_dir");
  add_defaults(resolved);
  return resolved;
}

Result<void> check_keys(const Json& object, const std::string& path, const std::string& family) {
  if (keys_of(family).empty()) return {};
  std::vector<const char*> known;
  for (const ConfigKey& key : keys_of(family)) known.push_back(key.name);
  for (const Json::Member& member : object.members()) {
    if (std::ranges::any_of(known, [&](const char* name) { return member.name == name; })) continue;
    const char* near = nearest_name(member.name, known);
    return make_error(
        Code::kInvalid, "%s:%u: unknown key \"%.80s\"%s%s%s", path.c_str(), member.value.line(),
        member.name.c_str(),
        near ? "; did you mean \"" : "; keys are listed in the configuration reference",
        near ? near : "", near ? "\"?" : "");
  }
  return {};
}

Result<Resolved> resolve_config(const std::string& path, const Wish& wish) {
  auto text = read_file(path, kMaxConfigBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value(), Json::Dialect::kFlatOpen);
  if (!json) return make_error(Code::kInvalid, "%s: %s", path.c_str(), json.error().text);
  const Json* family = json.value().find("model_family");
  if (family == nullptr || !family->is_string())
    return make_error(Code::kInvalid,
                      "%s: key \"model_family\" %s; wanted pi0, llm, mllm, onnx, remote or tandem",
                      path.c_str(), family == nullptr ? "is missing" : "must be a string");
  Resolved resolved;
  resolved.family = family->text();
  resolved.provider_path = wish.provider;
  if (wish.provider.empty()) {
    OUTRIDER_TRY(check_keys(json.value(), path, resolved.family));
    auto found = host::find_provider(resolved.family);
    // A provider that is not installed is a matter of the environment, not of the file.
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    resolved.provider_path = found.value();
  }
  for (const Json::Member& member : json.value().members())
    resolved.settings.push_back(
        {member.name, literal_of(member.value), fmt::format("{}:{}", path, member.value.line())});
  resolved.json = text.value();
  OUTRIDER_TRY(check_flags(resolved, wish));
  if (!wish.mmproj.empty())
    return make_error(Code::kInvalid,
                      "--mmproj goes with a model file; %.200s is a configuration: its key "
                      "mmproj_path says it",
                      path.c_str());
  if (wish.n_threads || wish.noise_seed || wish.max_tokens || !wish.schema.empty() ||
      !wish.set.empty()) {
    OUTRIDER_TRY(apply_flags(resolved, wish));
    resolved.json = join_json(resolved.settings);
  }
  if (wish.n_views && *wish.n_views != resolved.integer("n_views", 0))
    return make_error(Code::kInvalid, "--views %lld: %s says n_views %lld; change the file",
                      static_cast<long long>(*wish.n_views), path.c_str(),
                      static_cast<long long>(resolved.integer("n_views", 0)));
  return checked(std::move(resolved), path, wish);
}

// The vision file of a model: --mmproj, --set mmproj_path, else the one beside it.
Result<std::string> vision_file_of(const std::string& path, const Wish& wish) {
  const std::string* named = wish.mmproj.empty() ? nullptr : &wish.mmproj;
  for (const auto& [key, value] : wish.set) {
    if (key == "mmproj_path") named = &value;
    if (key == "model_path" && value != path)
      return make_error(
          Code::kInvalid,
          "--set model_path=%.150s: the model is %.150s; give the other file in its place",
          value.c_str(), path.c_str());
  }
  if (named == nullptr) return find_vision_file(path);
  OUTRIDER_TRY(check_there(*named));
  return *named;
}

Result<Resolved> derive_pi(const GgufFile& policy, const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_nameable(path));
  auto vision_path = vision_file_of(path, wish);
  if (!vision_path) return vision_path.error();
  auto vision = GgufFile::open(vision_path.value().c_str());
  if (!vision) return vision.error();
  auto config = read_pi_config(policy, vision.value());
  if (!config) return config.error();

  Resolved resolved;
  resolved.derived = true;
  resolved.family = "pi0";
  resolved.model_path = path;
  resolved.mmproj_path = vision_path.value();
  auto add = [&](const char* key, const std::string& literal, const std::string& origin) {
    resolved.settings.push_back({key, literal, origin});
  };
  add("model_family", "\"pi0\"", "general.architecture of the file");
  add("model_path", quote(path), "command line");
  add("mmproj_path", quote(vision_path.value()), "found beside the policy file");
  add("backend", "\"cpu\"", "default for a model file");
  add("n_views", std::to_string(wish.n_views.value_or(2)),
      wish.n_views ? "--views" : "default for a model file");
  const std::string size = std::to_string(config.value().vision.image_size);
  const char* size_origin =
      wish.image_size ? "size of the given pictures" : "clip.vision.image_size of the vision file";
  add("image_height", wish.image_size ? std::to_string(wish.image_size->second) : size,
      size_origin);
  add("image_width", wish.image_size ? std::to_string(wish.image_size->first) : size, size_origin);
  add("image_channels", "3", "RGB");
  add("action_steps", std::to_string(config.value().action_steps),
      "chunk length of the policy file");
  add("action_dim", std::to_string(config.value().action_dim), "action width of the policy file");
  OUTRIDER_TRY(apply_flags(resolved, wish));
  resolved.json = join_json(resolved.settings);
  resolved.provider_path = wish.provider;
  if (wish.provider.empty()) {
    auto found = host::find_provider("pi0");
    // A provider that is not installed is a matter of the environment, not of the file.
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    resolved.provider_path = found.value();
  }
  return checked(std::move(resolved), path, wish);
}

// A policy that knows its robot: everything else is in it.
Result<Resolved> derive_policy(const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_nameable(path));
  Resolved resolved;
  resolved.derived = true;
  resolved.family = "pi0";
  auto add = [&](const char* key, const std::string& literal, const std::string& origin) {
    resolved.settings.push_back({key, literal, origin});
  };
  add("model_family", "\"pi0\"", "default for a policy");
  if (wish.n_views || !wish.mmproj.empty())
    return make_error(Code::kInvalid,
                      "%s has no effect here: %.200s is a policy that brings its cameras and its "
                      "vision weights; leave it out",
                      wish.n_views ? "--views" : "--mmproj", path.c_str());
  add("policy_dir", quote(path), "command line");
  add("backend", "\"cpu\"", "default for a policy");
  if (wish.image_size) {
    add("image_height", std::to_string(wish.image_size->second), "size of the given pictures");
    add("image_width", std::to_string(wish.image_size->first), "size of the given pictures");
  }
  OUTRIDER_TRY(apply_flags(resolved, wish));
  resolved.json = join_json(resolved.settings);
  resolved.provider_path = wish.provider;
  if (wish.provider.empty()) {
    auto found = host::find_provider("pi0");
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    resolved.provider_path = found.value();
  }
  return checked(std::move(resolved), path, wish);
}

// A policy.json, not an open configuration: it names no model_family.
bool is_policy_document(const std::string& path) {
  auto text = read_file(path, kMaxPolicyBytes);
  if (!text) return false;
  auto json = Json::parse(text.value());
  if (!json || json.value().find("model_family") != nullptr) return false;
  for (const char* key : {"robot", "cameras", "checkpoint", "statistics", "normalisation"})
    if (json.value().find(key) != nullptr) return true;
  return false;
}

bool wants_vision(const Wish& wish) {
  const auto is_mmproj = [](const auto& entry) { return entry.first == "mmproj_path"; };
  return !wish.mmproj.empty() || wish.pictures || std::ranges::any_of(wish.set, is_mmproj);
}

Result<Resolved> derive_text(const GgufFile& file, const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_nameable(path));
  const bool sees = wants_vision(wish);
  Result<std::string> vision = std::string();
  if (sees) vision = vision_file_of(path, wish);
  if (!vision) return vision.error();
  OUTRIDER_TRY(check_nameable(vision.value()));
  auto settings = derive_llm(file, path, vision.value());
  if (!settings) return settings.error();
  Resolved resolved;
  resolved.derived = true;
  resolved.family = sees ? "mllm" : "llm";
  resolved.settings = std::move(settings.value());
  OUTRIDER_TRY(apply_flags(resolved, wish));
  resolved.json = join_json(resolved.settings);
  resolved.provider_path = wish.provider;
  if (wish.provider.empty()) {
    auto found = host::find_provider(resolved.family);
    // A provider that is not installed is a matter of the environment, not of the file.
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    resolved.provider_path = found.value();
  }
  return checked(std::move(resolved), path, wish);
}

Result<Resolved> resolve_gguf(const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_there(path));
  auto file = GgufFile::open(path.c_str());
  if (!file) return file.error();
  auto architecture = file.value().string("general.architecture");
  if (!architecture) return architecture.error();
  if (is_pi_policy(file.value()) && has_policy(file.value())) return derive_policy(path, wish);
  if (is_pi_policy(file.value())) return derive_pi(file.value(), path, wish);
  if (is_pi_vision(file.value()))
    return make_error(Code::kUnsupported,
                      "%s: a vision file; give the policy or text file that belongs to it",
                      path.c_str());
  if (is_llm(file.value())) return derive_text(file.value(), path, wish);
  return make_error(Code::kUnsupported,
                    "%s: architecture \"%.40s\" is not in this build; it runs pi0 (PI0, PI0.5), "
                    "llama, qwen2, qwen3, gemma, gemma2, gemma3 and qwen2vl",
                    path.c_str(), std::string(architecture.value()).c_str());
}

}  // namespace

std::span<const ConfigKey> pi0_keys() {
  return kPi0Keys;
}

const Setting* Resolved::find(std::string_view key) const {
  for (const Setting& setting : settings)
    if (setting.key == key) return &setting;
  return nullptr;
}

int64_t Resolved::integer(std::string_view key, int64_t otherwise) const {
  const Setting* setting = find(key);
  int64_t value = 0;
  return setting != nullptr && read_integer(setting->literal, value) ? value : otherwise;
}

Result<void> check_there(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0)
    return unreachable(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return unreachable(path, "not a regular file");
  return {};
}

Result<void> check_files(const Resolved& resolved) {
  if (keys_of(resolved.family).empty()) return {};
  for (const std::string& path :
       {resolved.model_path, resolved.mmproj_path, text_of(resolved, "schema_path")})
    if (!path.empty()) OUTRIDER_TRY(check_there(path));
  return {};
}

Result<Session> open_session(const Resolved& resolved) {
  OUTRIDER_TRY(check_files(resolved));
  return Session::open(resolved.provider_path, resolved.json);
}

Result<std::string> find_vision_file(const std::string& policy_path) {
  const fs::path policy(policy_path);
  const std::string stem = policy.stem().string();
  const fs::path folder = policy.has_parent_path() ? policy.parent_path() : fs::path(".");
  std::error_code error;
  const fs::path first = folder / (stem + "-mmproj.gguf");
  if (fs::is_regular_file(first, error)) return first.lexically_normal().string();

  // Files converters name differently: anything with mmproj in its name that begins like the policy
  // up to its first '-' or '.', and that says of itself that it is a vision file.
  const std::string prefix = stem.substr(0, stem.find_first_of("-._"));
  std::vector<std::string> candidates;
  size_t n_seen = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && n_seen < 100000;
       it.increment(error), ++n_seen) {
    const std::string name = it->path().filename().string();
    if (it->path().extension() != ".gguf" || !name.starts_with(prefix) ||
        name.find("mmproj") == std::string::npos || it->path().filename() == policy.filename())
      continue;
    auto file = GgufFile::open(it->path().c_str());
    if (!file) continue;
    if (is_pi_vision(file.value())) candidates.push_back(it->path().lexically_normal().string());
  }
  std::ranges::sort(candidates);
  if (candidates.size() == 1) return candidates[0];
  if (candidates.empty())
    return make_error(
        Code::kNotFound,
        "cannot find a vision file beside %s (wanted %s, or %s*mmproj*.gguf); give it with --set "
        "mmproj_path=PATH or a configuration",
        policy_path.c_str(), first.c_str(), prefix.c_str());
  std::string list;
  for (const std::string& candidate : candidates) list += (list.empty() ? "" : ", ") + candidate;
  return make_error(
      Code::kInvalid,
      "%s: %zu vision files could belong to it: %s; give a configuration with mmproj_path",
      policy_path.c_str(), candidates.size(), list.c_str());
}

Result<Resolved> resolve_onnx(const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_there(path));
  OUTRIDER_TRY(check_nameable(path));
  auto settings = derive_onnx(path);
  if (!settings) return settings.error();
  Resolved resolved;
  resolved.derived = true;
  resolved.family = "onnx";
  resolved.settings = std::move(settings.value());
  OUTRIDER_TRY(apply_flags(resolved, wish));
  resolved.json = join_json(resolved.settings);
  resolved.provider_path = wish.provider;
  if (wish.provider.empty()) {
    auto found = host::find_provider("onnx");
    // A provider that is not installed is a matter of the environment, not of the file.
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    resolved.provider_path = found.value();
  }
  return checked(std::move(resolved), path, wish);
}

Result<Resolved> resolve(const std::string& path, const Wish& wish) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return unreachable(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return derive_policy(path, wish);
  if (!S_ISREG(info.st_mode)) return unreachable(path, "not a regular file");
  if (!wish.provider.empty() && ::access(wish.provider.c_str(), R_OK) != 0)
    return unreachable(wish.provider, std::strerror(errno));
  // What a file is, its first bytes say; the name decides only where they do not.
  if (auto there = InputFile::open(path); !there) return there.error();
  const std::string extension = fs::path(path).extension().string();
  if (read_file_begin(path, 4) == "GGUF" || extension == ".gguf") return resolve_gguf(path, wish);
  if (extension == ".onnx") return resolve_onnx(path, wish);
  if (extension == ".safetensors")
    return make_error(Code::kUnsupported,
                      "%s: %s files are not run by this build; it runs .gguf and .onnx models",
                      path.c_str(), extension.c_str() + 1);
  if (is_policy_document(path)) return derive_policy(path, wish);
  return resolve_config(path, wish);
}

Wish wish_of(const Args& args, const Command& command) {
  auto has = [&](std::string_view name) {
    return std::ranges::any_of(command.flags,
                               [&](const Flag& flag) { return name == flag.name; }) &&
           args.given(name);
  };
  Wish wish;
  if (has("--threads")) wish.n_threads = args.integer("--threads");
  if (has("--seed")) wish.noise_seed = args.integer("--seed");
  if (has("--max-tokens")) wish.max_tokens = args.integer("--max-tokens");
  if (has("--views")) wish.n_views = args.integer("--views");
  if (has("--set"))
    for (const std::string& word : args.all("--set"))
      wish.set.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  if (has("--schema")) wish.schema = args.text("--schema");
  if (has("--provider")) wish.provider = args.text("--provider");
  if (has("--mmproj")) wish.mmproj = args.text("--mmproj");
  wish.pictures = has("--image");
  return wish;
}

Report settings_report(const Resolved& resolved) {
  Report report;
  report["provider"] = resolved.provider_path;
  Report rows = Report::array();
  for (const Setting& setting : resolved.settings)
    rows.push_back({{"key", setting.key},
                    {"value", report_of_literal(setting.literal)},
                    {"origin", setting.origin}});
  report["settings"] = std::move(rows);
  Report config = Report::object();
  for (const Setting& setting : resolved.settings)
    if (setting.origin != kDefaultOrigin) config[setting.key] = report_of_literal(setting.literal);
  report["config"] = std::move(config);
  return report;
}

void print_settings(const Resolved& resolved, Output& out) {
  size_t key_width = 0, value_width = 0;
  for (const Setting& setting : resolved.settings) {
    key_width = std::max(key_width, setting.key.size());
    value_width = std::max(value_width, std::min<size_t>(setting.literal.size(), 40));
  }
  out.text("{:<{}}  {}\n", "provider", key_width, resolved.provider_path);
  for (const Setting& setting : resolved.settings)
    out.text("{:<{}}  {:<{}}  {}\n", setting.key, key_width, setting.literal, value_width,
             setting.origin);
}

}  // namespace outrider::cli
