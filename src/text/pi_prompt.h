// The prompt rules of PI0, PI0.5 and PI0-FAST, and the state bins that go into the text.
// Source: pi-policy.md 4.1, 4.2, 12, 13; gguf-models.md B.7.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace outrider {

enum class StateBins : uint8_t {
  kReference,  // number of float64 edges -1 + k/128 (k = 0 .. 255) not above x, minus 1; NaN: 255
  kJetsonPi,   // float32 floor((x + 1) * 128), clamped: off by one next to an edge; NaN: 0
};

// Bin of one normalised value: -1 .. 255.
int state_bin(float x, StateBins rule) noexcept;
// The same for a value that was normalised in double, as the served policy does: reference edges.
int state_bin(double x) noexcept;

// [hot] Without the Unicode white space at both ends.
std::string_view trimmed(std::string_view text) noexcept;

// Trim (Unicode white space at both ends), then '_' and newline to blank: the cleaning of the
// served policy, not of the plain face. Blanks that the replacement makes at an end stay.
std::string clean_instruction(std::string_view text);
// [hot] The same into the caller's memory, which must not be smaller than the text. Returns the
// bytes written.
size_t clean_instruction(std::string_view text, std::span<char> out) noexcept;

// [hot] The cleaning of PI0-FAST: lower case, trim, then '_' to blank; newlines stay. `out` has
// max_lower_case_bytes (lower_case.h) and does not alias the text, which is well formed.
size_t clean_fast_instruction(std::string_view text, std::span<char> out) noexcept;

inline constexpr size_t kPi05TextStates = 8;

// [hot] Writes "Task: {instruction}, State: {b0 b1 ...};\nAction: " without heap. Returns the bytes
// the text has; a result above out.size() means it did not fit and the text was cut. Nothing in the
// instruction is changed. The plain face has at most kPi05TextStates numbers and stands zeros (bin
// 128) for a missing state: both are the caller's part.
size_t write_pi05_text(std::string_view instruction, std::span<const float> state, StateBins rule,
                       std::span<char> out) noexcept;
// The same with values normalised in double and the reference's edges; any number of them.
size_t write_pi05_text(std::string_view instruction, std::span<const double> state,
                       std::span<char> out) noexcept;

// [hot] PI0-FAST: "Task: {instruction}, State: {b0 b1 ...};\n", otherwise the same.
size_t write_fast_text(std::string_view instruction, std::span<const double> state,
                       std::span<char> out) noexcept;

inline constexpr int32_t kPiBos = 2;
inline constexpr int32_t kPiNewline = 108;  // "\n" of the Gemma vocabulary

// [hot] Ids of the raw policy face. PI0: BOS + ids(prompt) + newline. PI0.5: BOS + ids(text), BOS
// not doubled when the text itself begins with it (PI0 does double it). Ids, count and errors as
// SpmTokenizer::encode has them; control pieces written out in the text are parsed.
SpmTokenizer::Encoded encode_pi0(const SpmTokenizer& tokenizer, std::string_view prompt,
                                 SpmTokenizer::Scratch& scratch, std::span<int32_t> ids) noexcept;
SpmTokenizer::Encoded encode_pi05(const SpmTokenizer& tokenizer, std::string_view text,
                                  SpmTokenizer::Scratch& scratch, std::span<int32_t> ids) noexcept;

}  // namespace outrider
