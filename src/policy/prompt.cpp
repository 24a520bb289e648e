#include "policy/prompt.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/utf8.h"
#include "text/lower_case.h"

namespace outrider {
namespace {

// Control pieces in foreign text stay text.
constexpr EncodeOptions kForeign = {.add_special = false, .parse_special = false};

// Longest number and its blank.
constexpr size_t kBytesPerState = 4;
constexpr size_t kFrameBytes = 64;  // "Task: ", ", State: ", ";\nAction: "

}  // namespace

Result<PolicyPrompt> PolicyPrompt::make(const PolicyDescription& policy, PiFamily family,
                                        const SpmTokenizer& tokenizer, size_t max_bytes,
                                        StateBins bins) {
  PolicyPrompt out;
  out.tokenizer_ = &tokenizer;
  out.state_in_text_ = outrider::state_in_text(policy, family);
  const bool lerobot = policy.prompt_rule == PromptRule::kLerobot;
  out.clean_ = !lerobot || out.state_in_text_;
  out.newline_in_text_ = lerobot && !out.state_in_text_;
  out.fast_ = family == PiFamily::kPi0Fast;
  out.lower_ = out.fast_ && !lerobot;
  out.cut_ = policy.too_long == TooLong::kCut;
  out.max_tokens_ = outrider::max_tokens(policy, family);
  out.max_bytes_ = max_bytes;
  if (tokenizer.vocab().bos < 0)
    return make_error(Code::kNotFound, "tokenizer: the vocabulary names no begin-of-text id");
  if (out.fast_ && lerobot) {
    out.behind_ = {tokenizer.vocab().bos};
    out.max_tokens_ = std::min<int64_t>(out.max_tokens_ + 1, 1024);
  }
  if (!out.state_in_text_ && !out.newline_in_text_) {
    auto newline = tokenizer.encode("\n", kForeign);
    if (!newline) return newline.error();
    if (newline.value().empty())
      return make_error(Code::kNotFound, "tokenizer: the vocabulary has no newline");
    out.behind_ = std::move(newline.value());
  }
  const size_t cleaned_bytes = max_lower_case_bytes(max_bytes);
  out.cleaned_.resize(cleaned_bytes);
  const auto n_state = static_cast<size_t>(std::max<int64_t>(policy.state_width(), 0));
  out.bins_ = bins;
  out.narrow_.resize(std::max(n_state, policy.state_convert.size()));
  out.text_.resize(cleaned_bytes + kFrameBytes +
                   kBytesPerState * std::max(n_state, policy.state_convert.size()));
  out.scratch_ = std::make_unique<SpmTokenizer::Scratch>(out.text_.size());
  return out;
}

SpmTokenizer::Encoded PolicyPrompt::encode(std::string_view instruction,
                                           std::span<const double> state,
                                           std::span<int32_t> ids) noexcept {
  if (fast_) {
    n_text_ = write_fast_text(instruction, state, text_);
    OUTRIDER_ASSERT(n_text_ <= text_.size());
  } else if (state_in_text_) {
    if (bins_ == StateBins::kReference) {
      n_text_ = write_pi05_text(instruction, state, text_);
    } else {
      OUTRIDER_ASSERT(state.size() <= narrow_.size());
      std::copy(state.begin(), state.end(), narrow_.begin());
      n_text_ = write_pi05_text(instruction, std::span<const float>(narrow_).first(state.size()),
                                bins_, text_);
    }
    OUTRIDER_ASSERT(n_text_ <= text_.size());
  } else {
    std::copy(instruction.begin(), instruction.end(), text_.begin());
    n_text_ = instruction.size();
    if (newline_in_text_ && !instruction.ends_with('\n')) text_[n_text_++] = '\n';
  }
  const auto rest = ids.subspan(std::min<size_t>(1, ids.size()));
  auto encoded = tokenizer_->encode(text(), kForeign, *scratch_, rest);
  if (encoded.code != Code::kOk) return encoded;
  if (!ids.empty()) ids[0] = tokenizer_->vocab().bos;
  for (const int32_t id : behind_) {
    if (encoded.n_ids < rest.size()) rest[encoded.n_ids] = id;
    ++encoded.n_ids;
  }
  ++encoded.n_ids;
  return encoded;
}

// The bytes of the cleaned instruction whose text fits, found by halving; 0 when not even an empty
// one does. More bytes hardly ever make fewer ids; where they do, a shorter prefix is still right.
size_t PolicyPrompt::longest_that_fits(std::span<const double> state,
                                       std::span<int32_t> ids) noexcept {
  size_t good = 0, bad = n_cleaned_;
  const std::string_view all(cleaned_.data(), n_cleaned_);
  while (good + 1 < bad) {
    size_t middle = (good + bad) / 2;
    while (middle > good && (static_cast<unsigned char>(all[middle]) & 0xC0) == 0x80) --middle;
    if (middle == good) {  // inside one character: try its end
      middle = (good + bad) / 2;
      while (middle < bad && (static_cast<unsigned char>(all[middle]) & 0xC0) == 0x80) ++middle;
      if (middle == bad) break;
    }
    const auto encoded = encode(all.substr(0, middle), state, ids);
    if (encoded.code == Code::kOk && encoded.n_ids <= static_cast<size_t>(max_tokens_))
      good = middle;
    else
      bad = middle;
  }
  return good;
}

PolicyPrompt::Written PolicyPrompt::write(std::string_view instruction,
                                          std::span<const double> state,
                                          std::span<int32_t> ids) noexcept {
  OUTRIDER_ASSERT(static_cast<int64_t>(ids.size()) >= max_tokens_);
  if (instruction.size() > max_bytes_) return {Code::kShape, 0, 0};
  if (!utf8_valid(instruction)) return {Code::kInvalid, 0, 0};
  if (lower_) {
    n_cleaned_ = clean_fast_instruction(instruction, cleaned_);
  } else if (clean_) {
    n_cleaned_ = clean_instruction(instruction, cleaned_);
  } else {
    std::copy(instruction.begin(), instruction.end(), cleaned_.begin());
    n_cleaned_ = instruction.size();
  }
  const auto room = ids.first(static_cast<size_t>(max_tokens_));
  auto encoded = encode({cleaned_.data(), n_cleaned_}, state, room);
  if (encoded.code != Code::kOk) return {encoded.code, 0, 0};
  const size_t wanted = encoded.n_ids;
  if (wanted <= room.size()) return {Code::kOk, wanted, wanted};
  if (!cut_) return {Code::kShape, 0, wanted};
  encoded = encode({cleaned_.data(), longest_that_fits(state, room)}, state, room);
  // The frame and the state alone are too much.
  if (encoded.code != Code::kOk || encoded.n_ids > room.size()) return {Code::kShape, 0, wanted};
  return {Code::kOk, encoded.n_ids, wanted};
}

}  // namespace outrider
