// Every command of this build, and the names that are planned but not here yet.
#pragma once
#include <span>

#include "cli/args.h"

namespace outrider::cli {

extern const Command kDemo, kInspect, kRun, kBench, kParity, kConform, kMakeModel, kDoctor, kServe,
    kLink, kTop, kHelp;
extern const Command kJoin, kConvert, kLoop;

std::span<const Command* const> commands();
const Command* find_command(std::string_view name);

// Names that belong to the product and answer "not in this build yet".
std::span<const char* const> later_commands();

}  // namespace outrider::cli
