#include "text/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/utf8.h"
#include "text/piece_table.h"
#include "text/special_cutter.h"
#include "text/spm_merge.h"

namespace outrider {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, stands for ' ' inside pieces

// Positions are 32 bit, and a blank grows to three bytes.
constexpr size_t kMaxTextBytes = size_t{1} << 28;

// The automaton of special pieces costs about 30 times their text; Gemma has some 80 kB of it.
constexpr size_t kMaxSpecialBytes = size_t{4} << 20;

// Bounds the work per look-up. The longest pieces in use (runs of blanks or rules) have some 400.
constexpr size_t kMaxPieceBytes = 4096;

bool is_control(PieceType type) {
  return type == PieceType::kControl || type == PieceType::kUnknown;
}
bool is_special(PieceType type) {
  return is_control(type) || type == PieceType::kUserDefined;
}

// The value of "<0xNN>", or -1 when the text has another form.
int byte_value(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// False for the bytes that UTF-8 never has, and for the blank, which is U+2581 by then.
bool occurs_in_blanked_text(int byte) {
  return byte != ' ' && byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
}

size_t valid_prefix_bytes(std::string_view text) {
  size_t at = 0;
  while (const size_t n = utf8_sequence_bytes(text.substr(at))) at += n;
  return at;
}

// Counts every id, stores those that fit.
struct IdSink {
  std::span<int32_t> ids;
  size_t n_ids = 0;
  void put(int32_t id) noexcept {
    if (n_ids < ids.size()) ids[n_ids] = id;
    ++n_ids;
  }
};

// -1 stands for "none", which is fine where the id is not needed.
Result<void> check_id(const SpmVocab& vocab, const char* key, int32_t id, bool needed) {
  if (id >= 0 && static_cast<size_t>(id) < vocab.pieces.size()) return {};
  if (id == -1 && !needed) return {};
  return make_error(Code::kNotFound, "tokenizer.ggml.%s: id %d, wanted 0 .. %zu%s", key, id,
                    vocab.pieces.size() - 1, id == -1 ? " (this vocabulary needs one)" : "");
}

Result<void> check_piece(size_t id, const Piece& piece) {
  if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte) {
    return make_error(Code::kNotFound,
                      "tokenizer.ggml.token_type: piece %zu has type %d, known 1 .. 6", id,
                      static_cast<int>(piece.type));
  }
  if (!std::isfinite(piece.score)) {
    return make_error(Code::kNotFound,
                      "tokenizer.ggml.scores: piece %zu has %f, wanted a finite number", id,
                      static_cast<double>(piece.score));
  }
  if (piece.text.size() > kMaxPieceBytes) {
    return make_error(Code::kUnsupported,
                      "tokenizer.ggml.tokens: piece %zu has %zu bytes, at most %zu", id,
                      piece.text.size(), kMaxPieceBytes);
  }
  if (!utf8_valid(piece.text))
    return make_error(Code::kNotFound, "tokenizer.ggml.tokens: piece %zu is not UTF-8", id);
  if (piece.type == PieceType::kByte && byte_value(piece.text) < 0) {
    return make_error(Code::kNotFound,
                      "tokenizer.ggml.tokens: piece %zu has type 6 (byte) but not the form <0xNN>",
                      id);
  }
  return {};
}

}  // namespace

struct SpmTokenizer::Index {
  SpmVocab vocab;
  PieceTable table;
  SpecialCutter user_defined;  // parse_special off
  SpecialCutter all_special;   // parse_special on
  int32_t byte_ids[256];       // -1 where there is no byte piece
  bool has_bytes = false;

  Result<void> build();
  Result<void> collect_bytes();
  void encode_fragment(std::string_view text, bool allow_control, Scratch::State& scratch,
                       IdSink& sink) const noexcept;
};

struct SpmTokenizer::Scratch::State {
  explicit State(size_t max_bytes)
      : max_text_bytes(max_bytes),
        blanked(kBlank.size() * (max_bytes + 1)),
        cut(max_bytes),
        merge(max_bytes + 1) {}

  size_t max_text_bytes;
  std::vector<char> blanked;  // one fragment with its blanks replaced
  SpecialCutter::Scratch cut;
  SpmMergeScratch merge;  // the added blank is one character more
};

