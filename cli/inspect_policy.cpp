#include "cli/inspect_policy.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/input_file.h"
#include "cli/machine.h"
#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "policy/checkpoint.h"
#include "policy/fast_answer.h"
#include "policy/gguf_policy.h"
#include "policy/pipeline.h"
#include "policy/prompt.h"
#include "providers/gguf/pi_files.h"

namespace outrider::cli {
namespace {

// What both kinds of holder give.
struct Opened {
  PolicyDescription policy;
  PiConfig config;
  SpmTokenizer tokenizer;
  std::vector<std::string> notes;
};

bool is_folder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_gguf(const std::string& path) {
  auto head = MappedFile::open(path.c_str());
  if (!head || head.value().size() < 4) return false;
  return std::memcmp(head.value().bytes().data(), "GGUF", 4) == 0;
}

Result<Opened> open_gguf(const std::string& path) {
  auto file = GgufFile::open(path.c_str());
  if (!file) return file.error();
  auto config = read_pi_config(file.value(), file.value());
  if (!config) return config.error();
  auto policy = read_gguf_policy(file.value(), config.value());
  if (!policy) return policy.error();
  auto tokenizer = SpmTokenizer::from_gguf(file.value());
  if (!tokenizer) return tokenizer.error();
  if (config.value().is_fast()) config.value().answer_tokens = answer_tokens(policy.value());
  auto tokens =
      read_gguf_action_tokens(file.value(), tokenizer.value(), config.value(), policy.value());
  if (!tokens) return tokens.error();
  return Opened{std::move(policy.value()),
                config.value(),
                std::move(tokenizer.value()),
                {std::string(pi_family_name(config.value().family)) + ": " +
                     guess_policy_family(file.value()).reason,
                 "description and statistics: inside the file"}};
}

Result<Opened> open_any(const std::string& path) {
  if (!is_folder(path) && is_gguf(path)) return open_gguf(path);
  auto opened = open_policy_checkpoint(path);
  if (!opened) return opened.error();
  PolicyCheckpoint& c = opened.value();
  return Opened{std::move(c.policy), c.config, std::move(c.tokenizer), std::move(c.notes)};
}

Report policy_report(const Opened& opened) {
  Report report;
  const PolicyDescription& p = opened.policy;
  const PiFamily family = opened.config.family;
  // The whole description, every value spelt out.
  auto json = Json::parse(policy_json(p));
  report["policy"] = json ? report_of(json.value()) : Report(nullptr);
  report["normalisation"] = {{"state", norm_form_name(state_form(p, family))},
                             {"actions", norm_form_name(action_form(p, family))},
                             {"rule", norm_rule_name(p.norm_rule)}};
  report["statistics"] = {
      {"state", statistics_summary(p.statistics.state, state_form(p, family))},
      {"actions", statistics_summary(p.statistics.actions, action_form(p, family))},
      {"origin", p.statistics.origin}};
  report["state_in_text"] = state_in_text(p, family);
  report["max_tokens"] = max_tokens(p, family);
  report["convention"] = p.delta_mask.empty() ? "actions are absolute (as the model gives them)"
                                              : "masked actions are state + action";
  if (opened.config.is_fast()) report["answer_tokens"] = opened.config.answer_tokens;
  report["notes"] = opened.notes;
  return report;
}

}  // namespace

bool holds_policy(const std::string& path) {
  if (is_folder(path)) return true;
  if (path.ends_with(".json")) {
    auto text = read_file(path, kMaxPolicyBytes);
    auto json = text ? Json::parse(text.value()) : Result<Json>(text.error());
    if (!json || json.value().find("model_family") != nullptr) return false;
    for (const char* key : {"robot", "cameras", "checkpoint", "statistics", "normalisation"})
      if (json.value().find(key) != nullptr) return true;
    return false;
  }
  if (!is_gguf(path)) return false;
  auto file = GgufFile::open(path.c_str());
  return file && has_policy(file.value());
}

Result<Inspection> inspect_policy(const std::string& path, const std::string& config_json) {
  Inspection inspection;
  Report& report = inspection.report;
  report["kind"] = is_folder(path)           ? "checkpoint folder"
                   : path.ends_with(".json") ? "policy"
                                             : "gguf";
  report["file"] = path;
  const auto refuse = [&](const Error& error) {
    report["runs"] = false;
    report["why_not"] = std::string(error.message());
    return inspection;
  };
  auto opened = open_any(path);
  if (!opened) return opened.error();
  auto json = Json::parse(config_json, Json::Dialect::kFlatOpen);
  auto config = json ? read_pi_open_config(json.value()) : Result<PiOpenConfig>(json.error());
  if (!config) return refuse(config.error());
  const bool folder = !is_gguf(path) || is_folder(path);
  if (auto fits =
          fit_robot(config.value(), folder, path, opened.value().policy, opened.value().config);
      !fits)
    return refuse(fits.error());
  const PiConfig& c = opened.value().config;
  report["family"] = {{"name", pi_family_name(c.family)}, {"why", opened.value().notes[0]}};
  report["chunk"] = {{"steps", c.action_steps},
                     {"dim", c.action_dim},
                     {"robot_dim", opened.value().policy.action_width},
                     {"denoise_steps", c.n_denoise_steps}};
  if (c.is_fast()) report["chunk"]["answer_tokens"] = c.answer_tokens;
  report["vocabulary"] = c.vocab;
  report["robot"] = policy_report(opened.value());
  report["runs"] = true;
  inspection.runs = inspection.good = true;
  return inspection;
}

Result<Report> inspect_policy_tokens(const std::string& path, const std::string& text,
                                     std::span<const float> state) {
  auto opened = open_any(path);
  if (!opened) return opened.error();
  const Opened& o = opened.value();
  auto pipeline =
      PolicyPipeline::make(o.policy, o.config.family, o.config.action_dim, o.policy.action_width);
  if (!pipeline) return pipeline.error();
  std::vector<float> raw(static_cast<size_t>(pipeline.value().state_width()));
  if (!state.empty() && state.size() != raw.size())
    return make_error(Code::kShape, "--state: %zu values, the policy takes exactly %zu",
                      state.size(), raw.size());
  std::copy(state.begin(), state.end(), raw.begin());
  pipeline.value().take_state(raw);
  constexpr size_t kMostBytes = 16384;
  auto prompt = PolicyPrompt::make(o.policy, o.config.family, o.tokenizer, kMostBytes);
  if (!prompt) return prompt.error();
  std::vector<int32_t> ids(1024);
  const auto written = prompt.value().write(text.empty() ? o.policy.default_prompt : text,
                                            pipeline.value().normalised_state(), ids);
  if (written.code == Code::kInvalid) return make_error(Code::kInvalid, "prompt: not valid UTF-8");
  if (written.code != Code::kOk)
    return make_error(Code::kShape, "prompt: %zu tokens, the policy was trained with at most %lld",
                      written.n_wanted, static_cast<long long>(prompt.value().max_tokens()));
  ids.resize(written.n_ids);
  Report pieces = Report::array();
  for (const int32_t id : ids) pieces.push_back(o.tokenizer.piece_text(id));
  Report report{{"face", std::string(pi_family_name(o.config.family)) + " policy"},
                {"text", std::string(prompt.value().text())},
                {"ids", ids},
                {"pieces", std::move(pieces)},
                {"cut", written.cut()},
                {"n", ids.size()}};
  if (o.config.is_fast()) {
    report["answer_ends"] = Report::array();
    for (const int32_t id :
         FastAnswer::end_ids(o.tokenizer, lerobot_fast(o.policy, o.config.family)))
      if (id >= 0) report["answer_ends"].push_back(id);
  }
  return report;
}

}  // namespace outrider::cli
