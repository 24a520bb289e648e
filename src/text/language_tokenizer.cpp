#include "text/language_tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>

#include "base/utf8.h"
#include "gguf/gguf.h"
#include "text/end_texts.h"
#include "text/fragment_encoder.h"
#include "text/language_vocab.h"
#include "text/piece_table.h"
#include "text/special_cutter.h"

namespace outrider {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";
constexpr size_t kMaxTextBytes = size_t{1} << 27;  // positions are 32 bit, characters grow
constexpr size_t kMaxPieceBytes = 4096;
constexpr size_t kMaxSpecialBytes = size_t{4} << 20;
constexpr uint64_t kStepsPerText = 1'000'000, kStepsPerByte = 512;

bool is_control(PieceType type) {
  return type == PieceType::kControl || type == PieceType::kUnknown;
}

// Ascending, not overlapping, inside the text.
bool in_order(std::span<const ForeignText> foreign, size_t n_bytes) {
  size_t at = 0;
  for (const ForeignText& part : foreign) {
    if (part.begin < at || part.end < part.begin || part.end > n_bytes) return false;
    at = part.end;
  }
  return true;
}

}  // namespace

struct LanguageTokenizer::Index {
  LanguageVocab vocab;
  std::optional<SpmTokenizer> spm;  // kSentencePiece: it owns the pieces
  std::span<const Piece> pieces;
  PieceTable table;
  SpecialCutter user_defined, all_special;
  FragmentEncoder encoder;
  std::vector<char> texts;          // what each id adds to a text, one after the other
  std::vector<uint32_t> text_ends;  // per id
  std::vector<int32_t> ends;        // of generation, ascending
  size_t longest_bytes = 0;

  Result<void> build();
  Result<void> check_pieces(std::vector<int32_t>& user_ids,
                            std::vector<int32_t>& special_ids) const;
  Result<void> check_id(const char* what, int32_t id, bool needed) const;
  void collect_texts();
  std::string text_of(const Piece& piece, const ByteLetters& letters) const;
  void cut(std::string_view text, const TokenizeOptions& options,
           SpecialCutter::Scratch& scratch) const noexcept;
  bool encode_raw(std::string_view fragment, FragmentOptions options, Scratch::State& scratch,
                  IdWriter& out) const noexcept;
  uint8_t strips(int32_t id) const noexcept {
    return vocab.strips.empty() ? uint8_t{0} : vocab.strips[static_cast<size_t>(id)];
  }
};

struct LanguageTokenizer::Scratch::State {
  State(const Index& index, size_t max_bytes)
      : max_text_bytes(max_bytes),
        cut(max_bytes),
        spm(index.spm ? max_bytes : 0),
        fragment(index.vocab, index.spm ? 0 : max_bytes) {}
  size_t max_text_bytes;
  SpecialCutter::Scratch cut;
  SpmTokenizer::Scratch spm;
  FragmentScratch fragment;
};

LanguageTokenizer::Encoded LanguageTokenizer::encode(std::string_view text,
                                                     const TokenizeOptions& options,
                                                     Scratch& scratch,
                                                     std::span<int32_t> ids) const noexcept {
  using Mark = SpecialCutter::Mark;
  Scratch::State& state = scratch.state();
  const Index& index = *index_;
  if (text.size() > state.max_text_bytes) return {Code::kShape};
  if (!utf8_valid(text) || !in_order(options.foreign, text.size())) return {Code::kInvalid};
  index.cut(text, options, state.cut);
  state.fragment.budget = {kStepsPerText + kStepsPerByte * text.size(), false};

  IdWriter out{ids};
  const bool begins_with_bos =
      !text.empty() && state.cut.mark[0] == Mark::kStart && state.cut.node[0] == index.vocab.bos;
  if (options.add_special && index.vocab.add_bos && !(options.bos_once && begins_with_bos))
    out.put(index.vocab.bos);
  const bool control = options.parse_special && options.foreign.empty();
  bool strip_front = false;  // of the next fragment
  for (size_t at = 0; at < text.size();) {
    if (state.cut.mark[at] == Mark::kStart) {
      const int32_t id = state.cut.node[at];
      out.put(id);
      at += index.pieces[static_cast<size_t>(id)].text.size();
      strip_front = (index.strips(id) & kStripRight) != 0;
      continue;
    }
    size_t end = at;
    while (end < text.size() && state.cut.mark[end] == Mark::kRaw) ++end;
    std::string_view fragment = text.substr(at, end - at);
    if (strip_front) {
      while (!fragment.empty() && unicode_space(first_character(fragment).code))
        fragment.remove_prefix(first_character(fragment).bytes);
    }
    if (end < text.size() && (index.strips(state.cut.node[end]) & kStripLeft) != 0) {
      while (!fragment.empty()) {
        size_t last = fragment.size() - 1;
        while ((static_cast<uint8_t>(fragment[last]) & 0xC0) == 0x80) --last;
        if (!unicode_space(first_character(fragment.substr(last)).code)) break;
        fragment = fragment.substr(0, last);
      }
    }
    if (!fragment.empty() &&
        !index.encode_raw(fragment, {.allow_control = control, .begins_text = at == 0}, state, out))
      return {Code::kFailed};
    strip_front = false;
    at = end;
  }
  if (options.add_special && index.vocab.add_eos) out.put(index.vocab.eos);
  return {Code::kOk, out.n_ids, out.n_dropped};
}

