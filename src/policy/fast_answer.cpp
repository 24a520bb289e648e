#include "policy/fast_answer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/assert.h"
#include "base/utf8.h"
#include "text/pi_prompt.h"
#include "text/unicode.h"

namespace outrider {
namespace {

constexpr std::string_view kCue = "Action: ", kEnd = "|", kBlank = "\xE2\x96\x81";

// "<0x41>" -> 0x41
char byte_of(std::string_view piece) {
  const auto digit = [&](size_t i) {
    const char c = piece[i];
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
  };
  return piece.size() == 6 ? static_cast<char>(digit(3) * 16 + digit(4)) : '?';
}

}  // namespace

std::array<int32_t, 2> FastAnswer::end_ids(const SpmTokenizer& text, bool lerobot) {
  std::array<int32_t, 2> out = {text.vocab().eos, -1};
  if (!lerobot) return out;
  const auto& pieces = text.vocab().pieces;
  const auto bar =
      std::find_if(pieces.begin(), pieces.end(), [](const Piece& p) { return p.text == kEnd; });
  if (bar != pieces.end()) out[1] = static_cast<int32_t>(bar - pieces.begin());
  return out;
}

Result<FastAnswer> FastAnswer::make(const SpmTokenizer& text, const ActionTokens& tokens,
                                    int64_t rows, int64_t columns, int64_t max_ids, Rule rule) {
  FastAnswer out;
  out.rule_ = rule;
  out.text_ = &text;
  out.tokens_ = &tokens;
  out.rows_ = rows;
  out.columns_ = columns;
  if (out.least_id() < 0)
    return make_error(Code::kNotFound,
                      "tokenizer: %d pieces, but %lld action tokens and %lld ids behind them are "
                      "counted from the end; it is not the vocabulary this policy was trained with",
                      text.n_pieces(), static_cast<long long>(tokens.n_tokens()),
                      static_cast<long long>(kSkippedIds));
  out.ends_ = end_ids(text, rule.lerobot);
  if (rule.lerobot) {
    auto cue = text.encode(kCue, {.parse_special = false});
    if (!cue) return cue.error();
    if (out.ends_[1] < 0 || cue.value().empty())
      return make_error(Code::kNotFound,
                        "tokenizer: the vocabulary has no piece \"|\", which ends an answer; it is "
                        "not the vocabulary this policy was trained with");
    out.cue_ = std::move(cue.value());
  }
  size_t longest = 8;
  for (const Piece& piece : text.vocab().pieces) longest = std::max(longest, piece.text.size());
  const size_t bytes = std::min(kMaxTextBytes, longest * static_cast<size_t>(max_ids));
  out.written_.resize(bytes);
  out.scratch_ = std::make_unique<SpmTokenizer::Scratch>(bytes);
  // A text of n bytes has at most n ids; LeRobot's are those of the answer.
  out.ids_.resize(std::max(bytes, static_cast<size_t>(max_ids)));
  out.coefficients_.reserve(static_cast<size_t>(rows * columns));
  const double n = static_cast<double>(rows);
  out.basis_.resize(static_cast<size_t>(rows * rows));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t k = 0; k < rows; ++k)
      out.basis_[static_cast<size_t>(t * rows + k)] =
          k == 0 ? std::sqrt(1 / n)
                 : std::sqrt(2 / n) * std::cos(std::numbers::pi * static_cast<double>(k) *
                                               (2 * static_cast<double>(t) + 1) / (2 * n));
  }
  return out;
}

bool FastAnswer::put(std::string_view bytes) noexcept {
  if (bytes.size() > written_.size() - n_written_) return false;
  std::memcpy(written_.data() + n_written_, bytes.data(), bytes.size());
  n_written_ += bytes.size();
  return true;
}

// The ids as text: control pieces are silent.
FastAnswer::Verdict FastAnswer::write_text(std::span<const int32_t> ids) noexcept {
  n_written_ = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    OUTRIDER_ASSERT(ids[i] >= 0 && ids[i] < text_->n_pieces());
    const Piece& piece = text_->vocab().pieces[static_cast<size_t>(ids[i])];
    bool fits = true;
    if (piece.type == PieceType::kByte) {
      const char byte = byte_of(piece.text);
      fits = put({&byte, 1});
    } else if (piece.type == PieceType::kUnknown) {
      fits = put(" \xE2\x81\x87 ");
    } else if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) {
      for (std::string_view rest = piece.text; !rest.empty() && fits;) {
        const size_t n = rest.find(kBlank);
        fits = put(rest.substr(0, n));
        if (n == std::string_view::npos) break;
        fits = fits && put(" ");
        rest.remove_prefix(n + kBlank.size());
      }
    }
    if (!fits) return {Fault::kText, static_cast<int64_t>(i), ids[i]};
  }
  const std::string_view all(written_.data(), n_written_);
  if (!utf8_valid(all)) return {Fault::kText, 0, 0};
  return {};
}

