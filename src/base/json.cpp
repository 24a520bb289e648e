#include "base/json.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <new>
#include <set>

#include "base/assert.h"
#include "base/json_number.h"
#include "base/utf8.h"

namespace outrider {

// Walks the text once with an explicit stack of open containers, so that nesting costs heap within
// max_depth and never call depth. Pointers to open containers stay valid: a container grows only
// while it is the innermost open one.
class JsonParser {
 public:
  JsonParser(std::string_view text, Json::Dialect dialect, const Json::Limits& limits)
      : text_(text),
        flat_(dialect == Json::Dialect::kFlatOpen),
        dialect_(dialect),
        limits_(limits),
        max_depth_(std::min(limits.max_depth, Json::kMaxDepth)) {}

  Result<Json> run() {
    Json root;
    if (!document(root)) return error_;
    return root;
  }

 private:
  struct NameOrder {
    const Json* object;
    using is_transparent = void;
    std::string_view name(uint32_t i) const;
    std::string_view name(std::string_view text) const { return text; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return name(a) < name(b);
    }
  };
  using NameSet = std::set<uint32_t, NameOrder>;

  struct Open {
    Json* value;
    bool fresh = true;               // nothing but the opening bracket was read
    std::unique_ptr<NameSet> names;  // members by name, once there are many
  };

  bool document(Json& root);
  bool begin_value(Json& value);
  Json* next_slot();
  Json* add_item(Json& array);
  Json* add_member(Open& open);
  bool open_container(Json& value, Json::Kind kind);
  bool check_name(Open& open, size_t key_at, const std::string& name);
  bool word(Json& value, std::string_view letters, Json::Kind kind, bool flag);
  bool number(Json& value);
  bool string(std::string& out);
  bool escape(std::string& out);
  bool unicode_escape(std::string& out);
  bool hex4(uint32_t& unit);
  bool take(char c, const char* expected);
  void skip_space();
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }

  bool expected(const char* what) { return expected_at(at_, what); }
  bool expected_at(size_t at, const char* what);
  bool fault(size_t at, const char* format, ...) __attribute__((format(printf, 3, 4)));
  bool over_limit(const char* name, size_t limit);

  std::string_view text_;
  bool flat_;
  Json::Dialect dialect_;
  Json::Limits limits_;
  uint32_t max_depth_;
  size_t at_ = 0, n_values_ = 0;
  uint32_t line_ = 1;
  std::vector<Open> open_;
  Error error_;
};

namespace {
constexpr size_t kLinearNames = 8;  // below this a scan over the names beats a tree
constexpr size_t kShownKeyBytes = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char closer(const Json& container) {
  return container.is_array() ? ']' : '}';
}
}  // namespace

std::string_view JsonParser::NameOrder::name(uint32_t i) const {
  return object->members()[i].name;
}

bool JsonParser::document(Json& root) {
  if (text_.size() > limits_.max_bytes) {
    error_ = make_error(Code::kInvalid, "json: %zu bytes, limit max_bytes allows %zu", text_.size(),
                        limits_.max_bytes);
    return false;
  }
  skip_space();
  if (flat_ && peek() != '{') return expected("'{'");
  for (Json* slot = &root; slot != nullptr; slot = next_slot()) {
    if (!begin_value(*slot)) return false;
  }
  if (error_.code != Code::kOk) return false;
  skip_space();
  return at_end() ? true : expected("the end of the text");
}

// A whole scalar, or the opening bracket of a container.
bool JsonParser::begin_value(Json& value) {
  if (n_values_ >= limits_.max_values) return over_limit("max_values", limits_.max_values);
  ++n_values_;
  value.line_ = line_;
  const char c = peek();
  if (c == '"') {
    value.kind_ = Json::Kind::kString;
    return string(value.text_);
  }
  const bool starts_number = c == '-' || is_digit(c) || (flat_ && (c == '+' || c == '.'));
  if (starts_number && !at_end()) return number(value);
  if (flat_ && !open_.empty()) return expected("a string or a number");
  switch (c) {
    case '{':
      return open_container(value, Json::Kind::kObject);
    case '[':
      return open_container(value, Json::Kind::kArray);
    case 't':
      return word(value, "true", Json::Kind::kBool, true);
    case 'f':
      return word(value, "false", Json::Kind::kBool, false);
    case 'n':
      return word(value, "null", Json::Kind::kNull, false);
    default:
      return expected("a value");
  }
}

