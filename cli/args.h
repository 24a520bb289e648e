// The command line as tables: a flag is a row, a command is a row. Parsing, help, the reference
// page and shell completions all read the same rows.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace outrider::cli {

// One parsed flag value. `text` is what was written; the numbers are set by parsers of numbers.
struct Value {
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// Turns the written text into a value. The error's text says what is allowed ("a whole number from
// 1 to 1000000"); the caller adds flag and value found.
using FlagParser = Result<Value> (*)(std::string_view text);

struct Flag {
  const char* name;        // "--ticks"
  const char* value;       // "N"; nullptr for a switch; in brackets when it may be left out
  const char* by_default;  // written as the user would; nullptr when there is none
  const char* help;        // one sentence
  FlagParser parse;        // nullptr for a switch
  bool repeat = false;     // may be given more than once
};

struct Positional {
  const char* name;  // "FILE"; in brackets when it may be left out
  const char* help;
};

struct Context;

struct Command {
  const char* name;
  const char* summary;                      // one line
  const char* notes;                        // further paragraphs of the help page, may be ""
  const char* example;                      // one line, may be ""
  std::span<const Positional> positionals;  // optional ones last
  std::span<const Flag> flags;              // beyond the flags every command has
  int (*run)(Context& context);
};

// Flags of every command.
std::span<const Flag> common_flags();

// What the user wrote for one command. Asking for a flag that has no row is our own mistake.
class Args {
 public:
  // Errors: kInvalid, one line that names flag, value and fix; an unknown flag names the nearest.
  static Result<Args> parse(const Command& command, std::span<const char* const> words);

  bool given(std::string_view flag) const;               // written by the user
  const std::string& text(std::string_view flag) const;  // default applied; "" when there is none
  int64_t integer(std::string_view flag) const;
  double real(std::string_view flag) const;
  std::vector<std::string> all(std::string_view flag) const;
  // "" when it was left out.
  const std::string& positional(size_t index) const;
  bool help() const { return given("--help"); }

 private:
  const Flag& row(std::string_view flag) const;
  const Command* command_ = nullptr;
  std::map<std::string, std::vector<Value>, std::less<>> values_;  // defaults included
  std::map<std::string, bool, std::less<>> written_;
  std::vector<std::string> positionals_;
};

// The known name with the smallest edit distance to `word`, or nullptr when none is near enough to
// be what was meant (more than a third of the letters differ).
const char* nearest_name(std::string_view word, std::span<const char* const> known);

// Parsers shared by the rows.
Result<Value> parse_text(std::string_view text);            // anything but nothing
Result<Value> parse_any_text(std::string_view text);        // also nothing
Result<Value> parse_count(std::string_view text);           // 1 .. 1000000
Result<Value> parse_threads(std::string_view text);         // 0 .. 1024
Result<Value> parse_seed(std::string_view text);            // 0 .. 2^32 - 1
Result<Value> parse_views(std::string_view text);           // 1 .. 3
Result<Value> parse_seconds(std::string_view text);         // 0 .. 86400
Result<Value> parse_duration(std::string_view text);        // 0.1 .. 86400 seconds
Result<Value> parse_rate(std::string_view text);            // above 0, at most 1000
Result<Value> parse_ms(std::string_view text);              // 0.001 .. 3600000 milliseconds
Result<Value> parse_ticks(std::string_view text);           // 0 .. 1000000
Result<Value> parse_priority(std::string_view text);        // 0 .. 99
Result<Value> parse_cpu(std::string_view text);             // 0 .. 1023
Result<Value> parse_tolerance(std::string_view text);       // finite, >= 0
Result<Value> parse_log_level(std::string_view text);       // error warn info debug
Result<Value> parse_model_size(std::string_view text);      // tiny full
Result<Value> parse_pair(std::string_view text);            // gemma3 qwen25vl smolvlm
Result<Value> parse_driving_layout(std::string_view text);  // queued stateful
Result<Value> parse_weight_type(std::string_view text);     // f32 f16 bf16 q8_0 q4_0 q4_k
Result<Value> parse_shell(std::string_view text);           // bash zsh fish
// KEY=VALUE, of which VALUE may be empty.
Result<Value> parse_setting(std::string_view text);
// NAME=N, N from 1 to 2^26: the number is `integer`, the name stays in `text`.
Result<Value> parse_size(std::string_view text);
// NAME=REST, both parts non-empty.
Result<Value> parse_assignment(std::string_view text);

// Whole text as a number; no locale, no white space, no trailing text. False otherwise.
bool read_integer(std::string_view text, int64_t& out);
bool read_real(std::string_view text, double& out);

}  // namespace outrider::cli
