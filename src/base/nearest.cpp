#include "base/nearest.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace outrider {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), last, before_last;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = last;
    last = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      // Two neighbouring letters exchanged count as one mistake.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

const char* nearest_name(std::string_view word, std::span<const char* const> known) {
  const char* best = nullptr;
  size_t best_distance = SIZE_MAX;
  if (word.size() > 64) return nullptr;
  for (const char* name : known) {
    const size_t length = std::max(word.size(), std::strlen(name));
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance && distance * 3 <= length + 2)
      best = name, best_distance = distance;
  }
  return best;
}

Error unknown_key_error(const char* family, const std::string& key,
                        std::span<const char* const> known) {
  const char* near = nearest_name(key, known);
  return make_error(
      Code::kInvalid, "config: unknown key \"%.80s\" for model_family %s; %s%s%s", key.c_str(),
      family, near ? "the nearest known key is \"" : "docs/reference/config.md lists its keys",
      near ? near : "", near ? "\"" : "");
}

}  // namespace outrider
