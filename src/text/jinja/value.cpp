#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace outrider::jinja {
namespace {

constexpr int kMaxDepth = 64;

}  // namespace

Value Value::boolean(bool value) {
  Value out(Kind::kBool);
  out.integer_ = value ? 1 : 0;
  return out;
}
Value Value::integer(int64_t value) {
  Value out(Kind::kInteger);
  out.integer_ = value;
  return out;
}
Value Value::real(double value) {
  Value out(Kind::kReal);
  out.real_ = value;
  return out;
}
Value Value::text(MarkedText value) {
  Value out(Kind::kText);
  out.text_ = std::make_shared<const MarkedText>(std::move(value));
  return out;
}
Value Value::list(List items) {
  Value out(Kind::kList);
  out.list_ = std::make_shared<const List>(std::move(items));
  return out;
}
Value Value::dict(Dict members, Kind kind) {
  Value out(kind);
  out.dict_ = std::make_shared<Dict>(std::move(members));
  return out;
}
Value Value::macro(const Node* node) {
  Value out(Kind::kMacro);
  out.node_ = node;
  return out;
}
Value Value::function(Function which) {
  Value out(Kind::kFunction);
  out.integer_ = static_cast<int64_t>(which);
  return out;
}

Value Value::from_json(const Json& json) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      return none();
    case Json::Kind::kBool:
      return boolean(json.boolean());
    case Json::Kind::kNumber:
      return json.is_integer() ? integer(json.integer()) : real(json.number());
    case Json::Kind::kString:
      return text(MarkedText(json.text(), true));
    case Json::Kind::kArray: {
      List items;
      for (const Json& item : json.items()) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case Json::Kind::kObject:
      break;
  }
  Dict members;
  for (const Json::Member& member : json.members())
    members.emplace_back(member.name, from_json(member.value));
  return dict(std::move(members));
}

bool Value::truth() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return integer_ != 0;
    case Kind::kReal:
      return real_ != 0;
    case Kind::kText:
      return !text_->empty();
    case Kind::kList:
      return !list_->empty();
    case Kind::kDict:
      return !dict_->empty();
    default:
      return true;
  }
}

const Value* Value::find(const std::string& name) const {
  for (const auto& [key, value] : *dict_)
    if (key == name) return &value;
  return nullptr;
}

bool Value::equals(const Value& other, int depth) const {
  if (depth > kMaxDepth) return false;
  if (is_number() && other.is_number()) {
    if (!is(Kind::kReal) && !other.is(Kind::kReal)) return integer_ == other.integer_;
    return as_real() == other.as_real();
  }
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      return text_->text() == other.text_->text();
    case Kind::kList:
      return std::equal(list_->begin(), list_->end(), other.list_->begin(), other.list_->end(),
                        [&](const Value& a, const Value& b) { return a.equals(b, depth + 1); });
    case Kind::kDict:
      return dict_->size() == other.dict_->size() &&
             std::all_of(dict_->begin(), dict_->end(), [&](const auto& member) {
               const Value* there = other.find(member.first);
               return there != nullptr && member.second.equals(*there, depth + 1);
             });
    case Kind::kNamespace:
      return dict_ == other.dict_;
    case Kind::kMacro:
      return node_ == other.node_;
    default:
      return integer_ == other.integer_;
  }
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"undefined",   "none",     "a boolean", "an integer",
                                    "a float",     "a string", "a list",    "a mapping",
                                    "a namespace", "a macro",  "a function"};
  return kNames[static_cast<size_t>(kind_)];
}

MarkedText Value::printed(int depth) const {
  if (is(Kind::kText)) return *text_;
  return MarkedText(represented(depth));
}

