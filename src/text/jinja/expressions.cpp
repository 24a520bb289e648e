#include "text/jinja/expressions.h"

#include <charconv>

namespace outrider::jinja {
namespace {

constexpr std::string_view kFilters[] = {
    "abs",     "capitalize", "count",  "d",      "default",    "dictsort", "escape",     "e",
    "first",   "float",      "indent", "int",    "items",      "join",     "last",       "length",
    "list",    "lower",      "map",    "max",    "min",        "reject",   "rejectattr", "replace",
    "reverse", "round",      "safe",   "select", "selectattr", "sort",     "string",     "sum",
    "title",   "tojson",     "trim",   "unique", "upper"};
constexpr std::string_view kTests[] = {
    "boolean",     "callable", "defined",  "divisibleby", "eq",   "equalto",   "even",
    "false",       "float",    "ge",       "gt",          "in",   "integer",   "iterable",
    "le",          "lower",    "lt",       "mapping",     "ne",   "none",      "number",
    "odd",         "sameas",   "sequence", "string",      "true", "undefined", "upper",
    "greaterthan", "lessthan", "=="};

}  // namespace

bool is_filter(std::string_view name) {
  return among(kFilters, name);
}
bool is_test(std::string_view name) {
  return among(kTests, name);
}

Tree Expressions::tuple_or_expression(bool with_condition) {
  Tree first = with_condition ? expression() : either();
  if (!is_operator(",")) return first;
  Tree list = make(NodeKind::kList);
  list->children.push_back(std::move(first));
  while (take_operator(",")) {
    if (now().kind == TokenKind::kExpressionEnd || now().kind == TokenKind::kStatementEnd) break;
    list->children.push_back(with_condition ? expression() : either());
  }
  return list;
}

Tree Expressions::expression() {
  const Level level(*this);
  Tree value = either();
  while (take_word("if")) {
    Tree node = make(NodeKind::kCondition);
    node->children.push_back(either());
    node->children.push_back(std::move(value));
    node->children.push_back(take_word("else") ? expression() : nullptr);
    value = std::move(node);
  }
  return value;
}

Tree Expressions::either() {
  Tree left = both();
  for (Chain chain(*this); take_word("or");) {
    chain.grow();
    left = binary("or", std::move(left), both());
  }
  return left;
}
Tree Expressions::both() {
  Tree left = negation();
  for (Chain chain(*this); take_word("and");) {
    chain.grow();
    left = binary("and", std::move(left), negation());
  }
  return left;
}
Tree Expressions::negation() {
  const Level level(*this);
  if (!is_word("not")) return comparison();
  Tree node = make(NodeKind::kUnary);
  ++at_;
  node->text = "not";
  node->children.push_back(negation());
  return node;
}

Tree Expressions::comparison() {
  Tree left = sum();
  Chain chain(*this);
  while (true) {
    std::string op;
    for (const char* text : {"==", "!=", "<=", ">=", "<", ">"})
      if (op.empty() && take_operator(text)) op = text;
    if (op.empty() && take_word("in")) op = "in";
    if (op.empty() && is_word("not") && next().kind == TokenKind::kName && next().text == "in") {
      at_ += 2;
      op = "not in";
    }
    if (op.empty()) return left;
    chain.grow();
    left = binary(op, std::move(left), sum());
  }
}
Tree Expressions::sum() {
  return chain_of({"+", "-"}, [&] { return joined(); });
}
Tree Expressions::joined() {
  return chain_of({"~"}, [&] { return product(); });
}
Tree Expressions::product() {
  return chain_of({"*", "/", "//", "%"}, [&] { return power(); });
}
Tree Expressions::power() {
  return chain_of({"**"}, [&] { return unary(); });
}

template <class F>
Tree Expressions::chain_of(std::initializer_list<std::string_view> operators, F&& part) {
  Tree left = part();
  Chain chain(*this);
  while (now().kind == TokenKind::kOperator &&
         std::find(operators.begin(), operators.end(), now().text) != operators.end()) {
    const std::string op = now().text;
    ++at_;
    chain.grow();
    left = binary(op, std::move(left), part());
  }
  return left;
}

Tree Expressions::unary(bool with_filters) {
  const Level level(*this);
  Tree node;
  if (is_operator("-") || is_operator("+")) {
    node = make(NodeKind::kUnary);
    node->text = now().text;
    ++at_;
    node->children.push_back(unary(false));
  } else {
    node = primary();
  }
  return postfix(std::move(node), with_filters);
}

Tree Expressions::postfix(Tree node, bool with_filters) {
  Chain chain(*this);
  while (true) {
    if (take_operator(".")) {
      Tree outer = make(NodeKind::kAttribute);
      if (now().kind == TokenKind::kInteger) {
        outer->kind = NodeKind::kIndex;
        outer->children.push_back(std::move(node));
        outer->children.push_back(number());
      } else {
        if (now().kind != TokenKind::kName) expected("a name");
        outer->text = tokens_[at_++].text;
        outer->children.push_back(std::move(node));
      }
      node = std::move(outer);
    } else if (is_operator("[")) {
      node = subscript(std::move(node));
    } else if (is_operator("(")) {
      Tree outer = make(NodeKind::kCall);
      outer->children.push_back(std::move(node));
      arguments(*outer);
      node = std::move(outer);
    } else if (with_filters && take_operator("|")) {
      Tree outer = make(NodeKind::kFilter);
      outer->text = need_name();
      if (!is_filter(outer->text))
        fail(Code::kUnsupported, "the filter " + outer->text + " is not known to this build");
      outer->children.push_back(std::move(node));
      if (is_operator("(")) arguments(*outer);
      node = std::move(outer);
    } else if (with_filters && take_word("is")) {
      node = test(std::move(node));
    } else {
      return node;
    }
    chain.grow();
  }
}

Tree Expressions::subscript(Tree node) {
  Tree outer = make(NodeKind::kIndex);
  need_operator("[");
  outer->children.push_back(std::move(node));
  std::vector<Tree> parts;
  bool slice = false;
  parts.push_back(is_operator(":") ? nullptr : expression());
  while (take_operator(":")) {
    slice = true;
    if (parts.size() == 3) expected("]");
    parts.push_back(is_operator(":") || is_operator("]") ? nullptr : expression());
  }
  need_operator("]");
  if (slice) {
    outer->kind = NodeKind::kSlice;
    parts.resize(3);
  }
  for (Tree& part : parts) outer->children.push_back(std::move(part));
  return outer;
}

void Expressions::arguments(Node& node) {
  need_operator("(");
  for (bool first = true; !take_operator(")"); first = false) {
    if (!first) {
      need_operator(",");
      if (take_operator(")")) return;
    }
    Node::Argument argument;
    if (now().kind == TokenKind::kName && next().kind == TokenKind::kOperator &&
        next().text == "=") {
      argument.name = need_name();
      ++at_;
    } else if (!node.arguments.empty() && !node.arguments.back().name.empty()) {
      expected("a named argument");
    }
    if (is_operator("*") || is_operator("**"))
      fail(Code::kUnsupported, "arguments from a list are not known to this build");
    argument.value = expression();
    node.arguments.push_back(std::move(argument));
  }
}

Tree Expressions::test(Tree node) {
  Tree outer = make(NodeKind::kTest);
  outer->flag = take_word("not");
  if (now().kind != TokenKind::kName && !is_operator("==")) expected("the name of a test");
  outer->text = now().text;
  ++at_;
  if (!is_test(outer->text))
    fail(Code::kUnsupported, "the test " + outer->text + " is not known to this build");
  outer->children.push_back(std::move(node));
  if (is_operator("(")) {
    arguments(*outer);
  } else if (now().kind == TokenKind::kString || now().kind == TokenKind::kInteger ||
             now().kind == TokenKind::kReal || is_operator("[") || is_operator("{") ||
             (now().kind == TokenKind::kName && !among(kWords, now().text))) {
    Node::Argument argument;
    argument.value = unary(false);
    outer->arguments.push_back(std::move(argument));
  }
  return outer;
}

Tree Expressions::literal(Value value) {
  Tree node = make(NodeKind::kLiteral);
  node->value = std::move(value);
  return node;
}
Tree Expressions::number() {
  const std::string& text = now().text;
  if (now().kind == TokenKind::kInteger) {
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc()) fail(Code::kInvalid, "an integer beyond 64 bits");
    Tree node = literal(Value::integer(value));
    ++at_;
    return node;
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  Tree node = literal(Value::real(value));
  ++at_;
  return node;
}

Tree Expressions::primary() {
  switch (now().kind) {
    case TokenKind::kInteger:
    case TokenKind::kReal:
      return number();
    case TokenKind::kString: {
      Tree node = make(NodeKind::kLiteral);
      std::string text;
      while (now().kind == TokenKind::kString) text += tokens_[at_++].text;
      node->value = Value::text(std::move(text));
      return node;
    }
    case TokenKind::kName:
      return name();
    default:
      break;
  }
  if (take_operator("(")) {
    if (is_operator(")")) {
      Tree empty = make(NodeKind::kList);
      ++at_;
      return empty;
    }
    Tree inner = expression();
    if (is_operator(",")) {
      Tree list = make(NodeKind::kList);
      list->children.push_back(std::move(inner));
      while (take_operator(",") && !is_operator(")")) list->children.push_back(expression());
      inner = std::move(list);
    }
    need_operator(")");
    return inner;
  }
  if (take_operator("[")) {
    Tree list = make(NodeKind::kList);
    while (!take_operator("]")) {
      if (!list->children.empty()) {
        need_operator(",");
        if (take_operator("]")) break;
      }
      list->children.push_back(expression());
    }
    return list;
  }
  if (take_operator("{")) {
    Tree dict = make(NodeKind::kDict);
    while (!take_operator("}")) {
      if (!dict->children.empty()) {
        need_operator(",");
        if (take_operator("}")) break;
      }
      dict->children.push_back(expression());
      need_operator(":");
      dict->children.push_back(expression());
    }
    return dict;
  }
  expected("a value");
}

Tree Expressions::name() {
  const std::string& text = now().text;
  if (among(kWords, text)) expected("a value");
  Tree node = make(NodeKind::kLiteral);
  if (text == "true" || text == "True") {
    node->value = Value::boolean(true);
  } else if (text == "false" || text == "False") {
    node->value = Value::boolean(false);
  } else if (text == "none" || text == "None") {
    node->value = Value::none();
  } else {
    node->kind = NodeKind::kName;
    node->text = text;
  }
  ++at_;
  return node;
}

}  // namespace outrider::jinja
