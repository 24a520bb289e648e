// From the text of a split pattern to instructions: one pass, each construct emits its own.
#include <algorithm>
#include <array>
#include <new>

#include "base/utf8.h"
#include "text/split_regex.h"

namespace outrider {
namespace {

constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

uint32_t categories_named(std::string_view name) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kCategoryNames.size(); ++i)
    if (kCategoryNames[i] == name || (name.size() == 1 && kCategoryNames[i][0] == name[0]))
      bits |= uint32_t{1} << i;
  return bits;
}

}  // namespace

class SplitRegexCompiler {
 public:
  explicit SplitRegexCompiler(std::string_view pattern) : pattern_(pattern) {}

  Result<SplitRegex> compile() {
    if (pattern_.size() > SplitRegex::kMaxPatternBytes)
      return make_error(Code::kUnsupported, "split pattern: %zu bytes, at most %zu",
                        pattern_.size(), SplitRegex::kMaxPatternBytes);
    if (!utf8_valid(pattern_)) return make_error(Code::kInvalid, "split pattern: not UTF-8");
    bool empty = false;
    if (!alternatives(0, empty)) return error_;
    if (at_ < pattern_.size()) {
      fail(Code::kInvalid, "a ) that closes nothing");
      return error_;
    }
    emit({Op::kMatch, false, 0, 1, 1});
    if (error_.code != Code::kOk) return error_;
    for (CharClass& c : regex_.classes_) c.seal();
    return std::move(regex_);
  }

 private:
  using Op = SplitRegex::Op;
  using Instruction = SplitRegex::Instruction;

