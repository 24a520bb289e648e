// SentencePiece-style tokenizer (BPE by score, user-defined pieces, byte fallback).
//
// A text is first cut at the special pieces written out in it (user-defined ones always, control
// and unknown ones with parse_special; longest text first, equal lengths by id, leftmost occurrence
// first). What is left between them gets a blank in front (add_space_prefix), blanks become U+2581,
// and characters are joined pair by pair into the piece with the highest score (ties: leftmost).
// A character that is no piece becomes its byte pieces, or the unknown id in a vocabulary without
// byte pieces. NUL is a character like any other.
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
  std::string text;  // UTF-8, U+2581 for a blank
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SpmVocab {
  std::vector<Piece> pieces;                    // index is the id; an empty text matches nothing
  int32_t bos = 1, eos = 2, unk = 0, pad = -1;  // -1: none
  bool add_bos = true, add_eos = false, add_space_prefix = true;
};

struct EncodeOptions {
  bool add_special = false;  // BOS / EOS as the vocabulary says
  // True: control pieces written out in the text become their ids. False: no text whatsoever gives
  // a control or unknown id (user-defined pieces still match); the way for foreign text.
  bool parse_special = true;
};

class SpmTokenizer {
 public:
  // [setup] Errors, each naming the field: kNotFound for a vocabulary that contradicts itself
  // (repeated text: both ids named; arrays of different lengths; unknown type; score not finite; id
  // out of range; text not UTF-8; no pieces; a byte piece missing that a text can need while others
  // are there; no unknown id where there are no byte pieces), kUnsupported for another tokenizer
  // model and for pieces of absurd size.
  static Result<SpmTokenizer> from_gguf(const GgufFile& file);
  static Result<SpmTokenizer> from_vocab(SpmVocab vocab);
  // [setup] A SentencePiece model file (.model), see sentencepiece.h. Errors name `name`.
  static Result<SpmTokenizer> from_sentencepiece(std::span<const std::byte> bytes,
                                                 const std::string& name);

  SpmTokenizer(SpmTokenizer&&) noexcept;
  SpmTokenizer& operator=(SpmTokenizer&&) noexcept;
  ~SpmTokenizer();

  // Scratch of one encoder thread for texts of up to max_text_bytes: some 75 bytes each, at most
  // 256 MiB of text. [setup] allocates.
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
  // so a result above ids.size() means "does not fit, needs this many". O(n log n) in the text.
  // Errors: kShape when the text is longer than the scratch, kInvalid when it is not UTF-8.
  struct Encoded {
    Code code = Code::kOk;
    size_t n_ids = 0;
  };
  Encoded encode(std::string_view text, EncodeOptions options, Scratch& scratch,
                 std::span<int32_t> ids) const noexcept;
  // [any] Convenience with its own memory.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;

  // [hot] For callers that cut at special pieces themselves: ids of one raw, not empty fragment of
  // valid UTF-8, which fits the scratch. allow_control: characters may join into a control piece.
  size_t encode_raw(std::string_view fragment, bool allow_control, Scratch& scratch,
                    std::span<int32_t> ids) const noexcept;

  // Text of one id: normal pieces with U+2581 as blank, byte pieces as their raw byte, unused
  // empty; control pieces only when asked for.
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
