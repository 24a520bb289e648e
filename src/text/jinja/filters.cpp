// The filters of the evaluator: value | name(arguments).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/evaluator.h"
#include "text/jinja/text_ops.h"

namespace outrider::jinja {
namespace {

const Value* named(const Value::Dict& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments)
    if (key == name) return &value;
  return nullptr;
}

bool flag(const Value* value, bool absent) {
  return value == nullptr ? absent : value->truth();
}

// The methods of strings that are filters of the same name.
constexpr std::string_view kTextFilters[] = {"upper", "lower", "capitalize", "title", "replace"};

}  // namespace

Value Evaluator::filter(const Node& node, const std::string& which, const Value& value,
                        const Arguments& with) {
  const Value* first = argument(with, 0, "");
  if (which == "default" || which == "d") {
    const Value* absent = argument(with, 0, "default_value");
    const bool use =
        value.is(Kind::kUndefined) || (flag(argument(with, 1, "boolean"), false) && !value.truth());
    return !use ? value : absent != nullptr ? *absent : Value::text(std::string());
  }
  if (which == "tojson") return to_json_text(node, value, with);
  if (which == "safe") return value;
  if (which == "string") return made(node, printed(value));
  if (which == "length" || which == "count") {
    if (value.is(Kind::kText))
      return Value::integer(static_cast<int64_t>(n_characters(value.as_text())));
    return Value::integer(static_cast<int64_t>(iterate(node, value).size()));
  }
  if (which == "trim") {
    const Value* chars = argument(with, 0, "chars");
    const MarkedText text = printed(value);
    charge(node, text.size() / 64);
    return made(node, strip(text, Ends::kBoth,
                            chars == nullptr ? nullptr : &need_text(node, *chars, "trim").text()));
  }
  if (std::find(std::begin(kTextFilters), std::end(kTextFilters), which) !=
      std::end(kTextFilters)) {
    Value result;
    text_method(node, printed(value), which, with, result);
    return result;
  }
  if (which == "escape" || which == "e") return made(node, escape_html(printed(value)));
  if (which == "indent") {
    const Value* width = argument(with, 0, "width");
    const MarkedText margin =
        width == nullptr ? MarkedText("    ")
        : width->is(Kind::kText)
            ? width->as_text()
            : MarkedText(std::string(static_cast<size_t>(std::clamp<int64_t>(
                                         need_integer(node, *width, "indent"), 0, 256)),
                                     ' '));
    const MarkedText& text = need_text(node, value, "indent");
    charge(node, text.size() * (1 + margin.size()) / 64);
    return made(node, indent(text, margin, flag(argument(with, 1, "first"), false),
                             flag(argument(with, 2, "blank"), false)));
  }
  if (which == "int" || which == "float") {
    double number = 0;
    bool read = value.is_number();
    if (read) {
      number = value.as_real();
      if (which == "int" && !value.is(Kind::kReal)) return Value::integer(value.as_integer());
    } else if (value.is(Kind::kText)) {
      const std::string text = strip(value.as_text(), Ends::kBoth, nullptr).text();
      const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
      read = end.ec == std::errc() && end.ptr == text.data() + text.size();
    }
    if (which == "float")
      return read ? Value::real(number) : first != nullptr ? *first : Value::real(0);
    if (!read || !(std::fabs(number) < 9e18)) return first != nullptr ? *first : Value::integer(0);
    return Value::integer(static_cast<int64_t>(number));
  }
  if (which == "abs" || which == "round") {
    if (!value.is_number()) fail(node, which + " of " + value.type_name());
    if (which == "abs" && !value.is(Kind::kReal)) {
      if (value.as_integer() == INT64_MIN) fail(node, "an integer beyond 64 bits");
      return Value::integer(std::abs(value.as_integer()));
    }
    if (which == "abs") return Value::real(std::fabs(value.as_real()));
    const int64_t digits = first == nullptr ? 0 : need_integer(node, *first, "round");
    const double scale = std::pow(10.0, static_cast<double>(std::clamp<int64_t>(digits, -15, 15)));
    return Value::real(std::nearbyint(value.as_real() * scale) / scale);
  }
  return list_filter(node, which, value, with);
}

Value Evaluator::list_filter(const Node& node, const std::string& which, const Value& value,
                             const Arguments& with) {
  if (which == "items" || which == "dictsort") {
    if (value.is(Kind::kUndefined)) return Value::list({});
    if (!value.is(Kind::kDict))
      fail(node, which + " of " + value.type_name() + ", wanted a mapping");
    Value result;
    call_method(node, value, "items", {}, result);
    if (which == "items") return result;
    Value::List pairs = result.items();
    const auto key = [](const Value& pair) { return lower(pair.items()[0].as_text()).text(); };
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](const Value& a, const Value& b) { return key(a) < key(b); });
    return Value::list(std::move(pairs));
  }
  if (which == "select" || which == "reject" || which == "selectattr" || which == "rejectattr" ||
      which == "map")
    return chosen(node, which, value, with);
  if (which == "sort") return sorted(node, value, with);
  if (which == "reverse" && value.is(Kind::kText)) {
    std::vector<size_t> wanted(n_characters(value.as_text()));
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted.size() - 1 - i;
    charge(node, wanted.size());
    return made(node, characters(value.as_text(), wanted));
  }
  Value::List items = iterate(node, value);
  if (which == "list") return Value::list(std::move(items));
  if (which == "first") return items.empty() ? Value() : items.front();
  if (which == "last") return items.empty() ? Value() : items.back();
  if (which == "reverse") {
    std::reverse(items.begin(), items.end());
    return Value::list(std::move(items));
  }
  if (which == "join") {
    const Value* separator = argument(with, 0, "d");
    const Value* member = argument(with, 1, "attribute");
    MarkedText out;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0 && separator != nullptr) add(node, out, printed(*separator));
      add(node, out,
          printed(member == nullptr
                      ? items[i]
                      : path(node, items[i], need_text(node, *member, "attribute").text())));
    }
    return made(node, std::move(out));
  }
  if (which == "unique") {
    Value::List kept;
    for (Value& item : items) {
      charge(node, kept.size());
      const bool known = std::any_of(kept.begin(), kept.end(),
                                     [&](const Value& there) { return there.equals(item); });
      if (!known) kept.push_back(std::move(item));
    }
    return Value::list(std::move(kept));
  }
  if (which == "min" || which == "max") {
    if (items.empty()) return Value();
    Value best = items[0];
    for (const Value& item : items)
      if (const int order = compare(node, item, best); which == "min" ? order < 0 : order > 0)
        best = item;
    return best;
  }
  // sum
  bool real = false;
  double total = 0;
  int64_t whole = 0;
  for (const Value& item : items) {
    if (!item.is_number()) fail(node, std::string("sum of ") + item.type_name());
    real = real || item.is(Kind::kReal);
    total += item.as_real();
    if (!item.is(Kind::kReal) && __builtin_add_overflow(whole, item.as_integer(), &whole))
      fail(node, "an integer beyond 64 bits");
  }
  return real ? Value::real(total) : Value::integer(whole);
}

