#include "cli/commands.h"

namespace outrider::cli {
namespace {

constexpr const Command* kCommands[] = {&kDemo,    &kInspect,   &kRun,     &kBench,  &kParity,
                                        &kConform, &kMakeModel, &kConvert, &kDoctor, &kServe,
                                        &kJoin,    &kLoop,      &kLink,    &kTop,    &kHelp};
constexpr const char* kLater[] = {"chat"};

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}
std::span<const char* const> later_commands() {
  return kLater;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : kCommands)
    if (name == command->name) return command;
  return nullptr;
}

}  // namespace outrider::cli
