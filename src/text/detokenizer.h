// Ids to text while they are being made, never cutting a character.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/language_tokenizer.h"

namespace outrider {

// The beginning of a character is held back until the rest is there. Bytes that can no longer
// become a character, and a beginning still held at the end, become one U+FFFD for each maximal
// part, as the Unicode standard recommends: what is returned is always UTF-8, and all parts
// together are the whole text whatever the ids were cut into.
class Detokenizer {
 public:
  // [setup] The tokenizer must outlive this. special: control pieces give their text.
  explicit Detokenizer(const LanguageTokenizer& tokenizer, bool special = false);

  // [hot] What this id completes; may be empty. Valid until the next call. No heap.
  std::string_view push(int32_t id) noexcept;
  // [hot] The end: a held beginning as one U+FFFD, else empty. Starts anew.
  std::string_view finish() noexcept;
  // [hot] Forgets what is held.
  void reset() noexcept;

  size_t n_held_bytes() const { return n_held_; }
  uint64_t n_replaced() const { return n_replaced_; }  // U+FFFD put in since reset or construction

 private:
  std::string_view drain(bool at_end) noexcept;

  const LanguageTokenizer* tokenizer_;
  bool special_;
  std::vector<char> raw_, out_;
  size_t n_held_ = 0;  // bytes at the front of raw_
  uint64_t n_replaced_ = 0;
};

}  // namespace outrider
