// Cuts a template into its own text and the tokens of its tags, with white space control as models'
// templates expect it: the newline behind a statement and the blanks in front of one go away.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outrider::jinja {

enum class TokenKind : uint8_t {
  kText,             // outside of tags
  kExpressionBegin,  // {{
  kExpressionEnd,
  kStatementBegin,  // {%
  kStatementEnd,
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 1;
  std::string text;
};

// Throws Fault.
std::vector<Token> lex(std::string_view source);

}  // namespace outrider::jinja
