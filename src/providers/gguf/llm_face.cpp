#include "providers/gguf/llm_face.h"

#include <cstdio>
#include <cstring>

namespace outrider {
namespace {

std::string six_digits(float value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(value));
  return text;
}

}  // namespace

Result<std::unique_ptr<LlmFace>> LlmFace::open(const LlmOpenConfig& config,
                                               std::shared_ptr<const LlmFiles> files) {
  auto session = LlmSession::open(config, std::move(files));
  if (!session) return session.error();
  return std::unique_ptr<LlmFace>(new LlmFace(std::move(session.value())));
}

// ---- inputs -------------------------------------------------------------------------------------

Code LlmFace::set_input(uint32_t port, const void* data, uint64_t bytes) noexcept {
  LlmSession& s = *session_;
  if (port != kPrompt && !(port == kTokens && staged()))
    return s.fail(Code::kInvalid, "set_input: port %u is no input; inputs are prompt (0)%s", port,
                  staged() ? " and tokens (5)" : "");
  s.drop_outputs();
  Code code = Code::kOk;
  if (data == nullptr && bytes > 0) {
    s.drop_input();
    code = s.fail(Code::kInvalid, "set_input: port %u: data is NULL for %llu bytes", port,
                  static_cast<unsigned long long>(bytes));
  } else if (port == kPrompt) {
    code = s.stage_prompt({static_cast<const char*>(data), static_cast<size_t>(bytes)});
  } else {
    code = s.stage_ids({static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
  }
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
  if (port == kText) return get_text(out, capacity, written);
  if (staged() && port == kNextToken) {
    if (!s.token_ready()) return not_ready("next_token");
    const int32_t token = s.next_token();
    return copy("next_token", &token, sizeof token, out, capacity, written);
  }
  if (staged() && port == kIsEog) {
    if (!s.token_ready()) return not_ready("is_eog");
    const int32_t eog = s.is_eog() ? 1 : 0;
    return copy("is_eog", &eog, sizeof eog, out, capacity, written);
  }
  if (staged() && port == kLogits) {
    if (!s.logits_ready()) return not_ready("logits");
    const auto logits = s.logits();
    return copy("logits", logits.data(), logits.size_bytes(), out, capacity, written);
  }
  return session_->fail(Code::kInvalid, "get_output: port %u is no output; outputs are text (1)%s",
                        port, staged() ? ", next_token (2), logits (3) and is_eog (4)" : "");
}

// ---- facts --------------------------------------------------------------------------------------

std::vector<std::pair<std::string, std::string>> LlmFace::identity() const {
  const LlmOpenConfig& c = session_->open_config();
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"provider", "outrider"},
      {"model_family", "llm"},
      {"model_path", c.model_path},
      {"weights_sha256", session_->files().sha256},
      {"backend", c.backend},
      {"n_ctx", std::to_string(c.n_ctx)},
      {"n_threads", std::to_string(c.n_threads)},
      {"temp", six_digits(c.temp)},
      {"top_k", std::to_string(c.top_k)},
      {"top_p", six_digits(c.top_p)},
      {"seed", std::to_string(c.seed)},
      {"max_tokens", std::to_string(c.max_tokens)},
      {"stage_plan", c.staged ? "staged_decode" : "full"}};
  const LlmOpenConfig defaults;
  if (c.numerics != defaults.numerics) pairs.emplace_back("numerics", choice_name(c.numerics));
  if (c.precision != defaults.precision) pairs.emplace_back("precision", choice_name(c.precision));
  return pairs;
}

}  // namespace outrider
