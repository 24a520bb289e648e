#include "cli/inspect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/utf8.h"
#include "cli/config.h"
#include "cli/flops.h"
#include "cli/inspect_policy.h"
#include "cli/llm_model.h"
#include "cli/machine.h"
#include "cli/onnx_model.h"
#include "gguf/gguf.h"
#include "models/llm_weights.h"
#include "models/pi_gguf.h"
#include "models/vlm_weights.h"
#include "policy/gguf_policy.h"
#include "providers/gguf/pi_open_config.h"
#include "providers/gguf/pi_runtime.h"
#include "safetensors/safetensors.h"
#include "text/pi_prompt.h"
#include "text/tokenizer.h"

namespace outrider::cli {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kUsualViews = 2, kUsualTextTokens = 48;  // for estimates

struct TypeRow {
  uint64_t tensors = 0, values = 0, bytes = 0;
};

Report types_report(const std::map<std::string, TypeRow>& rows) {
  Report out = Report::array();
  for (const auto& [type, row] : rows)
    out.push_back(
        {{"type", type}, {"tensors", row.tensors}, {"values", row.values}, {"bytes", row.bytes}});
  return out;
}

// Counts, types and bytes of a file's tensors.
void put_tensors(Report& report, const GgufFile& file) {
  std::map<std::string, TypeRow> rows;
  uint64_t n_values = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    TypeRow& row = rows[std::string(dtype_info(tensor.dtype).name)];
    ++row.tensors;
    row.values += static_cast<uint64_t>(tensor.n_values());
    row.bytes += tensor.n_bytes;
    n_values += static_cast<uint64_t>(tensor.n_values());
  }
  report["tensors"] = file.tensors().size();
  report["parameters"] = n_values;
  report["tensor_types"] = types_report(rows);
}

Report gguf_head(const GgufFile& file) {
  Report report;
  report["kind"] = "gguf";
  report["file"] = file.path();
  report["bytes"] = file.file().size();
  report["gguf_version"] = file.version();
  const auto text = [&](const char* key) {
    auto value = file.string(key);
    return value ? Report(std::string(value.value())) : Report(nullptr);
  };
  report["architecture"] = text("general.architecture");
  report["name"] = text("general.name");
  report["keys"] = file.metadata().size();
  put_tensors(report, file);
  return report;
}

Report family_report(const PiFamilyGuess& guess) {
  return {{"name", guess.family ? Report(pi_family_name(*guess.family)) : Report("unknown")},
          {"why", guess.family ? Report(guess.reason) : Report("nothing in the file tells")}};
}

Report tokenizer_report(const GgufFile& file) {
  auto tokenizer = SpmTokenizer::from_gguf(file);
  if (!tokenizer) return {{"usable", false}, {"why_not", std::string(tokenizer.error().message())}};
  const SpmVocab& vocab = tokenizer.value().vocab();
  return {{"usable", true},
          {"model", "SentencePiece"},
          {"pieces", vocab.pieces.size()},
          {"bos", vocab.bos},
          {"eos", vocab.eos},
          {"unk", vocab.unk},
          {"pad", vocab.pad},
          {"add_space_prefix", vocab.add_space_prefix}};
}

Report gemma_report(const GemmaConfig& g) {
  return {{"width", g.width},         {"mlp", g.mlp},
          {"layers", g.n_layers},     {"heads", g.n_heads},
          {"kv_heads", g.n_kv_heads}, {"head_dim", g.head_dim}};
}

Report vision_report(const VisionConfig& v) {
  return {{"image_size", v.image_size},
          {"patch_size", v.patch_size},
          {"tokens_per_view", v.n_tokens()},
          {"width", v.width},
          {"mlp", v.mlp},
          {"layers", v.n_layers},
          {"heads", v.n_heads}};
}

void put_sizes(Report& report, const PiConfig& config) {
  report["chunk"] = {{"steps", config.action_steps},
                     {"dim", config.action_dim},
                     {"denoise_steps", config.n_denoise_steps}};
  report["backbone"] = gemma_report(config.backbone);
  report["expert"] = gemma_report(config.expert);
  report["vocabulary"] = config.vocab;
}

