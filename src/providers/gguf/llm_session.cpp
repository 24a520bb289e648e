#include "providers/gguf/llm_session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "base/json_text.h"
#include "kernels/cpu_ops.h"
#include "providers/gguf/open_choices.h"
#include "providers/gguf/pi_engine.h"

namespace outrider {
namespace {

// Tokens evaluated at once. Also what a cancel may have to wait for, divided by the layers.
constexpr int64_t kChunk = 512;
// A byte that becomes no character is written as the three of U+FFFD.
constexpr size_t kReplacementBytes = 3;
// Prompt bytes that are read at most: eight a token that fits.
constexpr size_t kBytesPerToken = 8, kLeastPromptBytes = 16384, kMostPromptBytes = 1 << 20;

bool all_finite(std::span<const float> values) {
  uint32_t worst = 0;
  for (const float v : values) {
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    worst = std::max(worst, bits & 0x7fffffff);
  }
  return worst < 0x7f800000;
}

OpsLimits larger(const OpsLimits& a, const OpsLimits& b) {
  return {.max_rows = std::max(a.max_rows, b.max_rows),
          .max_in = std::max(a.max_in, b.max_in),
          .max_out = std::max(a.max_out, b.max_out),
          .max_keys = std::max(a.max_keys, b.max_keys),
          .max_head_dim = std::max(a.max_head_dim, b.max_head_dim),
          .kv_8bit = a.kv_8bit || b.kv_8bit,
          .max_right = std::max(a.max_right, b.max_right)};
}

void count(std::atomic<int64_t>& counter, int64_t n = 1) noexcept {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace

// ---- open ---------------------------------------------------------------------------------------

Result<std::unique_ptr<LlmSession>> LlmSession::open(const LlmOpenConfig& config,
                                                     std::shared_ptr<const LlmFiles> files) {
  std::unique_ptr<LlmSession> session(new LlmSession);
  OUTRIDER_TRY(session->prepare(config, std::move(files), {}));
  session->warm_up();
  return session;
}

size_t LlmSession::max_prompt_bytes() const {
  return std::clamp(kBytesPerToken * static_cast<size_t>(config_.context()), kLeastPromptBytes,
                    kMostPromptBytes);
}

Result<void> LlmSession::prepare(const LlmOpenConfig& config, std::shared_ptr<const LlmFiles> files,
                                 const Needs& needs) {
  config_ = config;
  files_ = std::move(files);
  precision_ = resolve_precision(config_, *files_);
  if (!config_.schema_path.empty()) {
    auto schema = open_output_schema(config_.schema_path, files_);
    if (!schema) return schema.error();
    schema_ = std::move(schema.value());
    written_ = schema_->constraint.start();
  }
  const UsefulThreads threads = choose_useful_threads(config_.n_threads);
  threads_note_ = threads.note;
  auto ops = make_cpu_ops({.n_threads = threads.n,
                           .wishes = {.pin = config_.pin_threads,
                                      .rt_priority = static_cast<int>(config_.rt_priority)}});
  if (!ops) return ops.error();
  ops_ = std::move(ops.value());
  const int64_t n_ctx = config_.context(), chunk = std::min(n_ctx, std::max(kChunk, needs.chunk));
  OUTRIDER_TRY(ops_->reserve(
      larger(llm_limits(files_->config, chunk, n_ctx, config_.kv_8bit), needs.limits)));
  auto model = open_llm_model(files_, precision_, *ops_);
  if (!model) return model.error();
  auto run = LlmRun::make(
      model.value(), *ops_,
      {.n_ctx = n_ctx, .chunk = chunk, .reuse = config_.reuse, .kv_8bit = config_.kv_8bit});
  if (!run) return run.error();
  run_ = std::move(run.value());
  n_ids_of_vocab_ = static_cast<size_t>(files_->n_ids());
  auto sampler = Sampler::make({.temperature = config_.temp,
                                .top_k = static_cast<int32_t>(config_.top_k),
                                .top_p = config_.top_p,
                                .seed = static_cast<uint32_t>(config_.seed)},
                               n_ids_of_vocab_);
  if (!sampler) return sampler.error();
  sampler_ = std::make_unique<Sampler>(std::move(sampler.value()));
  detokenizer_ = std::make_unique<Detokenizer>(files_->tokenizer, /*special=*/true);
  scratch_ = std::make_unique<LanguageTokenizer::Scratch>(files_->tokenizer, max_prompt_bytes());
  ids_.resize(static_cast<size_t>(n_ctx));
  // No more tokens than the context holds, and one behind it that is not evaluated.
  const auto n_tokens = static_cast<size_t>(std::min(config_.budget(), n_ctx + 1));
  const size_t each = kReplacementBytes * std::max<size_t>(files_->tokenizer.longest_bytes(), 1);
  text_capacity_ = n_tokens * each + kReplacementBytes;
  text_.reset(new (std::nothrow) char[text_capacity_]());  // touched now, not in a tick
  if (!text_)
    return make_error(Code::kNoMemory, "text of %zu tokens: no memory for %zu bytes; lower n_ctx",
                      n_tokens, text_capacity_);
  return {};
}

// Touches every weight and every code path once, so that the first run is like the thousandth.
void LlmSession::warm_up() {
  const std::vector<int32_t> ids(static_cast<size_t>(std::min<int64_t>(config_.context(), 8)), 0);
  const std::span<const int32_t> all(ids);
  run_->append(all.first(all.size() > 1 ? all.size() - 1 : 1), true);
  if (all.size() > 1) run_->append(all.first(1), true);
  run_->reset();
  count(counters_.warm_ups);
}

Code LlmSession::fail(Code code, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  std::vsnprintf(error_, sizeof error_, format, args);
  va_end(args);
  return code;
}

// ---- inputs -------------------------------------------------------------------------------------

Code LlmSession::stage_prompt(std::string_view text) noexcept {
  staged_ = false;
  if (text.empty())
    return fail(Code::kInvalid, "prompt: 0 bytes, wanted UTF-8 text of at least one");
  if (text.size() > max_prompt_bytes())
    return fail(Code::kShape,
                "prompt: %zu bytes, a context of %lld tokens takes at most %zu; raise n_ctx or cut "
                "the prompt",
                text.size(), static_cast<long long>(config_.context()), max_prompt_bytes());
  TokenizeOptions options;
  options.add_special = true;
  options.parse_special = true;
  const auto encoded = files_->tokenizer.encode(text, options, *scratch_, ids_);
  if (encoded.code == Code::kInvalid)
    return fail(Code::kInvalid, "prompt: %zu bytes that are not UTF-8", text.size());
  if (encoded.code != Code::kOk)
    return fail(Code::kFailed, "prompt: the tokenizer gave up on %zu bytes (%s)", text.size(),
                code_name(encoded.code));
  if (files_->tokenizer.doubles_bos(text)) count(counters_.doubled_bos);
  if (encoded.n_dropped > 0)
    count(counters_.dropped_characters, static_cast<int64_t>(encoded.n_dropped));
  n_staged_ = encoded.n_ids;
  staged_ = true;
  return Code::kOk;
}

Code LlmSession::stage_ids(std::span<const std::byte> bytes) noexcept {
  staged_ = false;
  if (bytes.empty() || bytes.size() % sizeof(int32_t) != 0)
    return fail(Code::kInvalid, "tokens: %zu bytes, wanted a whole number of i32, at least one",
                bytes.size());
  n_staged_ = bytes.size() / sizeof(int32_t);
  for (size_t i = 0; i < n_staged_; ++i) {
    int32_t id;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    if (id < 0 || id >= files_->n_ids())
      return fail(Code::kInvalid, "tokens: id %d at position %zu, allowed 0..%lld", id, i,
                  static_cast<long long>(files_->n_ids() - 1));
    if (i < ids_.size()) ids_[i] = id;
  }
  staged_ = true;
  return Code::kOk;
}

Code LlmSession::stage_pictures(std::span<const std::byte>) noexcept {
  return fail(Code::kUnsupported, "images: model_family llm takes none; mllm does");
}

void LlmSession::drop_outputs() noexcept {
  token_ready_ = logits_ready_ = eog_ = text_ended_ = false;
  token_ = -1;
  n_text_ = 0;
  end_reason_ = "";
  phase_ = Phase::kIdle;
}

// ---- runs ---------------------------------------------------------------------------------------

void LlmSession::reset() noexcept {
  drop_outputs();
  n_decoded_ = 0;
  sampler_->reset();
  detokenizer_->reset();
  if (schema_) written_ = schema_->constraint.start();
  if (!config_.reuse) run_->reset();
}

// Ids into the context; logits behind the last. A failure ends the session.
Code LlmSession::evaluate(std::span<const int32_t> ids) noexcept {
  logits_ready_ = false;
  return evaluated(run_->append(ids, true, &cancel_), static_cast<int64_t>(ids.size()));
}

// The last of n tokens was evaluated, or it was not: then somebody cancelled.
Code LlmSession::evaluated(bool whole, int64_t n) noexcept {
  if (!whole) {
    drop_outputs();
    count(counters_.cancelled_runs);
    return fail(Code::kFailed, "cancelled after %lld of the session's tokens",
                static_cast<long long>(run_->n_past()));
  }
  count(counters_.evaluated_tokens, n);
  if (!all_finite(logits())) {
    drop_outputs();
    count(counters_.nonfinite_outputs);
    return fail(Code::kFailed,
                "logits: a value is NaN or infinite and none is delivered; check the weights");
  }
  logits_ready_ = true;
  return Code::kOk;
}

Code LlmSession::refuse_length(const char* of_what, int64_t n) noexcept {
  return fail(Code::kShape,
              "%s: %lld tokens, the context holds %lld; nothing was computed; raise n_ctx or cut "
              "the prompt",
              of_what, static_cast<long long>(n), static_cast<long long>(config_.context()));
}

Code LlmSession::feed() noexcept {
  if (!staged_)
    return fail(Code::kInvalid,
                "prefill: port prompt is not staged; stage it, or port tokens, first");
  if (n_staged_ == 0) return fail(Code::kFailed, "prompt: it gives no token at all");
  if (n_staged_ > ids_.size()) return refuse_length("prompt", static_cast<int64_t>(n_staged_));
  const std::span<const int32_t> ids = std::span<const int32_t>(ids_).first(n_staged_);
  const int64_t kept = run_->begin(ids);
  const Code code = evaluate(ids.subspan(static_cast<size_t>(kept)));
  if (code == Code::kOk) count(counters_.reused_tokens, kept);
  return code;
}

Code LlmSession::prefill() noexcept {
  reset();
  const int64_t start_ns = clock_.now_ns();
  if (const Code code = feed(); code != Code::kOk) return code;
  phase_ = Phase::kActive;
  counters_.prompt_tokens.store(run_->n_past(), std::memory_order_relaxed);
  counters_.ns_prefill.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  count(counters_.runs);
  return Code::kOk;
}

void LlmSession::add_text(std::string_view more) noexcept {
  OUTRIDER_ASSERT(more.size() <= text_capacity_ - n_text_);
  std::memcpy(text_.get() + n_text_, more.data(), more.size());
  n_text_ += more.size();
}

// Nothing will be added to the text.
void LlmSession::end(const char* reason) noexcept {
  add_text(detokenizer_->finish());
  text_ended_ = true;
  end_reason_ = reason;
}

Code LlmSession::refuse_decode() noexcept {
  if (phase_ == Phase::kIdle)
    return fail(Code::kFailed, "decode: no session; run prefill first (a new input ends the last)");
  if (std::strcmp(end_reason_, "eog") == 0)
    return fail(Code::kFailed, "decode: generation has ended; prefill starts a new session");
  if (n_decoded_ >= config_.budget()) {
    token_ready_ = logits_ready_ = false;
    return fail(Code::kFailed,
                "decode: max_tokens is %lld and so many were decoded; prefill or reset restores it",
                static_cast<long long>(config_.budget()));
  }
  token_ready_ = logits_ready_ = false;
  return fail(Code::kFailed, "decode: the context of %lld tokens is full; raise n_ctx",
              static_cast<long long>(config_.context()));
}

// The next id, and its text. Sets end_reason_ when it is the last.
Code LlmSession::sample() noexcept {
  const TokenMask allowed = schema_ ? schema_->constraint.allowed(written_) : TokenMask{};
  const Sampler::Sampled sampled = sampler_->sample(logits(), allowed);
  if (sampled.code != Code::kOk) {
    drop_outputs();
    return fail(Code::kFailed, "decode: no id can be drawn from these logits (%s)",
                code_name(sampled.code));
  }
  token_ = sampled.id;
  token_ready_ = true;
  const bool follows = !schema_ || schema_->constraint.advance(written_, token_);
  OUTRIDER_ASSERT(follows);
  eog_ = files_->tokenizer.ends_generation(token_);
  ++n_decoded_;
  count(counters_.sampled_tokens);
  if (eog_) {
    end("eog");
    count(counters_.eog_ends);
    return Code::kOk;
  }
  add_text(detokenizer_->push(token_));
  if (n_decoded_ < config_.budget() && run_->n_past() < run_->n_ctx()) return Code::kOk;
  end("length");
  count(counters_.length_ends);
  return Code::kOk;
}

Code LlmSession::decode() noexcept {
  const bool spent = phase_ == Phase::kActive && *end_reason_ != 0;
  if (phase_ != Phase::kActive || spent) {
    const Code code = refuse_decode();
    return code;
  }
  const int64_t start_ns = clock_.now_ns();
  if (const Code code = sample(); code != Code::kOk) return code;
  if (eog_ || run_->n_past() == run_->n_ctx()) {
    logits_ready_ = false;
    return Code::kOk;
  }
  const Code code = evaluate({&token_, 1});
  counters_.ns_decode.store(clock_.now_ns() - start_ns, std::memory_order_relaxed);
  return code;
}

Code LlmSession::infer() noexcept {
  if (const Code code = prefill(); code != Code::kOk) return code;
  const int64_t start_ns = clock_.now_ns();
  while (true) {
    if (const Code code = sample(); code != Code::kOk) return code;
    if (*end_reason_ != 0) break;
    const int32_t id = token_;
    if (const Code code = evaluate({&id, 1}); code != Code::kOk) return code;
  }
  counters_.ns_decode.store((clock_.now_ns() - start_ns) / std::max<int64_t>(n_decoded_, 1),
                            std::memory_order_relaxed);
  token_ready_ = logits_ready_ = false;
  phase_ = Phase::kEnded;
  return Code::kOk;
}

// ---- facts --------------------------------------------------------------------------------------

std::string LlmSession::text_facts() const {
  const LlmConfig& c = files_->config;
  char text[2048];
  std::snprintf(
      text, sizeof text,
      "\"family\":\"%s\",\"architecture\":\"%s\",\"numerics\":\"%s\",\"precision\":\"%s\","
      "\"kernel_table\":\"%s\",\"threads\":%d,\"threads_note\":%s,\"plan\":\"%s\","
      "\"n_ctx\":%lld,\"trained_context\":%lld,\"max_tokens\":%lld,\"seed\":%u,"
      "\"vocabulary\":%lld,\"max_prompt_bytes\":%zu,\"adds_bos\":%s,\"weights_bytes\":%zu,\"packed_"
      "bytes\":%lld,"
      "\"resident_bytes\":%lld,\"state_bytes\":%lld,\"kv_bytes\":%lld,\"kv_type\":\"%s\",\"warmed_"
      "up\":true,"
      "\"reuse\":\"%s\",\"schema_sha256\":\"%s\",\"digests\":\"%s\"",
      config_.family(), llm_arch_name(c.arch), choice_name(config_.numerics),
      precision_name(precision_), ops_->kernel_table(), ops_->n_threads(),
      json_quoted(threads_note_).c_str(), config_.staged ? "staged" : "infer",
      static_cast<long long>(config_.context()), static_cast<long long>(c.trained_context),
      static_cast<long long>(config_.budget()), sampler_->seed(),
      static_cast<long long>(files_->n_ids()), max_prompt_bytes(),
      files_->tokenizer.add_bos() ? "true" : "false", files_->file.file().size(),
      static_cast<long long>(run_->model().packed_bytes()),
      static_cast<long long>(run_->model().resident_bytes()),
      static_cast<long long>(run_->state_bytes()), static_cast<long long>(run_->kv_bytes()),
      run_->kv_type() == DType::kQ8_0   ? "int8"
      : run_->kv_type() == DType::kBf16 ? "bf16"
                                        : "f32",
      config_.reuse ? "on" : "off", schema_ ? schema_->sha256.c_str() : "",
      files_->digest_remembered ? "remembered" : "computed");
  return text;
}

std::string LlmSession::describe() const {
  return "{" + text_facts() + "}";
}

}  // namespace outrider
