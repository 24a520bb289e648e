// What lies beside the weights of a LeRobot checkpoint: config.json, and the two pipelines with
// their statistics. A step or an option that changes what the policy computes and is not known here
// is refused by name.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "policy/checkpoint.h"
#include "policy/json_object.h"

namespace outrider {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr const char* kState = "observation.state";
constexpr const char* kAction = "action";

Error bad(const std::string& path, const char* what) {
  return make_error(Code::kNotFound, "%.300s: %s", path.c_str(), what);
}

Result<Json> read_document(const std::string& path) {
  auto text = read_small_file(path, kMaxConfigBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value(), Json::Dialect::kStandard,
                          {.max_bytes = kMaxConfigBytes, .max_depth = 32, .max_values = 1 << 18});
  if (!json) return make_error(Code::kNotFound, "%.250s: %s", path.c_str(), json.error().text);
  if (!json.value().is_object()) return bad(path, "no JSON object");
  return json;
}

std::string text_at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->text() : std::string();
}
bool flag_at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_bool() && value->boolean();
}

// ---- config.json --------------------------------------------------------------------------------

class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string path, const PiCheckpointSource& source,
               FolderFacts& out)
      : json_(json), path_(std::move(path)), source_(source), out_(out) {}

  Result<void> read() {
    OUTRIDER_TRY(check_type());
    OUTRIDER_TRY(check_options());
    out_.policy.prompt_rule = PromptRule::kLerobot;
    out_.policy.norm_rule = NormRule::kLerobot;
    out_.policy.epsilon = 1e-8;
    out_.policy.resize = ResizeChoice::kTorch;
    out_.hints.head_dim = 256;
    OUTRIDER_TRY(integer("chunk_size", 4096, out_.policy.horizon));
    OUTRIDER_TRY(integer("num_inference_steps", 1000, out_.policy.num_steps));
    OUTRIDER_TRY(integer("tokenizer_max_length", 1024, out_.policy.max_tokens));
    OUTRIDER_TRY(integer("max_action_dim", 4096, out_.stated_action_dim));
    OUTRIDER_TRY(read_forms());
    OUTRIDER_TRY(read_inputs());
    return read_outputs();
  }

 private:
  Result<void> check_type() {
    const std::string type = text_at(json_, "type");
    const bool pi05 = source_.family() == PiFamily::kPi05;
    if (type == "pi0_fast")
      return make_error(Code::kUnsupported,
                        "%.250s: type is \"pi0_fast\"; LeRobot trains PI0-FAST with other prompts "
                        "than openpi (a begin id behind them), which this build does not write",
                        path_.c_str());
    if (type != "pi0" && type != "pi05")
      return make_error(Code::kUnsupported,
                        "%.250s: type is \"%.40s\"; this build runs \"pi0\" and \"pi05\"",
                        path_.c_str(), type.c_str());
    if ((type == "pi05") != pi05)
      return make_error(Code::kNotFound, "%.250s: type is \"%s\", but %s", path_.c_str(),
                        type.c_str(), source_.reason().c_str());
    return {};
  }

  // Options that would change the computation.
  Result<void> check_options() {
    for (const char* key : {"use_visual_memory", "use_proprioceptive_memory"}) {
      if (flag_at(json_, key))
        return make_error(Code::kUnsupported, "%.300s: %s is on; this build has no such memory",
                          path_.c_str(), key);
    }
    const Json* steps = json_.find("n_obs_steps");
    if (steps != nullptr && (!steps->is_integer() || steps->integer() != 1))
      return make_error(Code::kUnsupported,
                        "%.300s: n_obs_steps is %.20s; this build runs policies that see one "
                        "observation",
                        path_.c_str(), steps->text().c_str());
    for (const auto& [key, wanted] :
         {std::pair{"min_period", 4e-3}, std::pair{"max_period", 4.0}}) {
      const Json* value = json_.find(key);
      if (value != nullptr && (!value->is_number() || value->number() != wanted))
        return make_error(Code::kUnsupported, "%.300s: %s is %.30s, this build has %g",
                          path_.c_str(), key, value->text().c_str(), wanted);
    }
    return {};
  }

  Result<void> integer(const char* key, int64_t most, int64_t& out) {
    const Json* value = json_.find(key);
    if (value == nullptr) return {};
    if (!value->is_integer() || value->integer() < 1 || value->integer() > most)
      return make_error(Code::kNotFound, "%.300s: %s is %.30s, allowed is an integer 1..%lld",
                        path_.c_str(), key, value->text().c_str(), static_cast<long long>(most));
    out = value->integer();
    return {};
  }

  static Result<NormForm> form_named(const std::string& path, const std::string& name) {
    if (name == "IDENTITY") return NormForm::kNone;
    if (name == "MEAN_STD") return NormForm::kZScore;
    if (name == "QUANTILES") return NormForm::kQuantile;
    if (name == "MIN_MAX") return NormForm::kMinMax;
    return make_error(Code::kUnsupported,
                      "%.250s: normalisation \"%.40s\"; this build has IDENTITY, MEAN_STD, "
                      "QUANTILES, MIN_MAX",
                      path.c_str(), name.c_str());
  }

  Result<void> read_forms() {
    const Json* map = json_.find("normalization_mapping");
    if (map == nullptr || !map->is_object()) return bad(path_, "normalization_mapping is missing");
    const std::string visual = text_at(*map, "VISUAL");
    if (!visual.empty() && visual != "IDENTITY")
      return make_error(Code::kUnsupported,
                        "%.300s: VISUAL is normalised by \"%.40s\"; this build takes pictures as "
                        "they are (IDENTITY)",
                        path_.c_str(), visual.c_str());
    for (const auto& [key, form] : {std::pair{"STATE", &PolicyDescription::state_form},
                                    std::pair{"ACTION", &PolicyDescription::action_form}}) {
      auto named = form_named(path_ + ": " + key, text_at(*map, key));
      if (!named) return named.error();
      out_.policy.*form = named.value();
    }
    return {};
  }

  // [n] or [3, h, w]. Errors name the feature.
  Result<std::vector<int64_t>> shape_of(const Json& feature, const std::string& name, size_t rank) {
    const Json* list = feature.find("shape");
    std::vector<int64_t> shape;
    bool good = list != nullptr && list->is_array() && list->items().size() == rank;
    for (size_t i = 0; good && i < rank; ++i) {
      const Json& side = list->items()[i];
      good = side.is_integer() && side.integer() >= 1 && side.integer() <= 65535;
      if (good) shape.push_back(side.integer());
    }
    if (good) return shape;
    return make_error(Code::kNotFound, "%.250s: the shape of %.80s is no list of %zu sizes",
                      path_.c_str(), name.c_str(), rank);
  }

  Result<void> read_inputs() {
    const Json* features = json_.find("input_features");
    if (features == nullptr || !features->is_object())
      return bad(path_, "input_features is missing: cameras and state are not known");
    for (const Json::Member& member : features->members()) {
      const std::string type = text_at(member.value, "type");
      if (type == "VISUAL") {
        OUTRIDER_TRY(read_camera(member));
      } else if (type == "STATE" && member.name == kState) {
        auto shape = shape_of(member.value, member.name, 1);
        if (!shape) return shape.error();
        out_.policy.state = {{member.name, shape.value()[0], ""}};
      } else {
        return make_error(Code::kUnsupported,
                          "%.250s: input feature \"%.80s\" of type \"%.30s\"; this build knows "
                          "VISUAL and observation.state",
                          path_.c_str(), member.name.c_str(), type.c_str());
      }
    }
    if (out_.policy.state.empty()) return bad(path_, "input_features has no observation.state");
    return {};
  }

  // Pictures that never come are masked out, so their slots need no camera.
  Result<void> read_camera(const Json::Member& member) {
    if (member.name.find("empty_camera_") != std::string::npos) return {};
    auto shape = shape_of(member.value, member.name, 3);
    if (!shape) return shape.error();
    if (shape.value()[0] != 3)
      return make_error(Code::kNotFound, "%.250s: %.80s has %lld channels, wanted [3, h, w]",
                        path_.c_str(), member.name.c_str(),
                        static_cast<long long>(shape.value()[0]));
    const auto slot = static_cast<int64_t>(out_.policy.cameras.size());
    if (slot >= kMaxCameras)
      return make_error(Code::kUnsupported, "%.300s: more than %lld cameras", path_.c_str(),
                        static_cast<long long>(kMaxCameras));
    out_.policy.cameras.push_back(
        {member.name, slot, true, false, shape.value()[1], shape.value()[2]});
    return {};
  }

  Result<void> read_outputs() {
    const Json* features = json_.find("output_features");
    const Json* action = features != nullptr ? features->find(kAction) : nullptr;
    if (action == nullptr) return bad(path_, "output_features has no action");
    auto shape = shape_of(*action, kAction, 1);
    if (!shape) return shape.error();
    out_.policy.action_width = shape.value()[0];
    if (const Json* names = json_.find("action_feature_names");
        names != nullptr && names->is_array() &&
        static_cast<int64_t>(names->items().size()) == out_.policy.action_width) {
      for (const Json& name : names->items())
        out_.policy.action_names.push_back(name.is_string() ? name.text() : "");
    }
    return {};
  }

  const Json& json_;
  const std::string path_;
  const PiCheckpointSource& source_;
  FolderFacts& out_;
};

