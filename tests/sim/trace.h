// What happened in a run, in numbers; words are made only when somebody asks.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace outrider::sim {

class Trace {
 public:
  // `what` and the names are literals.
  void put(int64_t at_ns, int64_t tick, const char* what, const char* x_name = nullptr,
           int64_t x = 0, const char* y_name = nullptr, int64_t y = 0, const char* word = "") {
    lines_.push_back({at_ns - begin_ns, tick, what, x_name, y_name, word, x, y});
  }
  int64_t begin_ns = 0;
  size_t size() const { return lines_.size(); }
  // The last `most` lines.
  std::string text(size_t most = SIZE_MAX) const {
    std::string out;
    const size_t from = lines_.size() > most ? lines_.size() - most : 0;
    if (from > 0) out += "... " + std::to_string(from) + " lines before\n";
    for (size_t i = from; i < lines_.size(); ++i) out += line(lines_[i]);
    return out;
  }

 private:
  struct Line {
    int64_t at_ns, tick;
    const char *what, *x_name, *y_name, *word;
    int64_t x, y;
  };
  static std::string line(const Line& l) {
    char text[200];
    int n =
        std::snprintf(text, sizeof text, "%10.3f ms  tick %-4lld %s",
                      static_cast<double>(l.at_ns) * 1e-6, static_cast<long long>(l.tick), l.what);
    for (const auto& [name, value] : {std::pair{l.x_name, l.x}, std::pair{l.y_name, l.y}})
      if (name != nullptr)
        n += std::snprintf(text + n, sizeof text - static_cast<size_t>(n), " %s %lld", name,
                           static_cast<long long>(value));
    return std::string(text) + (*l.word != 0 ? " " : "") + l.word + "\n";
  }
  std::vector<Line> lines_;
};

}  // namespace outrider::sim
