// The tokenizer of a language model, whatever its kind: SentencePiece style (characters joined by
// score), byte-level BPE, BPE over characters with byte fallback, unigram.
//
// A text is first cut at the special pieces written out in it (user-defined ones always, control
// and unknown ones with parse_special; longest text first, equal lengths by id, leftmost first).
// What is left between them is split into words by the pattern of the model and joined into pieces.
// Source: gguf-models.md C.1; vectors in tests/text.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace outrider {

// Bytes [begin, end) of a text that come from outside (a user, a tool). No control or unknown piece
// is recognised in them or across their borders, whatever parse_special says; words and merges do
// not notice. What ChatTemplate::render returns.
struct ForeignText {
  size_t begin = 0, end = 0;
};

struct TokenizeOptions {
  bool add_special = false;   // BOS and EOS as the vocabulary says
  bool parse_special = true;  // false: no text whatsoever gives a control or unknown id
  bool bos_once = false;      // no BOS is added in front of a text that gives one by itself
  std::span<const ForeignText> foreign = {};  // ascending, not overlapping, inside the text
};

class LanguageTokenizer {
 public:
  // [setup] From the metadata of a model file. tokenizer.ggml.model: "llama", "gpt2" with one of
  // the `pre` names of split_patterns.h. Errors: kNotFound for a vocabulary that contradicts itself
  // (naming key, id, value), kUnsupported for another model or pre (naming it).
  static Result<LanguageTokenizer> from_gguf(const GgufFile& file);
  // [setup] From the texts of tokenizer.json and tokenizer_config.json ("" when there is none: no
  // chat template, special ids only as far as tokenizer.json tells them). Errors as above, naming
  // `name` and the member; kUnsupported for what this build does not do exactly.
  static Result<LanguageTokenizer> from_json(std::string_view tokenizer_json,
                                             std::string_view config_json, const std::string& name);

  LanguageTokenizer(LanguageTokenizer&&) noexcept;
  LanguageTokenizer& operator=(LanguageTokenizer&&) noexcept;
  ~LanguageTokenizer();

  // Working memory of one thread for texts of up to max_text_bytes, some 150 bytes each. [setup]
  class Scratch {
   public:
    Scratch(const LanguageTokenizer& tokenizer, size_t max_text_bytes);
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;
    ~Scratch();
    size_t max_text_bytes() const;
    struct State;
    State& state() { return *state_; }

   private:
    std::unique_ptr<State> state_;
  };

  // [hot] No heap.
  // Returns the number of ids the text has; the first min(n, ids.size()) are stored. n_dropped
  // counts characters that the vocabulary cannot express and has no unknown id for.
  // Errors: kShape (text longer than the scratch), kInvalid (not UTF-8; foreign ranges out of
  // order), kFailed (a split pattern that needs more steps than allowed).
  struct Encoded {
    Code code = Code::kOk;
    size_t n_ids = 0;
    size_t n_dropped = 0;
  };
  Encoded encode(std::string_view text, const TokenizeOptions& options, Scratch& scratch,
                 std::span<int32_t> ids) const noexcept;
  // [any] Convenience with its own memory.
  Result<std::vector<int32_t>> encode(std::string_view text, const TokenizeOptions& options) const;

  // [hot] Bytes that an id adds to a text; may be part of a character. Control pieces: their text
  // with `special`, else empty. Unused pieces and ids out of range: empty. Lives as long as this.
  std::string_view bytes(int32_t id, bool special = true) const noexcept;
  size_t longest_bytes() const noexcept;  // of any id
  std::string decode(std::span<const int32_t> ids, bool special = true) const;

  // [hot] Eos, eot, eom and every piece with a usual end-of-turn text.
  bool ends_generation(int32_t id) const noexcept;
  std::span<const int32_t> end_ids() const noexcept;  // all of those, ascending

  int32_t n_pieces() const noexcept;
  const Piece& piece(int32_t id) const noexcept;  // as stored; 0 <= id < n_pieces
  // [hot] Id of the piece with exactly this stored text, -1 when there is none.
  int32_t find(std::string_view stored_text) const noexcept;
  // -1: none.
  int32_t bos() const noexcept;
  int32_t eos() const noexcept;
  int32_t unk() const noexcept;
  int32_t pad() const noexcept;
  bool add_bos() const noexcept;
  bool add_eos() const noexcept;
  // [hot] The text begins with the BOS text and add_special would put a second one in front of it:
  // the raw faces do so by contract and warn.
  bool doubles_bos(std::string_view text) const noexcept;

  // Jinja text stored with the vocabulary: the default one or a named variant; empty: none.
  std::string_view chat_template(std::string_view name = {}) const noexcept;

 private:
  struct Index;
  friend struct LanguageTokenizerBuilder;
  LanguageTokenizer();
  std::unique_ptr<Index> index_;
};

}  // namespace outrider
