#include "text/unicode.h"

#include <algorithm>

#include "base/assert.h"
#include "base/utf8.h"

namespace outrider {
namespace {

struct Decomposition {
  uint32_t code, first, second;  // second 0: one character only
};
struct Composition {
  uint32_t first, second, code;
};

#include "text/unicode_data.inc"

// Value of the last run that starts at or before `code`.
uint32_t run_value(std::span<const uint32_t> runs, uint32_t code) noexcept {
  const auto behind = std::upper_bound(runs.begin(), runs.end(), code << 8 | 0xFF);
  return behind[-1] & 0xFF;  // the first run starts at 0
}

uint32_t combining_class(uint32_t code) noexcept {
  return code < 0x300 ? 0 : run_value(kCombiningRuns, code);
}

const Decomposition* decomposition(uint32_t code) noexcept {
  const auto at = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                                   [](const Decomposition& d, uint32_t c) { return d.code < c; });
  return at != std::end(kDecompositions) && at->code == code ? at : nullptr;
}

// 0: this pair does not compose.
uint32_t composition(uint32_t first, uint32_t second) noexcept {
  const auto at = std::lower_bound(std::begin(kCompositions), std::end(kCompositions), 0,
                                   [&](const Composition& c, int) {
                                     return c.first != first ? c.first < first : c.second < second;
                                   });
  const bool found = at != std::end(kCompositions) && at->first == first && at->second == second;
  return found ? at->code : 0;
}

constexpr uint32_t kHangul = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28;

// Full canonical decomposition of one character behind codes[n]; returns the new n.
size_t decompose(uint32_t code, std::span<uint32_t> codes, size_t n) noexcept {
  if (code >= kHangul && code < kHangul + kLeads * kVowels * kTails) {
    const uint32_t index = code - kHangul;
    codes[n++] = kLead + index / (kVowels * kTails);
    codes[n++] = kVowel + index % (kVowels * kTails) / kTails;
    if (index % kTails != 0) codes[n++] = kTail + index % kTails;
    return n;
  }
  const Decomposition* form = code < 0xC0 ? nullptr : decomposition(code);
  if (form == nullptr) {
    codes[n++] = code;
    return n;
  }
  n = decompose(form->first, codes, n);              // at most four levels in the standard
  if (form->second != 0) codes[n++] = form->second;  // never decomposes further
  return n;
}

uint32_t compose(uint32_t first, uint32_t second) noexcept {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels)
    return kHangul + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  if (first >= kHangul && first < kHangul + kLeads * kVowels * kTails &&
      (first - kHangul) % kTails == 0 && second > kTail && second < kTail + kTails)
    return first + (second - kTail);
  return composition(first, second);
}

// Stable order of combining classes inside each run of marks. Insertion: runs are short, and the
// bound of a hostile one is cut by kMaxMarks below.
void order_marks(std::span<uint32_t> codes) noexcept {
  constexpr size_t kMaxMarks = 256;  // a longer run is left as it is beyond this reach
  for (size_t i = 1; i < codes.size(); ++i) {
    const uint32_t code = codes[i], weight = combining_class(code);
    if (weight == 0) continue;
    size_t to = i;
    const size_t stop = i > kMaxMarks ? i - kMaxMarks : 0;
    while (to > stop && combining_class(codes[to - 1]) > weight) {
      codes[to] = codes[to - 1];
      --to;
    }
    codes[to] = code;
  }
}

size_t compose_all(std::span<uint32_t> codes) noexcept {
  size_t n = 0, starter = SIZE_MAX;
  uint32_t last_class = 0;  // of what was kept behind the starter; 256 means nothing yet
  for (const uint32_t code : codes) {
    const uint32_t weight = combining_class(code);
    const bool adjacent = starter != SIZE_MAX && n == starter + 1;
    if (starter != SIZE_MAX && (adjacent || last_class < weight)) {
      if (const uint32_t made = compose(codes[starter], code); made != 0) {
        codes[starter] = made;
        continue;
      }
    }
    if (weight == 0) starter = n;
    last_class = weight;
    codes[n++] = code;
  }
  return n;
}

size_t put_utf8(uint32_t code, char* out) noexcept {
  const auto put = [&](size_t i, uint32_t byte) { out[i] = static_cast<char>(byte); };
  if (code < 0x80) return put(0, code), 1;
  if (code < 0x800) return put(0, 0xC0 | code >> 6), put(1, 0x80 | (code & 0x3F)), 2;
  if (code < 0x10000) {
    put(0, 0xE0 | code >> 12), put(1, 0x80 | (code >> 6 & 0x3F)), put(2, 0x80 | (code & 0x3F));
    return 3;
  }
  put(0, 0xF0 | code >> 18), put(1, 0x80 | (code >> 12 & 0x3F));
  put(2, 0x80 | (code >> 6 & 0x3F)), put(3, 0x80 | (code & 0x3F));
  return 4;
}

}  // namespace

Category unicode_category(uint32_t code) noexcept {
  return static_cast<Category>(run_value(kCategoryRuns, code));
}

bool unicode_space(uint32_t code) noexcept {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  if (code < 0x1680) return code == 0x85 || code == 0xA0;
  return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

Character first_character(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

std::string_view to_nfc(std::string_view text, NfcScratch& scratch) noexcept {
  // Below U+0300 (first byte 0xCC) every character is composed and no mark joins it.
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
  if (plain) return text;
  OUTRIDER_ASSERT(3 * text.size() <= scratch.bytes.size());
  size_t n = 0;
  for (std::string_view left = text; !left.empty();) {
    const Character c = first_character(left);
    left.remove_prefix(c.bytes);
    OUTRIDER_ASSERT(n + 4 <= scratch.codes.size());
    n = decompose(c.code, scratch.codes, n);
  }
  const std::span<uint32_t> codes = std::span(scratch.codes).first(n);
  order_marks(codes);
  n = compose_all(codes);
  size_t n_bytes = 0;
  for (size_t i = 0; i < n; ++i) n_bytes += put_utf8(codes[i], scratch.bytes.data() + n_bytes);
  return {scratch.bytes.data(), n_bytes};
}

}  // namespace outrider
