// Functions, macros, methods and tests of the evaluator.
#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/text_ops.h"

namespace outrider::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

}  // namespace

Value Evaluator::call(const Node& node) {
  const Node& callee = *node.children[0];
  if (callee.kind == NodeKind::kAttribute) {
    const Value object = eval(*callee.children[0]);
    const Arguments with = arguments(node);
    Value result;
    if (call_method(node, object, callee.text, with, result)) return result;
    const Value member = attribute(callee, object, callee.text);
    if (member.is(Kind::kMacro)) return call_macro(node, *member.node(), with);
    if (member.is(Kind::kFunction)) return call_function(node, member.which(), with);
    fail(node,
         "the method " + callee.text + " of " + object.type_name() + " is not known to this build",
         Code::kUnsupported);
  }
  const Value function = eval(callee);
  if (function.is(Kind::kMacro)) return call_macro(node, *function.node(), arguments(node));
  if (function.is(Kind::kFunction)) return call_function(node, function.which(), arguments(node));
  fail(node,
       "a call of " + (callee.text.empty() ? std::string(function.type_name()) : callee.text) +
           (function.is(Kind::kUndefined) ? ", which this build does not know" : ", no function"),
       function.is(Kind::kUndefined) ? Code::kUnsupported : Code::kInvalid);
}

Value Evaluator::call_function(const Node& node, Function which, const Arguments& with) {
  const auto integer = [&](size_t i) { return need_integer(node, with.by_position[i], "range"); };
  switch (which) {
    case Function::kRange: {
      const size_t n = with.by_position.size();
      if (n < 1 || n > 3) fail(node, "range: wanted 1 to 3 numbers");
      const int64_t begin = n == 1 ? 0 : integer(0), end = n == 1 ? integer(0) : integer(1);
      const int64_t step = n == 3 ? integer(2) : 1;
      if (step == 0) fail(node, "range: step 0");
      Value::List items;
      for (int64_t at = begin; step > 0 ? at < end : at > end;) {
        if (static_cast<int64_t>(items.size()) == kMaxRange)
          fail(node, "range: more than " + std::to_string(kMaxRange) + " numbers");
        items.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, step, &at)) break;
      }
      charge(node, items.size());
      return Value::list(std::move(items));
    }
    case Function::kNamespace:
    case Function::kDict: {
      Value::Dict members;
      if (!with.by_position.empty() && with.by_position[0].is_dict())
        members = with.by_position[0].members();
      for (const auto& member : with.by_name) members.push_back(member);
      charge(node, members.size());
      return Value::dict(std::move(members),
                         which == Function::kNamespace ? Kind::kNamespace : Kind::kDict);
    }
    case Function::kRaiseException: {
      const Value* message = argument(with, 0, "message");
      fail(node, "the template refuses: " + (message == nullptr ? std::string("no reason given")
                                                                : printed(*message).text()));
    }
    case Function::kStrftimeNow: {
      const Value* format = argument(with, 0, "format");
      if (format == nullptr) fail(node, "strftime_now: wanted a format");
      const MarkedText& form = need_text(node, *format, "strftime_now");
      const auto text = strftime_utc(form.text(), bounds_.now_s);
      if (!text)
        fail(node, "strftime_now: a conversion that this build does not know", Code::kUnsupported);
      return made(node, MarkedText(*text, form.any_foreign()));
    }
    case Function::kCycle:
      break;
  }
  if (with.by_position.empty()) fail(node, "loop.cycle: wanted values");
  for (size_t i = scopes_.size(); i-- > base_;) {
    for (const auto& [key, value] : scopes_[i]) {
      if (key != "loop") continue;
      const auto at = static_cast<size_t>(value.find("index0")->as_integer());
      return with.by_position[at % with.by_position.size()];
    }
  }
  fail(node, "loop.cycle outside of a loop");
}

// A macro sees its arguments and the template's own variables.
Value Evaluator::call_macro(const Node& node, const Node& macro, const Arguments& with) {
  const size_t n = macro.names.size(), n_defaults = macro.children.size() - 1;
  if (with.by_position.size() > n)
    fail(node, "macro " + macro.text + ": " + std::to_string(with.by_position.size()) +
                   " arguments, it has " + std::to_string(n));
  for (const auto& member : with.by_name)
    if (std::find(macro.names.begin(), macro.names.end(), member.first) == macro.names.end())
      fail(node, "macro " + macro.text + ": no argument " + member.first);
  const size_t outer = base_;
  Scope mine;
  for (size_t i = 0; i < n; ++i) {
    const Value* given = argument(with, i, macro.names[i].c_str());
    const bool has_default = i + n_defaults >= n;
    mine.emplace_back(macro.names[i], given != nullptr ? *given
                                      : has_default ? eval(*macro.children[1 + i + n_defaults - n])
                                                    : Value());
  }
  if (++depth_ > bounds_.max_depth)
    fail(node, "macros call deeper than max_depth " + std::to_string(bounds_.max_depth));
  scopes_.push_back(std::move(mine));
  base_ = scopes_.size() - 1;
  MarkedText text;
  run(*macro.children[0], text);
  scopes_.pop_back();
  base_ = outer;
  --depth_;
  return made(node, std::move(text));
}