// Texts inside lists come out as Python writes them, and foreign as a whole: see evaluator.
std::string Value::represented(int depth) const {
  if (depth > kMaxDepth) return "...";
  switch (kind_) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return integer_ != 0 ? "True" : "False";
    case Kind::kInteger:
      return std::to_string(integer_);
    case Kind::kReal:
      return printed_real(real_);
    case Kind::kText: {
      const bool single = text_->text().find('\'') == std::string::npos ||
                          text_->text().find('"') != std::string::npos;
      const char quote = single ? '\'' : '"';
      std::string out(1, quote);
      for (const char c : text_->text()) {
        if (c == quote || c == '\\') {
          out += '\\';
          out += c;
        } else if (c == '\n') {
          out += "\\n";
        } else if (c == '\t') {
          out += "\\t";
        } else if (c == '\r') {
          out += "\\r";
        } else {
          out += c;
        }
      }
      return out + quote;
    }
    case Kind::kList: {
      std::string out = "[";
      for (const Value& item : *list_)
        out += (out.size() > 1 ? ", " : "") + item.represented(depth + 1);
      return out + "]";
    }
    case Kind::kDict: {
      std::string out = "{";
      for (const auto& [key, value] : *dict_)
        out += (out.size() > 1 ? ", " : "") + text(key).represented(depth + 1) + ": " +
               value.represented(depth + 1);
      return out + "}";
    }
    default:
      return std::string("<") + type_name() + ">";
  }
}

std::string printed_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(buffer, end.ptr);
  if (fixed && out.find('.') == std::string::npos) out += ".0";
  return out;
}

namespace {

void json_string(const std::string& text, bool ascii, std::string& out) {
  out += '"';
  for (std::string_view left = text; !left.empty();) {
    const Character c = first_character(left);
    constexpr std::string_view kBytes = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    char unit[16];
    if (const size_t i = c.code < 0x80 ? kBytes.find(static_cast<char>(c.code)) : kBytes.npos;
        i != kBytes.npos) {
      out += '\\';
      out += kLetters[i];
    } else if (c.code < 0x20 || (ascii && c.code > 0x7E && c.code < 0x10000)) {
      std::snprintf(unit, sizeof unit, "\\u%04x", c.code);
      out += unit;
    } else if (ascii && c.code >= 0x10000) {
      const uint32_t high = 0xD800 + ((c.code - 0x10000) >> 10);
      std::snprintf(unit, sizeof unit, "\\u%04x\\u%04x", high, 0xDC00 + (c.code & 0x3FF));
      out += unit;
    } else {
      out += left.substr(0, c.bytes);
    }
    left.remove_prefix(c.bytes);
  }
  out += '"';
}

}  // namespace

bool to_json(const Value& value, const JsonStyle& style, std::string& out, int depth) {
  if (depth > kMaxDepth) return false;
  const auto line = [&](int at) {
    if (style.indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(at) * static_cast<size_t>(style.indent), ' ');
  };
  const std::string_view separator =
      style.indent < 0 ? std::string_view(style.item_separator) : ",";
  switch (value.kind()) {
    case Kind::kNone:
      out += "null";
      return true;
    case Kind::kBool:
      out += value.truth() ? "true" : "false";
      return true;
    case Kind::kInteger:
    case Kind::kReal:
      out += value.printed().text();
      return true;
    case Kind::kText:
      json_string(value.as_text().text(), style.ascii, out);
      return true;
    case Kind::kList: {
      out += '[';
      bool first = true;
      for (const Value& item : value.items()) {
        if (!first) out += separator;
        first = false;
        line(depth + 1);
        if (!to_json(item, style, out, depth + 1)) return false;
      }
      if (!first) line(depth);
      out += ']';
      return true;
    }
    case Kind::kDict: {
      out += '{';
      Value::Dict members = value.members();
      if (style.sort_keys)
        std::stable_sort(members.begin(), members.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
      bool first = true;
      for (const auto& [key, member] : members) {
        if (!first) out += separator;
        first = false;
        line(depth + 1);
        json_string(key, style.ascii, out);
        out += style.key_separator;
        if (!to_json(member, style, out, depth + 1)) return false;
      }
      if (!first) line(depth);
      out += '}';
      return true;
    }
    default:
      return false;
  }
}

}  // namespace outrider::jinja