// Closes what ends here and makes room for the value that comes next; nullptr at the end of the
// outermost value and on a fault.
Json* JsonParser::next_slot() {
  while (!open_.empty()) {
    Open& open = open_.back();
    Json& container = *open.value;
    const bool object = container.is_object();
    skip_space();
    if (!at_end() && peek() == closer(container)) {
      if (flat_ && open.fresh) {
        expected("a key: an empty object is refused");
        return nullptr;
      }
      ++at_;
      open_.pop_back();
      continue;
    }
    if (!open.fresh) {
      if (!take(',', object ? "',' or '}'" : "',' or ']'")) return nullptr;
      skip_space();
    }
    open.fresh = false;
    return object ? add_member(open) : add_item(container);
  }
  return nullptr;
}

Json* JsonParser::add_item(Json& array) {
  if (!at_end() && peek() == ']') {
    expected("a value: a trailing comma is refused");
    return nullptr;
  }
  return &array.items_.emplace_back();
}

Json* JsonParser::add_member(Open& open) {
  Json& object = *open.value;
  if (at_end() || peek() != '"') {
    expected(object.members_.empty() ? "a key or '}'" : "a key");
    return nullptr;
  }
  const size_t key_at = at_;
  std::string name;
  if (!string(name) || !check_name(open, key_at, name)) return nullptr;
  skip_space();
  if (!take(':', "':'")) return nullptr;
  skip_space();
  object.members_.push_back({std::move(name), Json()});
  if (open.names) open.names->insert(static_cast<uint32_t>(object.members_.size() - 1));
  return &object.members_.back().value;
}

bool JsonParser::open_container(Json& value, Json::Kind kind) {
  if (open_.size() >= max_depth_) return over_limit("max_depth", max_depth_);
  ++at_;
  value.kind_ = kind;
  open_.push_back({&value, true, nullptr});
  return true;
}

bool JsonParser::check_name(Open& open, size_t key_at, const std::string& name) {
  const auto& members = open.value->members_;
  if (!open.names && members.size() >= kLinearNames) {
    open.names = std::make_unique<NameSet>(NameOrder{open.value});
    for (size_t i = 0; i < members.size(); ++i) open.names->insert(static_cast<uint32_t>(i));
  }
  const bool known = open.names ? open.names->find(std::string_view(name)) != open.names->end()
                                : open.value->find(name) != nullptr;
  if (!known) return true;
  // The key as it was written: it holds no byte below 0x20 there, so the message stays one line.
  std::string_view written = text_.substr(key_at, at_ - key_at);
  if (written.size() > kShownKeyBytes) {
    size_t shown = kShownKeyBytes;
    while ((static_cast<unsigned char>(written[shown]) & 0xC0) == 0x80) --shown;
    written = written.substr(0, shown);
  }
  return fault(key_at, "found the key %.*s a second time, expected each key once",
               static_cast<int>(written.size()), written.data());
}

bool JsonParser::word(Json& value, std::string_view letters, Json::Kind kind, bool flag) {
  for (const char letter : letters) {
    if (at_end() || peek() != letter) {
      return fault(at_, "found a misspelt word, expected \"%s\"", letters.data());
    }
    ++at_;
  }
  value.kind_ = kind;
  value.flag_ = flag;
  return true;
}

bool JsonParser::number(Json& value) {
  const JsonNumber scanned = scan_json_number(text_, at_, dialect_);
  if (scanned.fault != nullptr && scanned.out_of_range) {
    return fault(at_, "found a number out of range, expected %s", scanned.fault);
  }
  if (scanned.fault != nullptr) return expected_at(scanned.end, scanned.fault);
  value.kind_ = Json::Kind::kNumber;
  value.integral_ = scanned.integral;
  value.integer_ = scanned.integer;
  value.number_ = scanned.value;
  value.text_ = text_.substr(at_, scanned.end - at_);
  at_ = scanned.end;
  return true;
}

