#include "text/json_grammar.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/printable.h"
#include "text/integer_grammar.h"

namespace outrider {
namespace {

using Part = ByteNfa::Part;

// Say nothing about which values are good.
constexpr std::string_view kAnnotations[] = {
    "title", "description", "default",    "examples", "$schema",   "$id",    "$comment",
    "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "format", "$anchor"};
constexpr std::string_view kKnown[] = {"type",
                                       "enum",
                                       "const",
                                       "anyOf",
                                       "allOf",
                                       "$ref",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum"};

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

class Compiler {
 public:
  Compiler(const Json& root, const JsonGrammarLimits& limits, ByteNfa& nfa)
      : root_(root), limits_(limits), nfa_(nfa) {}

  Result<Part> run() {
    auto body = value(root_, "#", 0);
    if (!body) return body;
    return nfa_.then(nfa_.maybe(nfa_.bytes(" ")), body.value());
  }

 private:
  static Error bad(const std::string& where, const std::string& what, Code code = Code::kInvalid) {
    return make_error(code, "schema %.120s: %.300s", printable(where, 100).c_str(),
                      printable(what, 280).c_str());
  }
  Error unsupported(const std::string& where, std::string_view keyword) const {
    return bad(where,
               "this build does not know the keyword \"" + std::string(keyword) +
                   "\"; the list is in docs/reference/text.md",
               Code::kUnsupported);
  }

  Result<Part> value(const Json& schema, const std::string& where, uint32_t depth) {
    if (depth > limits_.max_depth)
      return bad(where, "nested deeper than max_depth " + std::to_string(limits_.max_depth) +
                            ", or refers to itself");
    if (nfa_.full()) return bad(where, "more parts than max_states allows");
    if (schema.is_bool()) {
      if (!schema.boolean()) return bad(where, "false: no value follows it");
      return anything(limits_.free_depth);
    }
    if (!schema.is_object()) return bad(where, "wanted an object or true");
    for (const Json::Member& member : schema.members())
      if (!among(kAnnotations, member.name) && !among(kKnown, member.name))
        return unsupported(where, member.name);
    // These stand alone: a mixture would have to be intersected.
    for (const char* alone : {"$ref", "anyOf", "allOf"}) {
      if (schema.find(alone) == nullptr) continue;
      for (const Json::Member& member : schema.members())
        if (member.name != alone && among(kKnown, member.name))
          return bad(where, std::string(alone) + " beside \"" + member.name + "\"",
                     Code::kUnsupported);
    }
    if (const Json* ref = schema.find("$ref")) return reference(*ref, where, depth);
    if (const Json* any = schema.find("anyOf")) return any_of(*any, where, depth);
    if (const Json* all = schema.find("allOf")) {
      if (!all->is_array() || all->items().size() != 1)
        return bad(where, "allOf of more than one", Code::kUnsupported);
      return value(all->items()[0], where + "/allOf/0", depth + 1);
    }
    if (const Json* constant = schema.find("const"))
      return listed(std::span(constant, 1), schema, where);
    if (const Json* list = schema.find("enum")) {
      if (!list->is_array()) return bad(where, "enum: wanted a list");
      return listed(list->items(), schema, where);
    }
    return typed(schema, where, depth);
  }

  // "#/$defs/name": by members only.
  Result<Part> reference(const Json& ref, const std::string& where, uint32_t depth) {
    const Json* at = &root_;
    std::string_view path = ref.is_string() ? std::string_view(ref.text()) : "";
    if (path.substr(0, 1) != "#") return bad(where, "$ref: wanted \"#/...\"", Code::kUnsupported);
    path.remove_prefix(1);
    while (!path.empty()) {
      path.remove_prefix(1);
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(name.size());
      at = at->find(name);
      if (at == nullptr) return bad(where, "$ref " + ref.text() + ": nothing is there");
    }
    return value(*at, ref.text(), depth + 1);
  }

  Result<Part> any_of(const Json& list, const std::string& where, uint32_t depth) {
    if (!list.is_array() || list.items().empty()) return bad(where, "anyOf: wanted a list");
    std::vector<Part> parts;
    for (size_t i = 0; i < list.items().size(); ++i) {
      auto part = value(list.items()[i], where + "/anyOf/" + std::to_string(i), depth + 1);
      if (!part) return part;
      parts.push_back(part.value());
    }
    return nfa_.either(parts);
  }

  Result<std::vector<std::string>> types_of(const Json& schema, const std::string& where) const {
    const Json* type = schema.find("type");
    std::vector<std::string> types;
    if (type == nullptr) {
      if (schema.find("properties") != nullptr) types.emplace_back("object");
      if (schema.find("items") != nullptr || schema.find("prefixItems") != nullptr)
        types.emplace_back("array");
      return types;
    }
    if (type->is_string()) types.push_back(type->text());
    if (type->is_array())
      for (const Json& item : type->items()) types.push_back(item.text());
    constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                           "integer", "boolean", "null"};
    for (const std::string& name : types)
      if (!among(kTypes, name)) return bad(where, "type: \"" + name + "\" is none");
    if (types.empty()) return bad(where, "type: wanted a name or a list of names");
    return types;
  }

  // Values written out, in any of the types that the schema names.
  Result<Part> listed(std::span<const Json> values, const Json& schema, const std::string& where) {
    auto types = types_of(schema, where);
    if (!types) return types.error();
    std::vector<Part> parts;
    for (const Json& one : values) {
      if (nfa_.full()) break;
      const auto fits = [&](const std::string& type) {
        switch (one.kind()) {
          case Json::Kind::kNull:
            return type == "null";
          case Json::Kind::kBool:
            return type == "boolean";
          case Json::Kind::kString:
            return type == "string";
          case Json::Kind::kArray:
            return type == "array";
          case Json::Kind::kObject:
            return type == "object";
          case Json::Kind::kNumber:
            break;
        }
        return type == "number" || (type == "integer" && one.number() == std::floor(one.number()));
      };
      if (schema.find("type") == nullptr ||
          std::any_of(types.value().begin(), types.value().end(), fits))
        parts.push_back(literal(one));
    }
    if (parts.empty()) return bad(where, "no value of enum or const has the type");
    return nfa_.either(parts);
  }

  Result<Part> typed(const Json& schema, const std::string& where, uint32_t depth) {
    auto types = types_of(schema, where);
    if (!types) return types.error();
    if (types.value().empty()) {
      for (const Json::Member& member : schema.members())
        if (among(kKnown, member.name)) return bad(where, "\"" + member.name + "\" without a type");
      return anything(limits_.free_depth);
    }
    std::vector<Part> parts;
    for (const std::string& type : types.value()) {
      auto part = type == "object"    ? object(schema, where, depth)
                  : type == "array"   ? array(schema, where, depth)
                  : type == "string"  ? string_of(schema, where)
                  : type == "integer" ? integer(schema, where)
                  : type == "number"  ? number_of(schema, where)
                  : type == "boolean"
                      ? Result<Part>(nfa_.either({nfa_.bytes("true"), nfa_.bytes("false")}))
                      : Result<Part>(nfa_.bytes("null"));
      if (!part) return part;
      parts.push_back(part.value());
    }
    return nfa_.either(parts);
  }

  // A whole number of at least 0 under this key; `absent` when there is none.
  Result<uint32_t> count(const Json& schema, const char* key, uint32_t absent,
                         const std::string& where) {
    const Json* given = schema.find(key);
    if (given == nullptr) return absent;
    if (!given->is_integer() || given->integer() < 0 || given->integer() > 1'000'000)
      return bad(where, std::string(key) + ": wanted 0 .. 1000000");
    return static_cast<uint32_t>(given->integer());
  }
  Result<std::pair<uint32_t, uint32_t>> counts(const Json& schema, const char* low,
                                               const char* high, const std::string& where) {
    const auto min = count(schema, low, 0, where);
    if (!min) return min.error();
    const auto max = count(schema, high, UINT32_MAX, where);
    if (!max) return max.error();
    if (max.value() < min.value()) return bad(where, std::string(high) + " is below " + low);
    return std::pair{min.value(), max.value()};
  }

  Part comma() { return nfa_.then(nfa_.bytes(","), nfa_.maybe(nfa_.bytes(" "))); }
  Part named(std::string_view name, Part value_part) {
    const Part key = nfa_.then(string_literal(name), nfa_.bytes(":"));
    return nfa_.then(nfa_.then(key, nfa_.maybe(nfa_.bytes(" "))), value_part);
  }

  Result<Part> object(const Json& schema, const std::string& where, uint32_t depth) {
    const Json* properties = schema.find("properties");
    const Json* required = schema.find("required");
    const Json* additional = schema.find("additionalProperties");
    if (properties != nullptr && !properties->is_object())
      return bad(where, "properties: wanted an object");
    const bool free = properties == nullptr || properties->members().empty();
    if (required != nullptr) {
      if (!required->is_array()) return bad(where, "required: wanted a list");
      for (const Json& name : required->items())
        if (!name.is_string() || free || properties->find(name.text()) == nullptr)
          return bad(where, "required: \"" + name.text() + "\" is not among the properties");
    }
    if (free) {
      if (additional != nullptr && additional->is_bool() && !additional->boolean())
        return nfa_.bytes("{}");
      if (properties != nullptr && additional == nullptr) return nfa_.bytes("{}");
      return map_of(additional, where, depth);
    }
    if (additional != nullptr && !additional->is_bool())
      return bad(where, "additionalProperties with a schema beside properties", Code::kUnsupported);
    return members(*properties, required, where, depth);
  }

  // Two rows of states: nothing written yet, or something, so that a comma is due.
  Result<Part> members(const Json& properties, const Json* required, const std::string& where,
                       uint32_t depth) {
    Part none = nfa_.bytes("{");
    Part some{};
    bool has_none = true, has_some = false;
    for (const Json::Member& member : properties.members()) {
      const auto is_it = [&](const Json& name) { return name.text() == member.name; };
      const bool needed = required != nullptr &&
                          std::any_of(required->items().begin(), required->items().end(), is_it);
      const std::string inner = where + "/properties/" + member.name;
      std::vector<Part> ways;  // into "something"
      for (const bool first : {true, false}) {
        if (first ? !has_none : !has_some) continue;
        auto body = value(member.value, inner, depth + 1);
        if (!body) return body;
        const Part entry = named(member.name, body.value());
        ways.push_back(first ? nfa_.then({none.first, none.last}, entry)
                             : nfa_.then(some, nfa_.then(comma(), entry)));
      }
      if (!needed && has_some) ways.push_back({some.last, some.last});
      // The ways begin at states of their own rows: only their ends are joined.
      const Part end = nfa_.nothing();
      for (const Part& way : ways) nfa_.then(way, end);
      some = {none.first, end.last};
      has_some = true;
      if (needed) has_none = false;
    }
    const Part close = nfa_.bytes("}");
    nfa_.then(some, close);
    if (has_none) nfa_.then(none, close);
    return Part{none.first, close.last};
  }

  // {"any key": value, ...}
  Result<Part> map_of(const Json* additional, const std::string& where, uint32_t depth) {
    const auto entry = [&]() -> Result<Part> {
      const bool has_schema = additional != nullptr && additional->is_object();
      auto body = has_schema ? value(*additional, where + "/additionalProperties", depth + 1)
                             : anything(limits_.free_depth);
      if (!body) return body;
      const Part key = nfa_.then(string(0, UINT32_MAX), nfa_.bytes(":"));
      return nfa_.then(nfa_.then(key, nfa_.maybe(nfa_.bytes(" "))), body.value());
    };
    auto first = entry();
    if (!first) return first;
    auto other = entry();
    if (!other) return other;
    const Part all = nfa_.then(first.value(), nfa_.many(nfa_.then(comma(), other.value())));
    return nfa_.then(nfa_.then(nfa_.bytes("{"), nfa_.maybe(all)), nfa_.bytes("}"));
  }

  Result<Part> array(const Json& schema, const std::string& where, uint32_t depth) {
    const auto range = counts(schema, "minItems", "maxItems", where);
    if (!range) return range.error();
    const auto [min, max] = range.value();
    const Json* prefix = schema.find("prefixItems");
    const Json* items = schema.find("items");
    if (prefix != nullptr) return tuple(*prefix, items, min, max, where, depth);
    Error failure;
    const auto item = [&] {
      auto part = items == nullptr ? anything(limits_.free_depth)
                                   : value(*items, where + "/items", depth + 1);
      if (part) return part.value();
      if (failure.code == Code::kOk) failure = part.error();
      return nfa_.nothing();
    };
    Part body = nfa_.nothing();
    if (max > 0) {
      const Part first = item();
      const auto another = [&] { return nfa_.then(comma(), item()); };
      body = nfa_.then(first,
                       nfa_.repeat(min > 0 ? min - 1 : 0, max == UINT32_MAX ? max : max - 1, [&] {
                         return failure.code == Code::kOk ? another() : nfa_.nothing();
                       }));
      if (min == 0) body = nfa_.maybe(body);
    }
    if (failure.code != Code::kOk) return failure;
    return nfa_.then(nfa_.then(nfa_.bytes("["), body), nfa_.bytes("]"));
  }

  // Exactly the items of the prefix: what a fixed number of different things is written as.
  Result<Part> tuple(const Json& prefix, const Json* items, uint32_t min, uint32_t max,
                     const std::string& where, uint32_t depth) {
    const size_t n = prefix.items().size();
    const bool closed = items != nullptr && items->is_bool() && !items->boolean();
    if (!prefix.is_array() || n == 0) return bad(where, "prefixItems: wanted a list");
    if ((items != nullptr && !closed) || min > n || max < n || (!closed && max != n))
      return bad(where, "prefixItems without \"items\": false and with other counts than its own",
                 Code::kUnsupported);
    Part all = nfa_.bytes("[");
    for (size_t i = 0; i < n; ++i) {
      auto part = value(prefix.items()[i], where + "/prefixItems/" + std::to_string(i), depth + 1);
      if (!part) return part;
      if (i > 0) all = nfa_.then(all, comma());
      all = nfa_.then(all, part.value());
    }
    return nfa_.then(all, nfa_.bytes("]"));
  }

  Result<Part> string_of(const Json& schema, const std::string& where) {
    const auto range = counts(schema, "minLength", "maxLength", where);
    if (!range) return range.error();
    return string(range.value().first, range.value().second);
  }

  Result<Part> integer(const Json& schema, const std::string& where) {
    int64_t low = -kMaxInteger, high = kMaxInteger;
    const auto bound = [&](const char* key, bool lower, bool exclusive) -> Result<void> {
      const Json* given = schema.find(key);
      if (given == nullptr) return {};
      if (!given->is_number() || !(std::fabs(given->number()) <= 9e17))
        return bad(where, std::string(key) + ": wanted a number within 18 digits");
      const double edge = lower ? std::ceil(given->number()) : std::floor(given->number());
      int64_t at = given->is_integer() ? given->integer() : static_cast<int64_t>(edge);
      if (exclusive && static_cast<double>(at) == given->number()) at += lower ? 1 : -1;
      if (lower) low = std::max(low, at);
      if (!lower) high = std::min(high, at);
      return {};
    };
    OUTRIDER_TRY(bound("minimum", true, false));
    OUTRIDER_TRY(bound("exclusiveMinimum", true, true));
    OUTRIDER_TRY(bound("maximum", false, false));
    OUTRIDER_TRY(bound("exclusiveMaximum", false, true));
    if (low > high) return bad(where, "no integer lies between minimum and maximum");
    return integer_between(nfa_, low, high);
  }

  Result<Part> number_of(const Json& schema, const std::string& where) {
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
      if (schema.find(key) != nullptr)
        return bad(where, std::string(key) + " of a number that is no integer: not in this build",
                   Code::kUnsupported);
    return number();
  }

  Part digits(uint32_t min, uint32_t max) {
    return nfa_.repeat(min, max, [&] { return nfa_.range('0', '9'); });
  }
  Part number() {
    const Part whole =
        nfa_.either({nfa_.bytes("0"), nfa_.then(nfa_.range('1', '9'), digits(0, 14))});
    const Part fraction = nfa_.maybe(nfa_.then(nfa_.bytes("."), digits(1, 15)));
    const Part sign = nfa_.maybe(nfa_.any_of("+-"));
    const Part exponent = nfa_.maybe(nfa_.then(nfa_.any_of("eE"), nfa_.then(sign, digits(1, 2))));
    return nfa_.then(nfa_.then(nfa_.maybe(nfa_.bytes("-")), whole), nfa_.then(fraction, exponent));
  }

  Part hex(uint32_t n) {
    return nfa_.repeat(n, n, [&] { return nfa_.any_of("0123456789abcdefABCDEF"); });
  }
  Part rest(uint32_t n) {
    return nfa_.repeat(n, n, [&] { return nfa_.range(0x80, 0xBF); });
  }
  // One character of a string, as it stands or escaped; a pair of surrogate escapes is one.
  Part character() {
    const auto lead = [&](uint8_t low, uint8_t high, Part tail) {
      return nfa_.then(nfa_.range(low, high), tail);
    };
    const Part plain = nfa_.either(
        {nfa_.range(0x20, 0x21), nfa_.range(0x23, 0x5B), nfa_.range(0x5D, 0x7F),
         lead(0xC2, 0xDF, rest(1)), lead(0xE0, 0xE0, nfa_.then(nfa_.range(0xA0, 0xBF), rest(1))),
         lead(0xE1, 0xEC, rest(2)), lead(0xED, 0xED, nfa_.then(nfa_.range(0x80, 0x9F), rest(1))),
         lead(0xEE, 0xEF, rest(2)), lead(0xF0, 0xF0, nfa_.then(nfa_.range(0x90, 0xBF), rest(2))),
         lead(0xF1, 0xF3, rest(3)), lead(0xF4, 0xF4, nfa_.then(nfa_.range(0x80, 0x8F), rest(2)))});
    const Part unit = nfa_.then(nfa_.any_of("0123456789abcefABCEF"), hex(3));
    const Part unit_d = nfa_.then(nfa_.any_of("dD"), nfa_.then(nfa_.range('0', '7'), hex(2)));
    const Part high = nfa_.then(nfa_.any_of("dD"), nfa_.then(nfa_.any_of("89abAB"), hex(2)));
    const Part low = nfa_.then(nfa_.any_of("dD"), nfa_.then(nfa_.any_of("cdefCDEF"), hex(2)));
    const Part pair = nfa_.then(high, nfa_.then(nfa_.bytes("\\u"), low));
    const Part code = nfa_.then(nfa_.bytes("u"), nfa_.either({unit, unit_d, pair}));
    const Part escape = nfa_.then(nfa_.bytes("\\"), nfa_.either({nfa_.any_of("\"\\/bfnrt"), code}));
    return nfa_.either({plain, escape});
  }
  Part string(uint32_t min, uint32_t max) {
    const Part body = nfa_.repeat(min, max, [&] { return character(); });
    return nfa_.then(nfa_.then(nfa_.bytes("\""), body), nfa_.bytes("\""));
  }

  // Any JSON with at most `depth` containers inside each other.
  Part anything(uint32_t depth) {
    std::vector<Part> parts{nfa_.bytes("null"), nfa_.bytes("true"), nfa_.bytes("false"), number(),
                            string(0, UINT32_MAX)};
    if (depth > 0 && !nfa_.full()) {
      const auto list = [&](std::string_view open, std::string_view close, auto&& item) {
        const Part first = item();
        const Part all = nfa_.then(first, nfa_.many(nfa_.then(comma(), item())));
        return nfa_.then(nfa_.then(nfa_.bytes(open), nfa_.maybe(all)), nfa_.bytes(close));
      };
      parts.push_back(list("[", "]", [&] { return anything(depth - 1); }));
      parts.push_back(list("{", "}", [&] {
        const Part key = nfa_.then(string(0, UINT32_MAX), nfa_.bytes(":"));
        return nfa_.then(nfa_.then(key, nfa_.maybe(nfa_.bytes(" "))), anything(depth - 1));
      }));
    }
    return nfa_.either(parts);
  }

  // The text as it stands between quotes, escaped only where it must be.
  Part string_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      constexpr std::string_view kBytes = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
      if (const size_t i = kBytes.find(c); i != kBytes.npos) {
        out += '\\';
        out += kLetters[i];
      } else if (static_cast<uint8_t>(c) < 0x20) {
        char unit[8];
        std::snprintf(unit, sizeof unit, "\\u%04x", static_cast<unsigned>(c));
        out += unit;
      } else {
        out += c;
      }
    }
    return nfa_.bytes(out + "\"");
  }

