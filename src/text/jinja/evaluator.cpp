#include "text/jinja/evaluator.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/text_ops.h"

namespace outrider::jinja {

Evaluator::Evaluator(const Bounds& bounds, Value::Dict variables) : bounds_(bounds) {
  scopes_.push_back(std::move(variables));
  scopes_.emplace_back();  // what the template sets itself
  base_ = 1;
}

MarkedText Evaluator::render(const Node& root) {
  MarkedText out;
  run(root, out);
  return out;
}

void Evaluator::fail(const Node& node, std::string what, Code code) const {
  throw Fault{code, node.line, std::move(what)};
}

void Evaluator::charge(const Node& node, uint64_t steps) {
  steps_ += steps;
  if (steps_ > bounds_.max_steps)
    fail(node, "more steps than max_steps " + std::to_string(bounds_.max_steps));
}

void Evaluator::add(const Node& node, MarkedText& out, const MarkedText& part) {
  charge(node, part.size() / 64);
  if (out.size() + part.size() > bounds_.max_bytes)
    fail(node, "more output than max_output_bytes " + std::to_string(bounds_.max_bytes));
  out.append(part);
}

// Every text that is made on the way is counted and bounded.
Value Evaluator::made(const Node& node, MarkedText text) {
  charge(node, 1 + text.size() / 64);
  if (text.size() > bounds_.max_bytes)
    fail(node, "a text longer than max_output_bytes " + std::to_string(bounds_.max_bytes));
  return Value::text(std::move(text));
}

// Lists and mappings are foreign as a whole: their texts are no longer apart.
MarkedText Evaluator::printed(const Value& value) {
  if (value.is(Kind::kText)) return value.as_text();
  return MarkedText(value.printed().text(), value.is(Kind::kList) || value.is_dict());
}

Evaluator::Flow Evaluator::run(const Node& node, MarkedText& out) {
  charge(node, 1);
  switch (node.kind) {
    case NodeKind::kBlock:
      for (const auto& child : node.children)
        if (const Flow flow = run(*child, out); flow != Flow::kNext) return flow;
      return Flow::kNext;
    case NodeKind::kOutput:
      add(node, out,
          node.children.empty() ? MarkedText(node.text) : printed(eval(*node.children[0])));
      return Flow::kNext;
    case NodeKind::kIf:
      return run_if(node, out);
    case NodeKind::kFor:
      return run_for(node, out);
    case NodeKind::kSet:
      run_set(node);
      return Flow::kNext;
    case NodeKind::kMacro:
      bind(node, {node.text}, Value::macro(&node), scopes_.back());
      return Flow::kNext;
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    default:
      fail(node, "no statement");
  }
}

Evaluator::Flow Evaluator::run_if(const Node& node, MarkedText& out) {
  size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2)
    if (eval(*node.children[i]).truth()) return run(*node.children[i + 1], out);
  return i < node.children.size() ? run(*node.children[i], out) : Flow::kNext;
}

