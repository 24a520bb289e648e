// From an instruction to the ids a policy reads: cleaning, state in the text, newline, limits.
// Source: pi-policy.md 4.2, 13.1.
//
// | rule | cleaned | PI0, and PI0.5 without state in the text | PI0.5 with it |
// |---|---|---|---|
// | openpi | yes | begin, ids(text), ids("\n") | begin, ids("Task: ..., State: ...;\nAction: ") |
// | lerobot | PI0.5 only | begin, ids(text + "\n"), no second newline | the same |
//
// PI0-FAST: begin, ids("Task: ..., State: ...;\n"). openpi: lower case, '_' to blank, newlines
// stay. lerobot: cleaned as PI0.5, case kept, and a begin id behind it, which max_tokens() counts.
//
// Control pieces written out in an instruction stay text.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policy/description.h"
#include "text/pi_prompt.h"
#include "text/tokenizer.h"

namespace outrider {

class PolicyPrompt {
 public:
  // [setup] `tokenizer` must outlive this. max_bytes: longest instruction. Errors: kNotFound when
  // the vocabulary has no begin id or does not know a newline.
  static Result<PolicyPrompt> make(const PolicyDescription& policy, PiFamily family,
                                   const SpmTokenizer& tokenizer, size_t max_bytes,
                                   StateBins bins = StateBins::kReference);

  bool reads_state() const { return state_in_text_; }
  int64_t max_tokens() const { return max_tokens_; }

  struct Written {
    Code code =
        Code::kOk;        // kInvalid: not UTF-8; kShape: longer than max_tokens, and not to be cut
    size_t n_ids = 0;     // stored
    size_t n_wanted = 0;  // what the whole instruction has
    bool cut() const { return code == Code::kOk && n_ids < n_wanted; }
  };
  // [hot] ids: at least max_tokens() long. `state` is read only when reads_state().
  Written write(std::string_view instruction, std::span<const double> state,
                std::span<int32_t> ids) noexcept;
  // [any] The text that was tokenised last, for people.
  std::string_view text() const { return {text_.data(), n_text_}; }

 private:
  PolicyPrompt() = default;
  SpmTokenizer::Encoded encode(std::string_view instruction, std::span<const double> state,
                               std::span<int32_t> ids) noexcept;
  size_t longest_that_fits(std::span<const double> state, std::span<int32_t> ids) noexcept;

  const SpmTokenizer* tokenizer_ = nullptr;
  bool fast_ = false, lower_ = false, state_in_text_ = false, clean_ = true,
       newline_in_text_ = false, cut_ = false;
  int64_t max_tokens_ = 0;
  size_t max_bytes_ = 0, n_cleaned_ = 0, n_text_ = 0;
  StateBins bins_ = StateBins::kReference;
  std::vector<float> narrow_;  // the state in f32, for the bins of Jetson-PI
  std::vector<char> cleaned_, text_;
  std::vector<int32_t> behind_;  // ids that are tokenised apart: a newline, a begin id
  std::unique_ptr<SpmTokenizer::Scratch> scratch_;
};

}  // namespace outrider
