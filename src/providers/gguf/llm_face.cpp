#include "providers/gguf/llm_face.h"

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "providers/gguf/vlm_session.h"

namespace outrider {
namespace {

std::string six_digits(float value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(value));
  return text;
}

}  // namespace

Result<std::unique_ptr<LlmFace>> LlmFace::open(const LlmOpenConfig& config) {
  Result<std::unique_ptr<LlmSession>> session = [&]() -> Result<std::unique_ptr<LlmSession>> {
    if (config.sees()) {
      auto files = open_vlm_files(config);
      if (!files) return files.error();
      return VlmSession::open(config, files.value());
    }
    auto files = open_llm_files(config);
    if (!files) return files.error();
    return LlmSession::open(config, files.value());
  }();
  if (!session) return session.error();
  return std::unique_ptr<LlmFace>(new LlmFace(std::move(session.value())));
}

LlmFace::LlmFace(std::unique_ptr<LlmSession> session) : session_(std::move(session)) {
  const LlmOpenConfig& c = session_->open_config();
  if (c.sees()) ports_.push_back({LlmRole::kImages, "images", true});
  ports_.push_back({LlmRole::kPrompt, "prompt", true});
  ports_.push_back({LlmRole::kText, "text", false});
  if (c.staged) {
    ports_.push_back({LlmRole::kNextToken, "next_token", false});
    ports_.push_back({LlmRole::kLogits, "logits", false});
    ports_.push_back({LlmRole::kIsEog, "is_eog", false});
  }
  if (c.sees() ? c.tokens_port : c.staged) ports_.push_back({LlmRole::kTokens, "tokens", true});
  for (size_t i = 0; i < ports_.size(); ++i) {
    std::string& list = ports_[i].is_input ? inputs_ : outputs_;
    list +=
        (list.empty() ? "" : ", ") + std::string(ports_[i].name) + " (" + std::to_string(i) + ")";
  }
}

// ---- inputs -------------------------------------------------------------------------------------

Code LlmFace::refuse_port(const char* verb, uint32_t port, bool inputs) noexcept {
  return session_->fail(Code::kInvalid, "%s: port %u is no %s; %s are %s", verb, port,
                        inputs ? "input" : "output", inputs ? "inputs" : "outputs",
                        (inputs ? inputs_ : outputs_).c_str());
}

