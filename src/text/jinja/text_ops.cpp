#include "text/jinja/text_ops.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "text/unicode.h"

namespace outrider::jinja {
namespace {

bool is_space(uint32_t code) {
  return unicode_space(code) || (code >= 0x1C && code <= 0x1F);
}
char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
char to_upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
bool is_letter(char c) {
  return to_lower(c) >= 'a' && to_lower(c) <= 'z';
}

Character last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return first_character(text.substr(at));
}

}  // namespace

size_t n_characters(const MarkedText& text) {
  return static_cast<size_t>(std::count_if(text.text().begin(), text.text().end(), [](char c) {
    return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  }));
}

MarkedText characters(const MarkedText& text, const std::vector<size_t>& wanted) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i)
    if ((static_cast<uint8_t>(text.text()[i]) & 0xC0) != 0x80) starts.push_back(i);
  starts.push_back(text.size());
  MarkedText out;
  for (const size_t i : wanted) out.append(text.part(starts[i], starts[i + 1]));
  return out;
}

MarkedText strip(const MarkedText& text, Ends ends, const std::string* chars) {
  const auto goes = [&](Character c, std::string_view bytes) {
    return chars == nullptr ? is_space(c.code) : chars->find(bytes) != std::string::npos;
  };
  std::string_view left = text.text();
  size_t begin = 0;
  while (ends != Ends::kRight && !left.empty()) {
    const Character c = first_character(left);
    if (!goes(c, left.substr(0, c.bytes))) break;
    left.remove_prefix(c.bytes);
    begin += c.bytes;
  }
  while (ends != Ends::kLeft && !left.empty()) {
    const Character c = last_character(left);
    if (!goes(c, left.substr(left.size() - c.bytes))) break;
    left.remove_suffix(c.bytes);
  }
  return text.part(begin, begin + left.size());
}

namespace {

std::vector<MarkedText> split_words(const MarkedText& text, int64_t limit) {
  std::vector<MarkedText> parts;
  const std::string& bytes = text.text();
  for (size_t at = 0; at < bytes.size();) {
    const auto here = [&] { return first_character(std::string_view(bytes).substr(at)); };
    while (at < bytes.size() && is_space(here().code)) at += here().bytes;
    if (at == bytes.size()) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(strip(text.part(at, bytes.size()), Ends::kRight, nullptr));
      break;
    }
    const size_t begin = at;
    while (at < bytes.size() && !is_space(here().code)) at += here().bytes;
    parts.push_back(text.part(begin, at));
  }
  return parts;
}

}  // namespace

std::vector<MarkedText> split(const MarkedText& text, const std::string* separator, int64_t limit,
                              bool from_right) {
  if (separator == nullptr) return split_words(text, limit);
  const std::string& bytes = text.text();
  std::vector<size_t> cuts;
  if (!from_right) {
    for (size_t at = 0; (at = bytes.find(*separator, at)) != std::string::npos;
         at += separator->size()) {
      if (limit >= 0 && static_cast<int64_t>(cuts.size()) == limit) break;
      cuts.push_back(at);
    }
  } else {
    for (size_t end = bytes.size(); end >= separator->size();) {
      if (limit >= 0 && static_cast<int64_t>(cuts.size()) == limit) break;
      const size_t at = bytes.rfind(*separator, end - separator->size());
      if (at == std::string::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  }
  std::vector<MarkedText> parts;
  size_t at = 0;
  for (const size_t cut : cuts) {
    parts.push_back(text.part(at, cut));
    at = cut + separator->size();
  }
  parts.push_back(text.part(at, bytes.size()));
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text) {
  std::vector<MarkedText> lines;
  size_t begin = 0;
  const std::string& bytes = text.text();
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '\n' && bytes[at] != '\r') continue;
    lines.push_back(text.part(begin, at));
    if (bytes[at] == '\r' && at + 1 < bytes.size() && bytes[at + 1] == '\n') ++at;
    begin = at + 1;
  }
  if (begin < bytes.size()) lines.push_back(text.part(begin, bytes.size()));
  return lines;
}

