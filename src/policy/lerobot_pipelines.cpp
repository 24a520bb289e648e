// The two pipelines of a LeRobot checkpoint with their statistics. A step that changes what the
// policy sees or does and is not known here is refused by name.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "policy/lerobot_json.h"

namespace outrider {
namespace fs = std::filesystem;
namespace {

// Steps that need nothing from us: batches, devices, what config.json says already.
constexpr const char* kHarmless[] = {"to_batch_processor", "device_processor",
                                     "pi0_new_line_processor",
                                     "pi0_fast_prepare_state_tokenizer_processor_step"};

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
    if (steps == nullptr || !steps->is_array())
      return bad_document(path_, "steps is missing or no list");
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
    if (name == "action_tokenizer_processor") return read_action_tokenizer(config, index);
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
    // All at once: names may change places.
    const PolicyDescription before = out_.policy;
    for (const Json::Member& member : map->members()) {
      if (!member.value.is_string()) return bad_document(path_, "rename_map maps names to names");
      const std::string& wanted = member.value.text();
      bool found = false;
      for (const Json::Member& other : map->members()) {
        if (&other != &member && other.value.is_string() && other.value.text() == wanted)
          return make_error(Code::kNotFound,
                            "%.200s: rename_map renames both \"%.60s\" and \"%.60s\" to \"%.60s\"",
                            path_.c_str(), member.name.c_str(), other.name.c_str(), wanted.c_str());
      }
      for (size_t i = 0; i < before.cameras.size(); ++i) {
        if (before.cameras[i].name == wanted)
          out_.policy.cameras[i].name = member.name, found = true;
      }
      for (size_t i = 0; i < before.state.size(); ++i) {
        if (before.state[i].name == wanted) out_.policy.state[i].name = member.name, found = true;
      }
      if (!found) {
        std::string list;
        for (const PolicyCamera& camera : before.cameras)
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

  // It turns actions into tokens, for training; what it says of them holds for answers too. Saved
  // with the policy, its name is a folder beside this file.
  Result<void> read_action_tokenizer(const Json& config, size_t index) {
    const Json* skip = config.find("fast_skip_tokens");
    if (skip != nullptr && (!skip->is_integer() || skip->integer() != 128))
      return make_error(Code::kUnsupported,
                        "%.250s: step %zu: fast_skip_tokens is %.30s; this build counts action ids "
                        "in front of 128 others",
                        path_.c_str(), index, skip->text().c_str());
    const std::string name = text_at(config, "action_tokenizer_name");
    std::error_code ignored;
    if (!name.empty() && name.find("..") == std::string::npos && name[0] != '/' &&
        fs::exists(folder_ + "/" + name + "/tokenizer.json", ignored))
      out_.policy.action_tokens.tokenizer = fs::absolute(folder_ + "/" + name, ignored).string();
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
        return bad_document(path_, "eps of the normaliser is no number above 0");
      out_.policy.epsilon = eps->number();
    }
    const std::string file = text_at(step, "state_file");
    if (file.empty()) return {};  // no statistics: the form decides whether that is allowed
    if (file.find('/') != std::string::npos || file[0] == '.')
      return bad_document(path_, "state_file is no plain file name in this folder");
    auto tensors = SafeTensorsFile::open((folder_ + "/" + file).c_str());
    if (!tensors) return tensors.error();
    auto state = read_lerobot_statistics(tensors.value(), kLerobotState);
    if (!state) return state.error();
    auto actions = read_lerobot_statistics(tensors.value(), kLerobotAction);
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

Result<void> read_lerobot_pipelines(const std::string& folder, FolderFacts& out) {
  PipelineReader pipelines(folder, out);
  OUTRIDER_TRY(pipelines.read("policy_preprocessor.json", true));
  return pipelines.read("policy_postprocessor.json", false);
}

}  // namespace outrider
