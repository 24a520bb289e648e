// A policy description inside a GGUF file: one key with the whole of policy.json, statistics in it.
// Readers that do not know the key read the file as a plain policy. docs/reference/policy.md.
#pragma once
#include <optional>
#include <string>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "models/pi_config.h"
#include "policy/action_tokens.h"
#include "policy/description.h"
#include "text/tokenizer.h"

namespace outrider {

inline constexpr const char* kGgufPolicyKey = "outrider.policy";
// PI0-FAST: the texts of tokenizer.json and processor_config.json of its action tokens.
inline constexpr const char* kGgufActionTokensKey = "outrider.action_tokens";
inline constexpr const char* kGgufActionRulesKey = "outrider.action_tokens.processor";

bool has_policy(const GgufFile& file);
// [setup] Checked against the model's sizes. Errors: kNotFound (no policy inside; damaged), those
// of check_policy.
Result<PolicyDescription> read_gguf_policy(const GgufFile& file, const PiConfig& config);
// [setup] None for the other families. Errors: kNotFound (not inside; damaged; they do not fit the
// vocabulary), kUnsupported.
Result<std::optional<ActionTokens>> read_gguf_action_tokens(const GgufFile& file,
                                                            const SpmTokenizer& tokenizer,
                                                            const PiConfig& config,
                                                            const PolicyDescription& policy);
// [setup] Horizon and steps are those of `config`; paths are left out.
void add_policy(GgufWriter& writer, const PolicyDescription& policy, const PiConfig& config);

// [setup] A description from a folder or a policy.json, for weights that lie elsewhere: without
// tokenizer. Errors: as open_policy_checkpoint.
Result<PolicyDescription> open_policy_description(const std::string& path, const PiConfig& config);

}  // namespace outrider