bool Evaluator::call_method(const Node& node, const Value& object, const std::string& method,
                            const Arguments& with, Value& result) {
  if (object.is(Kind::kText)) return text_method(node, object.as_text(), method, with, result);
  if (object.is(Kind::kList)) {
    const Value* wanted = argument(with, 0, "value");
    if ((method != "count" && method != "index") || wanted == nullptr) return false;
    charge(node, object.items().size());
    int64_t n = 0, first = -1;
    for (size_t i = 0; i < object.items().size(); ++i) {
      if (!object.items()[i].equals(*wanted)) continue;
      if (n++ == 0) first = static_cast<int64_t>(i);
    }
    if (method == "index" && first < 0) fail(node, "index: the value is not in the list");
    result = Value::integer(method == "count" ? n : first);
    return true;
  }
  if (!object.is(Kind::kDict)) return false;
  charge(node, object.members().size());
  Value::List items;
  if (method == "get") {
    const Value* key = argument(with, 0, "key");
    const Value* absent = argument(with, 1, "default");
    if (key == nullptr) fail(node, "get: wanted a key");
    const Value* member = key->is(Kind::kText) ? object.find(key->as_text().text()) : nullptr;
    result = member != nullptr ? *member : absent != nullptr ? *absent : Value::none();
    return true;
  }
  if (method != "items" && method != "keys" && method != "values") return false;
  for (const auto& [key, value] : object.members()) {
    const Value name = Value::text(MarkedText(key, true));
    items.push_back(method == "keys"     ? name
                    : method == "values" ? value
                                         : Value::list({name, value}));
  }
  result = Value::list(std::move(items));
  return true;
}

bool Evaluator::text_method(const Node& node, const MarkedText& text, const std::string& method,
                            const Arguments& with, Value& result) {
  charge(node, text.size() / 64);
  const Value* first = argument(with, 0, "");
  const auto texts = [&](std::vector<MarkedText> parts) {
    Value::List items;
    for (MarkedText& part : parts) items.push_back(made(node, std::move(part)));
    return Value::list(std::move(items));
  };
  const auto chars = [&]() -> const std::string* {
    if (first == nullptr || first->is(Kind::kNone)) return nullptr;
    return &need_text(node, *first, method.c_str()).text();
  };
  const auto one_or_any = [&](auto&& fits) {
    if (first == nullptr) fail(node, method + ": wanted a string");
    if (!first->is(Kind::kList)) return fits(need_text(node, *first, method.c_str()).text());
    return std::any_of(first->items().begin(), first->items().end(), [&](const Value& item) {
      return fits(need_text(node, item, method.c_str()).text());
    });
  };
  if (method == "strip" || method == "lstrip" || method == "rstrip") {
    const Ends ends = method == "strip"    ? Ends::kBoth
                      : method == "lstrip" ? Ends::kLeft
                                           : Ends::kRight;
    result = made(node, strip(text, ends, chars()));
  } else if (method == "upper") {
    result = made(node, upper(text));
  } else if (method == "lower") {
    result = made(node, lower(text));
  } else if (method == "capitalize") {
    result = made(node, capitalize(text));
  } else if (method == "title") {
    result = made(node, title(text));
  } else if (method == "startswith") {
    result = Value::boolean(
        one_or_any([&](const std::string& s) { return text.text().starts_with(s); }));
  } else if (method == "endswith") {
    result =
        Value::boolean(one_or_any([&](const std::string& s) { return text.text().ends_with(s); }));
  } else if (method == "removeprefix" || method == "removesuffix") {
    const std::string* part = chars();
    const bool front = method == "removeprefix";
    if (part == nullptr) fail(node, method + ": wanted a string");
    const bool fits = front ? text.text().starts_with(*part) : text.text().ends_with(*part);
    const size_t n = fits ? part->size() : 0;
    result = made(node, front ? text.part(n, text.size()) : text.part(0, text.size() - n));
  } else if (method == "split" || method == "rsplit") {
    const Value* most = argument(with, 1, "maxsplit");
    const std::string* separator = chars();
    if (separator != nullptr && separator->empty()) fail(node, method + ": an empty separator");
    const int64_t limit = most == nullptr ? -1 : need_integer(node, *most, "maxsplit");
    if (separator == nullptr && method == "rsplit" && limit >= 0)
      fail(node, "rsplit at white space with a limit is not known to this build",
           Code::kUnsupported);
    result = texts(split(text, separator, limit, method == "rsplit"));
  } else if (method == "splitlines") {
    result = texts(split_lines(text));
  } else if (method == "replace") {
    const Value* to = argument(with, 1, "");
    const Value* most = argument(with, 2, "count");
    if (first == nullptr || to == nullptr) fail(node, "replace: wanted two strings");
    const std::string& from = need_text(node, *first, "replace").text();
    const MarkedText& with_text = need_text(node, *to, "replace");
    if (text.size() * (with_text.size() + 1) / (from.size() + 1) > 16 * bounds_.max_bytes)
      fail(node, "replace: a text longer than max_output_bytes");
    result = made(node, replace(text, from, with_text,
                                most == nullptr ? -1 : need_integer(node, *most, "count")));
  } else if (method == "join") {
    if (first == nullptr) fail(node, "join: wanted a list");
    MarkedText out;
    bool behind = false;
    for (const Value& item : iterate(node, *first)) {
      if (behind) add(node, out, text);
      behind = true;
      add(node, out, need_text(node, item, "join"));
    }
    result = made(node, std::move(out));
  } else if (method == "find" || method == "count") {
    const std::string* part = chars();
    if (part == nullptr || part->empty()) fail(node, method + ": wanted a string");
    const auto cuts = split(text, part, -1, false);
    result = Value::integer(method == "count"  ? static_cast<int64_t>(cuts.size()) - 1
                            : cuts.size() == 1 ? -1
                                               : static_cast<int64_t>(n_characters(cuts[0])));
  } else if (method == "isdigit") {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    result =
        Value::boolean(!text.empty() && std::all_of(text.text().begin(), text.text().end(), digit));
  } else {
    return false;
  }
  return true;
}

