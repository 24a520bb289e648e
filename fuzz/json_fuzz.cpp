// Both dialects of the JSON reader. What it accepts must keep its limits, hold well-formed UTF-8
// and unique names, and read the same again after being written out; what it refuses has a message.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/json.h"
#include "base/utf8.h"

namespace outrider {
namespace {

constexpr size_t kMaxDepth = 16, kMaxValues = 256, kMaxBytes = 4000;

void write_string(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      // The five that every dialect can escape; the standard one may hold others.
      constexpr std::string_view kBytes = "\b\f\n\r\t", kLetters = "bfnrt";
      if (const size_t i = kBytes.find(c); i != kBytes.npos) {
        out += '\\';
        out += kLetters[i];
      } else {
        char unit[8];
        std::snprintf(unit, sizeof unit, "\\u%04x", static_cast<unsigned>(c));
        out += unit;
      }
    } else {
      out += c;
    }
  }
  out += '"';
}

void write(const Json& json, std::string& out) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      out += "null";
      return;
    case Json::Kind::kBool:
      out += json.boolean() ? "true" : "false";
      return;
    case Json::Kind::kNumber:
      out += json.text();
      return;
    case Json::Kind::kString:
      write_string(json.text(), out);
      return;
    case Json::Kind::kArray:
      out += '[';
      for (size_t i = 0; i < json.items().size(); ++i) {
        if (i > 0) out += ',';
        write(json.items()[i], out);
      }
      out += ']';
      return;
    case Json::Kind::kObject:
      out += '{';
      for (size_t i = 0; i < json.members().size(); ++i) {
        if (i > 0) out += ',';
        write_string(json.members()[i].name, out);
        out += ':';
        write(json.members()[i].value, out);
      }
      out += '}';
      return;
  }
}

// Checks a value and everything in it; counts the values.
size_t check(const Json& json, size_t depth) {
  const bool container = json.is_array() || json.is_object();
  OUTRIDER_ASSERT(depth + (container ? 1 : 0) <= kMaxDepth);
  OUTRIDER_ASSERT(utf8_valid(json.text()));
  OUTRIDER_ASSERT(json.line() >= 1);
  size_t n_values = 1;
  for (const Json& item : json.items()) n_values += check(item, depth + 1);
  std::set<std::string_view> names;
  for (const Json::Member& member : json.members()) {
    OUTRIDER_ASSERT(utf8_valid(member.name));
    OUTRIDER_ASSERT(names.insert(member.name).second);
    OUTRIDER_ASSERT(json.find(member.name) == &member.value);
    n_values += check(member.value, depth + 1);
  }
  return n_values;
}

void check_flat(const Json& json) {
  OUTRIDER_ASSERT(json.is_object() && !json.members().empty());
  for (const Json::Member& member : json.members()) {
    OUTRIDER_ASSERT(member.value.is_string() || member.value.is_number());
  }
}

void try_dialect(std::string_view text, Json::Dialect dialect) {
  const Json::Limits limits{
      .max_bytes = kMaxBytes, .max_depth = kMaxDepth, .max_values = kMaxValues};
  const Result<Json> first = Json::parse(text, dialect, limits);
  if (!first) {
    OUTRIDER_ASSERT(first.error().message().starts_with("json: "));
    OUTRIDER_ASSERT(first.error().message().find('\n') == std::string_view::npos);
    return;
  }
  OUTRIDER_ASSERT(text.size() <= kMaxBytes);
  OUTRIDER_ASSERT(check(first.value(), 0) <= kMaxValues);
  if (dialect == Json::Dialect::kFlatOpen) check_flat(first.value());
  std::string written, again;
  write(first.value(), written);
  const Result<Json> second = Json::parse(written, dialect);
  OUTRIDER_ASSERT(bool(second));
  write(second.value(), again);
  OUTRIDER_ASSERT(written == again);
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  outrider::try_dialect(text, outrider::Json::Dialect::kStandard);
  outrider::try_dialect(text, outrider::Json::Dialect::kFlatOpen);
  return 0;
}
