#include "cli/args.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/nearest.h"

namespace outrider::cli {
namespace {

constexpr Flag kCommonFlags[] = {
    {"--help", nullptr, nullptr, "Show this page.", nullptr},
    {"--log-level", "LEVEL", "info",
     "How much to say on standard error: error, warn, info or debug.", parse_log_level},
};

Error usage(const std::string& text) {
  return make_error(Code::kInvalid, "%s", text.c_str());
}

std::string in_quotes(std::string_view word) {
  // Control bytes of a hostile argument must not reach a terminal.
  std::string out = "\"";
  for (char c : word.substr(0, 120))
    out += (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) ? '?' : c;
  return out + (word.size() > 120 ? "...\"" : "\"");
}

// How it is called: a command of outrider, or a program of its own.
std::string invocation(const Command& command) {
  const std::string name = command.name;
  return name.starts_with("outrider") ? name : "outrider " + name;
}

const Flag* find_flag(const Command& command, std::string_view name) {
  for (const Flag& flag : command.flags)
    if (name == flag.name) return &flag;
  for (const Flag& flag : kCommonFlags)
    if (name == flag.name) return &flag;
  return nullptr;
}

Error unknown_flag(const Command& command, std::string_view name) {
  std::vector<const char*> known;
  for (const Flag& flag : command.flags) known.push_back(flag.name);
  for (const Flag& flag : kCommonFlags) known.push_back(flag.name);
  std::string text = std::string(command.name) + ": unknown flag " + in_quotes(name);
  if (const char* near = nearest_name(name, known))
    text += "; did you mean " + std::string(near) + "?";
  return usage(text + " (" + invocation(command) + " --help lists the flags)");
}

Result<Value> integer_between(std::string_view text, int64_t low, int64_t high) {
  Value value{std::string(text), 0, 0};
  if (!read_integer(text, value.integer) || value.integer < low || value.integer > high)
    return make_error(Code::kInvalid, "a whole number from %lld to %lld",
                      static_cast<long long>(low), static_cast<long long>(high));
  value.real = static_cast<double>(value.integer);
  return value;
}

Result<Value> one_of(std::string_view text, std::span<const char* const> allowed) {
  std::string list;
  for (const char* word : allowed) {
    if (text == word) return Value{std::string(text), 0, 0};
    list += (list.empty() ? "" : ", ") + std::string(word);
  }
  return make_error(Code::kInvalid, "one of %s", list.c_str());
}

}  // namespace

std::span<const Flag> common_flags() {
  return kCommonFlags;
}

bool read_integer(std::string_view text, int64_t& out) {
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end && !text.empty();
}

bool read_real(std::string_view text, double& out) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end && !text.empty();
}

const char* nearest_name(std::string_view word, std::span<const char* const> known) {
  return outrider::nearest_name(word, known);
}

Result<Args> Args::parse(const Command& command, std::span<const char* const> words) {
  Args args;
  args.command_ = &command;
  bool flags_over = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!flags_over && word == "--") {
      flags_over = true;
      continue;
    }
    if (flags_over || word.size() < 2 || word[0] != '-') {
      args.positionals_.emplace_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const bool joined = word.starts_with("--") && equals != std::string_view::npos;
    std::string_view name = joined ? word.substr(0, equals) : word;
    if (name == "-h") name = "--help";
    const Flag* flag = find_flag(command, name);
    if (flag == nullptr) return unknown_flag(command, name);
    if (flag->parse == nullptr) {
      if (joined) return usage(std::string(command.name) + ": " + flag->name + " takes no value");
      args.written_[flag->name] = true;
      continue;
    }
    const bool alone = i + 1 == words.size() || std::string_view(words[i + 1]).starts_with("--");
    if (!joined && flag->value[0] == '[' && alone) {  // its value may be left out
      args.written_[flag->name] = true;
      continue;
    }
    if (!joined && i + 1 == words.size())
      return usage(std::string(command.name) + ": " + flag->name + " needs a value: " + flag->name +
                   " " + flag->value);
    const std::string_view text = joined ? word.substr(equals + 1) : std::string_view(words[++i]);
    auto value = flag->parse(text);
    if (!value)
      return usage(std::string(command.name) + ": " + flag->name + ": found " + in_quotes(text) +
                   ", wanted " + value.error().text);
    if (args.written_[flag->name] && !flag->repeat)
      return usage(std::string(command.name) + ": " + flag->name + " is given twice; give it once");
    args.written_[flag->name] = true;
    args.values_[flag->name].push_back(std::move(value.value()));
  }
  if (args.help()) return args;
  const size_t n_wanted = command.positionals.size();
  if (args.positionals_.size() < n_wanted &&
      command.positionals[args.positionals_.size()].name[0] != '[')
    return usage(std::string(command.name) + ": " +
                 command.positionals[args.positionals_.size()].name + " is missing (" +
                 invocation(command) + " --help)");
  if (args.positionals_.size() > n_wanted)
    return usage(std::string(command.name) + ": " + in_quotes(args.positionals_[n_wanted]) +
                 " is one argument too many (" + invocation(command) + " --help)");
  auto apply_default = [&](const Flag& flag) {
    if (flag.parse == nullptr || flag.by_default == nullptr || args.written_.contains(flag.name))
      return;
    auto value = flag.parse(flag.by_default);
    OUTRIDER_ASSERT(value);  // a default that its own parser refuses is a broken row
    args.values_[flag.name].push_back(std::move(value.value()));
  };
  for (const Flag& flag : command.flags) apply_default(flag);
  for (const Flag& flag : kCommonFlags) apply_default(flag);
  return args;
}

