#include "text/split_regex.h"

namespace outrider {

bool SplitRegex::find(std::string_view text, size_t from, Match& match,
                      Budget& budget) const noexcept {
  Choice stack[kMaxStack];
  for (size_t at = from; at < text.size();) {
    const size_t end = run(0, text, at, stack, kMaxStack, budget);
    if (budget.spent) return false;
    if (end != kNone && end > at) {
      match = {at, end};
      return true;
    }
    at += first_character(text.substr(at)).bytes;
  }
  return false;
}

// Takes as many characters as it may. `least`: how far back it may give.
bool SplitRegex::repeat(const Instruction& instruction, std::string_view text, size_t& at,
                        size_t& least, Budget& budget) const noexcept {
  const CharClass& wanted = classes_[instruction.x];
  uint32_t n = 0;
  const size_t start = at;
  while (n < instruction.max && at < text.size()) {
    const Character c = first_character(text.substr(at));
    if (!wanted.contains(c.code)) break;
    at += c.bytes;
    if (++n == instruction.min) least = at;
  }
  if (budget.steps < n + 1) {
    budget.spent = true;
    return false;
  }
  budget.steps -= n + 1;
  if (instruction.min == 0) least = start;
  return n >= instruction.min;
}

size_t SplitRegex::run(uint32_t pc, std::string_view text, size_t at, Choice* stack, size_t room,
                       Budget& budget) const noexcept {
  size_t n_open = 0;
  const auto push = [&](Choice choice) {
    if (n_open == room) return budget.spent = true, false;
    stack[n_open++] = choice;
    return true;
  };
  while (true) {
    bool fits = true;
    if (budget.steps == 0) budget.spent = true;
    if (budget.spent) return kNone;
    --budget.steps;
    const Instruction& now = code_[pc];
    switch (now.op) {
      case Op::kMatch:
      case Op::kLookEnd:
        return at;
      case Op::kRepeat: {
        size_t least = at;
        fits = repeat(now, text, at, least, budget);
        ++pc;
        if (fits && !now.flag && least < at && !push({pc, at, least})) return kNone;
        break;
      }
      case Op::kSplit:
        if (!push({now.x, at, at})) return kNone;
        ++pc;
        break;
      case Op::kJump:
        pc = now.x;
        break;
      case Op::kLook: {
        const size_t end = run(pc + 1, text, at, stack + n_open, room - n_open, budget);
        fits = (end != kNone) != now.flag;
        pc = now.x;
        break;
      }
      case Op::kBegin:
        fits = at == 0;
        ++pc;
        break;
      case Op::kEnd:
        fits = at == text.size();
        ++pc;
        break;
    }
    if (fits) continue;
    if (n_open == 0) return kNone;
    Choice& last = stack[n_open - 1];
    pc = last.pc;
    if (last.least < last.at) {  // give one character back
      do --last.at;
      while ((static_cast<uint8_t>(text[last.at]) & 0xC0) == 0x80);
      at = last.at;
      if (last.at <= last.least) --n_open;
    } else {
      at = last.at;
      --n_open;
    }
  }
}

}  // namespace outrider
