// What templates do with texts, marks kept. Characters are Unicode characters; upper and lower
// case are those of ASCII, other letters stay.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"

namespace outrider::jinja {

enum class Ends : uint8_t { kBoth, kLeft, kRight };

size_t n_characters(const MarkedText& text);
MarkedText characters(const MarkedText& text, const std::vector<size_t>& wanted);
// chars: the set of characters to take off; empty pointer: white space.
MarkedText strip(const MarkedText& text, Ends ends, const std::string* chars);
// separator nullptr: runs of white space, none at the ends. limit < 0: none.
std::vector<MarkedText> split(const MarkedText& text, const std::string* separator, int64_t limit,
                              bool from_right);
std::vector<MarkedText> split_lines(const MarkedText& text);
MarkedText replace(const MarkedText& text, const std::string& from, const MarkedText& to,
                   int64_t limit);
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
MarkedText title(const MarkedText& text);
MarkedText indent(const MarkedText& text, const MarkedText& margin, bool first, bool blank);
MarkedText escape_html(const MarkedText& text);

// "%d %b %Y" of a moment in UTC. Empty: a conversion that is not known.
std::optional<std::string> strftime_utc(std::string_view format, int64_t seconds);

}  // namespace outrider::jinja
