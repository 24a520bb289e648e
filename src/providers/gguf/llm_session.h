// One conversation with a language model: ids in, ids and text out. It knows budgets, the end of
// generation and cancelling, no ports. Sessions of one file share its weights and nothing else.
//
// [hot] verbs never allocate, lock, throw or print. One instance belongs to one thread at a time;
// cancel() may be called from any.
#pragma once
#include <atomic>
#include <cstdarg>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "models/llm_run.h"
#include "providers/gguf/llm_files.h"
#include "providers/gguf/output_schema.h"
#include "text/detokenizer.h"
#include "text/language_tokenizer.h"
#include "text/sampler.h"

namespace outrider {

struct LlmCounters {
  std::atomic<int64_t> runs{0}, failed_runs{0}, refused_inputs{0}, nonfinite_outputs{0},
      cancelled_runs{0}, prompt_tokens{0}, reused_tokens{0}, evaluated_tokens{0}, sampled_tokens{0},
      eog_ends{0}, length_ends{0}, doubled_bos{0}, dropped_characters{0}, warm_ups{0},
      ns_prefill{0}, ns_decode{0};
  // Of family mllm.
  std::atomic<int64_t> resized_pictures{0}, encoded_frames{0}, picture_tokens{0}, fused_pictures{0},
      ns_pictures{0};
};

class LlmSession {
 public:
  virtual ~LlmSession() = default;

  // [setup] Takes all memory, packs or finds packed weights, runs once. Errors: those of every
  // part.
  static Result<std::unique_ptr<LlmSession>> open(const LlmOpenConfig& config,
                                                  std::shared_ptr<const LlmFiles> files);

  // ---- inputs ----
  // [hot] The next prefill reads this; whatever was staged before is gone, also on failure. A
  // prompt gets BOS and EOS as the vocabulary says, and special pieces written out in it are those
  // pieces. Errors: kInvalid (empty, not UTF-8; an id outside the vocabulary), kShape (too long),
  // kFailed (tokenizer).
  virtual Code stage_prompt(std::string_view text) noexcept;
  virtual Code stage_ids(std::span<const std::byte> ids) noexcept;  // i32 values at any address
  // [hot] n views of frt_image_view at any address; family mllm alone takes them.
  virtual Code stage_pictures(std::span<const std::byte> views) noexcept;
  // [hot] No output is ready and the session is over.
  void drop_outputs() noexcept;
  void drop_prompt() noexcept { staged_ = false; }
  virtual void drop_pictures() noexcept {}

  // ---- runs ----
  // [hot] Errors of all three: kFailed when cancelled, when a logit is not finite or the session is
  // in no state for it; the reason is in error().
  //
  // Reads what is staged into a fresh session. Errors: kInvalid (nothing staged), kShape (more
  // tokens than the context holds; nothing was computed).
  Code prefill() noexcept;
  // Samples one id and evaluates it, unless generation ends with it.
  Code decode() noexcept;
  // Prefill, then decodes until generation ends. Only the text is ready afterwards.
  Code infer() noexcept;
  // The session is over; what is staged stays.
  void reset() noexcept;
  // [any] See outrider/ext/cancel.h.
  void cancel(bool on) noexcept { cancel_.store(on, std::memory_order_relaxed); }

  // ---- outputs ----
  bool token_ready() const { return token_ready_; }
  int32_t next_token() const { return token_; }
  bool is_eog() const { return eog_; }
  bool logits_ready() const { return logits_ready_; }
  std::span<const float> logits() const { return run_->logits().first(n_ids_of_vocab_); }
  // Generated so far. Ended: nothing will be added, and a begun character was replaced.
  std::string_view text() const { return {text_.get(), n_text_}; }
  bool text_ended() const { return text_ended_; }
  // "eog", "length", or "" while generation may go on.
  const char* end_reason() const { return end_reason_; }
  // What is written follows it; null: anything may be written.
  const OutputSchema* schema() const { return schema_.get(); }

  // Ids of what is staged; empty when it does not fit the context.
  std::span<const int32_t> staged_ids() const {
    return std::span<const int32_t>(ids_).first(staged_ && n_staged_ <= ids_.size() ? n_staged_
                                                                                    : 0);
  }

  const char* error() const { return error_; }
  Code fail(Code code, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
  void clear_error() noexcept { error_[0] = 0; }

  const LlmOpenConfig& open_config() const { return config_; }
  const LlmFiles& files() const { return *files_; }
  LlmCounters& counters() { return counters_; }
  // Facts as one JSON object.
  virtual std::string describe() const;
  // Pairs of the identity that a further file adds.
  virtual std::string vision_sha256() const { return {}; }

 protected:
  enum class Phase : uint8_t { kIdle, kActive, kEnded };

  LlmSession() = default;
  // What a picture's tower asks for beside the text model.
  struct Needs {
    int64_t chunk = 0;  // tokens that must be evaluated at once, at least
    OpsLimits limits;
  };
  Result<void> prepare(const LlmOpenConfig& config, std::shared_ptr<const LlmFiles> files,
                       const Needs& needs);
  void warm_up();
  // Reads what is staged into a fresh context; logits behind the last token. Sets n_staged_.
  virtual Code feed() noexcept;
  Code refuse_length(const char* of_what, int64_t n) noexcept;
  Code sample() noexcept;
  Code evaluate(std::span<const int32_t> ids) noexcept;
  Code evaluated(bool whole, int64_t n) noexcept;
  std::string text_facts() const;  // members of describe(), without braces
  void add_text(std::string_view more) noexcept;
  void end(const char* reason) noexcept;
  Code refuse_decode() noexcept;
  size_t max_prompt_bytes() const;

  LlmOpenConfig config_;
  std::shared_ptr<const LlmFiles> files_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<LlmRun> run_;
  std::unique_ptr<LanguageTokenizer::Scratch> scratch_;
  std::unique_ptr<Detokenizer> detokenizer_;
  std::unique_ptr<Sampler> sampler_;
  std::shared_ptr<const OutputSchema> schema_;
  Constraint::State written_;  // how far the text is in the schema
  MonotonicClock clock_;
  std::string threads_note_;
  Precision precision_ = Precision::kF32;
  size_t n_ids_of_vocab_ = 0;

  std::vector<int32_t> ids_;  // [n_ctx] of the staged input
  size_t n_staged_ = 0;       // how many it has, which may be more
  bool staged_ = false;

  Phase phase_ = Phase::kIdle;
  int64_t n_decoded_ = 0;
  bool token_ready_ = false, eog_ = false, logits_ready_ = false, text_ended_ = false;
  int32_t token_ = -1;
  const char* end_reason_ = "";
  std::unique_ptr<char[]> text_;
  size_t n_text_ = 0, text_capacity_ = 0;
  std::atomic<bool> cancel_{false};
  LlmCounters counters_;
  char error_[Error::kTextBytes] = {};
};

}  // namespace outrider
