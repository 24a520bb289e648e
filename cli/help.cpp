#include "cli/help.h"

#include <algorithm>

#include "base/env.h"
#include "cli/commands.h"
#include "cli/idle.h"

namespace outrider::cli {
namespace {

constexpr const char* kExitTable[][2] = {
    {"0", "done, and good"},
    {"1", "checked and found bad (a damaged file), or refused"},
    {"2",
     "usage or environment: flags, configuration, missing or unreadable files, full disk, an "
     "answer that "
     "cannot be written"},
    {"3", "a deadline or a link failed"},
};
constexpr const char* kFooter =
    "With --json standard output holds one strict JSON document with a \"version\" field, also on "
    "failure; everything else goes to standard error.";

size_t page_width() {
  const char* columns = env_columns();
  int64_t width = 0;
  if (columns != nullptr && read_integer(columns, width))
    return std::clamp<int64_t>(width, 40, 120);
  return 90;
}

// Words of `text` in lines of at most `width` columns, the later ones indented.
std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!first && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  return out;
}

std::string flag_head(const Flag& flag) {
  return flag.value == nullptr ? flag.name : std::string(flag.name) + " " + flag.value;
}

std::string flag_help(const Flag& flag) {
  std::string text = flag.help;
  if (flag.repeat) text += " May be repeated.";
  if (flag.by_default != nullptr) text += std::string(" Default ") + flag.by_default + ".";
  return text;
}

template <class F>
void for_each_flag(const Command& command, F&& visit) {
  for (const Flag& flag : command.flags) visit(flag);
  for (const Flag& flag : common_flags()) visit(flag);
}

std::string rows_text(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t head = 0;
  for (const auto& row : rows) head = std::max(head, row.first.size());
  head = std::min<size_t>(head, 26);
  std::string out;
  for (const auto& [name, help] : rows) {
    out += "  " + name;
    if (name.size() > head)
      out += "\n" + std::string(head + 4, ' ');
    else
      out += std::string(head + 2 - name.size(), ' ');
    out += wrap(help, page_width(), head + 4) + "\n";
  }
  return out;
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string line = std::string("outrider ") + command.name + " [FLAGS]";
  for (const Positional& positional : command.positionals)
    line += std::string(" ") + positional.name;
  return line;
}

std::string overview_text(const Output& out) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Command* command : commands()) rows.emplace_back(command->name, command->summary);
  std::string text =
      "Outrider runs robot policies (PI0, PI0.5) in real time behind one C ABI.\n\n" +
      out.bold("Usage") + "\n  outrider COMMAND [FLAGS] ...\n  outrider --version\n\n" +
      out.bold("Commands") + "\n" + rows_text(rows) + "\n" + out.bold("Exit status") + "\n";
  rows.clear();
  for (const auto& row : kExitTable) rows.emplace_back(row[0], row[1]);
  text += rows_text(rows) + "\n" + wrap(kFooter, page_width(), 0) + "\n\n";
  return text +
         wrap("Start with: outrider demo. Flags of a command: outrider COMMAND --help.",
              page_width(), 0) +
         "\n";
}

std::string command_text(const Command& command, const Output& out) {
  std::string text = wrap(command.summary, page_width(), 0) + "\n\n" + out.bold("Usage") + "\n  " +
                     usage_line(command) + "\n";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Positional& positional : command.positionals)
    rows.emplace_back(positional.name, positional.help);
  if (!rows.empty()) text += "\n" + out.bold("Arguments") + "\n" + rows_text(rows);
  rows.clear();
  for_each_flag(command,
                [&](const Flag& flag) { rows.emplace_back(flag_head(flag), flag_help(flag)); });
  text += "\n" + out.bold("Flags") + "\n" + rows_text(rows);
  if (*command.notes != 0) text += "\n" + wrap(command.notes, page_width(), 0) + "\n";
  if (*command.example != 0) text += "\n" + out.bold("Example") + "\n  " + command.example + "\n";
  return text;
}