// ---- pipelines ----------------------------------------------------------------------------------

// Steps that need nothing from us: batches, devices, what config.json says already.
constexpr const char* kHarmless[] = {"to_batch_processor", "device_processor",
                                     "pi0_new_line_processor"};

class PipelineReader {
 public:
  PipelineReader(std::string folder, FolderFacts& out) : folder_(std::move(folder)), out_(out) {}

  Result<void> read(const char* name, bool before) {
    before_ = before;
    path_ = folder_ + "/" + name;
    auto json = read_document(path_);
    if (!json)
      return make_error(json.code(),
                        "%.300s; statistics live there, and checkpoints of older LeRobot versions "
                        "keep them in the weights: migrate them with LeRobot's own script",
                        json.error().text);
    const Json* steps = json.value().find("steps");
    if (steps == nullptr || !steps->is_array()) return bad(path_, "steps is missing or no list");
    for (size_t i = 0; i < steps->items().size(); ++i)
      OUTRIDER_TRY(read_step(steps->items()[i], i));
    if (!normalised_)
      return make_error(Code::kNotFound, "%.300s has no %s step: where are the statistics?",
                        path_.c_str(), before ? "normalizer_processor" : "unnormalizer_processor");
    normalised_ = false;
    return {};
  }

 private:
  Result<void> read_step(const Json& step, size_t index) {
    const std::string name = text_at(step, "registry_name");
    static const Json kNone;
    const Json* found = step.find("config");
    const Json& config = found != nullptr ? *found : kNone;
    if (std::find(std::begin(kHarmless), std::end(kHarmless), name) != std::end(kHarmless))
      return {};
    if (name == "rename_observations_processor") return read_renames(config);
    if (name == "tokenizer_processor") return read_tokenizer(config);
    if (name == "pi05_prepare_state_tokenizer_processor_step") {
      const Json* in_prompt = config.find("include_state_in_prompt");
      if (in_prompt != nullptr && in_prompt->is_bool())
        out_.policy.state_in_text = in_prompt->boolean();
      if (!out_.policy.state_in_text.value_or(true))
        return make_error(Code::kUnsupported,
                          "%.300s: step %zu leaves the state out of the prompt; this build has no "
                          "such prompt",
                          path_.c_str(), index);
      return {};
    }
    if (name == "relative_actions_processor") return read_relative(config);
    if (name == "absolute_actions_processor") {
      if (flag_at(config, "enabled") != relative_)
        return make_error(Code::kNotFound,
                          "%.300s: absolute actions are %s, the preprocessor's relative ones %s",
                          path_.c_str(), relative_ ? "off" : "on", relative_ ? "on" : "off");
      return {};
    }
    if (name == (before_ ? "normalizer_processor" : "unnormalizer_processor"))
      return read_normalizer(step, config);
    std::string shown = name.empty() ? text_at(step, "class") : name;
    return make_error(Code::kUnsupported,
                      "%.250s: step %zu is \"%.80s\", which this build does not know; it would "
                      "change what the policy sees or does",
                      path_.c_str(), index, shown.c_str());
  }