// Everything a run needs, at two usual precisions: packed weights, the embedding table that stays
// mapped, and the key/value cache. An estimate: scratch memory of a run comes on top.
Report memory_report(const PiConfig& config, const GgufFile& policy, const GgufFile& vision) {
  double matrix_values = 0, table_bytes = 0;
  for (const GgufFile* file : {&policy, &vision})
    for (const GgufTensor& tensor : file->tensors()) {
      if (tensor.name == "token_embd.weight")
        table_bytes = static_cast<double>(tensor.n_bytes);
      else
        matrix_values += static_cast<double>(tensor.n_values());
    }
  const int64_t rows =
      kUsualViews * config.vision.n_tokens() + kUsualTextTokens + config.suffix_tokens();
  const double cache =
      static_cast<double>(rows * config.backbone.n_layers * 2 * config.backbone.kv_width()) * 4;
  auto total = [&](double weight_bytes) {
    return static_cast<uint64_t>(matrix_values * weight_bytes + table_bytes + cache);
  };
  return {{"estimate", true},
          {"f32_bytes", total(4)},
          {"bf16_bytes", total(2)},
          {"int8_bytes", total(1.0625)},
          {"embedding_table_bytes", static_cast<uint64_t>(table_bytes)},
          {"key_value_cache_bytes", static_cast<uint64_t>(cache)}};
}

Report work_report(const PiConfig& config) {
  const PiWork work = pi_work(config, {kUsualViews, kUsualTextTokens, true});
  return {{"views", kUsualViews},
          {"text_tokens", kUsualTextTokens},
          {"vision_gflop", work.vision.flop * 1e-9},
          {"prefix_gflop", work.prefix.flop * 1e-9},
          {"expert_gflop", work.expert.flop * 1e-9},
          {"total_gflop", (work.vision.flop + work.prefix.flop + work.expert.flop) * 1e-9}};
}

Result<void> check_sizes(const Resolved& resolved, const PiConfig& file) {
  auto json = Json::parse(resolved.json, Json::Dialect::kFlatOpen);
  if (!json) return json.error();
  auto config = read_pi_open_config(json.value());
  if (!config) return config.error();
  if (config.value().plain_face()) return check_pi_sizes(config.value(), file, resolved.model_path);
  auto robot = open_policy_description(resolved.policy_dir, file);
  if (!robot) return robot.error();
  PiConfig model = file;
  return fit_robot(config.value(), false, resolved.model_path, robot.value(), model);
}

void refuse(Inspection& inspection, const std::string& why) {
  inspection.runs = false;
  inspection.report["runs"] = false;
  inspection.report["why_not"] = why;
}

// The pair of a policy: the vision file, and whether every weight the sizes promise is there.
void inspect_pair(Inspection& inspection, const GgufFile& policy, const std::string& vision_given,
                  const std::string& path, const Wish& wish) {
  Report& report = inspection.report;
  report["family"] = family_report(guess_policy_family(policy));
  auto config = read_pi_policy_config(policy);
  if (!config) return refuse(inspection, std::string(config.error().message()));
  put_sizes(report, config.value());
  report["tokenizer"] = tokenizer_report(policy);
  Result<std::string> vision_path = vision_given;
  if (vision_given.empty()) vision_path = find_vision_file(policy.path());
  if (!vision_path) return refuse(inspection, std::string(vision_path.error().message()));
  auto vision = GgufFile::open(vision_path.value().c_str());
  if (!vision) return refuse(inspection, std::string(vision.error().message()));
  Report vision_head = gguf_head(vision.value());
  vision_head["family"] = family_report(guess_vision_family(vision.value()));
  report["vision_file"] = std::move(vision_head);
  auto whole = read_pi_config(policy, vision.value());
  if (!whole) return refuse(inspection, std::string(whole.error().message()));
  report["family"]["name"] = pi_family_name(whole.value().family);
  report["vision"] = vision_report(whole.value().vision);
  report["memory"] = memory_report(whole.value(), policy, vision.value());
  report["work"] = work_report(whole.value());
  auto weights = read_pi_gguf(policy, vision.value());
  if (!weights) return refuse(inspection, std::string(weights.error().message()));
  if (!report["tokenizer"]["usable"].get<bool>())
    return refuse(inspection, report["tokenizer"]["why_not"].get<std::string>());
  if (report["tokenizer"]["pieces"].get<int64_t>() > whole.value().vocab)
    return refuse(inspection,
                  fmt::format("tokenizer.ggml.tokens has {} pieces, but token_embd.weight has {} "
                              "rows",
                              report["tokenizer"]["pieces"].get<int64_t>(), whole.value().vocab));
  // The configuration a run would open with, and its sizes against the file's.
  auto resolved = resolve(path, wish);
  if (!resolved) return refuse(inspection, std::string(resolved.error().message()));
  if (auto fits = check_sizes(resolved.value(), whole.value()); !fits)
    return refuse(inspection, std::string(fits.error().message()));
  inspection.runs = true;
  report["runs"] = true;
}

