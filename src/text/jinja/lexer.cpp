#include "text/jinja/lexer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/syntax.h"

namespace outrider::jinja {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();  // one newline at the end does not count
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      text_until(tag);
      if (tag == source_.size()) break;
      const char kind = source_[tag + 1];
      at_ = tag + 2;
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
      if (kind == '#') {
        comment();
      } else {
        inside(kind == '{' ? '}' : '%');
      }
    }
    put(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const char* what) const { throw Fault{Code::kInvalid, line_, what}; }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void put(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  size_t next_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return source_.size();
  }

  // The text in front of a tag, less what white space control takes from either end.
  void text_until(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const bool line_begins = at_ == 0 || source_[at_ - 1] == '\n';
    const auto n_lines = std::count(text.begin(), text.end(), '\n');
    if (strip_) {
      while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    }
    if (tag < source_.size()) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (sign == '-') {
        while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
      } else if (source_[tag + 1] != '{' && sign != '+') {
        // Blanks between the beginning of the line and a statement.
        size_t end = text.size();
        while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
        if (end > 0 ? text[end - 1] == '\n' : line_begins) text = text.substr(0, end);
      }
    }
    if (!text.empty()) put(TokenKind::kText, std::string(text));
    line_ += static_cast<uint32_t>(n_lines);
    at_ = tag;
    strip_ = false;
  }

  // Behind the end of a statement or comment.
  void after_tag(bool minus, bool plus, bool statement) {
    strip_ = minus;
    if (statement && !minus && !plus && peek() == '\n') {
      ++at_;
      ++line_;
    }
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment without its #}");
    line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                              source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    const bool inside = end > at_;
    const char sign = inside ? source_[end - 1] : '\0';
    at_ = end + 2;
    after_tag(sign == '-', sign == '+', true);
  }

  void inside(char close) {
    const bool statement = close == '%';
    put(statement ? TokenKind::kStatementBegin : TokenKind::kExpressionBegin, "");
    size_t n_open = 0;  // brackets: }} may close two of them
    while (true) {
      while (is_blank(peek())) line_ += source_[at_++] == '\n' ? 1 : 0;
      if (at_ >= source_.size()) fail("a tag that does not end");
      const size_t sign = peek() == '-' || (statement && peek() == '+') ? 1 : 0;
      if (n_open == 0 && peek(sign) == close && peek(sign + 1) == '}') {
        const char mark = sign == 1 ? peek() : '\0';
        at_ += sign + 2;
        put(statement ? TokenKind::kStatementEnd : TokenKind::kExpressionEnd, "");
        after_tag(mark == '-', mark == '+', statement);
        return;
      }
      token(n_open);
    }
  }

  void token(size_t& n_open) {
    const char c = peek();
    const size_t start = at_;
    if (is_letter(c)) {
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      return put(TokenKind::kName, source_.substr(start, at_ - start));
    }
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string(c);
    constexpr std::string_view kPairs[] = {"**", "//", "==", "!=", "<=", ">="};
    for (const std::string_view pair : kPairs) {
      if (c != pair[0] || peek(1) != pair[1]) continue;
      at_ += 2;
      return put(TokenKind::kOperator, std::string(pair));
    }
    if (std::string_view("+-*/%~<>=()[]{},.:|").find(c) == std::string_view::npos)
      fail("a character that has no meaning in a tag");
    n_open += c == '(' || c == '[' || c == '{' ? 1 : 0;
    if ((c == ')' || c == ']' || c == '}') && n_open > 0) --n_open;
    ++at_;
    put(TokenKind::kOperator, std::string(1, c));
  }

  void number() {
    const size_t start = at_;
    while (is_digit(peek())) ++at_;
    bool real = false;
    if (peek() == '.' && is_digit(peek(1))) {
      real = true;
      ++at_;
      while (is_digit(peek())) ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
      const size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
      if (is_digit(peek(sign))) {
        real = true;
        at_ += sign;
        while (is_digit(peek())) ++at_;
      }
    }
    put(real ? TokenKind::kReal : TokenKind::kInteger, source_.substr(start, at_ - start));
  }

  void string(char quote) {
    ++at_;
    std::string out;
    const uint32_t first_line = line_;
    while (peek() != quote) {
      if (at_ >= source_.size()) fail("a string without its end");
      if (peek() == '\n') ++line_;
      if (peek() != '\\') {
        out += source_[at_++];
        continue;
      }
      ++at_;
      const char c = peek();
      constexpr std::string_view kNames = "ntrbfva0", kValues("\n\t\r\b\f\v\a\0", 8);
      if (const size_t i = kNames.find(c); at_ < source_.size() && i != kNames.npos) {
        out += kValues[i];
        ++at_;
      } else if (c == 'u' || c == 'x') {
        hex(out, c == 'u' ? 4 : 2);
      } else if (c == '\n') {
        ++at_;  // a line that goes on
        ++line_;
      } else {
        if (c != '\\' && c != '\'' && c != '"') out += '\\';  // as Python has it
        if (at_ < source_.size()) out += source_[at_++];
      }
    }
    ++at_;
    tokens_.push_back({TokenKind::kString, first_line, std::move(out)});
  }

  void hex(std::string& out, size_t n) {
    ++at_;
    uint32_t code = 0;
    for (size_t i = 0; i < n; ++i, ++at_) {
      const char c = peek();
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_digit(c) && !letter) fail("an escape with too few digits");
      code = code * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (code >= 0xD800 && code < 0xE000) fail("an escape that is half a character");
    utf8_append(out, code);
  }

  std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool strip_ = false;  // white space behind the last tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace outrider::jinja
