#include "cli/commands.h"

namespace outrider::cli {
namespace {

constexpr const Command* kCommands[] = {
    &kDemo,    &kInspect, &kRun,   &kBench, &kParity, &kChat, &kConform, &kMakeModel,
    &kConvert, &kDoctor,  &kServe, &kJoin,  &kLoop,   &kLink, &kTop,     &kHelp};

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : kCommands)
    if (name == command->name) return command;
  return nullptr;
}

}  // namespace outrider::cli