// The vision file of a text model: the one given, or the one beside it when there is one.
Result<void> inspect_beside(Inspection& inspection, const GgufFile& text,
                            const std::string& vision_path) {
  Result<std::string> path = vision_path;
  if (vision_path.empty()) path = find_vision_file(text.path());
  if (!path) return {};
  auto vision = GgufFile::open(path.value().c_str());
  if (!vision) return vision.error();
  inspect_vision(inspection, text, vision.value(), gguf_head(vision.value()));
  return {};
}

// path: what the user named; file_path: the policy behind it.
Result<Inspection> inspect_gguf(const std::string& file_path, const std::string& vision_path,
                                const std::string& path, const Wish& wish) {
  OUTRIDER_TRY(check_there(file_path));
  if (!vision_path.empty()) OUTRIDER_TRY(check_there(vision_path));
  auto file = GgufFile::open(file_path.c_str());
  if (!file) return file.error();
  if (file.value().tensors().empty())
    return make_error(Code::kNotFound, "%s: no tensors: nothing was checked", file_path.c_str());
  Inspection inspection;
  inspection.good = true;
  inspection.report = gguf_head(file.value());
  if (is_pi_policy(file.value())) {
    inspect_pair(inspection, file.value(), vision_path, path, wish);
  } else if (is_pi_vision(file.value())) {
    inspection.report["role"] =
        "vision file of a pair; inspect the policy or text file to check both";
    if (is_vlm(file.value())) {
      inspection.report["picture_tower"] = vision_sizes(file.value());
      const Report& sizes = inspection.report["picture_tower"];
      if (!sizes["usable"].get<bool>())
        refuse(inspection, sizes["why_not"].get<std::string>());
      else
        inspection.report["runs"] = inspection.runs = true;
    } else {
      inspection.report["family"] = family_report(guess_vision_family(file.value()));
      inspection.report["runs"] = inspection.runs = true;
    }
  } else if (is_llm(file.value())) {
    inspect_llm(inspection, file.value());
    OUTRIDER_TRY(inspect_beside(inspection, file.value(), vision_path));
  } else {
    refuse(inspection,
           "this architecture is not in this build; it runs pi0 (PI0, PI0.5), llama, qwen2, qwen3, "
           "gemma, gemma2 and gemma3");
  }
  return inspection;
}

Result<Inspection> inspect_safetensors(const std::string& path) {
  auto file = SafeTensorsFile::open(path.c_str());
  if (!file) return file.error();
  if (file.value().tensors().empty())
    return make_error(Code::kNotFound, "%s: no tensors: nothing was checked", path.c_str());
  Inspection inspection;
  inspection.good = true;
  Report& report = inspection.report;
  report["kind"] = "safetensors";
  report["file"] = path;
  std::map<std::string, TypeRow> rows;
  uint64_t n_values = 0, n_bytes = 0;
  Report list = Report::array();
  for (const SafeTensor& tensor : file.value().tensors()) {
    TypeRow& row = rows[std::string(dtype_info(tensor.dtype).name)];
    ++row.tensors;
    row.values += static_cast<uint64_t>(tensor.n_values());
    row.bytes += tensor.n_bytes;
    n_values += static_cast<uint64_t>(tensor.n_values());
    n_bytes += tensor.n_bytes;
    list.push_back({{"name", tensor.name},
                    {"type", std::string(dtype_info(tensor.dtype).name)},
                    {"shape", tensor.shape}});
  }
  report["bytes"] = n_bytes;
  report["tensors"] = file.value().tensors().size();
  report["parameters"] = n_values;
  report["tensor_types"] = types_report(rows);
  report["list"] = std::move(list);
  refuse(inspection, "safetensors files are read, not run, by this build");
  return inspection;
}

