#include <algorithm>
#include <charconv>

#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

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
// Known to Jinja, not to this build.
constexpr std::string_view kOtherStatements[] = {"include",    "import", "from",   "extends",
                                                 "block",      "call",   "filter", "with",
                                                 "autoescape", "raw",    "do",     "trans"};
// No variable can have these names.
constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else"};

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

using Tree = std::unique_ptr<Node>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, uint32_t max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  Tree run() {
    Tree root = block({});
    if (now().kind != TokenKind::kEnd) fail(Code::kInvalid, "a statement that closes nothing");
    return root;
  }

 private:
  // Counts how deep the tree gets: it is walked and freed recursively.
  struct Level {
    explicit Level(Parser& p) : parser(p) {
      if (++p.depth_ > p.max_depth_)
        p.fail(Code::kInvalid, "nested deeper than max_depth " + std::to_string(p.max_depth_));
    }
    ~Level() { --parser.depth_; }
    Parser& parser;
  };

  [[noreturn]] void fail(Code code, std::string what) const {
    throw Fault{code, now().line, std::move(what)};
  }
  [[noreturn]] void expected(const char* what) const {
    const Token& token = now();
    const bool has_text = !token.text.empty() && token.kind != TokenKind::kText;
    fail(Code::kInvalid, std::string("wanted ") + what + (has_text ? ", found " + token.text : ""));
  }
  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_operator(std::string_view text) const {
    return now().kind == TokenKind::kOperator && now().text == text;
  }
  bool is_word(std::string_view text) const {
    return now().kind == TokenKind::kName && now().text == text;
  }
  bool take_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view text) {
    if (!is_word(text)) return false;
    ++at_;
    return true;
  }
  void need_operator(const char* text) {
    if (!take_operator(text)) expected(text);
  }
  void need(TokenKind kind, const char* what) {
    if (now().kind != kind) expected(what);
    ++at_;
  }
  std::string need_name() {
    if (now().kind != TokenKind::kName || among(kWords, now().text)) expected("a name");
    return tokens_[at_++].text;
  }
  Tree make(NodeKind kind) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = now().line;
    return node;
  }
  Tree binary(std::string op, Tree left, Tree right) const {
    Tree node = make(NodeKind::kBinary);
    node->text = std::move(op);
    node->children.push_back(std::move(left));
    node->children.push_back(std::move(right));
    return node;
  }

  // Up to a statement whose word is one of `ends`, which is not taken.
  Tree block(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Tree node = make(NodeKind::kBlock);
    while (now().kind != TokenKind::kEnd) {
      if (now().kind == TokenKind::kText) {
        Tree text = make(NodeKind::kOutput);
        text->text = now().text;
        ++at_;
        node->children.push_back(std::move(text));
      } else if (now().kind == TokenKind::kExpressionBegin) {
        ++at_;
        Tree output = make(NodeKind::kOutput);
        output->children.push_back(tuple_or_expression());
        need(TokenKind::kExpressionEnd, "}}");
        node->children.push_back(std::move(output));
      } else {
        if (std::find(ends.begin(), ends.end(), next().text) != ends.end()) return node;
        ++at_;
        if (Tree made = statement()) node->children.push_back(std::move(made));
      }
    }
    if (ends.size() > 0)
      expected(std::string("{% " + std::string(*(ends.end() - 1)) + " %}").c_str());
    return node;
  }
  void end_of(const char* word) {
    need(TokenKind::kStatementBegin, "{%");
    if (!take_word(word)) expected(word);
    need(TokenKind::kStatementEnd, "%}");
  }

  Tree statement() {
    if (take_word("if")) return if_statement();
    if (take_word("for")) return for_statement();
    if (take_word("set")) return set_statement();
    if (take_word("macro")) return macro_statement();
    if (is_word("break") || is_word("continue")) {
      if (n_loops_ == 0) fail(Code::kInvalid, now().text + " outside of a loop");
      Tree node = make(now().text == "break" ? NodeKind::kBreak : NodeKind::kContinue);
      ++at_;
      need(TokenKind::kStatementEnd, "%}");
      return node;
    }
    if (take_word("generation")) {  // marks what a model is trained on: its content counts
      need(TokenKind::kStatementEnd, "%}");
      Tree body = block({"endgeneration"});
      end_of("endgeneration");
      return body;
    }
    if (among(kOtherStatements, now().text))
      fail(Code::kUnsupported, "the statement " + now().text + " is not known to this build");
    fail(Code::kInvalid, "no statement: " + now().text);
  }

  Tree if_statement() {
    Tree node = make(NodeKind::kIf);
    node->children.push_back(expression());
    need(TokenKind::kStatementEnd, "%}");
    while (true) {
      node->children.push_back(block({"elif", "else", "endif"}));
      ++at_;
      if (take_word("elif")) {
        node->children.push_back(expression());
        need(TokenKind::kStatementEnd, "%}");
      } else if (take_word("else")) {
        need(TokenKind::kStatementEnd, "%}");
        node->children.push_back(block({"endif"}));
        end_of("endif");
        return node;
      } else {
        ++at_;
        need(TokenKind::kStatementEnd, "%}");
        return node;
      }
    }
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names{need_name()};
    while (take_operator(",")) names.push_back(need_name());
    return names;
  }

  Tree for_statement() {
    Tree node = make(NodeKind::kFor);
    const bool bracket = take_operator("(");
    node->names = targets();
    if (bracket) need_operator(")");
    if (!take_word("in")) expected("in");
    node->children.push_back(tuple_or_expression(false));
    Tree condition;
    if (take_word("if")) condition = expression();
    if (is_word("recursive"))
      fail(Code::kUnsupported, "recursive loops are not known to this build");
    need(TokenKind::kStatementEnd, "%}");
    ++n_loops_;
    node->children.push_back(block({"else", "endfor"}));
    --n_loops_;
    ++at_;
    Tree otherwise;
    if (take_word("else")) {
      need(TokenKind::kStatementEnd, "%}");
      otherwise = block({"endfor"});
      end_of("endfor");
    } else {
      ++at_;
      need(TokenKind::kStatementEnd, "%}");
    }
    node->children.push_back(std::move(otherwise));
    node->children.push_back(std::move(condition));
    return node;
  }

  Tree set_statement() {
    Tree node = make(NodeKind::kSet);
    node->children.resize(2);
    if (now().kind == TokenKind::kName && next().kind == TokenKind::kOperator &&
        next().text == ".") {
      Tree target = make(NodeKind::kAttribute);
      target->children.push_back(make(NodeKind::kName));
      target->children[0]->text = need_name();
      ++at_;
      target->text = need_name();
      node->children[1] = std::move(target);
    } else {
      node->names = targets();
    }
    if (take_operator("=")) {
      node->children[0] = tuple_or_expression();
      need(TokenKind::kStatementEnd, "%}");
      return node;
    }
    if (now().kind != TokenKind::kStatementEnd || node->names.size() > 1) expected("=");
    ++at_;
    node->flag = true;
    node->children[0] = block({"endset"});
    end_of("endset");
    return node;
  }

  Tree macro_statement() {
    Tree node = make(NodeKind::kMacro);
    node->text = need_name();
    need_operator("(");
    node->children.resize(1);
    while (!take_operator(")")) {
      if (!node->names.empty()) need_operator(",");
      node->names.push_back(need_name());
      if (take_operator("=")) {
        node->children.push_back(expression());
      } else if (node->children.size() > 1) {
        expected("a default");
      }
    }
    need(TokenKind::kStatementEnd, "%}");
    const uint32_t outer = n_loops_;
    n_loops_ = 0;
    node->children[0] = block({"endmacro"});
    n_loops_ = outer;
    end_of("endmacro");
    return node;
  }

  // a, b is a list.
  Tree tuple_or_expression(bool with_condition = true) {
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

  Tree expression() {
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

  Tree either() {
    Tree left = both();
    for (Chain chain(*this); take_word("or");) {
      chain.grow();
      left = binary("or", std::move(left), both());
    }
    return left;
  }
  Tree both() {
    Tree left = negation();
    for (Chain chain(*this); take_word("and");) {
      chain.grow();
      left = binary("and", std::move(left), negation());
    }
    return left;
  }
  Tree negation() {
    const Level level(*this);
    if (!is_word("not")) return comparison();
    Tree node = make(NodeKind::kUnary);
    ++at_;
    node->text = "not";
    node->children.push_back(negation());
    return node;
  }

  // A chain of operators leans to the left and is as deep as it is long.
  struct Chain {
    explicit Chain(Parser& p) : parser(p) {}
    ~Chain() { parser.depth_ -= n; }
    void grow() {
      ++n;
      if (++parser.depth_ > parser.max_depth_)
        parser.fail(Code::kInvalid,
                    "a chain of operators beyond max_depth " + std::to_string(parser.max_depth_));
    }
    Parser& parser;
    uint32_t n = 0;
  };

  Tree comparison() {
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
  Tree sum() {
    return chain_of({"+", "-"}, [&] { return joined(); });
  }
  Tree joined() {
    return chain_of({"~"}, [&] { return product(); });
  }
  Tree product() {
    return chain_of({"*", "/", "//", "%"}, [&] { return power(); });
  }
  Tree power() {
    return chain_of({"**"}, [&] { return unary(); });
  }

  template <class F>
  Tree chain_of(std::initializer_list<std::string_view> operators, F&& part) {
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

  Tree unary(bool with_filters = true) {
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

  Tree postfix(Tree node, bool with_filters) {
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

  Tree subscript(Tree node) {
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

  void arguments(Node& node) {
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

  Tree test(Tree node) {
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

  Tree literal(Value value) {
    Tree node = make(NodeKind::kLiteral);
    node->value = std::move(value);
    return node;
  }
  Tree number() {
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

  Tree primary() {
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

  Tree name() {
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0, n_loops_ = 0;
  const uint32_t max_depth_;
};

}  // namespace

bool is_filter(std::string_view name) {
  return among(kFilters, name);
}
bool is_test(std::string_view name) {
  return among(kTests, name);
}

std::unique_ptr<Node> parse(std::string_view source, uint32_t max_depth) {
  return Parser(lex(source), max_depth).run();
}

}  // namespace outrider::jinja
