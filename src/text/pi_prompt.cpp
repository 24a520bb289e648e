#include "text/pi_prompt.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/utf8.h"
#include "text/lower_case.h"

namespace outrider {
namespace {

// What the reference's trim (Python's str.strip) takes for white space.
bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// The code point of one well-formed sequence of 1 .. 4 bytes.
uint32_t code_point(std::string_view sequence) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7Fu >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  return code;
}

// Bytes of the white-space character at the front or the back of `text`, 0 when there is none.
size_t space_in_front(std::string_view text) {
  const size_t n = utf8_sequence_bytes(text);
  return n > 0 && is_space(code_point(text.substr(0, n))) ? n : 0;
}
size_t space_at_back(std::string_view text) {
  for (size_t n = 1; n <= std::min<size_t>(4, text.size()); ++n) {
    const std::string_view tail = text.substr(text.size() - n);
    if (utf8_sequence_bytes(tail) == n) return is_space(code_point(tail)) ? n : 0;
  }
  return 0;
}

// Counts every byte, stores those that fit.
struct TextSink {
  std::span<char> out;
  size_t n_bytes = 0;
  void put(std::string_view text) noexcept {
    const size_t room = n_bytes < out.size() ? out.size() - n_bytes : 0;
    if (const size_t n = std::min(room, text.size()); n > 0)
      std::memcpy(out.data() + n_bytes, text.data(), n);
    n_bytes += text.size();
  }
};

int reference_bin(double value) noexcept {
  if (std::isnan(value)) return 255;
  const auto edge = [](int k) { return -1.0 + k / 128.0; };
  const int bin = static_cast<int>(std::clamp(std::floor((value + 1) * 128), -1.0, 255.0));
  // The sum may round up onto an edge that the value lies below; it never rounds down past one,
  // because every edge plus one is a double itself.
  return bin >= 0 && edge(bin) > value ? bin - 1 : bin;
}

int jetson_bin(float x) noexcept {
  if (x < -1.0f) return -1;
  if (x >= 1.0f) return 255;
  if (std::isnan(x)) return 0;  // callers refuse it; defined here so that no cast overflows
  return std::clamp(static_cast<int>(std::floor((x + 1.0f) * 128.0f)), 0, 255);
}

// bin: number of the i-th state value. tail: what follows the state.
template <class Bin>
size_t write_text(std::string_view instruction, size_t n_state, Bin&& bin, std::string_view tail,
                  std::span<char> out) noexcept {
  TextSink sink{out};
  sink.put("Task: ");
  sink.put(instruction);
  sink.put(", State: ");
  for (size_t i = 0; i < n_state; ++i) {
    char number[4];  // "-1" .. "255"
    const auto end = std::to_chars(number, number + sizeof(number), bin(i)).ptr;
    if (i > 0) sink.put(" ");
    sink.put({number, static_cast<size_t>(end - number)});
  }
  sink.put(tail);
  return sink.n_bytes;
}

constexpr std::string_view kPi05Tail = ";\nAction: ", kFastTail = ";\n";

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  while (const size_t n = space_in_front(text)) text.remove_prefix(n);
  while (const size_t n = space_at_back(text)) text.remove_suffix(n);
  return text;
}

int state_bin(float x, StateBins rule) noexcept {
  return rule == StateBins::kReference ? reference_bin(x) : jetson_bin(x);
}
int state_bin(double x) noexcept {
  return reference_bin(x);
}

std::string clean_instruction(std::string_view text) {
  std::string cleaned(text.size(), ' ');
  cleaned.resize(clean_instruction(text, cleaned));
  return cleaned;
}

size_t clean_instruction(std::string_view text, std::span<char> out) noexcept {
  text = trimmed(text);
  OUTRIDER_ASSERT(text.size() <= out.size());
  std::replace_copy_if(
      text.begin(), text.end(), out.begin(), [](char c) { return c == '_' || c == '\n'; }, ' ');
  return text.size();
}

size_t clean_fast_instruction(std::string_view text, std::span<char> out) noexcept {
  const std::string_view kept = trimmed({out.data(), lower_case(text, out)});
  std::memmove(out.data(), kept.data(), kept.size());
  std::replace(out.begin(), out.begin() + static_cast<int64_t>(kept.size()), '_', ' ');
  return kept.size();
}

size_t write_pi05_text(std::string_view instruction, std::span<const float> state, StateBins rule,
                       std::span<char> out) noexcept {
  return write_text(
      instruction, state.size(), [&](size_t i) { return state_bin(state[i], rule); }, kPi05Tail,
      out);
}

size_t write_pi05_text(std::string_view instruction, std::span<const double> state,
                       std::span<char> out) noexcept {
  return write_text(
      instruction, state.size(), [&](size_t i) { return state_bin(state[i]); }, kPi05Tail, out);
}

size_t write_fast_text(std::string_view instruction, std::span<const double> state,
                       std::span<char> out) noexcept {
  return write_text(
      instruction, state.size(), [&](size_t i) { return state_bin(state[i]); }, kFastTail, out);
}

SpmTokenizer::Encoded encode_pi0(const SpmTokenizer& tokenizer, std::string_view prompt,
                                 SpmTokenizer::Scratch& scratch, std::span<int32_t> ids) noexcept {
  const std::span<int32_t> rest = ids.empty() ? ids : ids.subspan(1);
  const auto text = tokenizer.encode(prompt, {}, scratch, rest);
  if (text.code != Code::kOk) return text;
  if (!ids.empty()) ids[0] = kPiBos;
  if (text.n_ids < rest.size()) rest[text.n_ids] = kPiNewline;
  return {Code::kOk, text.n_ids + 2};
}

SpmTokenizer::Encoded encode_pi05(const SpmTokenizer& tokenizer, std::string_view text,
                                  SpmTokenizer::Scratch& scratch, std::span<int32_t> ids) noexcept {
  int32_t first = -1;  // of the text, also when the caller's storage has no room for it
  std::span<int32_t> rest = ids.size() > 1 ? ids.subspan(1) : std::span(&first, 1);
  const auto encoded = tokenizer.encode(text, {}, scratch, rest);
  if (encoded.code != Code::kOk) return encoded;
  if (encoded.n_ids > 0 && rest[0] == kPiBos) return tokenizer.encode(text, {}, scratch, ids);
  if (!ids.empty()) ids[0] = kPiBos;
  return {Code::kOk, encoded.n_ids + 1};
}

}  // namespace outrider
