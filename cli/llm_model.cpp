#include "cli/llm_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cli/runtime_facts.h"
#include "models/llm_weights.h"
#include "models/vlm_prompt.h"
#include "models/vlm_weights.h"
#include "text/language_tokenizer.h"

namespace outrider::cli {
namespace {

constexpr ConfigKey kKeys[] = {
    {"mmproj_path", nullptr, "vision file (GGUF)", true},
    {"image_sizes", "\"equal\"", "\"equal\" or \"any\": sizes of the pictures of one call", true},
    {"tokens_port", "\"off\"", "\"on\" or \"off\": ids in the place of a prompt, -1 a picture",
     true},
    {"model_family", nullptr, "\"llm\" for text models, \"mllm\" for those that see", true},
    {"model_path", nullptr, "model file (GGUF)", true},
    {"backend", nullptr, "\"cpu\"", true},
    {"n_ctx", nullptr, "tokens that fit, prompt and answer; 0: 4096", false},
    {"n_threads", nullptr, "0: as many as this process may use", false},
    {"temp", nullptr, "temperature; 0: always the likeliest token", false},
    {"top_k", nullptr, "draw among so many; 0: all", false},
    {"top_p", nullptr, "draw among the likeliest of this total; 0: all", false},
    {"seed", nullptr, "of the draws; 0: one from the system", false},
    {"max_tokens", nullptr, "tokens of an answer at most; 0: 512", false},
    {"numerics", "\"reference\"",
     "\"reference\" or \"jetson-pi\"; they differ for clips of pictures alone", true},
    {"precision", "\"auto\"", "\"auto\", \"f32\", \"bf16\", \"int8\" or \"stored\"", true},
    {"plan", "\"staged\"", "\"staged\" (reset, prefill, decode) or \"infer\"", true},
    {"reuse", "\"off\"", "\"on\" or \"off\": keep what a new prompt shares with the last", true},
    {"kv_precision", "\"auto\"",
     "\"auto\" or \"int8\": keys and values of what was read, in about half the memory", true},
    {"pin_threads", "\"off\"", "\"on\" or \"off\": each compute thread on a CPU of its own", true},
    {"rt_priority", "0", "real-time priority of the compute threads, 1 to 99; 0: none", false},
    {"cache_dir", "\"\"", "folder for digests; empty: none", true},
    {"schema_path", "\"\"", "JSON schema that the answer follows; empty: none", true},
};
constexpr size_t kMllmKeys = 3;  // the first rows
constexpr int64_t kDerivedContext = 4096;

double ms_between(std::chrono::steady_clock::time_point a,
                  std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

Report tokenizer_report(const LanguageTokenizer& t) {
  return {{"usable", true},
          {"model", "language"},
          {"pieces", t.n_pieces()},
          {"bos", t.bos()},
          {"eos", t.eos()},
          {"unk", t.unk()},
          {"pad", t.pad()},
          {"add_bos", t.add_bos()},
          {"chat_template", !t.chat_template().empty()},
          {"end_ids", std::vector<int32_t>(t.end_ids().begin(), t.end_ids().end())}};
}

// Weights as the file has them, the table of a tied model twice, and the cache of the derived
// context in f32. An estimate: scratch memory of a run comes on top.
Report memory_report(const LlmConfig& c, const GgufFile& file) {
  uint64_t weights = 0, table = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    weights += tensor.n_bytes;
    if (tensor.name == "token_embd.weight") table = tensor.n_bytes;
  }
  const int64_t n_ctx =
      c.trained_context > 0 ? std::min(c.trained_context, kDerivedContext) : kDerivedContext;
  const auto cache = static_cast<uint64_t>(n_ctx * c.n_layers * 2 * c.kv_width() * 4);
  return {{"estimate", true},
          {"stored_bytes", weights + (c.tied ? table : 0) + cache},
          {"embedding_table_bytes", table},
          {"context", n_ctx},
          {"key_value_cache_bytes", cache}};
}

}  // namespace

std::span<const ConfigKey> llm_keys() {
  return std::span(kKeys).subspan(kMllmKeys);
}
std::span<const ConfigKey> mllm_keys() {
  return kKeys;
}

Result<std::vector<Setting>> derive_llm(const GgufFile& file, const std::string& path,
                                        const std::string& vision) {
  const auto config = read_llm_config(file);
  if (!config) return config.error();
  const int64_t trained = config.value().trained_context;
  const bool shorter = trained > 0 && trained < kDerivedContext;
  const char* origin = "default for a model file";
  std::vector<Setting> settings = {
      {"model_family", vision.empty() ? "\"llm\"" : "\"mllm\"", "general.architecture of the file"},
      {"model_path", to_json_text(Report(path), -1), "command line"}};
  if (!vision.empty()) {
    settings.push_back({"mmproj_path", to_json_text(Report(vision), -1), "found or given"});
    settings.push_back({"image_sizes", "\"any\"", origin});
  }
  settings.push_back({"backend", "\"cpu\"", origin});
  settings.push_back({"n_ctx", std::to_string(shorter ? trained : kDerivedContext),
                      shorter ? "context_length of the file" : origin});
  for (const auto& [key, literal] : {std::pair{"n_threads", "0"},
                                     {"temp", "0"},
                                     {"top_k", "0"},
                                     {"top_p", "0"},
                                     {"seed", "1"},
                                     {"max_tokens", "512"}})
    settings.push_back({key, literal, origin});
  return settings;
}

void inspect_llm(Inspection& inspection, const GgufFile& file) {
  Report& report = inspection.report;
  const auto refuse = [&](const Error& error) {
    inspection.runs = false;
    report["runs"] = false;
    report["why_not"] = std::string(error.message());
  };
  const auto weights = read_llm_weights(file);
  if (!weights) return refuse(weights.error());
  const LlmConfig& c = weights.value().config;
  report["family"] = {{"name", "llm"},
                      {"why", std::string("general.architecture is ") + llm_arch_name(c.arch)}};
  report["backbone"] = {{"width", c.width},         {"mlp", c.mlp},
                        {"layers", c.n_layers},     {"heads", c.n_heads},
                        {"kv_heads", c.n_kv_heads}, {"head_dim", c.head_dim}};
  report["context"] = {{"trained", c.trained_context}, {"window", c.window}};
  report["vocabulary"] = c.vocab;
  report["memory"] = memory_report(c, file);
  const auto tokenizer = LanguageTokenizer::from_gguf(file);
  if (!tokenizer) {
    report["tokenizer"] = {{"usable", false},
                           {"why_not", std::string(tokenizer.error().message())}};
    return refuse(tokenizer.error());
  }
  report["tokenizer"] = tokenizer_report(tokenizer.value());
  if (tokenizer.value().n_pieces() > c.vocab)
    return refuse(make_error(Code::kNotFound,
                             "tokenizer.ggml.tokens has %d pieces, but token_embd.weight has %lld "
                             "rows",
                             tokenizer.value().n_pieces(), static_cast<long long>(c.vocab)));
  inspection.runs = true;
  report["runs"] = true;
}

Report vision_sizes(const GgufFile& vision) {
  const auto weights = read_vlm_weights(vision);
  if (!weights) return {{"usable", false}, {"why_not", std::string(weights.error().message())}};
  const VlmConfig& c = weights.value().config;
  Report report = {{"usable", true},
                   {"projector", vlm_kind_name(c.kind)},
                   {"width", c.width},
                   {"mlp", c.mlp},
                   {"layers", c.n_layers},
                   {"heads", c.n_heads},
                   {"image_size", c.image_size},
                   {"patch_size", c.patch_size},
                   {"out_width", c.out_width}};
  report["tokens_per_frame"] = c.most_tokens();
  report["any_size"] = !c.fixed_size();
  report["tiles"] = c.longest > 0;
  return report;
}

void inspect_vision(Inspection& inspection, const GgufFile& text, const GgufFile& vision,
                    Report head) {
  Report& report = inspection.report;
  report["vision_file"] = std::move(head);
  report["picture_tower"] = vision_sizes(vision);
  if (!inspection.runs) return;
  const auto tokenizer = LanguageTokenizer::from_gguf(text);
  const auto pair =
      tokenizer ? check_vlm_pair(text, vision, tokenizer.value()) : Result<void>(tokenizer.error());
  if (pair) {
    report["family"]["name"] = "mllm";
    return;
  }
  inspection.runs = false;
  report["runs"] = false;
  report["why_not"] = std::string(pair.error().message());
}

Result<Report> inspect_llm_tokens(const GgufFile& file, const std::string& text) {
  const auto tokenizer = LanguageTokenizer::from_gguf(file);
  if (!tokenizer) return tokenizer.error();
  const LanguageTokenizer& t = tokenizer.value();
  TokenizeOptions options;
  options.add_special = true;
  const auto ids = t.encode(text, options);
  if (!ids) return ids.error();
  Report pieces = Report::array();
  for (const int32_t id : ids.value()) pieces.push_back(t.piece(id).text);
  return Report{{"face", "llm"},           {"text", text},
                {"ids", ids.value()},      {"pieces", std::move(pieces)},
                {"n", ids.value().size()}, {"doubled_bos", t.doubles_bos(text)}};
}

namespace {

// What of the text is new since the last look.
Result<void> hand_on(Session& session, Answer& answer,
                     const std::function<void(std::string_view)>& more) {
  auto bytes = session.output("text");
  if (!bytes && bytes.error().code == Code::kNotReady) return {};
  if (!bytes) return bytes.error();
  const std::string_view text(reinterpret_cast<const char*>(bytes.value().data()),
                              bytes.value().size());
  if (text.size() > answer.text.size()) more(text.substr(answer.text.size()));
  answer.text = text;
  return {};
}

Result<int32_t> integer(Session& session, const char* port) {
  auto bytes = session.output(port);
  if (!bytes) return bytes.error();
  int32_t value = 0;
  if (bytes.value().size() != sizeof value)
    return make_error(Code::kFailed, "%s: %zu bytes, wanted 4", port, bytes.value().size());
  std::memcpy(&value, bytes.value().data(), sizeof value);
  return value;
}

int64_t counter(const Session& session, const char* name) {
  return counters_report(session).value(name, int64_t{0});
}

}  // namespace

bool follows_schema(const Resolved& resolved) {
  const Setting* path = resolved.find("schema_path");
  return path != nullptr && path->literal != "\"\"";
}

bool is_whole(const Answer& answer) {
  if (std::strcmp(answer.end, "eog") == 0) return true;
  return bool(Json::parse(answer.text));
}

Result<Answer> run_answer(Session& session, const std::function<void(std::string_view)>& more) {
  Answer answer;
  const std::vector<std::string> stages = session.stages();
  const auto stage = [&](const char* name) {
    return static_cast<uint64_t>(std::ranges::find(stages, name) - stages.begin());
  };
  const auto start = std::chrono::steady_clock::now();
  if (stage("decode") == stages.size()) {
    OUTRIDER_TRY(session.tick());
    answer.decode_ms = ms_between(start, std::chrono::steady_clock::now());
    answer.n_prompt_tokens = counter(session, "prompt_tokens");
    OUTRIDER_TRY(hand_on(session, answer, more));
    return answer;
  }
  const int64_t ends = counter(session, "length_ends");
  OUTRIDER_TRY(session.run_stage(stage("reset")));
  OUTRIDER_TRY(session.run_stage(stage("prefill")));
  const auto prefilled = std::chrono::steady_clock::now();
  answer.prefill_ms = ms_between(start, prefilled);
  answer.n_prompt_tokens = counter(session, "prompt_tokens");
  while (*answer.end == 0) {
    OUTRIDER_TRY(session.run_stage(stage("decode")));
    auto id = integer(session, "next_token"), eog = integer(session, "is_eog");
    if (!id) return id.error();
    if (!eog) return eog.error();
    answer.ids.push_back(id.value());
    OUTRIDER_TRY(hand_on(session, answer, more));
    if (eog.value() != 0) answer.end = "eog";
    if (*answer.end == 0 && counter(session, "length_ends") > ends) answer.end = "length";
  }
  answer.decode_ms = ms_between(prefilled, std::chrono::steady_clock::now());
  return answer;
}

}  // namespace outrider::cli
