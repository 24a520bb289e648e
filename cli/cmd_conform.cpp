// outrider conform: the ABI contract suite against any provider.
//
// The suite runs in a child process: a provider that crashes then costs one line of the report, and
// standard output still carries one document.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "host/conform.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    {"--strict", nullptr, nullptr, "Count advice as failure.", nullptr},
    kJsonFlag,
};
constexpr Positional kPositionals[] = {
    {"PROVIDER.so", "Shared object with the open symbol of the model-runtime ABI."},
    {"CONFIG", "Open configuration it accepts."}};

// What the child tells: "S name" when a check starts, then one line "R {...}" with the whole
// report.
void tell(int fd, const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(120);
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

[[noreturn]] void be_child(int fd, const std::string& provider, const std::string& config,
                           bool strict) {
  ::dup2(2, 1);  // what a provider prints must not get between us and the document
  host::ConformOptions options;
  options.strict = strict;
  options.on_start = [&](const char* name) { tell(fd, std::string("S ") + name + "\n"); };
  const host::ConformReport report = host::conform(provider, config, options);
  std::string json = host::to_json(report);
  for (char& c : json) c = c == '\n' ? ' ' : c;
  tell(fd, "R " + json + "\n");
  ::_exit(0);
}

struct ChildTold {
  std::string last_check, report;
  int status = 0;
};

ChildTold run_child(const std::string& provider, const std::string& config, bool strict) {
  ChildTold told;
  int ends[2];
  if (::pipe(ends) != 0) {
    told.status = -1;
    return told;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    be_child(ends[1], provider, config, strict);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, &told.status, 0);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    if (line.starts_with("S ")) told.last_check = line.substr(2);
    if (line.starts_with("R ")) told.report = line.substr(2);
    at = end + 1;
  }
  return told;
}

int run(Context& context) {
  const std::string &provider = context.args.positional(0), &path = context.args.positional(1);
  Wish wish;
  wish.provider = provider;
  auto resolved = resolve(path, wish);
  if (!resolved) return context.fail(resolved.error());
  const ChildTold told = run_child(provider, resolved.value().json, context.args.given("--strict"));
  auto json = Json::parse(told.report);
  if (!json) {
    const std::string how = WIFSIGNALED(told.status)
                                ? fmt::format("died of signal {}", WTERMSIG(told.status))
                                : fmt::format("ended with status {}", WEXITSTATUS(told.status));
    return context.fail(make_error(Code::kFailed,
                                   "conform: the provider %s in the check \"%.200s\"", how.c_str(),
                                   told.last_check.c_str()));
  }
  Report report = report_of(json.value());
  const auto failed = report["failed"].get<int64_t>();
  for (const Report& check : report["checks"])
    context.out.text(
        "{:<8}{}{}{}\n", check["outcome"].get<std::string>(), check["name"].get<std::string>(),
        check["detail"].get<std::string>().empty() ? "" : ": ", check["detail"].get<std::string>());
  context.out.text("{} passed, {} failed\n", report["passed"].get<int64_t>(), failed);
  context.out.document(std::move(report));
  return failed > 0 || json.value().find("passed")->integer() == 0 ? kBad : kGood;
}

}  // namespace

const Command kConform = {"conform",
                          "Run the ABI contract suite against a provider.",
                          "The last line is \"N passed, N failed\"; exit status 1 when one failed, "
                          "when none ran, or when the provider crashed.",
                          "outrider conform ./provider_gguf.so pi05.json",
                          kPositionals,
                          kFlags,
                          run};

}  // namespace outrider::cli
