// What a policy that knows its robot is: a checkpoint folder, a policy.json, or a GGUF file with a
// policy inside.
#pragma once
#include <string>

#include "cli/inspect.h"

namespace outrider::cli {

// Does this path hold such a policy? A folder, a policy.json, a GGUF file with the key.
bool holds_policy(const std::string& path);

// Everything is checked that an open with this configuration checks before it reads weights; a
// configuration that does not fit is an inspection that does not run. Errors: those of opening it.
Result<Inspection> inspect_policy(const std::string& path, const std::string& config_json);

// Ids of an instruction as this policy makes them; state in robot units, empty: zeros. Errors:
// those of opening it; kShape (another width, too many tokens).
Result<Report> inspect_policy_tokens(const std::string& path, const std::string& text,
                                     std::span<const float> state);

}  // namespace outrider::cli
