// The vocabulary keys of a language model's GGUF file.
#include <cmath>

#include "base/printable.h"
#include "text/gguf_vocab.h"
#include "text/language_vocab.h"
#include "text/split_patterns.h"

namespace outrider {
namespace {

constexpr int32_t kAbsentBpeId = 11;  // what the format says where bos or eos is not given

Result<void> read_bpe_pieces(const GgufFile& file, std::vector<Piece>& pieces) {
  const auto texts = file.strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  pieces.resize(texts.value().size());
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].text = texts.value()[i];
  if (!file.has("tokenizer.ggml.token_type")) return {};
  const auto types = file.numbers("tokenizer.ggml.token_type");
  if (!types) return types.error();
  if (types.value().size() != pieces.size())
    return make_error(
        Code::kNotFound,
        "%.200s: tokenizer.ggml.token_type has %zu entries, tokenizer.ggml.tokens %zu",
        file.path().c_str(), types.value().size(), pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const double type = types.value()[i];
    if (!(type >= 1 && type <= 6) || type != std::floor(type))
      return make_error(Code::kNotFound,
                        "%.200s: tokenizer.ggml.token_type: piece %zu has type %g, known 1 .. 6",
                        file.path().c_str(), i, type);
    pieces[i].type = static_cast<PieceType>(static_cast<int>(type));
  }
  return {};
}

// "left right"; the sides are parted by the first blank behind the first byte.
Result<void> read_merges(const GgufFile& file, std::vector<BpeMerges::Pair>& merges) {
  const auto texts = file.strings("tokenizer.ggml.merges");
  if (!texts) return texts.error();
  merges.reserve(texts.value().size());
  for (const std::string_view text : texts.value()) {
    const size_t blank = text.find(' ', 1);
    if (blank == text.npos || blank + 1 == text.size())
      return make_error(Code::kNotFound,
                        "%.200s: tokenizer.ggml.merges: number %zu is \"%.40s\", wanted two sides "
                        "and a blank between them",
                        file.path().c_str(), merges.size(), printable(text).c_str());
    merges.push_back({text.substr(0, blank), text.substr(blank + 1)});
  }
  return {};
}

Result<void> read_split(const GgufFile& file, LanguageVocab& vocab) {
  std::string_view name = "default";
  if (file.has("tokenizer.ggml.pre")) {
    const auto pre = file.string("tokenizer.ggml.pre");
    if (!pre) return pre.error();
    name = pre.value();
  }
  const SplitRule* rule = find_split_rule(name);
  if (rule == nullptr)
    return make_error(
        Code::kUnsupported,
        "%.200s: tokenizer.ggml.pre is \"%.40s\": this build does not know how such a "
        "vocabulary cuts words; the names it knows are in docs/reference/text.md",
        file.path().c_str(), printable(name).c_str());
  for (const std::string_view pattern : rule->patterns)
    vocab.splits.push_back({std::string(pattern), false});
  vocab.whole_words = rule->whole_words;
  vocab.add_bos = rule->add_bos;
  return {};
}

Result<LanguageVocab> read_bpe(const GgufFile& file) {
  LanguageVocab vocab;
  vocab.kind = TokenizerKind::kByteBpe;
  OUTRIDER_TRY(read_bpe_pieces(file, vocab.pieces));
  OUTRIDER_TRY(read_merges(file, vocab.merges));
  OUTRIDER_TRY(read_split(file, vocab));
  const size_t n = vocab.pieces.size();
  if (n > static_cast<size_t>(kAbsentBpeId)) vocab.bos = vocab.eos = kAbsentBpeId;
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.bos_token_id", n, &vocab.bos));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.eos_token_id", n, &vocab.eos));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.unknown_token_id", n, &vocab.unk));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.padding_token_id", n, &vocab.pad));
  OUTRIDER_TRY(read_vocab_flag(file, "tokenizer.ggml.add_bos_token", &vocab.add_bos));
  OUTRIDER_TRY(read_vocab_flag(file, "tokenizer.ggml.add_eos_token", &vocab.add_eos));
  return vocab;
}

Result<LanguageVocab> read_spm(const GgufFile& file) {
  auto spm = read_spm_vocab(file);
  if (!spm) return spm.error();
  LanguageVocab vocab;
  vocab.pieces = std::move(spm.value().pieces);
  vocab.bos = spm.value().bos;
  vocab.eos = spm.value().eos;
  vocab.unk = spm.value().unk;
  vocab.pad = spm.value().pad;
  vocab.add_bos = spm.value().add_bos;
  vocab.add_eos = spm.value().add_eos;
  vocab.add_space_prefix = spm.value().add_space_prefix;
  vocab.blanks = true;
  return vocab;
}

Result<void> read_ends(const GgufFile& file, LanguageVocab& vocab) {
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                          "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                          "tokenizer.ggml.fim_sep_token_id"}) {
    int32_t id = -1;
    OUTRIDER_TRY(read_vocab_id(file, key, vocab.pieces.size(), &id));
    if (id >= 0) vocab.more_ends.push_back(id);
  }
  return {};
}

Result<void> read_templates(const GgufFile& file, LanguageVocab& vocab) {
  const std::string key = "tokenizer.chat_template";
  if (file.has(key)) {
    const auto text = file.string(key);
    if (!text) return text.error();
    vocab.chat_templates.emplace_back("", text.value());
  }
  if (!file.has(key + "s")) return {};
  const auto names = file.strings(key + "s");
  if (!names) return names.error();
  for (const std::string_view name : names.value()) {
    if (!file.has(key + "." + std::string(name))) continue;
    const auto text = file.string(key + "." + std::string(name));
    if (!text) return text.error();
    vocab.chat_templates.emplace_back(name, text.value());
  }
  return {};
}

}  // namespace

Result<LanguageVocab> read_gguf_vocab(const GgufFile& file) {
  const auto model = file.string("tokenizer.ggml.model");
  if (!model) return model.error();
  const bool bpe = model.value() == "gpt2";
  if (!bpe && model.value() != "llama")
    return make_error(Code::kUnsupported,
                      "%.200s: tokenizer.ggml.model is \"%.40s\", this build reads \"llama\" "
                      "(SentencePiece) and \"gpt2\" (byte-level BPE)",
                      file.path().c_str(), printable(model.value()).c_str());
  auto vocab = bpe ? read_bpe(file) : read_spm(file);
  if (!vocab) return vocab.error();
  OUTRIDER_TRY(read_ends(file, vocab.value()));
  OUTRIDER_TRY(read_templates(file, vocab.value()));
  return vocab;
}

}  // namespace outrider