Evaluator::Flow Evaluator::run_for(const Node& node, MarkedText& out) {
  Value::List items = iterate(node, eval(*node.children[0]));
  if (const Node* condition = node.children[3].get(); condition != nullptr) {
    Value::List kept;
    for (Value& item : items) {
      scopes_.emplace_back();
      bind(node, node.names, item, scopes_.back());
      if (eval(*condition).truth()) kept.push_back(std::move(item));
      scopes_.pop_back();
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    if (node.children[2]) return run(*node.children[2], out);
    return Flow::kNext;
  }
  const auto n = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    scopes_.emplace_back();
    bind(node, node.names, items[at], scopes_.back());
    scopes_.back().emplace_back("loop",
                                Value::dict({{"index", Value::integer(i + 1)},
                                             {"index0", Value::integer(i)},
                                             {"first", Value::boolean(i == 0)},
                                             {"last", Value::boolean(i == n - 1)},
                                             {"length", Value::integer(n)},
                                             {"revindex", Value::integer(n - i)},
                                             {"revindex0", Value::integer(n - i - 1)},
                                             {"previtem", i > 0 ? items[at - 1] : Value()},
                                             {"nextitem", i < n - 1 ? items[at + 1] : Value()},
                                             {"cycle", Value::function(Function::kCycle)}}));
    const Flow flow = run(*node.children[1], out);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Evaluator::run_set(const Node& node) {
  Value value;
  if (node.flag) {
    MarkedText text;
    run(*node.children[0], text);
    value = made(node, std::move(text));
  } else {
    value = eval(*node.children[0]);
  }
  if (!node.children[1]) return bind(node, node.names, value, scopes_.back());
  const Node& target = *node.children[1];
  const Value object = eval(*target.children[0]);
  if (!object.is(Kind::kNamespace))
    fail(node, "set of ." + target.text + " of " + object.type_name() + ", wanted a namespace");
  for (auto& [key, member] : object.mutable_members()) {
    if (key != target.text) continue;
    member = std::move(value);
    return;
  }
  object.mutable_members().emplace_back(target.text, std::move(value));
}

void Evaluator::bind(const Node& node, const std::vector<std::string>& names, const Value& value,
                     Scope& scope) {
  const auto put = [&](const std::string& key, const Value& item) {
    for (auto& [there, old] : scope) {
      if (there != key) continue;
      old = item;
      return;
    }
    scope.emplace_back(key, item);
  };
  if (names.size() == 1) return put(names[0], value);
  const Value::List items = iterate(node, value);
  if (items.size() != names.size())
    fail(node,
         std::to_string(names.size()) + " names for " + std::to_string(items.size()) + " values");
  for (size_t i = 0; i < names.size(); ++i) put(names[i], items[i]);
}

Value::List Evaluator::iterate(const Node& node, const Value& value) {
  Value::List items;
  switch (value.kind()) {
    case Kind::kList:
      items = value.items();
      break;
    case Kind::kDict:
      for (const auto& member : value.members())
        items.push_back(Value::text(MarkedText(member.first, true)));
      break;
    case Kind::kText: {
      const size_t n = n_characters(value.as_text());
      charge(node, n);
      size_t at = 0;
      const std::string& bytes = value.as_text().text();
      for (size_t end = 1; at < bytes.size(); ++end) {
        if (end < bytes.size() && (static_cast<uint8_t>(bytes[end]) & 0xC0) == 0x80) continue;
        items.push_back(Value::text(value.as_text().part(at, end)));
        at = end;
      }
      break;
    }
    case Kind::kUndefined:
      break;  // Jinja's lenient undefined is an empty list
    default:
      fail(node, std::string("a loop over ") + value.type_name());
  }
  charge(node, items.size());
  return items;
}

Value Evaluator::eval(const Node& node) {
  struct Level {
    explicit Level(uint32_t& d) : depth(++d) {}
    ~Level() { --depth; }
    uint32_t& depth;
  };
  const Level level(depth_);
  if (depth_ > bounds_.max_depth)
    fail(node, "evaluated deeper than max_depth " + std::to_string(bounds_.max_depth));
  charge(node, 1);
  switch (node.kind) {
    case NodeKind::kLiteral:
      return node.value;
    case NodeKind::kName:
      return name(node);
    case NodeKind::kList: {
      Value::List items;
      for (const auto& child : node.children) items.push_back(eval(*child));
      return Value::list(std::move(items));
    }
    case NodeKind::kDict: {
      Value::Dict members;
      for (size_t i = 0; i + 1 < node.children.size(); i += 2)
        members.emplace_back(
            need_text(node, eval(*node.children[i]), "the key of a mapping").text(),
            eval(*node.children[i + 1]));
      return Value::dict(std::move(members));
    }
    case NodeKind::kUnary:
      return unary(node);
    case NodeKind::kBinary:
      return binary(node);
    case NodeKind::kCondition:
      if (eval(*node.children[0]).truth()) return eval(*node.children[1]);
      return node.children[2] ? eval(*node.children[2]) : Value();
    case NodeKind::kAttribute:
      return attribute(node, eval(*node.children[0]), node.text);
    case NodeKind::kIndex:
      return index(node, eval(*node.children[0]), eval(*node.children[1]));
    case NodeKind::kSlice:
      return slice(node);
    case NodeKind::kCall:
      return call(node);
    case NodeKind::kFilter:
      return filter(node, node.text, eval(*node.children[0]), arguments(node));
    case NodeKind::kTest:
      return Value::boolean(test(node, node.text, eval(*node.children[0]), arguments(node)) !=
                            node.flag);
    default:
      fail(node, "no expression");
  }
}

Value Evaluator::name(const Node& node) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (i < base_ && i > 1) continue;  // of whoever called this macro
    for (const auto& [key, value] : scopes_[i])
      if (key == node.text) return value;
  }
  constexpr std::pair<const char*, Function> kFunctions[] = {
      {"range", Function::kRange},
      {"namespace", Function::kNamespace},
      {"dict", Function::kDict},
      {"raise_exception", Function::kRaiseException},
      {"strftime_now", Function::kStrftimeNow}};
  for (const auto& [key, which] : kFunctions)
    if (node.text == key) return Value::function(which);
  return Value();
}

