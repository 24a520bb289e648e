// Expressions of a template, from the condition down to the literal.
#pragma once
#include <initializer_list>

#include "text/jinja/cursor.h"

namespace outrider::jinja {

class Expressions : protected Cursor {
 protected:
  using Cursor::Cursor;
  Tree expression();
  // a, b is a list.
  Tree tuple_or_expression(bool with_condition = true);

 private:
  Tree either();
  Tree both();
  Tree negation();
  Tree comparison();
  Tree sum();
  Tree joined();
  Tree product();
  Tree power();
  template <class F>
  Tree chain_of(std::initializer_list<std::string_view> operators, F&& part);
  Tree unary(bool with_filters = true);
  Tree postfix(Tree node, bool with_filters);
  Tree subscript(Tree node);
  void arguments(Node& node);
  Tree test(Tree node);
  Tree literal(Value value);
  Tree number();
  Tree primary();
  Tree name();
};

}  // namespace outrider::jinja