MarkedText replace(const MarkedText& text, const std::string& from, const MarkedText& to,
                   int64_t limit) {
  MarkedText out;
  const std::string& bytes = text.text();
  size_t at = 0;
  if (from.empty()) {  // between all characters and at both ends
    int64_t n = 0;
    while (true) {
      if (limit < 0 || n++ < limit) out.append(to);
      if (at >= bytes.size()) return out;
      const size_t next = at + first_character(std::string_view(bytes).substr(at)).bytes;
      out.append(text.part(at, next));
      at = next;
    }
  }
  for (size_t next;
       (limit < 0 || limit-- > 0) && (next = bytes.find(from, at)) != std::string::npos;
       at = next + from.size()) {
    out.append(text.part(at, next));
    out.append(to);
  }
  out.append(text.part(at, bytes.size()));
  return out;
}

MarkedText upper(const MarkedText& text) {
  return text.mapped([](size_t, char c) { return to_upper(c); });
}
MarkedText lower(const MarkedText& text) {
  return text.mapped([](size_t, char c) { return to_lower(c); });
}
MarkedText capitalize(const MarkedText& text) {
  return text.mapped([](size_t i, char c) { return i == 0 ? to_upper(c) : to_lower(c); });
}
MarkedText title(const MarkedText& text) {
  bool inside = false;
  return text.mapped([&](size_t, char c) {
    const char out = inside ? to_lower(c) : to_upper(c);
    inside = is_letter(c) || static_cast<uint8_t>(c) >= 0x80 || (inside && c == '\'');
    return out;
  });
}

MarkedText indent(const MarkedText& text, const MarkedText& margin, bool first, bool blank) {
  const std::string newline = "\n";
  const auto lines = split(text, &newline, -1, false);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append(MarkedText(newline));
    if (i == 0 ? first : blank || !lines[i].empty()) out.append(margin);
    out.append(lines[i]);
  }
  return out;
}

MarkedText escape_html(const MarkedText& text) {
  MarkedText out = text;
  for (const auto& [from, to] :
       {std::pair{"&", "&amp;"}, std::pair{"<", "&lt;"}, std::pair{">", "&gt;"},
        std::pair{"\"", "&#34;"}, std::pair{"'", "&#39;"}})
    out = replace(out, from, MarkedText(to, text.any_foreign()), -1);
  return out;
}

std::optional<std::string> strftime_utc(std::string_view format, int64_t seconds) {
  const auto when = static_cast<time_t>(seconds);
  tm at = {};
  if (gmtime_r(&when, &at) == nullptr) return std::nullopt;
  constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
  constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
  std::string out;
  const auto number = [&](const char* form, int value) {
    char text[16];
    std::snprintf(text, sizeof text, form, value);
    out += text;
  };
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    switch (format[++i]) {
      case 'Y':
        number("%d", at.tm_year + 1900);
        break;
      case 'y':
        number("%02d", at.tm_year % 100);
        break;
      case 'm':
        number("%02d", at.tm_mon + 1);
        break;
      case 'd':
        number("%02d", at.tm_mday);
        break;
      case 'e':
        number("%2d", at.tm_mday);
        break;
      case 'H':
        number("%02d", at.tm_hour);
        break;
      case 'I':
        number("%02d", at.tm_hour % 12 == 0 ? 12 : at.tm_hour % 12);
        break;
      case 'M':
        number("%02d", at.tm_min);
        break;
      case 'S':
        number("%02d", at.tm_sec);
        break;
      case 'j':
        number("%03d", at.tm_yday + 1);
        break;
      case 'p':
        out += at.tm_hour < 12 ? "AM" : "PM";
        break;
      case 'B':
        out += kMonths[at.tm_mon];
        break;
      case 'b':
        out += std::string_view(kMonths[at.tm_mon]).substr(0, 3);
        break;
      case 'A':
        out += kDays[at.tm_wday];
        break;
      case 'a':
        out += std::string_view(kDays[at.tm_wday]).substr(0, 3);
        break;
      case '%':
        out += '%';
        break;
      default:
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace outrider::jinja