// No control piece lies in a foreign part or reaches into one.
void LanguageTokenizer::Index::cut(std::string_view text, const TokenizeOptions& options,
                                   SpecialCutter::Scratch& scratch) const noexcept {
  const SpecialCutter& ours = options.parse_special ? all_special : user_defined;
  size_t at = 0;
  for (const ForeignText& part : options.foreign) {
    ours.cut(text, at, part.begin, scratch);
    user_defined.cut(text, part.begin, part.end, scratch);
    at = part.end;
  }
  ours.cut(text, at, text.size(), scratch);
}

bool LanguageTokenizer::Index::encode_raw(std::string_view fragment, FragmentOptions options,
                                          Scratch::State& scratch, IdWriter& out) const noexcept {
  if (!spm) return encoder.encode(fragment, options, scratch.fragment, out);
  out.n_ids += spm->encode_raw(fragment, options.allow_control, scratch.spm, out.rest());
  return true;
}

Result<std::vector<int32_t>> LanguageTokenizer::encode(std::string_view text,
                                                       const TokenizeOptions& options) const {
  try {
    Scratch scratch(*this, text.size());
    std::vector<int32_t> ids(text.size() + 2);
    Encoded encoded = encode(text, options, scratch, ids);
    if (encoded.code == Code::kOk && encoded.n_ids > ids.size()) {
      ids.resize(encoded.n_ids);
      encoded = encode(text, options, scratch, ids);
    }
    if (encoded.code == Code::kOk) {
      ids.resize(encoded.n_ids);
      return ids;
    }
    if (encoded.code == Code::kShape)
      return make_error(Code::kShape, "text: %zu bytes, at most %zu", text.size(), kMaxTextBytes);
    if (encoded.code == Code::kFailed)
      return make_error(
          Code::kFailed,
          "text: %zu bytes need more steps of the split pattern than allowed; shorten "
          "its runs of white space",
          text.size());
    return make_error(encoded.code, utf8_valid(text)
                                        ? "text: foreign parts out of order or beyond its end"
                                        : "text: not valid UTF-8");
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "text of %zu bytes: no memory to tokenize it", text.size());
  }
}

Result<void> LanguageTokenizer::Index::build() {
  if (vocab.kind == TokenizerKind::kSentencePiece) {
    SpmVocab own;
    own.pieces = std::move(vocab.pieces);
    own.bos = vocab.bos, own.eos = vocab.eos, own.unk = vocab.unk, own.pad = vocab.pad;
    own.add_bos = vocab.add_bos, own.add_eos = vocab.add_eos;
    own.add_space_prefix = vocab.add_space_prefix;
    auto made = SpmTokenizer::from_vocab(std::move(own));
    if (!made) return made.error();
    spm.emplace(std::move(made.value()));
    pieces = spm->vocab().pieces;
  } else {
    pieces = vocab.pieces;
  }
  std::vector<int32_t> user_ids, special_ids;
  OUTRIDER_TRY(check_pieces(user_ids, special_ids));
  OUTRIDER_TRY(table.build(pieces));
  OUTRIDER_TRY(check_id("bos", vocab.bos, vocab.add_bos));
  OUTRIDER_TRY(check_id("eos", vocab.eos, vocab.add_eos));
  OUTRIDER_TRY(check_id("unknown", vocab.unk, false));
  OUTRIDER_TRY(check_id("padding", vocab.pad, false));
  user_defined.build(pieces, user_ids);
  all_special.build(pieces, special_ids);
  if (!spm) OUTRIDER_TRY(encoder.build(vocab, table));
  vocab.merges = {};  // views into a file that may go away
  collect_texts();
  ends = vocab.more_ends;
  if (vocab.eos >= 0) ends.push_back(vocab.eos);
  add_end_texts(table, ends);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return {};
}

