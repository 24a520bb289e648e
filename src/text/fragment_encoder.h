// Turns a raw fragment of text (no special pieces in it) into ids: byte-level BPE, BPE over
// characters, unigram.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
#include "text/byte_letters.h"
#include "text/language_vocab.h"
#include "text/split_regex.h"
#include "text/unicode.h"
#include "text/unigram.h"

namespace outrider {

// Counts every id, stores those that fit.
struct IdWriter {
  std::span<int32_t> ids;
  size_t n_ids = 0;
  size_t n_dropped = 0;
  void put(int32_t id) noexcept {
    if (n_ids < ids.size()) ids[n_ids] = id;
    ++n_ids;
  }
  std::span<int32_t> rest() const noexcept { return ids.subspan(std::min(n_ids, ids.size())); }
};

struct FragmentScratch {
  FragmentScratch(const LanguageVocab& vocab, size_t max_text_bytes);
  NfcScratch nfc;
  std::vector<char> letters;  // a word as stand-ins, or a fragment with its blanks replaced
  BpeScratch bpe;
  UnigramScratch unigram;
  SplitRegex::Budget budget;  // of one text
};

struct FragmentOptions {
  bool allow_control = false;
  bool begins_text = false;
};

class FragmentEncoder {
 public:
  static constexpr size_t kMaxSplits = 8;

  // [setup] `vocab` and `table` must outlive this and stay where they are. Errors: those of the
  // patterns and merges; kNotFound where an unknown character would have no way out.
  Result<void> build(const LanguageVocab& vocab, const PieceTable& table);
  // [hot] fragment: valid UTF-8, not empty. False: the budget of the patterns is spent.
  bool encode(std::string_view fragment, FragmentOptions options, FragmentScratch& scratch,
              IdWriter& out) const noexcept;

 private:
  bool split(std::string_view text, size_t level, FragmentOptions options, FragmentScratch& scratch,
             IdWriter& out) const noexcept;
  void byte_word(std::string_view word, FragmentOptions options, FragmentScratch& scratch,
                 IdWriter& out) const noexcept;
  void char_word(std::string_view text, FragmentOptions options, FragmentScratch& scratch,
                 IdWriter& out) const noexcept;
  void unigram_word(std::string_view text, FragmentScratch& scratch, IdWriter& out) const noexcept;
  std::string_view with_blanks(std::string_view text, FragmentOptions options,
                               FragmentScratch& scratch) const noexcept;
  int32_t usable(int32_t id, FragmentOptions options) const noexcept;
  void put_symbol(int32_t symbol, FragmentOptions options, IdWriter& out) const noexcept;
  void put_unknown(std::string_view character, bool& behind_unknown, IdWriter& out) const noexcept;

  const LanguageVocab* vocab_ = nullptr;
  const PieceTable* table_ = nullptr;
  ByteLetters letters_;
  std::vector<SplitRegex> splits_;
  BpeMerges merges_;
  Unigram unigram_;
  int32_t byte_symbols_[256] = {};  // kByteBpe: symbol of each byte; else id of <0xNN> or -1
};

}  // namespace outrider
