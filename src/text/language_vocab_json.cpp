// A tokenizer.json (and tokenizer_config.json), read into a LanguageVocab. What is not done exactly
// is refused by name: a wrong token is worse than none.
#include <cmath>

#include "base/printable.h"
#include "text/language_vocab.h"
#include "text/split_patterns.h"

namespace outrider {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";
constexpr size_t kMaxPieces = size_t{1} << 24, kMaxGaps = 65536;

class Reader {
 public:
  Reader(const Json& root, const Json* config, const std::string& name)
      : root_(root), config_(config), name_(name) {}

  Result<LanguageVocab> read() {
    const Json* model = root_.find("model");
    if (model == nullptr || !model->is_object()) return bad("model", "missing, wanted an object");
    if (const Json* added = root_.find("added_tokens"); !is_null(added))
      n_named_ = added->items().size();
    OUTRIDER_TRY(read_normalizer(root_.find("normalizer")));
    OUTRIDER_TRY(read_pre_tokenizer(root_.find("pre_tokenizer")));
    OUTRIDER_TRY(read_model(*model));
    OUTRIDER_TRY(read_added(root_.find("added_tokens")));
    OUTRIDER_TRY(name_unknown(*model));
    OUTRIDER_TRY(read_post_processor(root_.find("post_processor")));
    if (config_ != nullptr) OUTRIDER_TRY(read_config());
    return std::move(vocab_);
  }

 private:
  Error bad(const char* member, const char* what) const {
    return make_error(Code::kNotFound, "%.200s: %s: %s", name_.c_str(), member, what);
  }
  Error unsupported(const char* member, std::string_view what) const {
    return make_error(Code::kUnsupported,
                      "%.200s: %s: this build does not do \"%s\"; use the model's GGUF file",
                      name_.c_str(), member, printable(what, 120).c_str());
  }
  static std::string_view text(const Json* object, const char* key) {
    const Json* value = object == nullptr ? nullptr : object->find(key);
    return value != nullptr && value->is_string() ? std::string_view(value->text())
                                                  : std::string_view();
  }
  static bool flag(const Json* object, const char* key, bool absent) {
    const Json* value = object == nullptr ? nullptr : object->find(key);
    return value != nullptr && value->is_bool() ? value->boolean() : absent;
  }
  static bool is_null(const Json* value) { return value == nullptr || value->is_null(); }

  // Calls `step` for each member of a Sequence, or once for a single one.
  template <class F>
  Result<void> each(const Json* list, const char* members, F&& step, int depth = 0) {
    if (is_null(list)) return {};
    if (text(list, "type") != "Sequence") return step(*list);
    const Json* items = list->find(members);
    if (items == nullptr || !items->is_array()) return bad(members, "missing, wanted a list");
    if (depth > 8) return bad(members, "nested too deep");
    for (const Json& item : items->items()) OUTRIDER_TRY(each(&item, members, step, depth + 1));
    return {};
  }

  Result<void> read_normalizer(const Json* normalizer) {
    return each(normalizer, "normalizers", [&](const Json& step) -> Result<void> {
      const std::string_view type = text(&step, "type");
      const Json* pattern = step.find("pattern");
      if (type == "NFC") {
        vocab_.nfc = true;
      } else if (type == "Prepend" && text(&step, "prepend") == kBlank) {
        vocab_.prefix = BlankPrefix::kAlways;
      } else if (type == "Replace" && text(pattern, "String") == " " &&
                 text(&step, "content") == kBlank) {
        vocab_.blanks = true;
      } else {
        return unsupported("normalizer", type);
      }
      return {};
    });
  }