Result<void> LanguageTokenizer::Index::check_pieces(std::vector<int32_t>& user_ids,
                                                    std::vector<int32_t>& special_ids) const {
  if (pieces.empty() || pieces.size() > (size_t{1} << 24))
    return make_error(Code::kNotFound, "vocabulary: %zu pieces, wanted 1 .. %zu", pieces.size(),
                      size_t{1} << 24);
  size_t special_bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    if (piece.text.size() > kMaxPieceBytes)
      return make_error(Code::kUnsupported, "vocabulary: piece %zu has %zu bytes, at most %zu", i,
                        piece.text.size(), kMaxPieceBytes);
    if (!utf8_valid(piece.text))
      return make_error(Code::kNotFound, "vocabulary: piece %zu is not UTF-8", i);
    if (!is_control(piece.type) && piece.type != PieceType::kUserDefined) continue;
    special_bytes += piece.text.size();
    special_ids.push_back(static_cast<int32_t>(i));
    if (!is_control(piece.type)) user_ids.push_back(static_cast<int32_t>(i));
  }
  if (special_bytes > kMaxSpecialBytes)
    return make_error(Code::kUnsupported, "vocabulary: special pieces have %zu bytes, at most %zu",
                      special_bytes, kMaxSpecialBytes);
  return {};
}

Result<void> LanguageTokenizer::Index::check_id(const char* what, int32_t id, bool needed) const {
  if (id >= 0 && static_cast<size_t>(id) < pieces.size()) return {};
  if (id == -1 && !needed) return {};
  return make_error(Code::kNotFound, "vocabulary: %s id is %d, wanted 0 .. %zu%s", what, id,
                    pieces.size() - 1, id == -1 ? " (it is to be added to every text)" : "");
}

void LanguageTokenizer::Index::collect_texts() {
  const ByteLetters letters;
  text_ends.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const std::string text = text_of(piece, letters);
    texts.insert(texts.end(), text.begin(), text.end());
    text_ends.push_back(static_cast<uint32_t>(texts.size()));
    longest_bytes = std::max(longest_bytes, text.size());
  }
}

std::string LanguageTokenizer::Index::text_of(const Piece& piece,
                                              const ByteLetters& letters) const {
  unsigned byte = 0;
  switch (piece.type) {
    case PieceType::kUnused:
      return {};
    case PieceType::kControl:
    case PieceType::kUnknown:
      return piece.text;
    case PieceType::kByte:
      if (std::sscanf(piece.text.c_str(), "<0x%2X>", &byte) == 1)
        return std::string(1, static_cast<char>(byte));
      return piece.text;
    case PieceType::kUserDefined:
      if (vocab.kind != TokenizerKind::kCharBpe) return piece.text;
      break;  // stored with U+2581, like a normal one
    case PieceType::kNormal:
      if (vocab.kind == TokenizerKind::kByteBpe) return letters.bytes(piece.text);
      break;
  }
  if (!vocab.blanks) return piece.text;
  std::string text = piece.text;
  for (size_t at = text.find(kBlank); at != std::string::npos; at = text.find(kBlank, at + 1))
    text.replace(at, kBlank.size(), 1, ' ');
  return text;
}

struct LanguageTokenizerBuilder {
  static Result<LanguageTokenizer> build(Result<LanguageVocab>&& vocab, const std::string& name) {
    if (!vocab) return vocab.error();
    LanguageTokenizer tokenizer;
    tokenizer.index_->vocab = std::move(vocab.value());
    if (const auto built = tokenizer.index_->build(); !built)
      return make_error(built.code(), "%.200s: %.300s", name.c_str(), built.error().text);
    return tokenizer;
  }
};

Result<LanguageTokenizer> LanguageTokenizer::from_gguf(const GgufFile& file) {
  try {
    return LanguageTokenizerBuilder::build(read_gguf_vocab(file), file.path());
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "vocabulary: no memory for it");
  }
}

