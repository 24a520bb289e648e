// Every command of this build.
#pragma once
#include <span>

#include "cli/args.h"

namespace outrider::cli {

extern const Command kDemo, kInspect, kRun, kBench, kParity, kConform, kMakeModel, kDoctor, kServe,
    kLink, kTop, kHelp;
extern const Command kChat, kJoin, kConvert, kLoop;

std::span<const Command* const> commands();
const Command* find_command(std::string_view name);

}  // namespace outrider::cli