Result<Inspection> inspect_config(const std::string& path, const Wish& wish) {
  auto resolved = resolve(path, wish);
  if (!resolved) return resolved.error();
  Inspection inspection;
  if (!resolved.value().policy_dir.empty() && resolved.value().model_path.empty()) {
    auto policy = inspect_policy(resolved.value().policy_dir, resolved.value().json);
    if (!policy) return policy.error();
    inspection = std::move(policy.value());
  } else if ((resolved.value().family == "pi0" || is_language(resolved.value().family)) &&
             !resolved.value().model_path.empty()) {
    auto model =
        inspect_gguf(resolved.value().model_path, resolved.value().mmproj_path, path, wish);
    if (!model) return model.error();
    inspection = std::move(model.value());
  } else if (resolved.value().family == "onnx") {
    auto model = inspect_onnx(resolved.value().model_path, resolved.value());
    if (!model) return model.error();
    inspection = std::move(model.value());
  } else {
    return make_error(Code::kUnsupported,
                      "%s: configuration of family \"%s\": nothing here can be inspected",
                      path.c_str(), resolved.value().family.c_str());
  }
  inspection.report["config"] = settings_report(resolved.value());
  return inspection;
}

}  // namespace

Result<Inspection> inspect_file(const std::string& path, const Wish& wish) {
  if (holds_policy(path)) {
    auto resolved = resolve(path, wish);
    if (!resolved) return resolved.error();
    return inspect_policy(path, resolved.value().json);
  }
  OUTRIDER_TRY(check_there(path));
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".safetensors") return inspect_safetensors(path);
  if (extension == ".json") return inspect_config(path, wish);
  if (extension == ".onnx") {
    auto resolved = resolve(path, wish);
    if (!resolved) return resolved.error();
    return inspect_onnx(path, resolved.value());
  }
  std::string vision_path;
  for (const auto& [key, value] : wish.set)
    if (key == "mmproj_path") vision_path = value;
  return inspect_gguf(path, vision_path, path, wish);
}

namespace {

// What a run refuses, in its words (PiRuntime::stage_prompt, check_state); a test compares them.
Result<void> check_prompt(const std::string& text) {
  if (text.empty()) return make_error(Code::kInvalid, "prompt: empty, wanted UTF-8 text");
  if (text.size() > PiRuntime::kMaxPromptBytes)
    return make_error(Code::kShape, "prompt: %zu bytes, at most %zu are taken; it is never cut",
                      text.size(), PiRuntime::kMaxPromptBytes);
  if (!utf8_valid(text)) return make_error(Code::kInvalid, "prompt: not valid UTF-8");
  return {};
}

Result<void> check_state(std::span<const float> state, PiFamily family, int64_t action_dim) {
  const auto n = static_cast<int64_t>(state.size());
  const auto count = [](int64_t value) { return static_cast<unsigned long long>(value); };
  for (size_t i = 0; i < state.size(); ++i)
    if (!std::isfinite(state[i]))
      return make_error(Code::kInvalid, "state: value %zu is %g, allowed are finite numbers", i,
                        static_cast<double>(state[i]));
  if (family == PiFamily::kPi0) {
    if (n <= action_dim) return {};
    return make_error(Code::kShape, "state: %llu values, PI0 with action_dim %llu takes 1..%llu",
                      count(n), count(action_dim), count(action_dim));
  }
  constexpr int64_t kMost = PiRuntime::kMaxTextState;
  const bool tail_is_zero =
      n == action_dim && n > kMost &&
      std::ranges::all_of(state.subspan(kMost), [](float value) { return value == 0; });
  if (n <= kMost || tail_is_zero) return {};
  return make_error(Code::kShape,
                    "state: %llu values, PI0.5 takes 1..%lld, or %llu with zeros behind the first "
                    "%lld",
                    count(n), static_cast<long long>(kMost), count(action_dim),
                    static_cast<long long>(kMost));
}

}  // namespace

