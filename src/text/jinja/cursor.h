// The tokens of a template, read one after the other: what every part of the grammar stands on.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace outrider::jinja {

using Tree = std::unique_ptr<Node>;

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// No variable can have these names.
inline constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else"};

class Cursor {
 protected:
  Cursor(std::vector<Token> tokens, uint32_t max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  // Counts how deep the tree gets: it is walked and freed recursively.
  struct Level {
    explicit Level(Cursor& p) : parser(p) {
      if (++p.depth_ > p.max_depth_)
        p.fail(Code::kInvalid, "nested deeper than max_depth " + std::to_string(p.max_depth_));
    }
    ~Level() { --parser.depth_; }
    Cursor& parser;
  };

  // A chain of operators leans to the left and is as deep as it is long.
  struct Chain {
    explicit Chain(Cursor& p) : parser(p) {}
    ~Chain() { parser.depth_ -= n; }
    void grow() {
      ++n;
      if (++parser.depth_ > parser.max_depth_)
        parser.fail(Code::kInvalid,
                    "a chain of operators beyond max_depth " + std::to_string(parser.max_depth_));
    }
    Cursor& parser;
    uint32_t n = 0;
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

  std::vector<Token> tokens_;
  size_t at_ = 0;

 private:
  uint32_t depth_ = 0;
  const uint32_t max_depth_;
};

}  // namespace outrider::jinja