Value Evaluator::unary(const Node& node) {
  const Value value = eval(*node.children[0]);
  if (node.text == "not") return Value::boolean(!value.truth());
  if (!value.is_number()) fail(node, node.text + " of " + value.type_name());
  if (node.text == "+") return value;
  if (value.is(Kind::kReal)) return Value::real(-value.as_real());
  if (value.as_integer() == INT64_MIN) fail(node, "an integer beyond 64 bits");
  return Value::integer(-value.as_integer());
}

Value Evaluator::binary(const Node& node) {
  const std::string& op = node.text;
  Value left = eval(*node.children[0]);
  if (op == "and") return left.truth() ? eval(*node.children[1]) : left;
  if (op == "or") return left.truth() ? left : eval(*node.children[1]);
  const Value right = eval(*node.children[1]);
  if (op == "==") return Value::boolean(left.equals(right));
  if (op == "!=") return Value::boolean(!left.equals(right));
  if (op == "in") return Value::boolean(contains(node, left, right));
  if (op == "not in") return Value::boolean(!contains(node, left, right));
  if (op == "<") return Value::boolean(compare(node, left, right) < 0);
  if (op == ">") return Value::boolean(compare(node, left, right) > 0);
  if (op == "<=") return Value::boolean(compare(node, left, right) <= 0);
  if (op == ">=") return Value::boolean(compare(node, left, right) >= 0);
  if (op == "~") {
    MarkedText text = printed(left);
    add(node, text, printed(right));
    return made(node, std::move(text));
  }
  return arithmetic(node, left, right);
}

Value Evaluator::arithmetic(const Node& node, const Value& left, const Value& right) {
  const std::string& op = node.text;
  if (op == "+" && left.is(Kind::kText) && right.is(Kind::kText)) {
    MarkedText text = left.as_text();
    add(node, text, right.as_text());
    return made(node, std::move(text));
  }
  if (op == "+" && left.is(Kind::kList) && right.is(Kind::kList)) {
    Value::List items = left.items();
    items.insert(items.end(), right.items().begin(), right.items().end());
    charge(node, items.size());
    return Value::list(std::move(items));
  }
  if (op == "*" && left.is(Kind::kText) && right.is(Kind::kInteger)) {
    MarkedText text;
    for (int64_t i = 0; i < right.as_integer(); ++i) {
      charge(node, 1);
      add(node, text, left.as_text());
    }
    return made(node, std::move(text));
  }
  if (!left.is_number() || !right.is_number())
    fail(node, op + " of " + left.type_name() + " and " + right.type_name() +
                   (left.is(Kind::kUndefined) || right.is(Kind::kUndefined) ? " value" : ""));
  const bool real = left.is(Kind::kReal) || right.is(Kind::kReal);
  const double x = left.as_real(), y = right.as_real();
  if ((op == "/" || op == "//" || op == "%") && y == 0) fail(node, "a division by zero");
  if (op == "/") return Value::real(x / y);
  if (op == "**") {
    const double power = std::pow(x, y);
    const bool whole = !real && y >= 0 && std::fabs(power) < 9e15;
    return whole ? Value::integer(std::llround(power)) : Value::real(power);
  }
  if (real) {
    if (op == "+") return Value::real(x + y);
    if (op == "-") return Value::real(x - y);
    if (op == "*") return Value::real(x * y);
    if (op == "//") return Value::real(std::floor(x / y));
    return Value::real(x - y * std::floor(x / y));
  }
  const int64_t a = left.as_integer(), b = right.as_integer();
  int64_t out = 0;
  if (op == "//" || op == "%") {
    if (b == -1) {
      if (op == "%") return Value::integer(0);
      if (a == INT64_MIN) fail(node, "an integer beyond 64 bits");
      return Value::integer(-a);
    }
    const int64_t floor = a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
    return Value::integer(op == "//" ? floor : a - floor * b);
  }
  const bool over = op == "+"   ? __builtin_add_overflow(a, b, &out)
                    : op == "-" ? __builtin_sub_overflow(a, b, &out)
                                : __builtin_mul_overflow(a, b, &out);
  if (over) fail(node, "an integer beyond 64 bits");
  return Value::integer(out);
}

bool Evaluator::contains(const Node& node, const Value& item, const Value& in) {
  if (in.is(Kind::kText)) {
    const std::string& wanted = need_text(node, item, "in a string").text();
    charge(node, in.as_text().size() / 64);
    return in.as_text().text().find(wanted) != std::string::npos;
  }
  if (in.is(Kind::kList)) {
    charge(node, in.items().size());
    return std::any_of(in.items().begin(), in.items().end(),
                       [&](const Value& there) { return there.equals(item); });
  }
  if (in.is_dict()) return item.is(Kind::kText) && in.find(item.as_text().text()) != nullptr;
  if (in.is(Kind::kUndefined)) return false;
  fail(node, std::string("in of ") + in.type_name());
}

