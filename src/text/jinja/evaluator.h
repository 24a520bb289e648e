// Runs a template's tree. One evaluator renders once.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"

namespace outrider::jinja {

struct Bounds {
  uint64_t max_steps = 0;
  size_t max_bytes = 0;    // of the output and of any text on the way
  uint32_t max_depth = 0;  // of nodes being evaluated inside each other
  int64_t now_s = 0;
};

class Evaluator {
 public:
  Evaluator(const Bounds& bounds, Value::Dict variables);
  // Throws Fault.
  MarkedText render(const Node& root);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  struct Arguments {
    Value::List by_position;
    Value::Dict by_name;
  };
  using Scope = Value::Dict;

  Flow run(const Node& node, MarkedText& out);
  Flow run_if(const Node& node, MarkedText& out);
  Flow run_for(const Node& node, MarkedText& out);
  void run_set(const Node& node);
  void bind(const Node& node, const std::vector<std::string>& names, const Value& value,
            Scope& scope);
  Value::List iterate(const Node& node, const Value& value);

  Value eval(const Node& node);
  Value name(const Node& node);
  Value unary(const Node& node);
  Value binary(const Node& node);
  Value arithmetic(const Node& node, const Value& left, const Value& right);
  bool contains(const Node& node, const Value& item, const Value& in);
  int compare(const Node& node, const Value& left, const Value& right);
  Value attribute(const Node& node, const Value& object, const std::string& name);
  Value index(const Node& node, const Value& object, const Value& key);
  Value slice(const Node& node);
  Value call(const Node& node);
  Value call_function(const Node& node, Function which, const Arguments& with);
  Value call_macro(const Node& node, const Node& macro, const Arguments& with);
  // Nothing: this object has no such method.
  bool call_method(const Node& node, const Value& object, const std::string& method,
                   const Arguments& with, Value& result);
  bool text_method(const Node& node, const MarkedText& text, const std::string& method,
                   const Arguments& with, Value& result);
  Value filter(const Node& node, const std::string& which, const Value& value,
               const Arguments& with);
  Value list_filter(const Node& node, const std::string& which, const Value& value,
                    const Arguments& with);
  Value chosen(const Node& node, const std::string& which, const Value& value,
               const Arguments& with);
  Value sorted(const Node& node, const Value& value, const Arguments& with);
  Value to_json_text(const Node& node, const Value& value, const Arguments& with);
  bool test(const Node& node, const std::string& which, const Value& value, const Arguments& with);
  Value path(const Node& node, const Value& object, const std::string& dotted);

  Arguments arguments(const Node& node);
  const Value* argument(const Arguments& with, size_t position, const char* name) const;
  const MarkedText& need_text(const Node& node, const Value& value, const char* what);
  int64_t need_integer(const Node& node, const Value& value, const char* what);
  Value made(const Node& node, MarkedText text);
  MarkedText printed(const Value& value);
  void add(const Node& node, MarkedText& out, const MarkedText& part);
  void charge(const Node& node, uint64_t steps);
  [[noreturn]] void fail(const Node& node, std::string what, Code code = Code::kInvalid) const;

  const Bounds bounds_;
  uint64_t steps_ = 0;
  uint32_t depth_ = 0;
  std::vector<Scope> scopes_;  // the first is the template's own
  size_t base_ = 0;  // of the macro that runs: it sees the first scope and those from here
};

}  // namespace outrider::jinja
