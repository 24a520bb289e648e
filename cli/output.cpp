#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "base/utf8.h"

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

// Marks that are invisible and change the order of what follows: a name could show as another.
bool turns_text(uint32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  uint32_t code = sequence.size() == 1 ? byte(0) : byte(0) & (0xFFu >> (sequence.size() + 1));
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return code;
}

// "cannot open ...", "store: cannot open ...".
bool says_unreachable(std::string_view message) {
  const size_t module = message.find(": ");
  if (module != std::string_view::npos &&
      message.substr(0, module).find_first_not_of("abcdefghijklmnopqrstuvwxyz") ==
          std::string_view::npos)
    message.remove_prefix(module + 2);
  for (const char* verb :
       {"cannot open ", "cannot examine ", "cannot map ", "cannot find ", "cannot create ",
        "cannot make ", "cannot write ", "cannot rename ", "cannot sync ", "cannot flush ",
        "cannot lock ", "cannot list ", "cannot publish ", "cannot delete "})
    if (message.starts_with(verb)) return true;
  return false;
}

}  // namespace

std::string shown(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t n = std::max<size_t>(utf8_sequence_bytes(text), 1);
    const bool whole = utf8_sequence_bytes(text) != 0;
    const uint32_t code = whole ? code_point(text.substr(0, n)) : 0;
    const bool fine = whole && code >= 0x20 && !(code >= 0x7F && code < 0xA0) && !turns_text(code);
    std::string piece;
    for (size_t i = 0; i < n; ++i)
      piece += fine ? std::string(1, text[i])
                    : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    if (out.size() + piece.size() > max_bytes) return out + "...";
    out += piece;
    text.remove_prefix(n);
  }
  return out;
}

std::string shown_text(std::string_view text) {
  std::string out;
  while (true) {
    const size_t at = text.find_first_of("\n\t");
    out += shown(text.substr(0, at), std::string::npos);
    if (at == std::string_view::npos) return out;
    out += text[at];
    text.remove_prefix(at + 1);
  }
}

Exit exit_of(const Error& error) {
  switch (error.code) {
    case Code::kOk:
      return kGood;
    case Code::kDevice:  // across the C ABI only code and line travel
      return error.message().starts_with("link: ") ? kDeadline : kUsage;
    case Code::kInvalid:
    case Code::kNoMemory:
      return kUsage;
    case Code::kNotFound:
    case Code::kFailed:
      return says_unreachable(error.message()) ? kUsage : kBad;
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
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error code too
}

void Output::keep_document_alone() {
  if (stdout_closed_) return;
  const int kept = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (kept < 0) return;
  answer_fd_ = kept;
  ::dup2(2, 1);
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

Styled Output::bold(std::string_view text) const {
  static const bool on = [] {
    const char* term = env_terminal();
    return ::isatty(1) == 1 && !env_no_color() && term != nullptr && std::strcmp(term, "dumb") != 0;
  }();
  return {on ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text)};
}

namespace {

Report with_version(Report report) {
  Report whole;
  whole["version"] = 1;
  if (report.is_object())
    for (auto& [key, value] : report.items())
      if (key != "version") whole[key] = std::move(value);
  return whole;
}

}  // namespace

void Output::document(Report report) {
  if (!json_ || document_done_) return;
  document_done_ = true;
  pending_ = to_json_text(with_version(std::move(report))) + "\n";
}

void Output::document_line(Report report) {
  if (!json_ || document_done_) return;
  document_done_ = true;
  pending_ = to_json_text(with_version(std::move(report)), -1) + "\n";
}

void Output::say_line(Level level, const std::string& line) {
  if (progress_open_) {
    write_all(2, "\n");
    progress_open_ = false;
  }
  const char* prefix = level == Level::kError  ? "outrider: "
                       : level == Level::kWarn ? "outrider: warning: "
                                               : "";
  write_all(2, prefix + line + "\n");
}

void Output::progress(std::string_view line, bool last) {
  if (level_ < Level::kInfo) return;
  if (stderr_is_terminal()) {
    write_all(2, fmt::format("\r\x1b[K{}{}", shown(line), last ? "\n" : ""));
    progress_open_ = !last;
    return;
  }
  const double now = now_s();
  if (!last && now - last_progress_s_ < 2) return;
  last_progress_s_ = now;
  write_all(2, shown(line) + "\n");
}

int Output::flush(int status) {
  if (progress_open_) write_all(2, "\n");
  progress_open_ = false;
  if (!pending_.empty() && write_error_ == 0) {
    write_error_ = stdout_closed_ ? EBADF : write_all(answer_fd_, pending_);
    if (write_error_ != 0 && write_error_ != EPIPE)
      say_line(Level::kError, fmt::format("standard output: {}; the answer was not written",
                                          std::strerror(write_error_)));
  }
  pending_.clear();
  return write_error_ == 0 || write_error_ == EPIPE ? status : int{kUsage};
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