  bool fail(Code code, const char* what) {
    if (error_.code == Code::kOk)
      error_ = make_error(code, "split pattern: byte %zu of %zu: %s", at_, pattern_.size(), what);
    return false;
  }
  bool more() const { return at_ < pattern_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take_character() {
    const Character c = first_character(pattern_.substr(at_));
    at_ += c.bytes;
    return c.code;
  }

  uint32_t here() const { return static_cast<uint32_t>(regex_.code_.size()); }
  bool emit(const Instruction& instruction) {
    if (regex_.code_.size() >= SplitRegex::kMaxInstructions)
      return fail(Code::kUnsupported, "more instructions than this build allows");
    regex_.code_.push_back(instruction);
    return true;
  }
  // Makes room for one instruction in front of what begins at `from`.
  bool emit_before(uint32_t from, const Instruction& instruction) {
    if (!emit(instruction)) return false;
    auto& code = regex_.code_;
    std::rotate(code.begin() + from, code.end() - 1, code.end());
    for (uint32_t i = from + 1; i < here(); ++i)
      if (code[i].op != Op::kRepeat && code[i].x >= from) ++code[i].x;
    return true;
  }

  // `empty`: whether what was read can match nothing at all.
  bool alternatives(uint32_t depth, bool& empty) {
    if (depth > SplitRegex::kMaxDepth)
      return fail(Code::kUnsupported, "groups nested deeper than 16");
    std::vector<uint32_t> jumps;
    uint32_t start = here();
    if (!sequence(depth, empty)) return false;
    while (take("|")) {
      // split start -> [this][jump end] next
      if (!emit({Op::kJump, false, 0, 1, 1})) return false;
      if (!emit_before(start, {Op::kSplit, false, 0, 1, 1})) return false;
      for (uint32_t& jump : jumps) jump += jump >= start ? 1 : 0;
      jumps.push_back(here() - 1);
      regex_.code_[start].x = here();
      start = here();
      bool this_empty = false;
      if (!sequence(depth, this_empty)) return false;
      empty = empty || this_empty;
    }
    for (const uint32_t jump : jumps) regex_.code_[jump].x = here();
    return true;
  }

  bool sequence(uint32_t depth, bool& empty) {
    empty = true;
    while (more() && peek() != '|' && peek() != ')') {
      bool part_empty = true;
      if (!repeated(depth, part_empty)) return false;
      empty = empty && part_empty;
    }
    return true;
  }

  struct Count {
    uint32_t min = 1, max = 1;
    bool given = false, possessive = false;
  };
  bool count(Count& out) {
    if (take("?")) {
      out = {0, 1, true, false};
    } else if (take("*")) {
      out = {0, UINT32_MAX, true, false};
    } else if (take("+")) {
      out = {1, UINT32_MAX, true, false};
    } else if (peek() == '{') {
      ++at_;
      out.given = true;
      if (!number(out.min)) return false;
      out.max = out.min;
      if (take(",")) {
        out.max = UINT32_MAX;
        if (peek() != '}' && !number(out.max)) return false;
      }
      if (!take("}")) return fail(Code::kInvalid, "a count without its }");
      if (out.max < out.min) return fail(Code::kInvalid, "a count whose end is below its start");
    }
    if (!out.given) return true;
    if (peek() == '?') return fail(Code::kUnsupported, "a lazy quantifier");
    out.possessive = take("+");
    return true;
  }
  bool number(uint32_t& out) {
    out = 0;
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9' && out <= SplitRegex::kMaxRepeat)
      out = out * 10 + static_cast<uint32_t>(pattern_[at_++] - '0');
    if (at_ == start) return fail(Code::kInvalid, "a count without a number");
    return out <= SplitRegex::kMaxRepeat || fail(Code::kUnsupported, "a count above 1000");
  }

  bool repeated(uint32_t depth, bool& empty) {
    const uint32_t start = here();
    if (take("^")) return emit({Op::kBegin, false, 0, 1, 1});
    if (take("$")) return emit({Op::kEnd, false, 0, 1, 1});
    if (peek() == '(') {
      if (!group(depth, empty)) return false;
      Count times;
      if (!count(times)) return false;
      if (times.given && !repeat_group(start, times, empty)) return false;
      empty = empty || (times.given && times.min == 0);
      return true;
    }
    CharClass wanted;
    if (!single(wanted)) return false;
    Count times;
    if (!count(times)) return false;
    empty = times.min == 0;
    regex_.classes_.push_back(std::move(wanted));
    const auto x = static_cast<uint32_t>(regex_.classes_.size() - 1);
    return emit({Op::kRepeat, times.possessive, x, times.min, times.max});
  }

  bool group(uint32_t depth, bool& empty) {
    ++at_;
    const bool outer_fold = fold_;
    bool look = false, negated = false;
    if (take("?:")) {
    } else if (take("?i:")) {
      fold_ = true;
    } else if (take("?=")) {
      look = true;
    } else if (take("?!")) {
      look = negated = true;
    } else if (peek() == '?') {
      return fail(Code::kUnsupported, "a group of a kind that this build does not know");
    }
    const uint32_t start = here();
    if (look && !emit({Op::kLook, negated, 0, 1, 1})) return false;
    if (!alternatives(depth + 1, empty)) return false;
    empty = empty || look;
    if (!take(")")) return fail(Code::kInvalid, "a group without its )");
    fold_ = outer_fold;
    if (look) {
      if (!emit({Op::kLookEnd, false, 0, 1, 1})) return false;
      regex_.code_[start].x = here();
    }
    return true;
  }

  // ? of anything; * and + of what cannot be empty (an empty round would never end).
  bool repeat_group(uint32_t start, const Count& times, bool empty) {
    if (times.possessive) return fail(Code::kUnsupported, "a possessive group");
    const bool once = times.min == 0 && times.max == 1;
    const bool many = times.max == UINT32_MAX && times.min <= 1;
    if (!once && !many) return fail(Code::kUnsupported, "a counted group");
    if (many && empty) return fail(Code::kUnsupported, "a repeated empty group");
    if (many) {
      const uint32_t behind = here() + 2;  // [body] split behind, jump start
      if (!emit({Op::kSplit, false, behind, 1, 1}) || !emit({Op::kJump, false, start, 1, 1}))
        return false;
    }
    if (times.min == 1) return true;
    if (!emit_before(start, {Op::kSplit, false, 0, 1, 1})) return false;
    regex_.code_[start].x = here();
    if (many) regex_.code_[here() - 1].x = start + 1;  // rounds go on behind the new split
    return true;
  }
  bool single(CharClass& out) {
    if (peek() == '[') return bracket(out, 0);
    if (peek() == '\\') {
      if (!escape(out)) return false;
    } else if (take(".")) {
      out.add_range('\n', '\n');
      out.negate();
    } else if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      return fail(Code::kInvalid, "a quantifier behind nothing");
    } else {
      const uint32_t code = take_character();
      out.add_range(code, code);
    }
    if (fold_) out.fold_ascii_case();
    return true;
  }

