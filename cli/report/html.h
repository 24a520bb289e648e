// One self-contained page: style, charts and pictures inside, nothing loaded from anywhere.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/machine.h"

namespace outrider::cli {

// Text made safe for element content and attribute values.
std::string escape_html(std::string_view text);

class Page {
 public:
  Page(std::string title, std::string lead) : title_(std::move(title)), lead_(std::move(lead)) {}

  struct Figure {
    std::string value, unit, label;
    bool bad = false;
  };
  // A row of large numbers.
  void figures(const std::vector<Figure>& figures);
  // A card with a heading, a sentence and ready-made HTML (a chart, a table).
  void section(std::string_view heading, std::string_view sentence, std::string_view html,
               bool wide = false);
  void script(std::string_view code) { scripts_ += code; }
  std::string html() const;

 private:
  std::string title_, lead_, body_, scripts_;
};

struct Cell {
  std::string text;
  bool number = false;
};
std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<Cell>>& rows);
// Two columns: name and value.
std::string facts_table(const std::vector<std::pair<std::string, std::string>>& facts);
std::vector<std::pair<std::string, std::string>> machine_facts(const Machine& machine);

}  // namespace outrider::cli
