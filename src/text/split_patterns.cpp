#include "text/split_patterns.h"

#include <algorithm>

namespace outrider {
namespace {

using Text = std::string_view;

#define OUTRIDER_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define OUTRIDER_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OUTRIDER_GPT2 \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
// Words whose case changes at most once, as gpt-4o and Mistral's tekken have them.
#define OUTRIDER_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define OUTRIDER_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define OUTRIDER_CASED(end)                                          \
  "[^\\r\\n\\p{L}\\p{N}]?" OUTRIDER_UPPER "*" OUTRIDER_LOWER "+" end \
  "|[^\\r\\n\\p{L}\\p{N}]?" OUTRIDER_UPPER "+" OUTRIDER_LOWER "*" end
#define OUTRIDER_CASED_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

constexpr Text kGpt2[] = {OUTRIDER_GPT2};
constexpr Text kLlama3[] = {OUTRIDER_CONTRACTIONS
                            "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OUTRIDER_TAIL};
constexpr Text kQwen2[] = {OUTRIDER_CONTRACTIONS
                           "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OUTRIDER_TAIL};
constexpr Text kSmollm[] = {"\\p{N}", OUTRIDER_GPT2};
constexpr Text kFalcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", OUTRIDER_GPT2, "[0-9][0-9][0-9]"};
constexpr Text kDefault[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", OUTRIDER_GPT2, "\\p{N}+",
                             "[0-9][0-9][0-9]"};
constexpr Text kDeepseekCoder[] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                   "[一-龥ࠀ-一가-퟿]+", "\\p{N}"};
constexpr Text kDeepseekV3[] = {
    "\\p{N}{1,3}", "[一-龥\xE3\x81\x80-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
constexpr Text kGpt4o[] = {
    OUTRIDER_CASED(OUTRIDER_CONTRACTIONS "?") "|\\p{N}{1,3}" OUTRIDER_CASED_TAIL};
constexpr Text kTekken[] = {OUTRIDER_CASED("") "|\\p{N}" OUTRIDER_CASED_TAIL};

constexpr Text kGpt2Names[] = {"gpt-2", "gpt2", "mpt", "olmo", "jais", "phi-2"};
constexpr Text kLlama3Names[] = {"llama-bpe", "llama3", "llama-v3"};
constexpr Text kDbrxNames[] = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"};
constexpr Text kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"};
constexpr Text kSmollmNames[] = {"smollm",    "starcoder", "refact",    "command-r",
                                 "codeshell", "exaone",    "minerva-7b"};
constexpr Text kFalconNames[] = {"falcon"};
constexpr Text kDefaultNames[] = {"default"};
constexpr Text kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr Text kDeepseekV3Names[] = {"deepseek-v3"};
constexpr Text kGpt4oNames[] = {"gpt-4o", "llama4"};
constexpr Text kTekkenNames[] = {"tekken"};

constexpr SplitRule kRules[] = {
    {kLlama3Names, kLlama3, true, true},
    {kDbrxNames, kLlama3, false, false},
    {kQwen2Names, kQwen2, false, false},
    {kGpt2Names, kGpt2, false, false},
    {kSmollmNames, kSmollm, false, false},
    {kFalconNames, kFalcon, false, false},
    {kDeepseekCoderNames, kDeepseekCoder, false, false},
    {kDeepseekV3Names, kDeepseekV3, false, false},
    {kGpt4oNames, kGpt4o, false, false},
    {kTekkenNames, kTekken, true, true},
    {kDefaultNames, kDefault, false, false},
};

}  // namespace

const std::string_view kGpt2Words = kGpt2[0];

std::span<const SplitRule> split_rules() noexcept {
  return kRules;
}

const SplitRule* find_split_rule(std::string_view name) noexcept {
  for (const SplitRule& rule : kRules)
    if (std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end()) return &rule;
  return nullptr;
}

}  // namespace outrider
