#include "providers/gguf/config_rows.h"

namespace outrider {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::string previous(b.size() + 1, 0), current(b.size() + 1, 0);
  if (a.size() > 100 || b.size() > 100) return 100;
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<char>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<char>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = static_cast<char>(std::min({change, previous[j] + 1, current[j - 1] + 1}));
    }
    std::swap(previous, current);
  }
  return static_cast<size_t>(previous[b.size()]);
}

std::string choices_text(std::span<const char* const> choices) {
  std::string text;
  for (const char* choice : choices)
    text += (text.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  return text;
}

}  // namespace outrider
