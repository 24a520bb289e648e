// SentencePiece-style tokenizer (BPE by score, user-defined pieces, byte fallback).
// Source: gguf-models.md C.1 rules; vectors in tests/text.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider {

class GgufFile;

enum class PieceType : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Piece {
  std::string text;   // UTF-8, U+2581 for a blank
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SpmVocab {
  std::vector<Piece> pieces;          // index is the id
  int32_t bos = 1, eos = 2, unk = 0, pad = -1;
  bool add_bos = true, add_eos = false, add_space_prefix = true;
};

struct EncodeOptions {
  bool add_special = false;    // BOS / EOS as the vocabulary says
  bool parse_special = true;   // control pieces written out in the text become their ids
};

class SpmTokenizer {
 public:
  // [setup] Errors: kNotFound for a vocabulary that contradicts itself (repeated text, missing byte
  // pieces, ids out of range, no pieces), kUnsupported for another tokenizer model; field named.
  static Result<SpmTokenizer> from_gguf(const GgufFile& file);
  static Result<SpmTokenizer> from_vocab(SpmVocab vocab);

  SpmTokenizer(SpmTokenizer&&) noexcept;
  SpmTokenizer& operator=(SpmTokenizer&&) noexcept;
  ~SpmTokenizer();

  // Scratch of one encoder thread for texts of up to max_text_bytes. [setup] allocates.
  class Scratch {
   public:
    explicit Scratch(size_t max_text_bytes);
    Scratch(Scratch&&) noexcept;
    ~Scratch();
    size_t max_text_bytes() const;
    struct State;
    State& state() { return *state_; }
   private:
    std::unique_ptr<State> state_;
  };

  // [hot] No heap. Returns the number of ids the text has; the first min(n, ids.size()) are stored,
  // so a result above ids.size() means "does not fit, needs this many".
  // Errors: kShape when the text is longer than the scratch, kInvalid when it is not UTF-8.
  struct Encoded { Code code = Code::kOk; size_t n_ids = 0; };
  Encoded encode(std::string_view text, EncodeOptions options, Scratch& scratch,
                 std::span<int32_t> ids) const noexcept;
  // [any] Convenience with its own memory.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;

  // Text of one id: normal pieces with U+2581 as blank, byte pieces as their raw byte, unused empty;
  // control pieces only when asked for.
  std::string piece_text(int32_t id, bool special = true) const;
  std::string decode(std::span<const int32_t> ids, bool special = true) const;

  const SpmVocab& vocab() const;
  int32_t n_pieces() const;

 private:
  struct Index;
  SpmTokenizer();
  std::unique_ptr<Index> index_;
};

}  // namespace outrider
