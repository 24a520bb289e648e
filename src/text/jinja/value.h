// What a template computes with. Values are shared and, but for namespaces, never changed.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/jinja/marked_text.h"

namespace outrider::jinja {

struct Node;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kReal,
  kText,
  kList,
  kDict,
  kNamespace,
  kMacro,
  kFunction
};
enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow, kCycle };

class Value {
 public:
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<std::string, Value>>;  // in order of insertion

  Value() = default;
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value real(double value);
  static Value text(MarkedText value);
  static Value text(std::string value) { return text(MarkedText(std::move(value))); }
  static Value list(List items);
  static Value dict(Dict members, Kind kind = Kind::kDict);
  static Value macro(const Node* node);
  static Value function(Function which);
  // Every text in it is foreign.
  static Value from_json(const Json& json);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return is(Kind::kInteger) || is(Kind::kReal) || is(Kind::kBool); }
  bool is_dict() const { return is(Kind::kDict) || is(Kind::kNamespace); }
  bool truth() const;
  int64_t as_integer() const { return integer_; }  // kBool, kInteger
  double as_real() const { return is(Kind::kReal) ? real_ : static_cast<double>(integer_); }
  const MarkedText& as_text() const { return *text_; }
  const List& items() const { return *list_; }
  const Dict& members() const { return *dict_; }
  Dict& mutable_members() const { return *dict_; }  // of a namespace
  const Value* find(const std::string& name) const;
  const Node* node() const { return node_; }
  Function which() const { return static_cast<Function>(integer_); }

  bool equals(const Value& other, int depth = 0) const;
  // As printed: None, True, 1.0, text itself, [1, 'a'].
  MarkedText printed(int depth = 0) const;
  const char* type_name() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  std::string represented(int depth) const;

  Kind kind_ = Kind::kUndefined;
  int64_t integer_ = 0;
  double real_ = 0;
  std::shared_ptr<const MarkedText> text_;
  std::shared_ptr<const List> list_;
  std::shared_ptr<Dict> dict_;
  const Node* node_ = nullptr;
};

// A number as Python prints it.
std::string printed_real(double value);

struct JsonStyle {
  int indent = -1;  // -1: one line
  bool ascii = false, sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// False: something in it is no JSON (undefined, a function), or it is nested too deep.
bool to_json(const Value& value, const JsonStyle& style, std::string& out, int depth = 0);

}  // namespace outrider::jinja
