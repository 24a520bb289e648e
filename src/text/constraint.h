// Output that follows a JSON schema: an automaton over bytes, and for each of its states the set of
// ids that keep the text completable. Exact for every way of cutting the text into ids: also for
// ids that are part of a character or that cross the border between two JSON tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/language_tokenizer.h"
#include "text/sampler.h"

namespace outrider {

// Const after compile; shared by sessions of one vocabulary.
class Constraint {
 public:
  struct Limits {
    uint32_t max_states = 20'000;               // of the automaton
    size_t max_mask_bytes = size_t{256} << 20;  // of all different masks, twice (index)
    uint32_t max_depth = 32;                    // of the schema
    uint32_t free_depth = 2;  // how deep a value without a schema of its own may nest
  };
  // [setup] The schema's subset is listed in docs/reference/text.md. Properties come in the order
  // of the schema; one blank may stand in front, behind ':' and behind ','. The tokenizer must
  // outlive this.
  // Errors: kUnsupported naming the keyword and where it stands, kInvalid (schema contradicts
  // itself, nothing fits it, a limit by name), kNotFound (the vocabulary cannot write a text that
  // the schema needs).
  static Result<Constraint> compile(const Json& schema, const LanguageTokenizer& tokenizer);
  static Result<Constraint> compile(const Json& schema, const LanguageTokenizer& tokenizer,
                                    const Limits& limits);

  // Where a generation is. A value: copy it to try something.
  struct State {
    uint32_t at = 0;
    bool ended = false;
  };
  State start() const noexcept;
  // [hot] Ids allowed next; end-of-generation ids among them exactly when the text is complete.
  // n_pieces bits. After the end: no id.
  TokenMask allowed(State state) const noexcept;
  // [hot] Takes an id. False (and no change) when it is not allowed.
  bool advance(State& state, int32_t id) const noexcept;
  // The text so far is a complete document.
  bool complete(State state) const noexcept;
  size_t n_states() const noexcept;
  size_t mask_bytes() const noexcept;

  Constraint(Constraint&&) noexcept;
  Constraint& operator=(Constraint&&) noexcept;
  ~Constraint();

 private:
  struct Tables;
  explicit Constraint(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

}  // namespace outrider
