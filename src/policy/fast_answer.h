// From the ids that PI0-FAST wrote to a chunk: text, action tokens, coefficients, inverse DCT.
//
// The answer is read as the reference reads it: all ids as text; what stands between the first
// "Action: " and the next "|" (or "Action: ", or the end), trimmed, is tokenised again; text id
// `n_pieces - 1 - 128 - t` is action token t. Its characters are coefficients, [rows, columns],
// divided by the scale and turned back along time by the orthonormal DCT-III.
//
// LeRobot reads ids, not text: the answer begins with the ids of "Action: " and ends with the first
// piece "|"; those ids are left out wherever they stand, each other id is an action token.
//
// Where the reference would make a chunk of zeros, or drop a token, or take a broken character for
// a coefficient, the fault is named. Source: pi-policy.md 12.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "policy/action_tokens.h"
#include "text/tokenizer.h"

namespace outrider {

class FastAnswer {
 public:
  // Ids at the end of the vocabulary that stand for no action.
  static constexpr int64_t kSkippedIds = 128;
  // Longest answer as text.
  static constexpr size_t kMaxTextBytes = size_t{1} << 20;

  struct Rule {
    bool lerobot = false;
    bool fit = false;  // a wrong number of coefficients is cut or filled with zeros
  };
  // [setup] Both must outlive this. max_ids: longest answer. Errors: kNotFound when the vocabulary
  // has fewer ids than there are action tokens, or LeRobot's rule finds no "|" in it.
  static Result<FastAnswer> make(const SpmTokenizer& text, const ActionTokens& tokens, int64_t rows,
                                 int64_t columns, int64_t max_ids, Rule rule);

  enum class Fault : uint8_t {
    kNone,
    kText,       // too long, or bytes that are no UTF-8
    kNoCue,      // no "Action: ", or not at the beginning (LeRobot)
    kNoAction,   // id `found` at place `at` stands for no action token
    kCharacter,  // the action tokens are no whole characters
    kCount       // `found` coefficients where rows * columns are wanted
  };
  struct Verdict {
    Fault fault = Fault::kNone;
    int64_t at = 0, found = 0;
  };
  // [setup] Ids behind which nothing is read: the end id; of LeRobot, the piece "|" too (-1 without
  // one).
  static std::array<int32_t, 2> end_ids(const SpmTokenizer& text, bool lerobot);
  // [hot]
  bool ends(int32_t id) const noexcept { return id == ends_[0] || id == ends_[1]; }
  // [hot] chunk [rows, columns], normalised; zeros after a fault, but for kCount where it fits.
  Verdict read(std::span<const int32_t> ids, std::span<float> chunk) noexcept;
  // [any] Coefficients that the last answer had, in its order; at most rows * columns.
  std::span<const float> coefficients() const { return coefficients_; }
  int64_t least_id() const { return most_id() - tokens_->n_tokens() + 1; }
  int64_t most_id() const { return text_->n_pieces() - 1 - kSkippedIds; }

 private:
  FastAnswer() = default;
  bool put(std::string_view bytes) noexcept;
  Verdict write_text(std::span<const int32_t> ids) noexcept;
  Verdict find_coefficients() noexcept;
  Verdict find_lerobot_coefficients(std::span<const int32_t> ids) noexcept;
  // Ids of action tokens as coefficients.
  Verdict take(std::span<const int32_t> ids) noexcept;
  void turn_back(std::span<float> chunk) noexcept;

  const SpmTokenizer* text_ = nullptr;
  const ActionTokens* tokens_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
  Rule rule_;
  std::vector<int32_t> cue_;  // ids of "Action: "
  std::array<int32_t, 2> ends_ = {-1, -1};
  std::vector<char> written_;
  size_t n_written_ = 0;
  std::unique_ptr<SpmTokenizer::Scratch> scratch_;
  std::vector<int32_t> ids_;
  std::vector<float> coefficients_;
  std::vector<double> basis_;  // [rows, rows]: time, frequency
};

}  // namespace outrider
