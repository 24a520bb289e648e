// The vocabulary keys of a GGUF file, read into an SpmVocab.
#include <cmath>
#include <new>

#include "gguf/gguf.h"
#include "text/gguf_vocab.h"

namespace outrider {
namespace {

Result<void> check_model(const GgufFile& file) {
  const auto model = file.string("tokenizer.ggml.model");
  if (!model) return model.error();
  if (model.value() == "llama") return {};
  char name[33] = {};  // printable part of a foreign name
  for (size_t i = 0; i < model.value().size() && i + 1 < sizeof(name); ++i) {
    const char c = model.value()[i];
    name[i] = c >= ' ' && c < 127 ? c : '?';
  }
  return make_error(
      Code::kUnsupported,
      "%s: tokenizer.ggml.model is \"%s\", this build reads \"llama\" (SentencePiece); "
      "use a model file with such a vocabulary",
      file.path().c_str(), name);
}

Result<void> check_length(const GgufFile& file, const char* key, size_t n, size_t n_pieces) {
  if (n == n_pieces) return {};
  return make_error(Code::kNotFound, "%s: %s has %zu entries, tokenizer.ggml.tokens has %zu",
                    file.path().c_str(), key, n, n_pieces);
}

Result<std::vector<Piece>> read_pieces(const GgufFile& file) {
  const auto texts = file.strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto scores = file.numbers("tokenizer.ggml.scores");
  if (!scores) return scores.error();
  const auto types = file.numbers("tokenizer.ggml.token_type");
  if (!types) return types.error();
  const size_t n = texts.value().size();
  OUTRIDER_TRY(check_length(file, "tokenizer.ggml.scores", scores.value().size(), n));
  OUTRIDER_TRY(check_length(file, "tokenizer.ggml.token_type", types.value().size(), n));

  std::vector<Piece> pieces(n);
  for (size_t i = 0; i < n; ++i) {
    const double type = types.value()[i];
    if (!(type >= 1 && type <= 6) || type != std::floor(type)) {
      return make_error(Code::kNotFound,
                        "%s: tokenizer.ggml.token_type: piece %zu has type %g, known 1 .. 6",
                        file.path().c_str(), i, type);
    }
    pieces[i] = {std::string(texts.value()[i]), static_cast<float>(scores.value()[i]),
                 static_cast<PieceType>(static_cast<int>(type))};
  }
  return pieces;
}

}  // namespace

Result<void> read_vocab_id(const GgufFile& file, const char* key, size_t n_pieces, int32_t* id) {
  if (!file.has(key)) return {};
  const auto value = file.unsigned_integer(key);
  if (!value) return value.error();
  if (value.value() >= n_pieces) {
    return make_error(Code::kNotFound, "%s: %s is %llu, the vocabulary has ids 0 .. %zu",
                      file.path().c_str(), key, static_cast<unsigned long long>(value.value()),
                      n_pieces - 1);
  }
  *id = static_cast<int32_t>(value.value());
  return {};
}

Result<void> read_vocab_flag(const GgufFile& file, const char* key, bool* flag) {
  if (!file.has(key)) return {};
  const auto value = file.boolean(key);
  if (!value) return value.error();
  *flag = value.value();
  return {};
}

Result<SpmVocab> read_spm_vocab(const GgufFile& file) {
  OUTRIDER_TRY(check_model(file));
  auto pieces = read_pieces(file);
  if (!pieces) return pieces.error();
  SpmVocab vocab;
  vocab.pieces = std::move(pieces.value());
  const size_t n = vocab.pieces.size();
  if (n == 0)
    return make_error(Code::kNotFound, "%s: tokenizer.ggml.tokens is empty", file.path().c_str());
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.bos_token_id", n, &vocab.bos));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.eos_token_id", n, &vocab.eos));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.unknown_token_id", n, &vocab.unk));
  OUTRIDER_TRY(read_vocab_id(file, "tokenizer.ggml.padding_token_id", n, &vocab.pad));
  OUTRIDER_TRY(read_vocab_flag(file, "tokenizer.ggml.add_bos_token", &vocab.add_bos));
  OUTRIDER_TRY(read_vocab_flag(file, "tokenizer.ggml.add_eos_token", &vocab.add_eos));
  OUTRIDER_TRY(read_vocab_flag(file, "tokenizer.ggml.add_space_prefix", &vocab.add_space_prefix));
  return vocab;
}

Result<SpmTokenizer> SpmTokenizer::from_gguf(const GgufFile& file) {
  try {
    auto vocab = read_spm_vocab(file);
    if (!vocab) return vocab.error();
    auto tokenizer = from_vocab(std::move(vocab.value()));
    if (tokenizer) return tokenizer;
    const Error& cause = tokenizer.error();
    return make_error(cause.code, "%s: %s", file.path().c_str(), cause.text);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%s: no memory for the vocabulary", file.path().c_str());
  }
}

}  // namespace outrider