// map, select, reject and their kin by attribute.
Value Evaluator::chosen(const Node& node, const std::string& which, const Value& value,
                        const Arguments& with) {
  Value::List out;
  const bool by_attribute = which == "selectattr" || which == "rejectattr";
  const bool keep = which == "select" || which == "selectattr";
  const Value* first = argument(with, 0, "attribute");
  const Value* absent = argument(with, SIZE_MAX, "default");
  const bool map_attribute = which == "map" && with.by_position.empty();
  if (first == nullptr && (by_attribute || which == "map")) fail(node, which + ": wanted a name");
  const std::string name = first == nullptr ? "" : need_text(node, *first, which.c_str()).text();
  const size_t at_test = by_attribute ? 1 : 0;
  Arguments rest;
  for (size_t i = at_test + 1; i < with.by_position.size(); ++i)
    rest.by_position.push_back(with.by_position[i]);
  std::string test_name;
  if (which != "map" && at_test < with.by_position.size())
    test_name = need_text(node, with.by_position[at_test], which.c_str()).text();
  if (!test_name.empty() && !is_test(test_name))
    fail(node, "the test " + test_name + " is not known to this build", Code::kUnsupported);
  if (which == "map" && !map_attribute && !is_filter(name))
    fail(node, "the filter " + name + " is not known to this build", Code::kUnsupported);
  for (const Value& item : iterate(node, value)) {
    charge(node, 1);
    if (which == "map") {
      Value made_value = map_attribute ? path(node, item, name) : filter(node, name, item, rest);
      if (made_value.is(Kind::kUndefined) && absent != nullptr) made_value = *absent;
      out.push_back(std::move(made_value));
      continue;
    }
    const Value subject = by_attribute ? path(node, item, name) : item;
    const bool holds = test_name.empty() ? subject.truth() : test(node, test_name, subject, rest);
    if (holds == keep) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value Evaluator::sorted(const Node& node, const Value& value, const Arguments& with) {
  Value::List items = iterate(node, value);
  const Value* member = argument(with, 2, "attribute");
  const bool with_case = flag(argument(with, 1, "case_sensitive"), false);
  const auto key = [&](const Value& item) {
    Value out =
        member == nullptr ? item : path(node, item, need_text(node, *member, "sort").text());
    return out.is(Kind::kText) && !with_case ? Value::text(lower(out.as_text())) : out;
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  // Orders are asked for before the sort: a fault must not leave it half way with a wrong order.
  for (size_t i = 1; i < keyed.size(); ++i) compare(node, keyed[0].first, keyed[i].first);
  charge(node, 16 * keyed.size());
  const bool down = flag(argument(with, 0, "reverse"), false);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int order = compare(node, a.first, b.first);
    return down ? order > 0 : order < 0;
  });
  items.clear();
  for (auto& [unused, item] : keyed) items.push_back(std::move(item));
  return Value::list(std::move(items));
}

// "function.name" of a mapping in a mapping.
Value Evaluator::path(const Node& node, const Value& object, const std::string& dotted) {
  Value at = object;
  for (size_t begin = 0; begin <= dotted.size();) {
    const size_t end = std::min(dotted.find('.', begin), dotted.size());
    if (at.is(Kind::kUndefined)) return at;
    at = attribute(node, at, dotted.substr(begin, end - begin));
    begin = end + 1;
  }
  return at;
}

Value Evaluator::to_json_text(const Node& node, const Value& value, const Arguments& with) {
  JsonStyle style;
  const Value* indent_by = argument(with, 0, "indent");
  if (indent_by != nullptr && indent_by->is(Kind::kInteger))
    style.indent = static_cast<int>(std::clamp<int64_t>(indent_by->as_integer(), 0, 64));
  style.ascii = flag(named(with.by_name, "ensure_ascii"), false);
  style.sort_keys = flag(named(with.by_name, "sort_keys"), false);
  if (const Value* pair = named(with.by_name, "separators");
      pair != nullptr && pair->is(Kind::kList) && pair->items().size() == 2) {
    style.item_separator = need_text(node, pair->items()[0], "separators").text();
    style.key_separator = need_text(node, pair->items()[1], "separators").text();
  }
  std::string out;
  if (!to_json(value, style, out))
    fail(node, std::string("tojson of ") + value.type_name() +
                   ", or of one inside it, or nested too deep");
  return made(node, MarkedText(std::move(out), true));
}

}  // namespace outrider::jinja