  bool bracket(CharClass& out, uint32_t depth) {
    if (depth > SplitRegex::kMaxDepth) return fail(Code::kUnsupported, "classes nested too deep");
    ++at_;
    const bool negated = take("^");
    bool first = true;
    while (more() && (peek() != ']' || first)) {
      if (take("&&")) {
        if (peek() != '[') return fail(Code::kUnsupported, "&& without a class behind it");
        CharClass with;
        if (!bracket(with, depth + 1)) return false;
        out.intersect(std::move(with));
      } else if (peek() == '[' && peek(1) != ':') {
        return fail(Code::kUnsupported, "a class inside a class");
      } else if (peek() == '[') {
        return fail(Code::kUnsupported, "a named class");
      } else if (!member(out)) {
        return false;
      }
      first = false;
    }
    if (!take("]")) return fail(Code::kInvalid, "a class without its ]");
    if (fold_) out.fold_ascii_case();
    if (negated) out.negate();
    return true;
  }

  bool member(CharClass& out) {
    uint32_t first = 0;
    if (peek() == '\\') {
      if (!is_character_escape()) return escape(out);
      if (!character_escape(first)) return false;
    } else {
      first = take_character();
    }
    uint32_t last = first;
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < pattern_.size()) {
      ++at_;
      if (peek() == '\\') {
        if (!is_character_escape()) return fail(Code::kInvalid, "a range that ends in a class");
        if (!character_escape(last)) return false;
      } else {
        last = take_character();
      }
      if (last < first) return fail(Code::kInvalid, "a range whose end is below its start");
    }
    out.add_range(first, last);
    return true;
  }

  bool is_character_escape() const {
    const char c = peek(1);
    return c != 's' && c != 'S' && c != 'd' && c != 'D' && c != 'p' && c != 'P';
  }
  bool character_escape(uint32_t& code) {
    ++at_;
    constexpr std::string_view kNames = "nrtfv0", kValues = "\n\r\t\f\v";
    const char c = peek();
    if (!more()) return fail(Code::kInvalid, "an escape of nothing");
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      ++at_;
      code = i < kValues.size() ? static_cast<uint32_t>(kValues[i]) : 0;
      return true;
    }
    if (c == 'u' || c == 'x') return hex_escape(code);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9'))
      return fail(Code::kUnsupported, "an escape that this build does not know");
    code = take_character();
    return true;
  }
  bool hex_escape(uint32_t& code) {
    size_t n = pattern_[at_++] == 'u' ? 4 : 2;
    const bool braces = take("{");
    if (braces) n = 6;
    code = 0;
    size_t i = 0;
    for (; i < n && more(); ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      code = code * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    if (i == 0 || (!braces && i != n) || (braces && !take("}")) || code > 0x10FFFF)
      return fail(Code::kInvalid, "a number of a character that is none");
    return true;
  }

  bool escape(CharClass& out) {
    const char c = peek(1);
    CharClass::Term term;
    if (is_character_escape()) {
      uint32_t code = 0;
      if (!character_escape(code)) return false;
      out.add_range(code, code);
      return true;
    }
    at_ += 2;
    term.negated = c == 'S' || c == 'D' || c == 'P';
    if (c == 's' || c == 'S') {
      term.space = true;
    } else if (c == 'd' || c == 'D') {
      term.categories = categories_named("Nd");
    } else {
      std::string_view name = pattern_.substr(at_, 1);
      if (take("{")) {
        const size_t end = pattern_.find('}', at_);
        if (end == pattern_.npos) return fail(Code::kInvalid, "\\p{ without its }");
        name = pattern_.substr(at_, end - at_);
        at_ = end + 1;
      } else {
        at_ += name.size();
      }
      term.categories = categories_named(name);
      if (term.categories == 0)
        return fail(Code::kUnsupported, "a property other than a general category");
    }
    out.add(term);
    return true;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool fold_ = false;
  Error error_;
  SplitRegex regex_;
};

Result<SplitRegex> SplitRegex::compile(std::string_view pattern) {
  try {
    return SplitRegexCompiler(pattern).compile();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "split pattern: no memory");
  }
}

}  // namespace outrider