  // Incoming name -> the policy's name. Ports carry the incoming one.
  Result<void> read_renames(const Json& config) {
    const Json* map = config.find("rename_map");
    if (map == nullptr || !map->is_object()) return {};
    for (const Json::Member& member : map->members()) {
      if (!member.value.is_string()) return bad(path_, "rename_map maps names to names");
      const std::string& wanted = member.value.text();
      bool found = false;
      for (PolicyCamera& camera : out_.policy.cameras) {
        if (camera.name == wanted) camera.name = member.name, found = true;
      }
      for (StateField& field : out_.policy.state) {
        if (field.name == wanted) field.name = member.name, found = true;
      }
      if (!found) {
        std::string list;
        for (const PolicyCamera& camera : out_.policy.cameras)
          list += (list.empty() ? "" : ", ") + camera.name;
        return make_error(
            Code::kNotFound,
            "%.200s: rename_map renames \"%.60s\" to \"%.60s\", which the policy does "
            "not have; it has observation.state, %.120s",
            path_.c_str(), member.name.c_str(), wanted.c_str(), list.c_str());
      }
    }
    return {};
  }

  Result<void> read_tokenizer(const Json& config) {
    const Json* length = config.find("max_length");
    if (length != nullptr && length->is_integer() && length->integer() >= 1 &&
        length->integer() <= 1024)
      out_.policy.max_tokens = length->integer();
    const std::string name = text_at(config, "tokenizer_name");
    if (!name.empty() && name.find("paligemma") == std::string::npos && name != "tokenizer")
      return make_error(Code::kUnsupported,
                        "%.250s: tokenizer_name is \"%.80s\"; PI0 and PI0.5 have PaliGemma's",
                        path_.c_str(), name.c_str());
    if (const std::string side = text_at(config, "padding_side"); !side.empty() && side != "right")
      return make_error(Code::kUnsupported, "%.300s: padding_side is \"%.20s\", wanted \"right\"",
                        path_.c_str(), side.c_str());
    return {};
  }

