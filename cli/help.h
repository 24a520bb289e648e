// Help pages, the reference page and shell completions, all made from the command rows.
#pragma once
#include <string>

#include "cli/args.h"
#include "cli/output.h"

namespace outrider::cli {

std::string overview_text(const Output& out);
std::string command_text(const Command& command, const Output& out);
// docs/reference/cli.md.
std::string reference_markdown();
std::string completion_script(std::string_view shell);
// "run [FLAGS] CONFIG|FILE"
std::string usage_line(const Command& command);

}  // namespace outrider::cli