Code LlmFace::stage(const LlmPort& port, std::span<const std::byte> bytes) noexcept {
  switch (port.role) {
    case LlmRole::kImages:
      return session_->stage_pictures(bytes);
    case LlmRole::kPrompt:
      return session_->stage_prompt({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    default:
      return session_->stage_ids(bytes);
  }
}

Code LlmFace::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  LlmSession& s = *session_;
  if (port >= ports_.size() || !ports_[port].is_input) return refuse_port("set_input", port, true);
  s.drop_outputs();
  if (ports_[port].role == LlmRole::kImages) {
    s.drop_pictures();
  } else {
    s.drop_prompt();
  }
  const Code code =
      data == nullptr && bytes > 0
          ? s.fail(Code::kInvalid, "set_input: %s (port %u): data is NULL for %llu bytes",
                   ports_[port].name, port, static_cast<unsigned long long>(bytes))
          : stage(ports_[port], {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
  if (code == Code::kOk) {
    s.clear_error();
  } else {
    s.counters().refused_inputs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

// ---- stages -------------------------------------------------------------------------------------

Code LlmFace::finish(Code code) noexcept {
  if (code == Code::kOk) {
    session_->clear_error();
  } else {
    session_->counters().failed_runs.fetch_add(1, std::memory_order_relaxed);
  }
  return code;
}

Code LlmFace::run_stage(uint32_t executor_ref) noexcept {
  if (!staged()) {
    if (executor_ref == kInferRef) return step();
    return session_->fail(Code::kNotFound,
                          "run_opaque: executor_ref %u is unknown; this plan has infer (%u)",
                          executor_ref, kInferRef);
  }
  switch (executor_ref) {
    case kResetRef:
      session_->reset();
      return finish(Code::kOk);
    case kPrefillRef:
      return finish(session_->prefill());
    case kDecodeRef:
      return finish(session_->decode());
    default:
      return session_->fail(
          Code::kNotFound,
          "run_opaque: executor_ref %u is unknown; this plan has reset (%u), prefill (%u) and "
          "decode (%u)",
          executor_ref, kResetRef, kPrefillRef, kDecodeRef);
  }
}

Code LlmFace::prepare_graph() noexcept {
  return session_->fail(
      Code::kUnsupported,
      "prepare: this provider has no graph variants; everything is prepared by open");
}

// ---- outputs ------------------------------------------------------------------------------------

Code LlmFace::not_ready(const char* port) noexcept {
  return session_->fail(Code::kNotReady, "%s: nothing since the inputs or the session changed",
                        port);
}

Code LlmFace::copy(const char* port, const void* from, uint64_t bytes, void* out, uint64_t capacity,
                   uint64_t* written) noexcept {
  *written = bytes;
  if (bytes > 0 && (out == nullptr || capacity < bytes))
    return session_->fail(Code::kNoMemory, "%s: %llu bytes of storage, %llu needed", port,
                          static_cast<unsigned long long>(out == nullptr ? 0 : capacity),
                          static_cast<unsigned long long>(bytes));
  if (bytes > 0) std::memcpy(out, from, bytes);
  session_->clear_error();
  return Code::kOk;
}

Code LlmFace::get_text(void* out, uint64_t capacity, uint64_t* written) noexcept {
  const std::string_view text = session_->text();
  if (text.empty() && !session_->text_ended()) return not_ready("text");
  return copy("text", text.data(), text.size(), out, capacity, written);
}

Code LlmFace::get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept {
  const LlmSession& s = *session_;
  if (written == nullptr) return session_->fail(Code::kInvalid, "get_output: written is NULL");
  *written = 0;
  if (port >= ports_.size() || ports_[port].is_input) return refuse_port("get_output", port, false);
  const char* name = ports_[port].name;
  switch (ports_[port].role) {
    case LlmRole::kNextToken: {
      if (!s.token_ready()) return not_ready(name);
      const int32_t token = s.next_token();
      return copy(name, &token, sizeof token, out, capacity, written);
    }
    case LlmRole::kIsEog: {
      if (!s.token_ready()) return not_ready(name);
      const int32_t eog = s.is_eog() ? 1 : 0;
      return copy(name, &eog, sizeof eog, out, capacity, written);
    }
    case LlmRole::kLogits: {
      if (!s.logits_ready()) return not_ready(name);
      const auto logits = s.logits();
      return copy(name, logits.data(), logits.size_bytes(), out, capacity, written);
    }
    default:
      return get_text(out, capacity, written);
  }
}

// ---- facts --------------------------------------------------------------------------------------

std::vector<std::pair<std::string, std::string>> LlmFace::identity() const {
  const LlmOpenConfig& c = session_->open_config();
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"provider", "outrider"}, {"model_family", c.family()}, {"model_path", c.model_path}};
  if (c.sees()) pairs.emplace_back("mmproj_path", c.mmproj_path);
  pairs.emplace_back("weights_sha256", session_->files().sha256);
  if (c.sees()) pairs.emplace_back("mmproj_sha256", session_->vision_sha256());
  for (auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"backend", c.backend},
           {"n_ctx", std::to_string(c.n_ctx)},
           {"n_threads", std::to_string(c.n_threads)},
           {"temp", six_digits(c.temp)},
           {"top_k", std::to_string(c.top_k)},
           {"top_p", six_digits(c.top_p)},
           {"seed", std::to_string(c.seed)},
           {"max_tokens", std::to_string(c.max_tokens)},
           {"stage_plan", c.staged ? "staged_decode" : "full"}})
    pairs.emplace_back(key, value);
  const LlmOpenConfig defaults;
  if (c.numerics != defaults.numerics) pairs.emplace_back("numerics", choice_name(c.numerics));
  if (c.precision != defaults.precision) pairs.emplace_back("precision", choice_name(c.precision));
  if (c.kv_8bit) pairs.emplace_back("kv_precision", "int8");
  if (session_->schema() != nullptr)
    pairs.emplace_back("schema_sha256", session_->schema()->sha256);
  if (c.any_sizes) pairs.emplace_back("image_sizes", "any");
  if (c.tokens_port) pairs.emplace_back("tokens_port", "on");
  return pairs;
}

}  // namespace outrider
