#include "driving/slices.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "base/printable.h"

namespace outrider::driving {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Lines and blanks are skipped, as exporters break lines after 76 letters.
Result<std::string> base64_decode(std::string_view text) {
  std::array<int8_t, 256> value;
  value.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    value[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  size_t n = 0, n_padding = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_blank(c)) continue;
    const int8_t digit = value[static_cast<uint8_t>(c)];
    if (c == '=' ? (n % 4 < 2 || ++n_padding > 2) : (digit < 0 || n_padding > 0))
      return make_error(Code::kNotFound,
                        "output_slices: byte %zu is '%s', allowed are base64 of a pickle, or JSON",
                        i, printable(text.substr(i, 1)).c_str());
    bits = bits << 6 | static_cast<uint32_t>(c == '=' ? 0 : digit);
    if (++n % 4 != 0) continue;
    for (size_t k = 0; k < 3 - n_padding; ++k)
      out += static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
    bits = 0;
  }
  if (n % 4 != 0)
    return make_error(Code::kNotFound,
                      "output_slices: base64 of %zu letters, allowed is a multiple of 4", n);
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < n ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=';
    if ((i / 3 + 1) % 19 == 0) out += '\n';  // 76 letters a line
  }
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out;
}

Result<std::optional<int64_t>> json_end(const Json& value, const std::string& name) {
  if (value.is_null()) return std::optional<int64_t>();
  if (value.is_number() && value.is_integer()) return std::optional<int64_t>(value.integer());
  return make_error(Code::kNotFound, "output_slices: %s: allowed are integers and null",
                    printable(name).c_str());
}

Result<RawSlices> slices_of_json(std::string_view text) {
  auto json =
      Json::parse(text, Json::Dialect::kStandard,
                  {.max_bytes = kMaxSlicesBytes, .max_depth = 4, .max_values = 8 * kMaxSlices});
  if (!json) return make_error(Code::kNotFound, "output_slices: %s", json.error().text);
  RawSlices slices;
  for (const Json::Member& member : json.value().members()) {
    const auto& items = member.value.items();
    if (!member.value.is_array() || items.size() < 2 || items.size() > 3)
      return make_error(Code::kNotFound, "output_slices: %s: allowed is [start, stop]",
                        printable(member.name).c_str());
    RawSlice slice;
    std::optional<int64_t>* const ends[] = {&slice.start, &slice.stop, &slice.step};
    for (size_t i = 0; i < items.size(); ++i) {
      auto end = json_end(items[i], member.name);
      if (!end) return end.error();
      *ends[i] = end.value();
    }
    slices.emplace_back(member.name, slice);
  }
  return slices;
}

Result<void> check_names(const RawSlices& slices) {
  if (slices.empty() || slices.size() > kMaxSlices)
    return make_error(Code::kNotFound, "output_slices: %zu slices, allowed are 1..%zu",
                      slices.size(), kMaxSlices);
  std::set<std::string_view> seen;
  for (const auto& entry : slices) {
    const std::string& name = entry.first;
    const bool plain = std::ranges::all_of(
        name, [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
    if (name.empty() || name.size() > kMaxSliceNameBytes || !plain)
      return make_error(Code::kNotFound,
                        "output_slices: the name \"%s\", allowed are 1..%zu printable letters",
                        printable(name).c_str(), kMaxSliceNameBytes);
    if (!seen.insert(name).second)
      return make_error(Code::kNotFound, "output_slices: \"%s\" occurs twice", name.c_str());
  }
  return {};
}

// ---- writing ------------------------------------------------------------------------------------

// The shortest integer instruction, as Python picks it; ends are never negative here.
void put_int(std::string& out, int64_t value) {
  const auto bytes = [&](char op, int n) {
    out += op;
    for (int i = 0; i < n; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  if (value <= 0xFF)
    bytes('K', 1);
  else if (value <= 0xFFFF)
    bytes('M', 2);
  else
    bytes('J', 4);
}

void put_text(std::string& out, std::string_view text) {
  out += '\x8c';
  out += static_cast<char>(text.size());
  out += text;
}

}  // namespace

Result<RawSlices> decode_slices(std::string_view text) {
  if (text.size() > kMaxSlicesBytes)
    return make_error(Code::kNotFound, "output_slices: %zu bytes, allowed %zu", text.size(),
                      kMaxSlicesBytes);
  const auto first = std::ranges::find_if_not(text, is_blank);
  Result<RawSlices> slices = RawSlices{};
  if (first != text.end() && *first == '{') {
    slices = slices_of_json(text);
  } else {
    auto pickle = base64_decode(text);
    if (!pickle) return pickle.error();
    slices = unpickle_slices(pickle.value());
  }
  if (!slices) return slices;
  OUTRIDER_TRY(check_names(slices.value()));
  return slices;
}

Result<Range> resolve_slice(const RawSlice& slice, int64_t n) {
  if (slice.step && *slice.step != 1)
    return make_error(Code::kNotFound, "step %lld, allowed is 1",
                      static_cast<long long>(*slice.step));
  const auto resolve = [n](const std::optional<int64_t>& at, int64_t absent) {
    if (!at) return absent;
    // n is a size, so n + a negative number cannot overflow.
    return std::clamp<int64_t>(*at < 0 ? *at + n : *at, 0, n);
  };
  const Range range{resolve(slice.start, 0), resolve(slice.stop, n)};
  return range.end > range.begin ? range : Range{range.begin, range.begin};
}

std::string encode_slices(const std::vector<NamedRange>& slices) {
  std::string body = "}(";
  for (const NamedRange& slice : slices) {
    put_text(body, slice.name);
    put_text(body, "builtins");
    put_text(body, "slice");
    body += '\x93';
    put_int(body, slice.range.begin);
    put_int(body, slice.range.end);
    body += "N\x87R";
  }
  body += "u.";
  std::string pickle = "\x80\x04\x95";
  for (size_t i = 0; i < 8; ++i) pickle += static_cast<char>(body.size() >> (8 * i) & 0xFF);
  return base64_encode(pickle + body);
}

}  // namespace outrider::driving