SpmTokenizer::Encoded SpmTokenizer::encode(std::string_view text, EncodeOptions options,
                                           Scratch& scratch,
                                           std::span<int32_t> ids) const noexcept {
  Scratch::State& state = scratch.state();
  if (text.size() > state.max_text_bytes) return {Code::kShape, 0};
  if (!utf8_valid(text)) return {Code::kInvalid, 0};

  const Index& index = *index_;
  IdSink sink{ids};
  if (options.add_special && index.vocab.add_bos) sink.put(index.vocab.bos);
  (options.parse_special ? index.all_special : index.user_defined).cut(text, state.cut);
  for (size_t at = 0; at < text.size();) {
    if (state.cut.mark[at] == SpecialCutter::Mark::kStart) {
      const int32_t id = state.cut.node[at];
      sink.put(id);
      at += index.vocab.pieces[id].text.size();
      continue;
    }
    size_t end = at;
    while (end < text.size() && state.cut.mark[end] == SpecialCutter::Mark::kRaw) ++end;
    index.encode_fragment(text.substr(at, end - at), options.parse_special, state, sink);
    at = end;
  }
  if (options.add_special && index.vocab.add_eos) sink.put(index.vocab.eos);
  return {Code::kOk, sink.n_ids};
}

size_t SpmTokenizer::encode_raw(std::string_view fragment, bool allow_control, Scratch& scratch,
                                std::span<int32_t> ids) const noexcept {
  IdSink sink{ids};
  index_->encode_fragment(fragment, allow_control, scratch.state(), sink);
  return sink.n_ids;
}

// Fragments are as long as they can be, so each is the first or follows a special piece: the added
// blank goes in front of every one of them.
void SpmTokenizer::Index::encode_fragment(std::string_view text, bool allow_control,
                                          Scratch::State& scratch, IdSink& sink) const noexcept {
  char* out = scratch.blanked.data();
  if (vocab.add_space_prefix) out = std::copy(kBlank.begin(), kBlank.end(), out);
  for (const char c : text) {
    if (c == ' ') {
      out = std::copy(kBlank.begin(), kBlank.end(), out);
    } else {
      *out++ = c;
    }
  }
  const std::string_view blanked(scratch.blanked.data(), out - scratch.blanked.data());
  spm_merge({table, vocab.pieces, allow_control}, blanked, scratch.merge);

  for (int32_t i = 0; i >= 0; i = scratch.merge.symbols[i].next) {
    const SpmSymbol& symbol = scratch.merge.symbols[i];
    if (symbol.id != PieceTable::kNone) {
      sink.put(symbol.id);  // the only case of a merged symbol: nothing has to be taken apart again
    } else if (has_bytes) {
      for (const char c : blanked.substr(symbol.at, symbol.bytes))
        sink.put(byte_ids[static_cast<unsigned char>(c)]);
    } else {
      sink.put(vocab.unk);
    }
  }
}

Result<std::vector<int32_t>> SpmTokenizer::encode(std::string_view text,
                                                  EncodeOptions options) const {
  try {
    Scratch scratch(text.size());
    std::vector<int32_t> ids(text.size() + 2);
    Encoded encoded = encode(text, options, scratch, ids);
    if (encoded.code == Code::kOk && encoded.n_ids > ids.size()) {
      ids.resize(encoded.n_ids);
      encoded = encode(text, options, scratch, ids);
    }
    if (encoded.code == Code::kShape) {
      return make_error(Code::kShape, "text: %zu bytes, at most %zu", text.size(),
                        scratch.max_text_bytes());
    }
    if (encoded.code != Code::kOk) {
      return make_error(encoded.code, "text: byte %zu of %zu does not continue valid UTF-8",
                        valid_prefix_bytes(text), text.size());
    }
    ids.resize(encoded.n_ids);
    return ids;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "text of %zu bytes: no memory to tokenize it", text.size());
  }
}

std::string SpmTokenizer::piece_text(int32_t id, bool special) const {
  if (id < 0 || id >= n_pieces()) return {};
  const Piece& piece = vocab().pieces[id];
  switch (piece.type) {
    case PieceType::kUnused:
      return {};
    case PieceType::kControl:
      return special ? piece.text : std::string();
    case PieceType::kUnknown:
    case PieceType::kUserDefined:
      return piece.text;
    case PieceType::kByte:
      return std::string(1, static_cast<char>(byte_value(piece.text)));
    case PieceType::kNormal:
      break;
  }
  std::string text = piece.text;
  for (size_t at = text.find(kBlank); at != std::string::npos; at = text.find(kBlank, at + 1))
    text.replace(at, kBlank.size(), 1, ' ');
  return text;
}

std::string SpmTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string text;
  for (const int32_t id : ids) text += piece_text(id, special);
  return text;
}