bool JsonParser::string(std::string& out) {
  OUTRIDER_ASSERT(peek() == '"');
  ++at_;
  for (;;) {
    const size_t from = at_;
    const auto plain = [](unsigned char c) {
      return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
    };
    while (!at_end() && plain(static_cast<unsigned char>(text_[at_]))) ++at_;
    out.append(text_, from, at_ - from);
    if (at_end()) return expected("'\"' that ends the string");
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c == '\\') {
      if (!escape(out)) return false;
    } else if (c < 0x20) {
      return expected("an escape: bytes below 0x20 are refused in strings");
    } else {
      const size_t n = utf8_sequence_bytes(text_.substr(at_));
      if (n == 0) return expected("well-formed UTF-8");
      out.append(text_, at_, n);
      at_ += n;
    }
  }
}

bool JsonParser::escape(std::string& out) {
  ++at_;
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  static_assert(kLetters.size() == kMeant.size());
  if (!at_end()) {
    if (const size_t i = kLetters.find(peek()); i != std::string_view::npos) {
      out.push_back(kMeant[i]);
      ++at_;
      return true;
    }
    if (peek() == 'u' && !flat_) return unicode_escape(out);
  }
  return expected(flat_ ? "one of \" \\ / b f n r t after a backslash (\\u is refused here)"
                        : "one of \" \\ / b f n r t u after a backslash");
}

// At the 'u' of \uXXXX; a high surrogate must be followed by the escape of a low one.
bool JsonParser::unicode_escape(std::string& out) {
  const size_t from = at_ - 1;
  uint32_t code = 0, low = 0;
  if (!hex4(code)) return false;
  if (code >= 0xDC00 && code <= 0xDFFF) return expected_at(from, "a high surrogate first");
  if (code >= 0xD800 && code <= 0xDBFF) {
    const size_t second = at_;
    if (text_.substr(at_, 2) != "\\u") return expected_at(second, "the escape of a low surrogate");
    ++at_;
    if (!hex4(low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return expected_at(second, "the escape of a low surrogate");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  utf8_append(out, code);
  return true;
}

bool JsonParser::hex4(uint32_t& unit) {
  ++at_;
  unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const char c = peek();
    const size_t digit = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c | 0x20) : c);
    if (at_end() || digit == std::string_view::npos) return expected("a hexadecimal digit");
    unit = unit << 4 | static_cast<uint32_t>(digit);
  }
  return true;
}

bool JsonParser::take(char c, const char* what) {
  if (at_end() || peek() != c) return expected(what);
  ++at_;
  return true;
}

void JsonParser::skip_space() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

bool JsonParser::expected_at(size_t at, const char* what) {
  if (at >= text_.size()) return fault(at, "found the end of the text, expected %s", what);
  const unsigned char c = static_cast<unsigned char>(text_[at]);
  if (c > 0x20 && c < 0x7F) return fault(at, "found '%c', expected %s", c, what);
  return fault(at, "found the byte 0x%02x, expected %s", c, what);
}

bool JsonParser::fault(size_t at, const char* format, ...) {
  char what[Error::kTextBytes];
  va_list args;
  va_start(args, format);
  std::vsnprintf(what, sizeof what, format, args);
  va_end(args);
  const std::string_view before = text_.substr(0, std::min(at, text_.size()));
  const size_t last_break = before.rfind('\n');  // npos + 1 is 0
  error_ = make_error(Code::kInvalid, "json: byte %zu (line %zu, column %zu): %s", at,
                      static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
                      before.size() - (last_break + 1) + 1, what);
  return false;
}

bool JsonParser::over_limit(const char* name, size_t limit) {
  return fault(at_, "found more than limit %s allows, which is %zu", name, limit);
}

Result<Json> Json::parse(std::string_view text, Dialect dialect) {
  return parse(text, dialect, Limits{});
}

Result<Json> Json::parse(std::string_view text, Dialect dialect, const Limits& limits) {
  try {
    return JsonParser(text, dialect, limits).run();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "json: no memory for the values of %zu bytes of text",
                      text.size());
  }
}

const Json* Json::find(std::string_view name) const {
  for (const Member& member : members_) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

}  // namespace outrider