Result<Report> inspect_tokens(const std::string& path, const std::string& text,
                              std::span<const float> state) {
  if (holds_policy(path)) return inspect_policy_tokens(path, text, state);
  OUTRIDER_TRY(check_prompt(text));
  auto file = GgufFile::open(path.c_str());
  if (!file) return file.error();
  if (is_llm(file.value())) return inspect_llm_tokens(file.value(), text);
  auto tokenizer = SpmTokenizer::from_gguf(file.value());
  if (!tokenizer) return tokenizer.error();
  const PiFamilyGuess guess = guess_policy_family(file.value());
  const bool pi05 = guess.family == PiFamily::kPi05;
  static constexpr std::array<float, 8> zeros = {};
  if (guess.family) {
    auto config = read_pi_policy_config(file.value());
    if (!config) return config.error();
    if (state.empty()) {  // not given: what run uses then
      const int64_t n = std::clamp<int64_t>(config.value().action_dim, 1, zeros.size());
      state = std::span(zeros).first(static_cast<size_t>(n));
    }
    OUTRIDER_TRY(check_state(state, *guess.family, config.value().action_dim));
    state = state.first(std::min(state.size(), static_cast<size_t>(PiRuntime::kMaxTextState)));
  }
  std::string whole = text;
  if (pi05) {
    // As a run does: the bare text first, then with the state.
    SpmTokenizer::Scratch plain(text.size() + 16);
    std::vector<int32_t> plain_ids(text.size() + 16);
    const auto bare = encode_pi0(tokenizer.value(), text, plain, plain_ids);
    if (bare.code == Code::kOk && bare.n_ids > static_cast<size_t>(PiRuntime::kMaxTextTokens))
      return make_error(Code::kShape, "prompt: %zu tokens, the prefix holds %lld; it is never cut",
                        bare.n_ids, static_cast<long long>(PiRuntime::kMaxTextTokens));
    std::vector<char> buffer(text.size() + 256);
    const size_t n = write_pi05_text(text, state, StateBins::kReference, buffer);
    if (n > buffer.size())
      return make_error(Code::kShape, "--tokens: the text does not fit its buffer");
    whole.assign(buffer.data(), n);
  }
  SpmTokenizer::Scratch scratch(whole.size() + 16);
  std::vector<int32_t> ids(whole.size() + 16);
  SpmTokenizer::Encoded encoded;
  if (pi05) {
    encoded = encode_pi05(tokenizer.value(), whole, scratch, ids);
  } else if (guess.family) {
    encoded = encode_pi0(tokenizer.value(), whole, scratch, ids);
  } else {
    encoded = tokenizer.value().encode(whole, {true, true}, scratch, ids);
  }
  if (encoded.code != Code::kOk || encoded.n_ids > ids.size())
    return make_error(encoded.code == Code::kOk ? Code::kShape : encoded.code,
                      "--tokens: the text cannot be encoded%s",
                      encoded.code == Code::kInvalid ? ": it is not UTF-8" : "");
  constexpr auto kMostTokens = static_cast<size_t>(PiRuntime::kMaxTextTokens);
  if (encoded.n_ids > kMostTokens)
    return make_error(Code::kShape, "prompt: %zu tokens%s, the prefix holds %zu; it is never cut",
                      encoded.n_ids, pi05 ? " with the state" : "", kMostTokens);
  ids.resize(encoded.n_ids);
  Report pieces = Report::array();
  for (int32_t id : ids) pieces.push_back(tokenizer.value().piece_text(id));
  return Report{{"face", guess.family ? pi_family_name(*guess.family) : "plain"},
                {"text", whole},
                {"ids", ids},
                {"pieces", std::move(pieces)},
                {"n", ids.size()}};
}

}  // namespace outrider::cli
