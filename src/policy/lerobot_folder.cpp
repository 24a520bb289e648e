// What lies beside the weights of a LeRobot checkpoint: config.json. An option that changes what
// the policy computes and is not known here is refused by name.
#include <algorithm>

#include "policy/lerobot_json.h"

namespace outrider {

namespace {

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
    OUTRIDER_TRY(read_outputs());
    return source_.family() == PiFamily::kPi0Fast ? read_answer_rules() : Result<void>();
  }

 private:
  Result<void> check_type() {
    const std::string type = text_at(json_, "type");
    static constexpr const char* kTypes[] = {"pi0", "pi05", "pi0_fast"};  // by PiFamily
    if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes))
      return make_error(Code::kUnsupported,
                        "%.250s: type is \"%.40s\"; this build runs \"pi0\", \"pi05\" and "
                        "\"pi0_fast\"",
                        path_.c_str(), type.c_str());
    if (type != kTypes[static_cast<size_t>(source_.family())])
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
    if (map == nullptr || !map->is_object())
      return bad_document(path_, "normalization_mapping is missing");
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

  Result<void> unsupported(const char* key, const char* what) {
    const Json* value = json_.find(key);
    return make_error(
        Code::kUnsupported, "%.250s: %s is %.40s; %s", path_.c_str(), key,
        value->is_bool() ? (value->boolean() ? "true" : "false") : value->text().c_str(), what);
  }

  // PI0-FAST: how an answer is written and read.
  Result<void> read_answer_rules() {
    const auto differs = [&](const char* key, double wanted) {
      const Json* value = json_.find(key);
      return value != nullptr && (!value->is_number() || value->number() != wanted);
    };
    if (differs("temperature", 0))
      return unsupported("temperature", "this build takes the likeliest token (0)");
    if (differs("fast_skip_tokens", 128))
      return unsupported("fast_skip_tokens", "this build counts action ids in front of 128 others");
    if (const Json* check = json_.find("validate_action_token_prefix");
        check != nullptr && check->is_bool() && !check->boolean())
      return unsupported("validate_action_token_prefix",
                         "this build reads answers that begin with \"Action: \" alone");
    // LeRobot turns the coefficients of chunk_size rows back as n_action_steps rows.
    if (differs("n_action_steps", static_cast<double>(horizon(out_.policy))))
      return unsupported("n_action_steps",
                         "PI0-FAST's answer is a chunk of chunk_size rows and can only be read as "
                         "such: make both equal");
    OUTRIDER_TRY(integer("max_decoding_steps", 1024, out_.policy.action_tokens.most));
    if (out_.policy.max_tokens == 0) out_.policy.max_tokens = 200;
    out_.stated_action_dim = out_.policy.action_width;  // no tensor has max_action_dim columns
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
      return bad_document(path_, "input_features is missing: cameras and state are not known");
    for (const Json::Member& member : features->members()) {
      const std::string type = text_at(member.value, "type");
      if (type == "VISUAL") {
        OUTRIDER_TRY(read_camera(member));
      } else if (type == "STATE" && member.name == kLerobotState) {
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
    if (out_.policy.state.empty())
      return bad_document(path_, "input_features has no observation.state");
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
    const Json* action = features != nullptr ? features->find(kLerobotAction) : nullptr;
    if (action == nullptr) return bad_document(path_, "output_features has no action");
    auto shape = shape_of(*action, kLerobotAction, 1);
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

}  // namespace

Result<FolderFacts> read_lerobot_folder(const std::string& folder,
                                        const PiCheckpointSource& source) {
  FolderFacts out;
  const std::string path = folder + "/config.json";
  auto json = read_document(path);
  if (!json) return json.error();
  OUTRIDER_TRY(ConfigReader(json.value(), path, source, out).read());
  OUTRIDER_TRY(read_lerobot_pipelines(folder, out));
  out.known = true;
  out.notes.push_back("cameras, state, actions and horizon from config.json (LeRobot)");
  out.notes.push_back("statistics from the pre- and postprocessor files");
  return out;
}

}  // namespace outrider
