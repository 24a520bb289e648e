// How a byte-level BPE vocabulary cuts a text into words: the rules that tokenizer.ggml.pre names.
#pragma once
#include <span>
#include <string_view>

namespace outrider {

struct SplitRule {
  std::span<const std::string_view> names;     // values of tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  // each cuts the pieces that the one before left
  bool whole_words = false;                    // a word that is in the vocabulary is taken at once
  bool add_bos = false;                        // where tokenizer.ggml.add_bos_token is absent
};

// nullptr: not known.
const SplitRule* find_split_rule(std::string_view name) noexcept;
std::span<const SplitRule> split_rules() noexcept;

// The words of GPT-2, which tokenizer.json calls ByteLevel with use_regex.
extern const std::string_view kGpt2Words;

}  // namespace outrider
