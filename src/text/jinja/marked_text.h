// Text that knows, byte by byte, which of it came from outside the template.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/language_tokenizer.h"

namespace outrider::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string text, bool foreign = false)
      : text_(std::move(text)), marks_(text_.size(), foreign ? '\1' : '\0') {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  void append(const MarkedText& other) {
    text_ += other.text_;
    marks_ += other.marks_;
  }
  MarkedText part(size_t begin, size_t end) const {
    MarkedText out;
    out.text_ = text_.substr(begin, end - begin);
    out.marks_ = marks_.substr(begin, end - begin);
    return out;
  }
  // f changes each byte, not their number.
  template <class F>
  MarkedText mapped(F&& f) const {
    MarkedText out = *this;
    for (size_t i = 0; i < text_.size(); ++i) out.text_[i] = f(i, text_[i]);
    return out;
  }
  bool any_foreign() const { return marks_.find('\1') != std::string::npos; }
  std::vector<ForeignText> foreign() const {
    std::vector<ForeignText> parts;
    for (size_t at = 0; (at = marks_.find('\1', at)) != std::string::npos;) {
      size_t end = marks_.find('\0', at);
      if (end == std::string::npos) end = marks_.size();
      parts.push_back({at, end});
      at = end;
    }
    return parts;
  }

 private:
  std::string text_, marks_;
};

}  // namespace outrider::jinja
