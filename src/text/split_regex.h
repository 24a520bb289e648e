// The regular expressions that cut a text into words before BPE. A subset of the usual syntax:
// alternatives, groups (also (?:...) and (?i:...)), classes with ranges, categories and &&,
// \s \d \p{..}, greedy and possessive ? * + {n} {n,} {n,m}, look-ahead (?=...) and (?!...), ^ and
// $. First alternative that fits, greedy, as Perl has it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/char_class.h"

namespace outrider {

class SplitRegex {
 public:
  static constexpr size_t kMaxPatternBytes = 8192;
  static constexpr size_t kMaxInstructions = 4096;
  static constexpr uint32_t kMaxDepth = 16;     // of groups
  static constexpr uint32_t kMaxRepeat = 1000;  // in {n,m}
  static constexpr size_t kMaxStack = 2048;     // open choices while matching

  // [setup] Errors: kUnsupported naming the byte and what is not known there; kInvalid for a
  // pattern that is none.
  static Result<SplitRegex> compile(std::string_view pattern);

  struct Match {
    size_t begin = 0, end = 0;
  };
  // What one matching may cost, shared by all calls of one encoding.
  struct Budget {
    uint64_t steps = 0;
    bool spent = false;
  };
  // [hot] The leftmost, not empty match at or after `from` in valid UTF-8. False: none, or the
  // budget (or the stack of choices) is spent. No heap.
  bool find(std::string_view text, size_t from, Match& match, Budget& budget) const noexcept;

 private:
  friend class SplitRegexCompiler;
  enum class Op : uint8_t {
    kRepeat,  // class x, min..max times; possessive: never gives back
    kSplit,   // first here, then x
    kJump,    // to x
    kLook,    // what follows up to kLookEnd must match (negated: must not); then to x
    kLookEnd,
    kBegin,
    kEnd,
    kMatch,
  };
  struct Instruction {
    Op op = Op::kMatch;
    bool flag = false;  // possessive, negated
    uint32_t x = 0, min = 1, max = 1;
  };
  static constexpr size_t kNone = SIZE_MAX;
  struct Choice {
    uint32_t pc;
    size_t at, least;  // least < at: the repeat before pc may give back down to this byte
  };
  size_t run(uint32_t pc, std::string_view text, size_t at, Choice* stack, size_t room,
             Budget& budget) const noexcept;
  bool repeat(const Instruction& instruction, std::string_view text, size_t& at, size_t& least,
              Budget& budget) const noexcept;

  std::vector<Instruction> code_;
  std::vector<CharClass> classes_;
};

}  // namespace outrider