bool Evaluator::test(const Node& node, const std::string& which, const Value& value,
                     const Arguments& with) {
  const Kind kind = value.kind();
  if (which == "defined") return kind != Kind::kUndefined;
  if (which == "undefined") return kind == Kind::kUndefined;
  if (which == "none") return kind == Kind::kNone;
  if (which == "string") return kind == Kind::kText;
  if (which == "boolean") return kind == Kind::kBool;
  if (which == "integer") return kind == Kind::kInteger;
  if (which == "float") return kind == Kind::kReal;
  if (which == "number") return value.is_number();
  if (which == "true") return kind == Kind::kBool && value.truth();
  if (which == "false") return kind == Kind::kBool && !value.truth();
  if (which == "mapping") return kind == Kind::kDict;
  if (which == "iterable")
    return kind == Kind::kList || kind == Kind::kText || kind == Kind::kDict ||
           kind == Kind::kUndefined;
  if (which == "sequence") return kind == Kind::kList || kind == Kind::kText || kind == Kind::kDict;
  if (which == "callable") return kind == Kind::kMacro || kind == Kind::kFunction;
  if (which == "odd") return need_integer(node, value, "odd") % 2 != 0;
  if (which == "even") return need_integer(node, value, "even") % 2 == 0;
  if (which == "lower" || which == "upper") {
    const std::string& text = need_text(node, value, which.c_str()).text();
    return text == (which == "lower" ? lower(value.as_text()) : upper(value.as_text())).text();
  }
  const Value* other = argument(with, 0, "");
  if (other == nullptr) fail(node, "the test " + which + " wants an argument");
  if (which == "divisibleby") {
    const int64_t by = need_integer(node, *other, "divisibleby");
    if (by == 0) fail(node, "a division by zero");
    return by == -1 || need_integer(node, value, "divisibleby") % by == 0;
  }
  if (which == "in") return contains(node, value, *other);
  if (which == "sameas") return value.kind() == other->kind() && value.equals(*other);
  if (which == "eq" || which == "equalto" || which == "==") return value.equals(*other);
  if (which == "ne") return !value.equals(*other);
  const int order = compare(node, value, *other);
  if (which == "lt" || which == "lessthan") return order < 0;
  if (which == "gt" || which == "greaterthan") return order > 0;
  return which == "le" ? order <= 0 : order >= 0;
}

}  // namespace outrider::jinja