int Evaluator::compare(const Node& node, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (!left.is(Kind::kReal) && !right.is(Kind::kReal))
      return left.as_integer() < right.as_integer() ? -1 : left.as_integer() > right.as_integer();
    return left.as_real() < right.as_real() ? -1 : left.as_real() > right.as_real();
  }
  if (left.is(Kind::kText) && right.is(Kind::kText))
    return left.as_text().text().compare(right.as_text().text());
  fail(node, std::string("an order between ") + left.type_name() + " and " + right.type_name());
}

Value Evaluator::attribute(const Node& node, const Value& object, const std::string& name) {
  if (object.is(Kind::kUndefined)) {
    const Node* inner = node.children.empty() ? nullptr : node.children[0].get();
    fail(node, "." + name + " of a value that is undefined" +
                   (inner != nullptr && !inner->text.empty() ? ": " + inner->text : ""));
  }
  if (!object.is_dict()) return Value();
  charge(node, object.members().size() / 16);
  const Value* member = object.find(name);
  return member != nullptr ? *member : Value();
}

Value Evaluator::index(const Node& node, const Value& object, const Value& key) {
  if (object.is(Kind::kUndefined)) fail(node, "[...] of a value that is undefined");
  if (object.is_dict()) {
    if (!key.is(Kind::kText)) return Value();
    charge(node, object.members().size() / 16);
    const Value* member = object.find(key.as_text().text());
    return member != nullptr ? *member : Value();
  }
  if (!key.is(Kind::kInteger)) return Value();
  if (!object.is(Kind::kList) && !object.is(Kind::kText)) return Value();
  const auto n = static_cast<int64_t>(object.is(Kind::kList) ? object.items().size()
                                                             : n_characters(object.as_text()));
  const int64_t at = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
  if (at < 0 || at >= n) return Value();
  if (object.is(Kind::kList)) return object.items()[static_cast<size_t>(at)];
  charge(node, object.as_text().size() / 8);
  return made(node, characters(object.as_text(), {static_cast<size_t>(at)}));
}

Value Evaluator::slice(const Node& node) {
  const Value object = eval(*node.children[0]);
  const auto bound = [&](size_t child, int64_t absent) {
    if (!node.children[child]) return absent;
    const Value value = eval(*node.children[child]);
    return value.is(Kind::kNone) ? absent : need_integer(node, value, "the border of a slice");
  };
  if (!object.is(Kind::kList) && !object.is(Kind::kText))
    fail(node, std::string("a slice of ") + object.type_name());
  const bool list = object.is(Kind::kList);
  const auto n =
      static_cast<int64_t>(list ? object.items().size() : n_characters(object.as_text()));
  const int64_t step = bound(3, 1);
  if (step == 0) fail(node, "a slice with step 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clamp = [&](int64_t at) {
    if (at < 0) at = at < -n ? low : std::max(at + n, low);
    return std::min(std::max(at, low), high);
  };
  const int64_t begin = node.children[1] ? clamp(bound(1, 0)) : (step > 0 ? 0 : n - 1);
  const int64_t end = node.children[2] ? clamp(bound(2, n)) : (step > 0 ? n : -1);
  std::vector<size_t> wanted;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    wanted.push_back(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  charge(node, wanted.size());
  if (!list) {
    charge(node, object.as_text().size() / 8);
    return made(node, characters(object.as_text(), wanted));
  }
  Value::List items;
  for (const size_t at : wanted) items.push_back(object.items()[at]);
  return Value::list(std::move(items));
}

Evaluator::Arguments Evaluator::arguments(const Node& node) {
  Arguments out;
  for (const Node::Argument& argument : node.arguments) {
    if (argument.name.empty()) {
      out.by_position.push_back(eval(*argument.value));
    } else {
      out.by_name.emplace_back(argument.name, eval(*argument.value));
    }
  }
  return out;
}

const Value* Evaluator::argument(const Arguments& with, size_t position, const char* name) const {
  if (position < with.by_position.size()) return &with.by_position[position];
  for (const auto& [key, value] : with.by_name)
    if (key == name) return &value;
  return nullptr;
}

const MarkedText& Evaluator::need_text(const Node& node, const Value& value, const char* what) {
  if (!value.is(Kind::kText))
    fail(node, std::string(what) + ": " + value.type_name() + ", wanted a string");
  return value.as_text();
}

int64_t Evaluator::need_integer(const Node& node, const Value& value, const char* what) {
  if (!value.is(Kind::kInteger) && !value.is(Kind::kBool))
    fail(node, std::string(what) + ": " + value.type_name() + ", wanted an integer");
  return value.as_integer();
}

}  // namespace outrider::jinja
