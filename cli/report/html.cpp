#include "cli/report/html.h"

namespace outrider::cli {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#ffffff;--ink:#1b2330;--soft:#5c6878;--line:#dfe4ea;--grid:#e9edf1;
--a:#2f6fde;--b:#e0833a;--c:#2a9d7f;--d:#8a5cc9;--e:#c9436b;--f:#708090;--g:#b59a1c;--bad:#cf3a3a;--good:#1f8a5b}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e6ebf2;--soft:#98a5b5;--line:#2b3440;--grid:#242c37;
--a:#6ea2ff;--b:#f0a262;--c:#56c9a8;--d:#b493ea;--e:#ee7d9f;--f:#9fb0c3;--g:#d8bf4b;--bad:#ff7a74;--good:#57c78f}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:36px 20px 60px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
.lead{color:var(--soft);font-size:17px;margin:0 0 26px;max-width:75ch}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:0 0 18px}
.figure{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.figure b{display:block;font-size:27px;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}
.figure b small{font-size:14px;font-weight:500;color:var(--soft);margin-left:4px}
.figure span{color:var(--soft);font-size:13px}
.figure.bad b{color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(12,1fr);gap:16px}
section{grid-column:span 6;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;min-width:0}
section.wide{grid-column:span 12}
@media (max-width:820px){section{grid-column:span 12}}
h2{font-size:17px;margin:0 0 2px}
section>p{margin:0 0 12px;color:var(--soft);font-size:14px;max-width:85ch}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:550;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font-size:12px;font-family:inherit}
.axis{stroke:var(--line);stroke-width:1}.grid{stroke:var(--grid);stroke-width:1}
.legend{display:flex;flex-wrap:wrap;gap:6px 16px;font-size:13px;color:var(--soft);margin:8px 0 0}
.legend i{display:inline-block;width:12px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.views{display:grid;grid-template-columns:1fr 1fr;gap:14px}
.views figure,.frame figure{margin:0}
.views svg{border-radius:10px;border:1px solid var(--line)}
figcaption{color:var(--soft);font-size:13px;margin-top:4px}
.frame{display:none}.frame.on{display:block}
input[type=range]{width:100%;accent-color:var(--a);margin:0 0 12px}
footer{color:var(--soft);font-size:13px;margin-top:24px}
)css";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

void Page::figures(const std::vector<Figure>& figures) {
  body_ += "<div class=\"figures\">";
  for (const Figure& figure : figures)
    body_ += fmt::format("<div class=\"figure{}\"><b>{}<small>{}</small></b><span>{}</span></div>",
                         figure.bad ? " bad" : "", escape_html(figure.value),
                         escape_html(figure.unit), escape_html(figure.label));
  body_ += "</div>\n<div class=\"cards\">\n";
}

void Page::section(std::string_view heading, std::string_view sentence, std::string_view html,
                   bool wide) {
  body_ +=
      fmt::format("<section{}><h2>{}</h2>", wide ? " class=\"wide\"" : "", escape_html(heading));
  if (!sentence.empty()) body_ += "<p>" + escape_html(sentence) + "</p>";
  body_ += html;
  body_ += "</section>\n";
}

std::string Page::html() const {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
      escape_html(title_) + "</title>\n<style>" + std::string(kStyle) +
      "</style>\n</head>\n<body>\n<main>\n<h1>" + escape_html(title_) +
      "</h1>\n<p class=\"lead\">" + escape_html(lead_) + "</p>\n" + body_ +
      "</div>\n<footer>Written by " + escape_html(this_build()) +
      ". This page loads nothing.</footer>\n</main>\n";
  if (!scripts_.empty()) out += "<script>" + scripts_ + "</script>\n";
  return out + "</body>\n</html>\n";
}

std::string html_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<Cell>>& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t i = 0; i < head.size(); ++i) {
    const bool number = !rows.empty() && i < rows[0].size() && rows[0][i].number;
    out += fmt::format("<th{}>{}</th>", number ? " class=\"n\"" : "", escape_html(head[i]));
  }
  out += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const Cell& cell : row)
      out +=
          fmt::format("<td{}>{}</td>", cell.number ? " class=\"n\"" : "", escape_html(cell.text));
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string facts_table(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<div class=\"scroll\"><table><tbody>";
  for (const auto& [name, value] : facts)
    out += "<tr><th>" + escape_html(name) + "</th><td>" + escape_html(value) + "</td></tr>";
  return out + "</tbody></table></div>";
}

std::vector<std::pair<std::string, std::string>> machine_facts(const Machine& m) {
  std::string features;
  for (const std::string& feature : m.features) features += (features.empty() ? "" : " ") + feature;
  auto or_unknown = [](const std::string& text) {
    return text.empty() ? std::string("not readable here") : text;
  };
  return {
      {"processor", or_unknown(m.cpu)},
      {"features", or_unknown(features)},
      {"CPUs", fmt::format("{} online, {} allowed{}", m.n_online, m.n_allowed,
                           m.quota_cpus > 0 ? fmt::format(", quota {:.2f}", m.quota_cpus) : "")},
      {"memory",
       fmt::format("{} ({} available)", bytes_text(m.memory_bytes), bytes_text(m.free_bytes))},
      {"governor", or_unknown(m.governor)},
      {"clock source", or_unknown(m.clock_source)},
      {"huge pages", or_unknown(m.huge_pages)},
      {"system", m.os},
      {"build", m.build}};
}

}  // namespace outrider::cli