std::string reference_markdown() {
  std::string text =
      "# Command line\n\n<!-- Written by `outrider help --markdown` from the flag tables; a test "
      "compares. "
      "Do not edit. -->\n\n`outrider COMMAND [FLAGS] ...`, `outrider --version`. A value follows "
      "its flag as the "
      "next word or after `=`; `--` ends the flags. A flag that would have no effect in a call is "
      "refused with the reason (status 2).\n\n" +
      std::string(kFooter) + "\n\n| exit status | meaning |\n|---|---|\n";
  for (const auto& row : kExitTable) text += std::string("| ") + row[0] + " | " + row[1] + " |\n";
  text +=
      "\nA failure as JSON: `{\"version\": 1, \"error\": {\"code\": -2, \"name\": \"not found\", "
      "\"text\": "
      "\"...\", \"exit\": 1}}`; `code` is the status code of the model-runtime ABI.\n\n"
      "## Flags of every command\n\n| flag | meaning |\n|---|---|\n";
  auto row = [](const Flag& flag) {
    std::string help = flag_help(flag);
    for (size_t at = 0; (at = help.find('|', at)) != std::string::npos; at += 2)
      help.insert(at, "\\");
    return "| `" + flag_head(flag) + "` | " + help + " |\n";
  };
  for (const Flag& flag : common_flags()) text += row(flag);
  for (const Command* command : commands()) {
    text += std::string("\n## outrider ") + command->name + "\n\n" + command->summary +
            "\n\n```sh\n" + usage_line(*command) + "\n```\n\n";
    for (const Positional& positional : command->positionals)
      text += std::string("- `") + positional.name + "`: " + positional.help + "\n";
    if (!command->positionals.empty()) text += "\n";
    if (!command->flags.empty()) {
      text += "| flag | meaning |\n|---|---|\n";
      for (const Flag& flag : command->flags) text += row(flag);
      text += "\n";
    }
    if (*command->notes != 0) text += std::string(command->notes) + "\n\n";
    if (*command->example != 0)
      text += std::string("Example:\n\n```sh\n") + command->example + "\n```\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string completion_script(std::string_view shell) {
  std::string names;
  for (const Command* command : commands())
    names += (names.empty() ? "" : " ") + std::string(command->name);
  std::string text;
  if (shell == "fish") {
    for (const Command* command : commands()) {
      text += fmt::format("complete -c outrider -n __fish_use_subcommand -a {} -d \"{}\"\n",
                          command->name, command->summary);
      for_each_flag(*command, [&](const Flag& flag) {
        text += fmt::format("complete -c outrider -n \"__fish_seen_subcommand_from {}\" -l {}{}\n",
                            command->name, flag.name + 2, flag.value == nullptr ? "" : " -r");
      });
    }
    return text;
  }
  if (shell == "zsh") text += "autoload -U bashcompinit && bashcompinit\n";
  text +=
      "_outrider() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" flags=\"\"\n  case "
      "\"${COMP_WORDS[1]}\" in\n";
  for (const Command* command : commands()) {
    std::string flags;
    for_each_flag(*command, [&](const Flag& flag) {
      flags += (flags.empty() ? "" : " ") + std::string(flag.name);
    });
    text += fmt::format("    {}) flags=\"{}\" ;;\n", command->name, flags);
  }
  text += "  esac\n  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"" + names +
          "\" -- \"$word\"))\n  elif [ \"${word#-}\" != \"$word\" ]; then COMPREPLY=($(compgen -W "
          "\"$flags\" -- "
          "\"$word\"))\n  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -F "
          "_outrider outrider\n";
  return text;
}

namespace {

int run_help(Context& context) {
  if (context.args.given("--markdown"))
    if (auto good =
            refuse_idle(context.args, {"--completions"}, "--markdown prints the page alone");
        !good)
      return context.fail(good.error());
  if (context.args.given("--markdown")) {
    context.out.raw(reference_markdown());
  } else if (context.args.given("--completions")) {
    context.out.raw(completion_script(context.args.text("--completions")));
  } else {
    context.out.raw(overview_text(context.out));
  }
  return kGood;
}

constexpr Flag kHelpFlags[] = {
    {"--markdown", nullptr, nullptr, "Print the reference page of all commands.", nullptr},
    {"--completions", "SHELL", nullptr, "Print a completion script for bash, zsh or fish.",
     parse_shell},
};

}  // namespace

const Command kHelp = {
    "help",
    "Show the commands, the reference page or shell completions.",
    "",
    "outrider help --completions bash > ~/.local/share/bash-completion/completions/outrider",
    {},
    kHelpFlags,
    run_help};

}  // namespace outrider::cli