  // Dimensions whose names hold one of the excluded words stay absolute.
  Result<void> read_relative(const Json& config) {
    relative_ = flag_at(config, "enabled");
    if (!relative_) return {};
    const auto lower = [](std::string text) {
      std::transform(text.begin(), text.end(), text.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      return text;
    };
    std::vector<std::string> words;
    if (const Json* excluded = config.find("exclude_joints"); excluded != nullptr) {
      for (const Json& word : excluded->items())
        if (word.is_string() && !word.text().empty()) words.push_back(lower(word.text()));
    }
    out_.policy.delta_mask.assign(static_cast<size_t>(out_.policy.action_width), true);
    const Json* names = config.find("action_names");
    if (names == nullptr || !names->is_array()) return {};
    for (size_t i = 0; i < names->items().size() && i < out_.policy.delta_mask.size(); ++i) {
      const std::string name = lower(names->items()[i].text());
      out_.policy.delta_mask[i] = std::none_of(words.begin(), words.end(), [&](const auto& word) {
        return name.find(word) != std::string::npos;
      });
    }
    return {};
  }

  Result<void> read_normalizer(const Json& step, const Json& config) {
    normalised_ = true;
    if (const Json* eps = config.find("eps"); eps != nullptr) {
      if (!eps->is_number() || !(eps->number() > 0 && eps->number() < 1))
        return bad(path_, "eps of the normaliser is no number above 0");
      out_.policy.epsilon = eps->number();
    }
    const std::string file = text_at(step, "state_file");
    if (file.empty()) return {};  // no statistics: the form decides whether that is allowed
    if (file.find('/') != std::string::npos || file[0] == '.')
      return bad(path_, "state_file is no plain file name in this folder");
    auto tensors = SafeTensorsFile::open((folder_ + "/" + file).c_str());
    if (!tensors) return tensors.error();
    auto state = read_lerobot_statistics(tensors.value(), kState);
    if (!state) return state.error();
    auto actions = read_lerobot_statistics(tensors.value(), kAction);
    if (!actions) return actions.error();
    PolicyStatistics& known = out_.policy.statistics;
    if (before_) {
      known = {std::move(state.value()), std::move(actions.value()), folder_ + "/" + file};
      return {};
    }
    if (known.actions.width() > 0 && actions.value().width() > 0 &&
        !(known.actions == actions.value()))
      return make_error(Code::kNotFound,
                        "%.200s/%.120s and %.200s disagree about the statistics of the actions",
                        folder_.c_str(), file.c_str(), known.origin.c_str());
    if (known.actions.width() == 0) known.actions = std::move(actions.value());
    if (known.origin.empty()) known.origin = folder_ + "/" + file;
    return {};
  }

  const std::string folder_;
  std::string path_;
  FolderFacts& out_;
  bool before_ = true, relative_ = false, normalised_ = false;
};

}  // namespace

Result<FolderFacts> read_lerobot_folder(const std::string& folder,
                                        const PiCheckpointSource& source) {
  FolderFacts out;
  const std::string path = folder + "/config.json";
  auto json = read_document(path);
  if (!json) return json.error();
  OUTRIDER_TRY(ConfigReader(json.value(), path, source, out).read());
  PipelineReader pipelines(folder, out);
  OUTRIDER_TRY(pipelines.read("policy_preprocessor.json", true));
  OUTRIDER_TRY(pipelines.read("policy_postprocessor.json", false));
  out.known = true;
  out.notes.push_back("cameras, state, actions and horizon from config.json (LeRobot)");
  out.notes.push_back("statistics from the pre- and postprocessor files");
  return out;
}

}  // namespace outrider
