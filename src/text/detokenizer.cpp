#include "text/detokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/utf8.h"

namespace outrider {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kMaxHeld = 3;                             // bytes of a character's beginning

// Bytes at the front of not empty `text` that are the beginning of a character, but not a whole
// one: the maximal part that is replaced as one. At least 1.
size_t broken_bytes(std::string_view text) noexcept {
  constexpr std::string_view kRests[] = {"\x80", "\x80\x80", "\x80\x80\x80", "\x90\x80\x80",
                                         "\xA0\x80"};
  size_t best = 1;
  for (size_t n = 2; n <= std::min<size_t>(text.size(), kMaxHeld); ++n) {
    // A beginning can still become a character when some rest completes it.
    char whole[8];
    std::memcpy(whole, text.data(), n);
    for (const std::string_view rest : kRests) {
      std::memcpy(whole + n, rest.data(), rest.size());
      if (utf8_sequence_bytes({whole, n + rest.size()}) == n + rest.size()) best = n;
    }
  }
  return best;
}

// All of `text` may be the beginning of a character.
bool may_continue(std::string_view text) noexcept {
  const auto lead = static_cast<uint8_t>(text[0]);
  return lead >= 0xC2 && lead <= 0xF4 && broken_bytes(text) == text.size();
}

}  // namespace

Detokenizer::Detokenizer(const LanguageTokenizer& tokenizer, bool special)
    : tokenizer_(&tokenizer),
      special_(special),
      raw_(kMaxHeld + tokenizer.longest_bytes()),
      out_(kReplacement.size() * raw_.size()) {}

std::string_view Detokenizer::push(int32_t id) noexcept {
  const std::string_view bytes = tokenizer_->bytes(id, special_);
  OUTRIDER_ASSERT(n_held_ + bytes.size() <= raw_.size());
  std::copy(bytes.begin(), bytes.end(), raw_.begin() + static_cast<ptrdiff_t>(n_held_));
  n_held_ += bytes.size();
  return drain(false);
}

std::string_view Detokenizer::finish() noexcept {
  return drain(true);
}

void Detokenizer::reset() noexcept {
  n_held_ = 0;
  n_replaced_ = 0;
}

std::string_view Detokenizer::drain(bool at_end) noexcept {
  std::string_view left(raw_.data(), n_held_);
  char* out = out_.data();
  while (!left.empty()) {
    size_t n = utf8_sequence_bytes(left);
    if (n > 0) {
      out = std::copy_n(left.data(), n, out);
    } else {
      if (!at_end && left.size() <= kMaxHeld && may_continue(left)) break;
      n = broken_bytes(left);
      out = std::copy(kReplacement.begin(), kReplacement.end(), out);
      ++n_replaced_;
    }
    left.remove_prefix(n);
  }
  n_held_ = left.size();
  std::memmove(raw_.data(), left.data(), left.size());
  return {out_.data(), static_cast<size_t>(out - out_.data())};
}

}  // namespace outrider
