// outrider: one binary, one table of commands.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>
#include <new>

#include "base/env.h"
#include "base/log.h"
#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/version.h"

namespace outrider::cli {
namespace {

int fail_usage(Output& out, const Error& error) {
  out.say(Level::kError, "{}", error.message());
  out.document(error_document(error, kUsage));
  return kUsage;
}

int unknown_command(Output& out, const char* word) {
  std::vector<const char*> known;
  for (const Command* command : commands()) known.push_back(command->name);
  const char* near = nearest_name(word, known);
  return fail_usage(
      out, make_error(Code::kInvalid, "unknown command \"%.80s\"%s%s%s (outrider help lists them)",
                      word, near ? "; did you mean " : "", near ? near : "", near ? "?" : ""));
}

// The flag, else the environment, else the flag's default; the library's own lines follow it.
void use_log_level(const Args& args, Output& out) {
  const char* environment = env_log_level();
  std::string name = args.text("--log-level");
  if (!args.given("--log-level") && environment != nullptr && parse_log_level(environment))
    name = environment;
  out.set_level(name);
  set_log_sink(stderr_log_sink, nullptr);
  if (auto level = outrider::parse_log_level(name)) set_log_level(level.value());
}

// A misspelt variable would be ignored in silence: say so when its name is near one of ours.
void check_environment(Output& out) {
  constexpr std::string_view kPrefix = "OUTRIDER_";
  static constexpr const char* kKnown[] = {kEnvLogLevel, kEnvPluginPath, kEnvOpenErrors};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (!name.starts_with(kPrefix)) continue;
    std::vector<const char*> tails;
    for (const char* known : kKnown) tails.push_back(known + kPrefix.size());
    const char* near = nearest_name(name.substr(kPrefix.size()), tails);
    if (near != nullptr && name.substr(kPrefix.size()) != near)
      out.say(Level::kWarn, "environment: {} is not a variable of ours; did you mean {}{}?", name,
              kPrefix, near);
  }
  const char* level = env_log_level();
  if (level != nullptr && !outrider::parse_log_level(level))
    out.say(Level::kWarn,
            "environment: {} is \"{:.40}\", allowed are off, error, warn, info, debug",
            kEnvLogLevel, level);
}

int run_command(Output& out, const Command& command, std::span<const char* const> words) {
  auto args = Args::parse(command, words);
  if (!args) return fail_usage(out, args.error());
  if (args.value().help()) {
    out.raw(command_text(command, out));
    return kGood;
  }
  use_log_level(args.value(), out);
  check_environment(out);
  Context context{args.value(), out};
  try {
    return command.run(context);
  } catch (const std::bad_alloc&) {
    return context.fail(make_error(Code::kNoMemory, "%s: out of memory", command.name));
  } catch (const std::exception& error) {
    return context.fail(
        make_error(Code::kFailed, "%s: internal error: %s", command.name, error.what()));
  }
}

int dispatch(Output& out, std::span<const char* const> words) {
  if (words.empty()) {
    return fail_usage(out,
                      make_error(Code::kInvalid, "no command given (outrider help lists them)"));
  }
  const char* first = words[0];
  if (std::strcmp(first, "--version") == 0) {
    if (out.json()) {
      out.document({{"outrider", kVersion}});
      return kGood;
    }
    out.raw(std::string("outrider ") + kVersion + "\n");
    return kGood;
  }
  const bool overview = std::strcmp(first, "--help") == 0 || std::strcmp(first, "-h") == 0;
  // `outrider help bench` is what people type for `outrider bench --help`.
  if (std::strcmp(first, "help") == 0 && words.size() == 2 && words[1][0] != '-') {
    const Command* about = find_command(words[1]);
    if (about == nullptr) return unknown_command(out, words[1]);
    out.raw(command_text(*about, out));
    return kGood;
  }
  const Command* command = overview ? &kHelp : find_command(first);
  if (command == nullptr) return unknown_command(out, first);
  if (overview) {
    out.raw(overview_text(out));
    return kGood;
  }
  return run_command(out, *command, words.subspan(1));
}

extern "C" void end_by_signal(int signal) {
  remove_unfinished_outputs();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Half-written files go with the process; a signal the caller ignores (nohup) stays ignored.
void remove_unfinished_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now = {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    std::signal(signal, end_by_signal);
  }
}

}  // namespace
}  // namespace outrider::cli

int main(int argc, char** argv) {
  using namespace outrider::cli;
  Output out;
  out.claim_descriptors();
  // Decided before parsing: a script that asked for JSON gets JSON even when its flags are wrong.
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i)
    if (std::strcmp(argv[i], "--json") == 0) out.set_json(true);
  if (out.json()) out.keep_document_alone();
  remove_unfinished_on_signals();
  const std::vector<const char*> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return out.flush(dispatch(out, words));
}