// Of the text: the action's part, as ids, as bytes, as coefficients.
FastAnswer::Verdict FastAnswer::find_coefficients() noexcept {
  std::string_view text(written_.data(), n_written_);
  const size_t cue = text.find(kCue);
  if (cue == std::string_view::npos) return {Fault::kNoCue, 0, 0};
  text.remove_prefix(cue + kCue.size());
  text = text.substr(0, text.find(kCue));
  text = trimmed(text.substr(0, text.find(kEnd)));
  const auto encoded = text_->encode(text, {.parse_special = false}, *scratch_, ids_);
  if (encoded.code != Code::kOk) return {Fault::kText, 0, 0};
  OUTRIDER_ASSERT(encoded.n_ids <= ids_.size());
  return take(std::span<const int32_t>(ids_).first(encoded.n_ids));
}

FastAnswer::Verdict FastAnswer::find_lerobot_coefficients(std::span<const int32_t> ids) noexcept {
  ids = ids.first(static_cast<size_t>(
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return ends(id); }) - ids.begin()));
  OUTRIDER_ASSERT(ids.size() <= ids_.size());
  const auto cue_at = [&](size_t i) {
    return ids.size() - i >= cue_.size() &&
           std::equal(cue_.begin(), cue_.end(), ids.begin() + static_cast<int64_t>(i));
  };
  if (!cue_at(0)) return {Fault::kNoCue, 0, 0};
  size_t n = 0;
  for (size_t i = 0; i < ids.size();) {
    if (cue_at(i)) {
      i += cue_.size();
    } else {
      ids_[n++] = ids[i++];
    }
  }
  return take(std::span<const int32_t>(ids_).first(n));
}

FastAnswer::Verdict FastAnswer::take(std::span<const int32_t> ids) noexcept {
  const auto wanted = static_cast<size_t>(rows_ * columns_);
  int64_t n_found = 0;
  char pending[4] = {};  // the beginning of a character that the next token goes on with
  size_t n_pending = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t token = most_id() - ids[i];
    if (token < 0 || token >= tokens_->n_tokens() || tokens_->bytes(token).empty())
      return {Fault::kNoAction, static_cast<int64_t>(i), ids[i]};
    for (const char byte : tokens_->bytes(token)) {
      pending[n_pending++] = byte;
      const std::string_view character(pending, n_pending);
      if (utf8_sequence_bytes(character) == n_pending) {
        if (coefficients_.size() < wanted)
          coefficients_.push_back(static_cast<float>(
              static_cast<int64_t>(first_character(character).code) + tokens_->min_token()));
        ++n_found;
        n_pending = 0;
      } else if (n_pending == sizeof pending) {
        return {Fault::kCharacter, static_cast<int64_t>(i), ids[i]};
      }
    }
  }
  if (n_pending > 0) return {Fault::kCharacter, static_cast<int64_t>(ids.size()), 0};
  if (n_found != rows_ * columns_) return {Fault::kCount, 0, n_found};
  return {};
}

void FastAnswer::turn_back(std::span<float> chunk) noexcept {
  for (int64_t t = 0; t < rows_; ++t) {
    for (int64_t c = 0; c < columns_; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < rows_; ++k)
        sum += basis_[static_cast<size_t>(t * rows_ + k)] *
               (static_cast<double>(coefficients_[static_cast<size_t>(k * columns_ + c)]) /
                tokens_->scale());
      chunk[static_cast<size_t>(t * columns_ + c)] = static_cast<float>(sum);
    }
  }
}

FastAnswer::Verdict FastAnswer::read(std::span<const int32_t> ids,
                                     std::span<float> chunk) noexcept {
  OUTRIDER_ASSERT(static_cast<int64_t>(chunk.size()) == rows_ * columns_);
  coefficients_.clear();
  Verdict verdict;
  if (rule_.lerobot) {
    verdict = find_lerobot_coefficients(ids);
  } else {
    verdict = write_text(ids);
    if (verdict.fault == Fault::kNone) verdict = find_coefficients();
  }
  const bool fits = rule_.fit && verdict.fault == Fault::kCount;
  if (fits) coefficients_.resize(static_cast<size_t>(rows_ * columns_));
  if (verdict.fault == Fault::kNone || fits) {
    turn_back(chunk);
  } else {
    std::fill(chunk.begin(), chunk.end(), 0.0f);
  }
  return verdict;
}

}  // namespace outrider