Result<LanguageTokenizer> LanguageTokenizer::from_json(std::string_view tokenizer_json,
                                                       std::string_view config_json,
                                                       const std::string& name) {
  try {
    const auto tokenizer = Json::parse(tokenizer_json);
    if (!tokenizer)
      return make_error(tokenizer.code(), "%.200s: %.300s", name.c_str(), tokenizer.error().text);
    std::optional<Json> config;
    if (!config_json.empty()) {
      auto parsed = Json::parse(config_json);
      if (!parsed)
        return make_error(parsed.code(), "%.150s: tokenizer_config.json: %.300s", name.c_str(),
                          parsed.error().text);
      config.emplace(std::move(parsed.value()));
    }
    return LanguageTokenizerBuilder::build(
        read_json_vocab(tokenizer.value(), config ? &*config : nullptr, name), name);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%.200s: no memory for the vocabulary", name.c_str());
  }
}

std::string_view LanguageTokenizer::bytes(int32_t id, bool special) const noexcept {
  if (id < 0 || id >= n_pieces()) return {};
  const auto i = static_cast<size_t>(id);
  if (!special && index_->pieces[i].type == PieceType::kControl) return {};
  const size_t begin = i == 0 ? 0 : index_->text_ends[i - 1];
  return {index_->texts.data() + begin, index_->text_ends[i] - begin};
}

std::string LanguageTokenizer::decode(std::span<const int32_t> ids, bool special) const {
  std::string text;
  for (const int32_t id : ids) text += bytes(id, special);
  return text;
}

bool LanguageTokenizer::doubles_bos(std::string_view text) const noexcept {
  if (!add_bos() || bos() < 0) return false;
  const std::string& front = piece(bos()).text;
  return !front.empty() && text.substr(0, front.size()) == front;
}

std::string_view LanguageTokenizer::chat_template(std::string_view name) const noexcept {
  for (const auto& [key, text] : index_->vocab.chat_templates)
    if (key == name) return text;
  return {};
}

bool LanguageTokenizer::ends_generation(int32_t id) const noexcept {
  return std::binary_search(index_->ends.begin(), index_->ends.end(), id);
}
std::span<const int32_t> LanguageTokenizer::end_ids() const noexcept {
  return index_->ends;
}
size_t LanguageTokenizer::longest_bytes() const noexcept {
  return index_->longest_bytes;
}
int32_t LanguageTokenizer::n_pieces() const noexcept {
  return static_cast<int32_t>(index_->pieces.size());
}
const Piece& LanguageTokenizer::piece(int32_t id) const noexcept {
  return index_->pieces[static_cast<size_t>(id)];
}
int32_t LanguageTokenizer::find(std::string_view stored_text) const noexcept {
  return index_->table.find(stored_text);
}
int32_t LanguageTokenizer::bos() const noexcept {
  return index_->vocab.bos;
}
int32_t LanguageTokenizer::eos() const noexcept {
  return index_->vocab.eos;
}
int32_t LanguageTokenizer::unk() const noexcept {
  return index_->vocab.unk;
}
int32_t LanguageTokenizer::pad() const noexcept {
  return index_->vocab.pad;
}
bool LanguageTokenizer::add_bos() const noexcept {
  return index_->vocab.add_bos;
}
bool LanguageTokenizer::add_eos() const noexcept {
  return index_->vocab.add_eos;
}

LanguageTokenizer::Scratch::Scratch(const LanguageTokenizer& tokenizer, size_t max_text_bytes)
    : state_(std::make_unique<State>(*tokenizer.index_, std::min(max_text_bytes, kMaxTextBytes))) {}
LanguageTokenizer::Scratch::Scratch(Scratch&&) noexcept = default;
LanguageTokenizer::Scratch& LanguageTokenizer::Scratch::operator=(Scratch&&) noexcept = default;
LanguageTokenizer::Scratch::~Scratch() = default;
size_t LanguageTokenizer::Scratch::max_text_bytes() const {
  return state_->max_text_bytes;
}

LanguageTokenizer::LanguageTokenizer() : index_(std::make_unique<Index>()) {}
LanguageTokenizer::LanguageTokenizer(LanguageTokenizer&&) noexcept = default;
LanguageTokenizer& LanguageTokenizer::operator=(LanguageTokenizer&&) noexcept = default;
LanguageTokenizer::~LanguageTokenizer() = default;

}  // namespace outrider
