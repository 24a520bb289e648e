#include "text/fragment_encoder.h"

#include <algorithm>
#include <cstdio>

#include "base/assert.h"

namespace outrider {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, stands for ' ' inside pieces
constexpr uint32_t kNfcGrowth = 3;

size_t most_bytes(const LanguageVocab& vocab, size_t max_text_bytes) {
  return max_text_bytes * (vocab.nfc ? kNfcGrowth : 1) + 1;
}

// Stand-ins: one a byte. Characters: at most one a byte of a text whose blanks have grown to three
// bytes, which a vocabulary without a piece for them takes apart.
size_t most_symbols(const LanguageVocab& vocab, size_t max_text_bytes) {
  if (vocab.kind == TokenizerKind::kUnigram) return 0;
  return (vocab.kind == TokenizerKind::kCharBpe ? 3 : 1) * most_bytes(vocab, max_text_bytes);
}

}  // namespace

FragmentScratch::FragmentScratch(const LanguageVocab& vocab, size_t max_text_bytes)
    : nfc(vocab.nfc ? max_text_bytes : 0),
      letters(3 * most_bytes(vocab, max_text_bytes)),
      bpe(most_symbols(vocab, max_text_bytes)),
      unigram(vocab.kind == TokenizerKind::kUnigram ? 3 * most_bytes(vocab, max_text_bytes) : 0) {}

bool FragmentEncoder::encode(std::string_view fragment, FragmentOptions options,
                             FragmentScratch& scratch, IdWriter& out) const noexcept {
  if (vocab_->nfc) fragment = to_nfc(fragment, scratch.nfc);
  if (vocab_->kind == TokenizerKind::kByteBpe) return split(fragment, 0, options, scratch, out);
  const std::string_view text = with_blanks(fragment, options, scratch);
  if (vocab_->kind == TokenizerKind::kCharBpe) {
    char_word(text, options, scratch, out);
  } else {
    unigram_word(text, scratch, out);
  }
  return true;
}

// Each pattern cuts the pieces that the one before left: matches and, unless dropped, the gaps.
bool FragmentEncoder::split(std::string_view text, size_t level, FragmentOptions options,
                            FragmentScratch& scratch, IdWriter& out) const noexcept {
  if (level == splits_.size()) {
    byte_word(text, options, scratch, out);
    return true;
  }
  const auto gap = [&](size_t begin, size_t end) {
    if (begin == end || vocab_->splits[level].drop_gaps) return true;
    return split(text.substr(begin, end - begin), level + 1, options, scratch, out);
  };
  size_t at = 0;
  for (SplitRegex::Match match; splits_[level].find(text, at, match, scratch.budget);
       at = match.end) {
    if (!gap(at, match.begin)) return false;
    const std::string_view piece = text.substr(match.begin, match.end - match.begin);
    if (!split(piece, level + 1, options, scratch, out)) return false;
  }
  return !scratch.budget.spent && gap(at, text.size());
}

void FragmentEncoder::byte_word(std::string_view word, FragmentOptions options,
                                FragmentScratch& scratch, IdWriter& out) const noexcept {
  if (vocab_->whole_words) {
    char* end = scratch.letters.data();
    for (const char c : word) {
      const std::string_view letter = letters_.letter(static_cast<uint8_t>(c));
      end = std::copy(letter.begin(), letter.end(), end);
    }
    const auto n = static_cast<size_t>(end - scratch.letters.data());
    const int32_t id = usable(table_->find({scratch.letters.data(), n}), options);
    if (id >= 0) return out.put(id);
  }
  for (size_t i = 0; i < word.size(); ++i)
    scratch.bpe.symbols[i].symbol = byte_symbols_[static_cast<uint8_t>(word[i])];
  bpe_merge(merges_, word.size(), scratch.bpe);
  for (int32_t i = 0; i >= 0; i = scratch.bpe.symbols[static_cast<size_t>(i)].next)
    put_symbol(scratch.bpe.symbols[static_cast<size_t>(i)].symbol, options, out);
}

// A symbol that is no piece goes out character by character.
void FragmentEncoder::put_symbol(int32_t symbol, FragmentOptions options,
                                 IdWriter& out) const noexcept {
  if (const int32_t id = usable(symbol, options); id >= 0) return out.put(id);
  bool behind_unknown = false;
  for (std::string_view left = merges_.text(symbol); !left.empty();) {
    const std::string_view character = left.substr(0, first_character(left).bytes);
    left.remove_prefix(character.size());
    const int32_t id = usable(table_->find(character), options);
    if (id >= 0) {
      out.put(id);
      behind_unknown = false;
    } else {
      put_unknown(character, behind_unknown, out);
    }
  }
}