  Part literal(const Json& json) {
    switch (json.kind()) {
      case Json::Kind::kNull:
        return nfa_.bytes("null");
      case Json::Kind::kBool:
        return nfa_.bytes(json.boolean() ? "true" : "false");
      case Json::Kind::kNumber:
        return nfa_.bytes(json.text());
      case Json::Kind::kString:
        return string_literal(json.text());
      case Json::Kind::kArray: {
        Part all = nfa_.bytes("[");
        for (size_t i = 0; i < json.items().size() && !nfa_.full(); ++i) {
          if (i > 0) all = nfa_.then(all, comma());
          all = nfa_.then(all, literal(json.items()[i]));
        }
        return nfa_.then(all, nfa_.bytes("]"));
      }
      case Json::Kind::kObject:
        break;
    }
    Part all = nfa_.bytes("{");
    for (size_t i = 0; i < json.members().size() && !nfa_.full(); ++i) {
      if (i > 0) all = nfa_.then(all, comma());
      all = nfa_.then(all, named(json.members()[i].name, literal(json.members()[i].value)));
    }
    return nfa_.then(all, nfa_.bytes("}"));
  }

  const Json& root_;
  const JsonGrammarLimits& limits_;
  ByteNfa& nfa_;
};

}  // namespace

Result<ByteNfa::Part> json_grammar(const Json& schema, const JsonGrammarLimits& limits,
                                   ByteNfa& nfa) {
  return Compiler(schema, limits, nfa).run();
}

}  // namespace outrider