  Result<void> read_pre_tokenizer(const Json* pre) {
    return each(pre, "pretokenizers", [&](const Json& step) -> Result<void> {
      const std::string_view type = text(&step, "type");
      if (byte_level_) return unsupported("pre_tokenizer", "a step behind ByteLevel");
      if (type == "Split") return read_split(step);
      if (type == "Digits") {
        vocab_.splits.push_back({flag(&step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"});
      } else if (type == "ByteLevel") {
        if (flag(&step, "add_prefix_space", true))
          return unsupported("pre_tokenizer", "ByteLevel with add_prefix_space");
        if (flag(&step, "use_regex", true)) vocab_.splits.push_back({std::string(kGpt2Words)});
        byte_level_ = true;
      } else if (type == "Metaspace") {
        return read_metaspace(step);
      } else {
        return unsupported("pre_tokenizer", type);
      }
      return {};
    });
  }

  Result<void> read_split(const Json& step) {
    const Json* pattern = step.find("pattern");
    const std::string_view behavior = text(&step, "behavior");
    const bool invert = flag(&step, "invert", false);
    // Gemma: cuts at blanks, of which the normalizer left none.
    if (text(pattern, "String") == " " && vocab_.blanks) return {};
    const std::string_view regex = text(pattern, "Regex");
    if (regex.empty()) return unsupported("pre_tokenizer", "Split at a plain string");
    if (behavior == "Isolated") {
      vocab_.splits.push_back({std::string(regex)});
    } else if (behavior == "Removed" && invert) {
      vocab_.splits.push_back({std::string(regex), true});
    } else {
      return unsupported("pre_tokenizer", std::string("Split with behavior ").append(behavior));
    }
    return {};
  }

  Result<void> read_metaspace(const Json& step) {
    if (text(&step, "replacement") != kBlank || flag(&step, "split", true))
      return unsupported("pre_tokenizer", "Metaspace that splits or replaces by another character");
    const std::string_view scheme = text(&step, "prepend_scheme");
    vocab_.blanks = true;
    vocab_.prefix = scheme == "never"   ? BlankPrefix::kNone
                    : scheme == "first" ? BlankPrefix::kFirstUnlessThere
                                        : BlankPrefix::kUnlessThere;
    return {};
  }

  Result<void> read_model(const Json& model) {
    const std::string_view type = text(&model, "type");
    if (type == "Unigram") return read_unigram(model);
    const Json* vocab = model.find("vocab");
    const Json* merges = model.find("merges");
    if (type != "BPE" && !(type.empty() && merges != nullptr)) return unsupported("model", type);
    if (vocab == nullptr || !vocab->is_object()) return bad("model.vocab", "wanted an object");
    if (merges == nullptr || !merges->is_array()) return bad("model.merges", "wanted a list");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text(&model, key).empty()) return unsupported("model", key);
    if (const Json* dropout = model.find("dropout"); !is_null(dropout) && dropout->number() != 0)
      return unsupported("model", "dropout");
    n_named_ += vocab->members().size();
    vocab_.kind = byte_level_ ? TokenizerKind::kByteBpe : TokenizerKind::kCharBpe;
    vocab_.byte_pieces = flag(&model, "byte_fallback", false);
    if (byte_level_ && vocab_.byte_pieces) return unsupported("model", "byte_fallback of bytes");
    if (!byte_level_ && !vocab_.splits.empty())
      return unsupported("pre_tokenizer", "Split without ByteLevel");
    if (byte_level_ && vocab_.blanks) return unsupported("normalizer", "Replace before ByteLevel");
    vocab_.fuse_unknown = flag(&model, "fuse_unk", false);
    vocab_.whole_words = flag(&model, "ignore_merges", false);
    if (!byte_level_ && vocab_.whole_words)
      return unsupported("model", "ignore_merges of characters");
    for (const Json::Member& entry : vocab->members()) {
      if (!entry.value.is_integer()) return bad("model.vocab", "an id that is no integer");
      OUTRIDER_TRY(place(entry.value.integer(), entry.name, PieceType::kNormal));
    }
    return read_merges(*merges);
  }

  Result<void> place(int64_t id, const std::string& piece_text, PieceType type) {
    if (id < 0 || id >= static_cast<int64_t>(kMaxPieces))
      return make_error(Code::kNotFound, "%.200s: id %lld, wanted 0 .. %zu", name_.c_str(),
                        static_cast<long long>(id), kMaxPieces - 1);
    const auto i = static_cast<size_t>(id);
    // Gaps are filled with pieces that match nothing; a document can only ask for few.
    if (i >= n_named_ + kMaxGaps)
      return make_error(Code::kNotFound, "%.200s: id %zu, with %zu pieces and at most %zu gaps",
                        name_.c_str(), i, n_named_, kMaxGaps);
    if (i >= vocab_.pieces.size()) vocab_.pieces.resize(i + 1, {"", 0, PieceType::kUnused});
    Piece& piece = vocab_.pieces[i];
    if (!piece.text.empty() && piece.text != piece_text)
      return make_error(Code::kNotFound, "%.200s: id %zu is both \"%s\" and \"%s\"", name_.c_str(),
                        i, printable(piece.text, 40).c_str(), printable(piece_text, 40).c_str());
    piece = {piece_text, piece.score, type};
    return {};
  }

  Result<void> read_merges(const Json& merges) {
    vocab_.merges.reserve(merges.items().size());
    for (const Json& merge : merges.items()) {
      if (merge.is_array() && merge.items().size() == 2 && merge.items()[0].is_string() &&
          merge.items()[1].is_string()) {
        vocab_.merges.push_back({merge.items()[0].text(), merge.items()[1].text()});
        continue;
      }
      const std::string_view pair = merge.is_string() ? std::string_view(merge.text()) : "";
      const size_t blank = pair.empty() ? pair.npos : pair.find(' ', 1);
      if (blank == pair.npos || blank + 1 == pair.size())
        return make_error(Code::kNotFound, "%.200s: model.merges: number %zu is not two texts",
                          name_.c_str(), vocab_.merges.size());
      vocab_.merges.push_back({pair.substr(0, blank), pair.substr(blank + 1)});
    }
    return {};
  }

  Result<void> read_unigram(const Json& model) {
    const Json* vocab = model.find("vocab");
    if (vocab == nullptr || !vocab->is_array()) return bad("model.vocab", "wanted a list");
    if (byte_level_ || !vocab_.splits.empty())
      return unsupported("pre_tokenizer", "anything but Metaspace before Unigram");
    vocab_.kind = TokenizerKind::kUnigram;
    vocab_.byte_pieces = flag(&model, "byte_fallback", false);
    vocab_.fuse_unknown = true;
    n_named_ += vocab->items().size();
    if (vocab->items().size() > kMaxPieces) return bad("model.vocab", "too many pieces");
    for (const Json& entry : vocab->items()) {
      if (!entry.is_array() || entry.items().size() != 2 || !entry.items()[0].is_string() ||
          !entry.items()[1].is_number())
        return bad("model.vocab", "an entry that is not a text and a score");
      const auto score = static_cast<float>(entry.items()[1].number());
      if (!std::isfinite(score)) return bad("model.vocab", "a score beyond float range");
      vocab_.pieces.push_back({entry.items()[0].text(), score, PieceType::kNormal});
    }
    const Json* unk = model.find("unk_id");
    if (is_null(unk)) return {};
    if (!unk->is_integer() || unk->integer() < 0 ||
        static_cast<size_t>(unk->integer()) >= vocab_.pieces.size())
      return bad("model.unk_id", "no id of the vocabulary");
    vocab_.unk = static_cast<int32_t>(unk->integer());
    vocab_.pieces[static_cast<size_t>(vocab_.unk)].type = PieceType::kUnknown;
    return {};
  }

  Result<void> read_added(const Json* added) {
    if (is_null(added)) return {};
    if (!added->is_array()) return bad("added_tokens", "wanted a list");
    std::vector<std::pair<size_t, uint8_t>> strips;
    for (const Json& token : added->items()) {
      const Json* id = token.find("id");
      const Json* content = token.find("content");
      if (id == nullptr || !id->is_integer() || content == nullptr || !content->is_string() ||
          content->text().empty())
        return bad("added_tokens", "an entry without id or content");
      if (flag(&token, "single_word", false)) return unsupported("added_tokens", "single_word");
      const bool special = flag(&token, "special", false);
      OUTRIDER_TRY(place(id->integer(), content->text(),
                         special ? PieceType::kControl : PieceType::kUserDefined));
      const int strip = (flag(&token, "lstrip", false) ? kStripLeft : 0) |
                        (flag(&token, "rstrip", false) ? kStripRight : 0);
      if (strip != 0)
        strips.emplace_back(static_cast<size_t>(id->integer()), static_cast<uint8_t>(strip));
    }
    if (strips.empty()) return {};
    vocab_.strips.assign(vocab_.pieces.size(), 0);
    for (const auto& [id, strip] : strips) vocab_.strips[id] = strip;
    return {};
  }

  // Byte pieces and the unknown piece are known by their texts.
  Result<void> name_unknown(const Json& model) {
    const std::string_view unk = text(&model, "unk_token");
    for (size_t i = 0; i < vocab_.pieces.size(); ++i) {
      Piece& piece = vocab_.pieces[i];
      if (!unk.empty() && piece.text == unk) {
        vocab_.unk = static_cast<int32_t>(i);
        piece.type = PieceType::kUnknown;
      }
      const bool byte = vocab_.byte_pieces && piece.type == PieceType::kNormal &&
                        piece.text.size() == 6 && piece.text.starts_with("<0x") &&
                        piece.text.back() == '>';
      if (byte) piece.type = PieceType::kByte;
    }
    if (!unk.empty() && vocab_.unk < 0) return bad("model.unk_token", "no piece of the vocabulary");
    return {};
  }

  int32_t id_of(std::string_view piece_text) const {
    if (piece_text.empty()) return -1;
    for (size_t i = 0; i < vocab_.pieces.size(); ++i)
      if (vocab_.pieces[i].text == piece_text) return static_cast<int32_t>(i);
    return -1;
  }

  Result<void> read_post_processor(const Json* post) {
    return each(post, "processors", [&](const Json& step) -> Result<void> {
      const std::string_view type = text(&step, "type");
      if (type == "ByteLevel") return {};  // offsets only
      if (type != "TemplateProcessing") return unsupported("post_processor", type);
      const Json* single = step.find("single");
      if (single == nullptr || !single->is_array()) return bad("post_processor.single", "no list");
      bool behind = false;
      for (const Json& part : single->items()) {
        if (part.find("Sequence") != nullptr) {
          behind = true;
          continue;
        }
        const int32_t id = id_of(text(part.find("SpecialToken"), "id"));
        if (id < 0) return bad("post_processor.single", "a piece that the vocabulary lacks");
        if (behind ? vocab_.add_eos : vocab_.add_bos)
          return unsupported("post_processor", "more than one piece at an end of the text");
        (behind ? vocab_.add_eos : vocab_.add_bos) = true;
        (behind ? vocab_.eos : vocab_.bos) = id;
      }
      return {};
    });
  }

  // A piece named by its text, or by an object that has it as content.
  Result<void> read_named(const char* key, int32_t& id) {
    const Json* value = config_->find(key);
    if (is_null(value)) return {};
    const std::string_view content =
        value->is_string() ? std::string_view(value->text()) : text(value, "content");
    const int32_t found = id_of(content);
    if (found < 0)
      return make_error(Code::kNotFound,
                        "%.200s: tokenizer_config.json: %s is \"%s\", no piece of the vocabulary",
                        name_.c_str(), key, printable(content, 60).c_str());
    id = found;
    return {};
  }

  Result<void> read_config() {
    if (!config_->is_object()) return bad("tokenizer_config.json", "no object");
    OUTRIDER_TRY(read_named("bos_token", vocab_.bos));
    OUTRIDER_TRY(read_named("eos_token", vocab_.eos));
    OUTRIDER_TRY(read_named("pad_token", vocab_.pad));
    vocab_.add_bos = flag(config_, "add_bos_token", vocab_.add_bos) && vocab_.bos >= 0;
    vocab_.add_eos = flag(config_, "add_eos_token", vocab_.add_eos) && vocab_.eos >= 0;
    const Json* chat = config_->find("chat_template");
    if (is_null(chat)) return {};
    if (chat->is_string()) {
      vocab_.chat_templates.emplace_back("", chat->text());
      return {};
    }
    for (const Json& variant : chat->items()) {
      const std::string_view variant_name = text(&variant, "name");
      vocab_.chat_templates.emplace_back(variant_name == "default" ? "" : variant_name,
                                         text(&variant, "template"));
    }
    return {};
  }

  const Json& root_;
  const Json* config_;
  const std::string& name_;
  LanguageVocab vocab_;
  size_t n_named_ = 0;  // entries of the vocabulary and of added_tokens
  bool byte_level_ = false;
};

}  // namespace

Result<LanguageVocab> read_json_vocab(const Json& tokenizer, const Json* config,
                                      const std::string& name) {
  return Reader(tokenizer, config, name).read();
}

}  // namespace outrider
