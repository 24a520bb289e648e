// A template as a tree.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace outrider::jinja {

enum class NodeKind : uint8_t {
  // Statements.
  kBlock,   // children one after the other
  kOutput,  // text (a literal of the template), or child 0 printed
  kIf,      // children: condition, block, condition, block ... [block]
  kFor,     // names; children: iterable, block, else block or null, condition or null
  kSet,     // names or child 1 (an attribute); child 0 the value, a block when flag
  kMacro,   // text: name; names: parameters; children: block, defaults (from the end)
  kBreak,
  kContinue,
  // Expressions.
  kLiteral,  // value
  kName,     // text
  kList,
  kDict,       // children: key, value, key, value ...
  kUnary,      // text: "-" "+" "not"
  kBinary,     // text: the operator
  kCondition,  // children: condition, then, else or null
  kAttribute,  // child 0 . text
  kIndex,      // child 0 [ child 1 ]
  kSlice,      // child 0 [ child 1 : child 2 : child 3 ], each may be null
  kCall,       // child 0 ( arguments )
  kFilter,     // child 0 | text ( arguments )
  kTest,       // child 0 is text ( arguments ); flag: is not
};

struct Node {
  NodeKind kind = NodeKind::kBlock;
  uint32_t line = 0;
  bool flag = false;
  std::string text;
  Value value;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Node>> children;
  struct Argument {
    std::string name;  // empty: by position
    std::unique_ptr<Node> value;
  };
  std::vector<Argument> arguments;
};

// A failure with the line of the template it belongs to. Thrown inside this folder only; parse and
// render catch it.
struct Fault {
  Code code = Code::kInvalid;
  uint32_t line = 0;
  std::string text;
};

// Throws Fault (kUnsupported for what is not known, kInvalid for what is no template).
std::unique_ptr<Node> parse(std::string_view source, uint32_t max_depth);

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

}  // namespace outrider::jinja
