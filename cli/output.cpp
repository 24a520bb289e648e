#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/env.h"

namespace outrider::cli {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All of it, or the errno that stopped it.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// What people read must not carry control bytes out of file names and tensor names.
std::string printable(std::string_view line) {
  std::string out(line);
  for (char& c : out)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f) c = '?';
  return out;
}

}  // namespace

Exit exit_of(Code code) {
  switch (code) {
    case Code::kOk:
      return kGood;
    case Code::kInvalid:
    case Code::kNoMemory:
    case Code::kDevice:
      return kUsage;
    default:
      return kBad;
  }
}

void Output::claim_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    if (fd == 1) stdout_closed_ = true;
    const int got = ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
    if (got >= 0 && got != fd) ::close(got);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void Output::set_level(std::string_view name) {
  level_ = name == "error"   ? Level::kError
           : name == "warn"  ? Level::kWarn
           : name == "debug" ? Level::kDebug
                             : Level::kInfo;
}

bool Output::stderr_is_terminal() const {
  return ::isatty(2) == 1;
}

std::string Output::bold(std::string_view text) const {
  static const bool on = [] {
    const char* term = env_terminal();
    return ::isatty(1) == 1 && !env_no_color() && term != nullptr && std::strcmp(term, "dumb") != 0;
  }();
  return on ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

void Output::document(Report report) {
  if (!json_ || document_done_) return;
  document_done_ = true;
  Report whole;
  whole["version"] = 1;
  if (report.is_object())
    for (auto& [key, value] : report.items())
      if (key != "version") whole[key] = std::move(value);
  pending_ = to_json_text(whole) + "\n";
}

void Output::say_line(Level level, const std::string& line) {
  if (progress_open_) {
    write_all(2, "\n");
    progress_open_ = false;
  }
  const char* prefix = level == Level::kError  ? "outrider: "
                       : level == Level::kWarn ? "outrider: warning: "
                                               : "";
  write_all(2, prefix + printable(line) + "\n");
}

void Output::progress(std::string_view line, bool last) {
  if (level_ < Level::kInfo) return;
  if (stderr_is_terminal()) {
    write_all(2, fmt::format("\r\x1b[K{}{}", printable(line), last ? "\n" : ""));
    progress_open_ = !last;
    return;
  }
  const double now = now_s();
  if (!last && now - last_progress_s_ < 2) return;
  last_progress_s_ = now;
  write_all(2, printable(line) + "\n");
}

int Output::flush(int status) {
  if (progress_open_) write_all(2, "\n");
  progress_open_ = false;
  if (pending_.empty()) return status;
  const int error = stdout_closed_ ? EBADF : write_all(1, pending_);
  pending_.clear();
  if (error == 0 || error == EPIPE) return status;
  say_line(Level::kError,
           fmt::format("standard output: {}; the answer was not written", std::strerror(error)));
  return kUsage;
}

Report error_document(const Error& error, Exit status) {
  Report report;
  report["version"] = 1;
  report["error"] = {{"code", to_abi(error.code)},
                     {"name", code_name(error.code)},
                     {"text", std::string(error.message())},
                     {"exit", static_cast<int>(status)}};
  return report;
}

int Context::fail(const Error& error, Exit status) const {
  out.say(Level::kError, "{}", error.message());
  out.document(error_document(error, status));
  return status;
}

Report report_of(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      return nullptr;
    case Json::Kind::kBool:
      return json.boolean();
    case Json::Kind::kNumber:
      return json.is_integer() ? Report(json.integer()) : Report(json.number());
    case Json::Kind::kString:
      return json.text();
    case Json::Kind::kArray: {
      Report out = Report::array();
      for (const Json& item : json.items()) out.push_back(report_of(item));
      return out;
    }
    case Json::Kind::kObject: {
      Report out = Report::object();
      for (const Json::Member& member : json.members()) out[member.name] = report_of(member.value);
      return out;
    }
  }
  return nullptr;
}

Report report_of_literal(std::string_view literal) {
  auto json = Json::parse(literal);
  return json ? report_of(json.value()) : Report(nullptr);
}

std::string to_json_text(const Report& report, int indent) {
  return report.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace outrider::cli
