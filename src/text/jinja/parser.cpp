#include <initializer_list>

#include "text/jinja/expressions.h"

namespace outrider::jinja {
namespace {

// Known to Jinja, not to this build.
constexpr std::string_view kOtherStatements[] = {"include",    "import", "from",   "extends",
                                                 "block",      "call",   "filter", "with",
                                                 "autoescape", "raw",    "do",     "trans"};

// Statements, and the text between them.
class Parser : Expressions {
 public:
  Parser(std::vector<Token> tokens, uint32_t max_depth)
      : Expressions(std::move(tokens), max_depth) {}

  Tree run() {
    Tree root = block({});
    if (now().kind != TokenKind::kEnd) fail(Code::kInvalid, "a statement that closes nothing");
    return root;
  }

 private:
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

  uint32_t n_loops_ = 0;
};

}  // namespace

std::unique_ptr<Node> parse(std::string_view source, uint32_t max_depth) {
  return Parser(lex(source), max_depth).run();
}

}  // namespace outrider::jinja