Result<SpmTokenizer> SpmTokenizer::from_vocab(SpmVocab vocab) {
  try {
    SpmTokenizer tokenizer;
    tokenizer.index_->vocab = std::move(vocab);
    OUTRIDER_TRY(tokenizer.index_->build());
    return tokenizer;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "tokenizer.ggml.tokens: no memory for the vocabulary");
  }
}

Result<void> SpmTokenizer::Index::build() {
  if (vocab.pieces.empty() || vocab.pieces.size() > INT32_MAX)
    return make_error(Code::kNotFound, "tokenizer.ggml.tokens: %zu pieces, wanted 1 .. %d",
                      vocab.pieces.size(), INT32_MAX);
  std::vector<int32_t> user_ids, special_ids;
  size_t special_bytes = 0;
  for (size_t i = 0; i < vocab.pieces.size(); ++i) {
    const Piece& piece = vocab.pieces[i];
    OUTRIDER_TRY(check_piece(i, piece));
    if (!is_special(piece.type)) continue;
    special_bytes += piece.text.size();
    special_ids.push_back(static_cast<int32_t>(i));
    if (!is_control(piece.type)) user_ids.push_back(static_cast<int32_t>(i));
  }
  if (special_bytes > kMaxSpecialBytes)
    return make_error(Code::kUnsupported,
                      "tokenizer.ggml.tokens: special pieces have %zu bytes, at most %zu",
                      special_bytes, kMaxSpecialBytes);
  OUTRIDER_TRY(table.build(vocab.pieces));
  OUTRIDER_TRY(collect_bytes());
  OUTRIDER_TRY(check_id(vocab, "bos_token_id", vocab.bos, vocab.add_bos));
  OUTRIDER_TRY(check_id(vocab, "eos_token_id", vocab.eos, vocab.add_eos));
  OUTRIDER_TRY(check_id(vocab, "unknown_token_id", vocab.unk, !has_bytes));
  OUTRIDER_TRY(check_id(vocab, "padding_token_id", vocab.pad, false));
  user_defined.build(vocab.pieces, user_ids);
  all_special.build(vocab.pieces, special_ids);
  return {};
}

// A vocabulary without any byte piece gives the unknown id to unknown characters. With some of them
// every byte that a text can need must be there. A byte is not needed when its character is a piece
// itself (some writers of the Gemma vocabulary store the tab so), or when no text has it.
Result<void> SpmTokenizer::Index::collect_bytes() {
  std::fill(std::begin(byte_ids), std::end(byte_ids), PieceTable::kNone);
  int n_there = 0;
  for (size_t i = 0; i < vocab.pieces.size(); ++i) {
    if (vocab.pieces[i].type != PieceType::kByte) continue;
    byte_ids[byte_value(vocab.pieces[i].text)] = static_cast<int32_t>(i);
    ++n_there;
  }
  has_bytes = n_there > 0;
  for (int value = 0; has_bytes && value < 256; ++value) {
    if (byte_ids[value] != PieceTable::kNone || !occurs_in_blanked_text(value)) continue;
    const char c = static_cast<char>(value);
    const int32_t id = value < 0x80 ? table.find({&c, 1}) : PieceTable::kNone;
    if (id == PieceTable::kNone || is_control(vocab.pieces[id].type)) {
      return make_error(
          Code::kNotFound,
          "tokenizer.ggml.tokens: byte piece <0x%02X> is missing (%d of 256 are there) "
          "and no piece stands for it",
          static_cast<unsigned>(value), n_there);
    }
  }
  return {};
}

SpmTokenizer::Scratch::Scratch(size_t max_text_bytes)
    : state_(std::make_unique<State>(std::min(max_text_bytes, kMaxTextBytes))) {}
SpmTokenizer::Scratch::Scratch(Scratch&&) noexcept = default;
SpmTokenizer::Scratch::~Scratch() = default;
size_t SpmTokenizer::Scratch::max_text_bytes() const {
  return state_->max_text_bytes;
}

SpmTokenizer::SpmTokenizer() : index_(std::make_unique<Index>()) {}
SpmTokenizer::SpmTokenizer(SpmTokenizer&&) noexcept = default;
SpmTokenizer& SpmTokenizer::operator=(SpmTokenizer&&) noexcept = default;
SpmTokenizer::~SpmTokenizer() = default;

const SpmVocab& SpmTokenizer::vocab() const {
  return index_->vocab;
}
int32_t SpmTokenizer::n_pieces() const {
  return static_cast<int32_t>(index_->vocab.pieces.size());
}

}  // namespace outrider