const std::string& Args::positional(size_t index) const {
  static const std::string kNone;
  OUTRIDER_ASSERT(index < command_->positionals.size());
  return index < positionals_.size() ? positionals_[index] : kNone;
}

const Flag& Args::row(std::string_view flag) const {
  const Flag* found = find_flag(*command_, flag);
  OUTRIDER_ASSERT(found != nullptr);
  return *found;
}

bool Args::given(std::string_view flag) const {
  row(flag);
  return written_.find(flag) != written_.end();
}

const std::string& Args::text(std::string_view flag) const {
  static const std::string kNone;
  row(flag);
  const auto found = values_.find(flag);
  return found == values_.end() ? kNone : found->second.back().text;
}

int64_t Args::integer(std::string_view flag) const {
  row(flag);
  const auto found = values_.find(flag);
  return found == values_.end() ? 0 : found->second.back().integer;
}

double Args::real(std::string_view flag) const {
  row(flag);
  const auto found = values_.find(flag);
  return found == values_.end() ? 0 : found->second.back().real;
}

std::vector<std::string> Args::all(std::string_view flag) const {
  row(flag);
  std::vector<std::string> out;
  const auto found = values_.find(flag);
  if (found != values_.end())
    for (const Value& value : found->second) out.push_back(value.text);
  return out;
}

Result<Value> parse_any_text(std::string_view text) {
  return Value{std::string(text), 0, 0};
}
Result<Value> parse_text(std::string_view text) {
  if (text.empty()) return make_error(Code::kInvalid, "text that is not empty");
  return Value{std::string(text), 0, 0};
}
Result<Value> parse_count(std::string_view text) {
  return integer_between(text, 1, 1000000);
}
Result<Value> parse_threads(std::string_view text) {
  return integer_between(text, 0, 1024);
}
Result<Value> parse_seed(std::string_view text) {
  return integer_between(text, 0, UINT32_MAX);
}
Result<Value> parse_views(std::string_view text) {
  return integer_between(text, 1, 3);
}

static Result<Value> real_between(std::string_view text, double low, double high,
                                  const char* wanted) {
  Value value{std::string(text), 0, 0};
  if (!read_real(text, value.real) || !std::isfinite(value.real) || value.real < low ||
      value.real > high)
    return make_error(Code::kInvalid, "%s", wanted);
  value.integer = static_cast<int64_t>(std::min(value.real, 9e15));
  return value;
}
Result<Value> parse_seconds(std::string_view text) {
  return real_between(text, 0, 86400, "seconds from 0 to 86400");
}
Result<Value> parse_duration(std::string_view text) {
  return real_between(text, 0.1, 86400, "seconds from 0.1 to 86400");
}
Result<Value> parse_rate(std::string_view text) {
  return real_between(text, 1e-3, 1000, "ticks a second from 0.001 to 1000");
}
Result<Value> parse_ms(std::string_view text) {
  return real_between(text, 1e-3, 3.6e6, "milliseconds from 0.001 to 3600000");
}
Result<Value> parse_ticks(std::string_view text) {
  return integer_between(text, 0, 1000000);
}
Result<Value> parse_priority(std::string_view text) {
  return integer_between(text, 0, 99);
}
Result<Value> parse_cpu(std::string_view text) {
  return integer_between(text, 0, 1023);
}
Result<Value> parse_size(std::string_view text) {
  const size_t at = text.find('=');
  int64_t n = 0;
  if (at == std::string_view::npos || at == 0 || !read_integer(text.substr(at + 1), n) || n < 1 ||
      n > (1 << 26))
    return make_error(Code::kInvalid, "NAME=N with N from 1 to 67108864");
  return Value{std::string(text), n, 0};
}
Result<Value> parse_tolerance(std::string_view text) {
  return real_between(text, 0, 1e30, "a finite number, 0 or more");
}
Result<Value> parse_log_level(std::string_view text) {
  static constexpr const char* kLevels[] = {"error", "warn", "info", "debug"};
  return one_of(text, kLevels);
}
Result<Value> parse_model_size(std::string_view text) {
  static constexpr const char* kSizes[] = {"tiny", "full"};
  return one_of(text, kSizes);
}
Result<Value> parse_driving_layout(std::string_view text) {
  static constexpr const char* kLayouts[] = {"queued", "stateful"};
  return one_of(text, kLayouts);
}
Result<Value> parse_weight_type(std::string_view text) {
  static constexpr const char* kTypes[] = {"f32",  "f16",  "bf16", "q8_0", "q4_0", "q4_1", "q5_0",
                                           "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"};
  return one_of(text, kTypes);
}
Result<Value> parse_pair(std::string_view text) {
  static constexpr const char* kPairs[] = {"gemma3", "qwen25vl", "smolvlm"};
  return one_of(text, kPairs);
}
Result<Value> parse_shell(std::string_view text) {
  static constexpr const char* kShells[] = {"bash", "zsh", "fish"};
  return one_of(text, kShells);
}
Result<Value> parse_setting(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return make_error(Code::kInvalid, "KEY=VALUE");
  return Value{std::string(text), 0, 0};
}

Result<Value> parse_assignment(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    return make_error(Code::kInvalid, "two parts joined by =");
  return Value{std::string(text), 0, 0};
}

}  // namespace outrider::cli
