// Where words go. Standard output carries the answer: text for people, or with --json exactly one
// JSON document, also when the command fails. Everything else goes to standard error.
#pragma once
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/json.h"
#include "base/result.h"
#include "cli/args.h"

namespace outrider::cli {

using Report = nlohmann::ordered_json;

// Exit status of every command.
enum Exit : int {
  kGood = 0,      // done, and good
  kBad = 1,       // checked and found bad, or refused
  kUsage = 2,     // usage or environment
  kDeadline = 3,  // a deadline or a link failed
};
// The status that goes with an error: what the user must change (flags, machine, a file that cannot
// be reached) is kUsage, what was looked at and refused is kBad. A file that is missing and one
// that is damaged have one code; across the C ABI only code and line travel, so the verb at the
// beginning of the line ("cannot open", ...) tells them apart.
Exit exit_of(const Error& error);

// Text from outside for a terminal: control bytes, bytes that are not UTF-8 and the invisible marks
// that turn a line around become \xNN; longer than max_bytes is cut and ends in "...".
std::string shown(std::string_view text, size_t max_bytes = 2000);

// The same for a text of several lines: newlines and tabs stay. Never cut.
std::string shown_text(std::string_view text);

// Text that carries our own control codes and is shown as it is.
struct Styled {
  std::string text;
};
inline std::string operator+(const Styled& a, std::string_view b) {
  return a.text + std::string(b);
}
inline std::string operator+(std::string_view a, const Styled& b) {
  return std::string(a) + b.text;
}

namespace detail {
inline std::string clean(const Styled& value) {
  return value.text;
}
template <class T>
auto clean(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return shown(std::string_view(value));
  else
    return value;
}
// Every text among the values is made fit for a terminal here, so that no caller can forget it.
template <class... Ts>
std::string format_clean(fmt::string_view format, const Ts&... values) {
  const auto cleaned = std::make_tuple(clean(values)...);
  return std::apply(
      [&](const auto&... each) { return fmt::vformat(format, fmt::make_format_args(each...)); },
      cleaned);
}
}  // namespace detail
template <class T>
using Shown = decltype(detail::clean(std::declval<const T&>()));

enum class Level : uint8_t { kError, kWarn, kInfo, kDebug };

class Output {
 public:
  // Fills the closed ones of the descriptors 0 to 2, so that no file of ours lands on them, and
  // makes a broken pipe an error code instead of a signal.
  void claim_descriptors();
  // With --json: what libraries print to descriptor 1 goes to standard error from here on; the
  // document alone goes where descriptor 1 led.
  void keep_document_alone();

  void set_level(std::string_view name);
  void set_json(bool on) { json_ = on; }
  bool json() const { return json_; }
  int answer_descriptor() const { return answer_fd_; }
  bool stderr_is_terminal() const;
  // Bold on a terminal, unless NO_COLOR is set or the terminal is dumb.
  Styled bold(std::string_view text) const;

  // Text for people: kept until flush, dropped when --json is on. Texts among the values are
  // cleaned (see shown); lines of our own making go through lines().
  template <class... Ts>
  void text(fmt::format_string<Shown<Ts>...> format, const Ts&... values) {
    if (!json_) pending_ += detail::format_clean(format, values...);
  }
  void lines(std::string_view text) {
    if (!json_) pending_ += text;
  }
  // Text that is the answer itself, whatever --json says (help pages, completions).
  void raw(std::string_view text) { pending_ += text; }
  // The one document. `version` is put first. Ignored unless --json is on.
  void document(Report report);
  // The one document as one line, for commands that go on after it: follow with flush.
  void document_line(Report report);

  // One line on standard error.
  template <class... Ts>
  void say(Level level, fmt::format_string<Shown<Ts>...> format, const Ts&... values) {
    if (level <= level_) say_line(level, detail::format_clean(format, values...));
  }
  // Rewrites one line on a terminal; elsewhere at most one line every two seconds.
  void progress(std::string_view line, bool last = false);

  // Writes what is pending. A broken pipe is quiet; a full disk or a closed descriptor is said once
  // and turns `status` into kUsage, of this call and of all that follow.
  int flush(int status);
  // Did all that was flushed arrive? false also when the reader of a pipe is gone.
  bool arrived() const { return write_error_ == 0; }

 private:
  void say_line(Level level, const std::string& line);

  bool json_ = false, stdout_closed_ = false, document_done_ = false, progress_open_ = false;
  Level level_ = Level::kInfo;
  int answer_fd_ = 1;
  int write_error_ = 0;  // the first errno; nothing is written after it
  double last_progress_s_ = -1e9;
  std::string pending_;
};

struct Context {
  const Args& args;
  Output& out;

  // Says the error, and as the document when --json is on. Returns the exit status.
  int fail(const Error& error) const { return fail(error, exit_of(error)); }
  int fail(const Error& error, Exit status) const;
};

// "{"version":1,"error":{...}}": the document of every failure.
Report error_document(const Error& error, Exit status);

// What base/json.h read, as part of a report. Integers stay integers.
Report report_of(const Json& json);
// A JSON literal of our own (a number or a quoted string); null when it is none.
Report report_of_literal(std::string_view literal);

// Text as one JSON literal, and whole documents as text: invalid UTF-8 is replaced, never thrown
// at.
std::string to_json_text(const Report& report, int indent = 2);

}  // namespace outrider::cli