void FragmentEncoder::char_word(std::string_view text, FragmentOptions options,
                                FragmentScratch& scratch, IdWriter& out) const noexcept {
  size_t n = 0;
  const auto add = [&](int32_t symbol) { scratch.bpe.symbols[n++].symbol = symbol; };
  for (std::string_view left = text; !left.empty();) {
    const std::string_view character = left.substr(0, first_character(left).bytes);
    left.remove_prefix(character.size());
    const int32_t id = usable(table_->find(character), options);
    if (id >= 0) {
      add(id);
    } else if (vocab_->byte_pieces) {
      for (const char c : character) add(byte_symbols_[static_cast<uint8_t>(c)]);
    } else if (vocab_->unk >= 0) {
      if (!vocab_->fuse_unknown || n == 0 || scratch.bpe.symbols[n - 1].symbol != vocab_->unk)
        add(vocab_->unk);
    } else {
      ++out.n_dropped;
    }
  }
  if (n == 0) return;
  bpe_merge(merges_, n, scratch.bpe);
  for (int32_t i = 0; i >= 0; i = scratch.bpe.symbols[static_cast<size_t>(i)].next) {
    const int32_t symbol = scratch.bpe.symbols[static_cast<size_t>(i)].symbol;
    if (symbol == vocab_->unk) {
      out.put(symbol);
    } else {
      put_symbol(symbol, options, out);
    }
  }
}

// The best way is known from its end: `to` tells it from its beginning.
void FragmentEncoder::unigram_word(std::string_view text, FragmentScratch& scratch,
                                   IdWriter& out) const noexcept {
  unigram_.run(text, scratch.unigram);
  auto& best = scratch.unigram.best;
  for (auto at = static_cast<uint32_t>(text.size()); at > 0; at = best[at].from)
    best[best[at].from].to = at;
  bool behind_unknown = false;
  for (uint32_t at = 0; at < text.size(); at = best[at].to) {
    const uint32_t end = best[at].to;
    if (best[end].id >= 0) {
      out.put(best[end].id);
      behind_unknown = false;
    } else {
      put_unknown(text.substr(at, end - at), behind_unknown, out);
    }
  }
}

void FragmentEncoder::put_unknown(std::string_view character, bool& behind_unknown,
                                  IdWriter& out) const noexcept {
  if (vocab_->byte_pieces) {
    for (const char c : character) out.put(byte_symbols_[static_cast<uint8_t>(c)]);
  } else if (vocab_->unk < 0) {
    ++out.n_dropped;
  } else if (!vocab_->fuse_unknown || !behind_unknown) {
    out.put(vocab_->unk);
    behind_unknown = true;
  }
}

std::string_view FragmentEncoder::with_blanks(std::string_view text, FragmentOptions options,
                                              FragmentScratch& scratch) const noexcept {
  char* out = scratch.letters.data();
  const bool there = text.front() == ' ' || text.substr(0, kBlank.size()) == kBlank;
  const BlankPrefix rule = vocab_->prefix;
  const bool add = rule == BlankPrefix::kAlways || (rule == BlankPrefix::kUnlessThere && !there) ||
                   (rule == BlankPrefix::kFirstUnlessThere && options.begins_text && !there);
  if (add) out = std::copy(kBlank.begin(), kBlank.end(), out);
  for (const char c : text) {
    if (c == ' ' && vocab_->blanks) {
      out = std::copy(kBlank.begin(), kBlank.end(), out);
    } else {
      *out++ = c;
    }
  }
  return {scratch.letters.data(), static_cast<size_t>(out - scratch.letters.data())};
}

// The id itself, or -1 where it is none, or one that may not come from this text.
int32_t FragmentEncoder::usable(int32_t id, FragmentOptions options) const noexcept {
  if (id < 0 || static_cast<size_t>(id) >= vocab_->pieces.size()) return -1;
  const PieceType type = vocab_->pieces[static_cast<size_t>(id)].type;
  const bool control = type == PieceType::kControl || type == PieceType::kUnknown;
  return control && !options.allow_control ? -1 : id;
}

Result<void> FragmentEncoder::build(const LanguageVocab& vocab, const PieceTable& table) {
  vocab_ = &vocab;
  table_ = &table;
  if (vocab.splits.size() > kMaxSplits)
    return make_error(Code::kUnsupported, "vocabulary: %zu split patterns, at most %zu",
                      vocab.splits.size(), kMaxSplits);
  for (const LanguageVocab::Split& pattern : vocab.splits) {
    auto regex = SplitRegex::compile(pattern.pattern);
    if (!regex) return regex.error();
    splits_.push_back(std::move(regex.value()));
  }
  if (vocab.kind == TokenizerKind::kUnigram) {
    OUTRIDER_TRY(unigram_.build(vocab.pieces));
  } else {
    OUTRIDER_TRY(merges_.build(vocab.merges, table, vocab.pieces));
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (vocab.kind == TokenizerKind::kByteBpe) {
      byte_symbols_[byte] = merges_.symbol_of(letters_.letter(static_cast<uint8_t>(byte)));
      continue;
    }
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    byte_symbols_[byte] = table.find(name);
    if (vocab.byte_pieces && byte_symbols_[byte] < 0)
      return make_error(Code::kNotFound,
                        "vocabulary: byte piece %s is missing, yet unknown characters become bytes",
                        name);
  }
  if (vocab.kind == TokenizerKind::kUnigram && vocab.unk < 0 && !vocab.byte_pieces)
    return make_error(Code::kNotFound, "vocabulary: neither an unknown id nor byte pieces");
  return {};
}

}  // namespace outrider
