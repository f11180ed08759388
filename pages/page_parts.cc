#include "pages/page_parts.h"

#include <algorithm>
#include <set>

#include "engine/base/quantities.h"
#include "inspect/picture/picture.h"
#include "pages/pages.h"

namespace rivulet {

std::string UrlText(std::string_view text) {
  std::string url;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~").find(c) != std::string_view::npos;
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

std::string RunLink(const std::string& place, const std::string& run_id) {
  return fmt::format("<a href=\"/run?id={}\">{}</a>", UrlText(place), XmlText(run_id));
}

std::string RoundAddress(const std::string& place, int64_t round) {
  return fmt::format("/round?run={}&amp;round={}", UrlText(place), round);
}

std::string ClientAddress(const std::string& place, const std::string& client_id) {
  return fmt::format("/client?run={}&amp;client={}", UrlText(place), UrlText(client_id));
}

std::string RoundLink(const std::string& place, int64_t round, const std::string& text) {
  return fmt::format("<a href=\"{}\">{}</a>", RoundAddress(place, round), XmlText(text));
}

std::string ClientLink(const std::string& place, const std::string& client_id) {
  return fmt::format("<a href=\"{}\">{}</a>", ClientAddress(place, client_id), XmlText(client_id));
}

std::string RunPath(const std::string& place, const std::string& run_id) {
  return fmt::format("<span>/ {}</span>", RunLink(place, run_id));
}

std::string PageOf(const PageHead& head, std::string_view body) {
  const bool again = head.renewal == Renewal::kEveryFiveSeconds;
  const std::string heading = head.heading.empty() ? fmt::format("<h1>{}</h1>\n", XmlText(head.title)) : head.heading;
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{1}\n"
      "<link rel=\"icon\" href=\"{2}\"><style>{3}</style></head>\n"
      "<body{8}><header class=\"bar\"><nav><img src=\"{2}\" alt=\"\"><a href=\"/\">Rivulet</a>{4}</nav></header>"
      "<main>\n{5}{6}</main>\n<script>{7}</script>\n</body></html>\n",
      XmlText(head.title), again ? "\n<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>" : "", kIconPath,
      StyleSheet(), head.path, heading, body, Script(), again ? " data-again=\"5\"" : "");
}

std::string TextOfCell(const Cell& cell) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool v) const { return v ? "yes" : "no"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return MetricText(v); }
    std::string operator()(const std::string& v) const { return XmlText(v); }
  };
  return std::visit(Writer{}, cell);
}

std::string FactsTable(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html = "<table class=\"facts\"><tbody>";
  for (const auto& [name, value] : facts)
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", XmlText(name), value);
  return html + "</tbody></table>\n";
}

std::string EventsTable(const std::vector<EventRow>& newest_first) {
  std::vector<std::vector<std::string>> rows;
  for (const EventRow& event : newest_first)
    rows.push_back({TimeHtml(event.at), XmlText(event.level), event.round ? fmt::format("{}", *event.round) : "",
                    XmlText(event.message)});
  return HtmlTable({"at", "level", "round#", "message"}, rows);
}

std::string CardHtml(const std::string& title, const std::string& large, const std::string& more,
                     std::string_view grade) {
  return fmt::format("<section class=\"card{}{}\"><h2>{}</h2><p class=\"big\">{}</p>{}</section>\n",
                     grade.empty() ? "" : " ", grade, XmlText(title), large, more);
}

std::string HtmlTable(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table class=\"rows\"><thead><tr>";
  const auto number = [&](size_t column) { return titles[column].ends_with('#'); };
  std::vector<bool> left_out;
  std::vector<std::string> cells;  // the opening tag of each column's cells
  for (size_t column = 0; column < titles.size(); ++column)
    left_out.push_back(titles[column].starts_with('?') && std::ranges::all_of(rows, [&](const auto& row) {
                         return column >= row.size() || row[column].empty();
                       }));
  for (size_t column = 0; column < titles.size(); ++column) {
    std::string title = titles[column].substr(0, titles[column].size() - (number(column) ? 1 : 0));
    if (title.starts_with('?')) title.erase(0, 1);
    const char* const aligned = number(column) ? " class=\"n\"" : "";
    // A row's first cell is its title on a narrow screen, but a number needs its column's title.
    const bool named = column > 0 || number(column);
    cells.push_back(
        fmt::format("<td{}{}>", aligned, named ? fmt::format(" data-is=\"{}\"", XmlText(title)) : std::string()));
    if (!left_out[column]) html += fmt::format("<th scope=\"col\"{}>{}</th>", aligned, XmlText(title));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t column = 0; column < row.size(); ++column)
      if (!left_out[column])
        html += fmt::format("{}{}</td>", row[column].empty() ? "<td>" : cells[column], row[column]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

size_t LeafOf(int64_t first, size_t total) {
  if (first <= 0 || total == 0) return 0;
  return std::min(static_cast<size_t>(first), total - 1) / kRowsOfAPage * kRowsOfAPage;
}

std::string LeafLinks(std::string_view address, size_t first, size_t total, std::string_view anchor) {
  if (total <= kRowsOfAPage) return "";
  std::string html =
      fmt::format("<p class=\"leaf\">{}–{} of {}", first + 1, std::min(first + kRowsOfAPage, total), total);
  const auto link = [&](size_t to, const char* word) {
    html += fmt::format(" <a href=\"{}{}#{}\">{}</a>", XmlText(address), to, anchor, word);
  };
  if (first > 0) link(first - kRowsOfAPage, "previous");
  if (first + kRowsOfAPage < total) link(first + kRowsOfAPage, "next");
  return html + "</p>\n";
}

std::string StatusHtml(const std::string& status) {
  constexpr std::pair<std::string_view, const char*> kSigns[] = {
      {"finished", "✓"}, {"committed", "✓"}, {"folded", "✓"},  {"active", "✓"},     {"approved", "✓"},
      {"running", "▶"},  {"paused", "‖"},    {"failed", "✗"},  {"refused", "✗"},    {"abandoned", "✗"},
      {"banned", "✗"},   {"removed", "✗"},   {"dropped", "–"}, {"interrupted", "◼"}};
  const auto* sign = std::ranges::find(kSigns, status, &std::pair<std::string_view, const char*>::first);
  return fmt::format("<span class=\"status {0}\">{1}{0}</span>", XmlText(status),
                     sign == std::end(kSigns) ? "" : fmt::format("{} ", sign->second));
}

std::string WhyHtml(const std::string& reason) {
  return reason.empty() ? "" : fmt::format("<span class=\"why\">{}</span>", XmlText(reason));
}

std::string Chip(const std::string& name, const std::string& value) {
  const std::string whole = value.empty() ? "" : fmt::format(" title=\"{}\"", XmlText(value));  // a list truncates it
  return fmt::format("<span class=\"chip\"{}>{}{}{}</span>", whole, XmlText(name),
                     name.empty() || value.empty() ? "" : " ",
                     value.empty() ? "" : fmt::format("<b>{}</b>", XmlText(value)));
}

// "2025-01-31 14:25 UTC", with the full time in the tooltip.
std::string TimeHtml(const std::string& utc) {
  if (utc.size() < 19 || utc[10] != 'T') return XmlText(utc);
  std::string text = utc.substr(0, 19);
  text[10] = ' ';
  return fmt::format("<time datetime=\"{}\" title=\"{} UTC\">{} UTC</time>", XmlText(utc), XmlText(text),
                     XmlText(text.substr(0, 16)));
}

std::string DownloadLinks(const std::vector<FileLink>& downloads) {
  if (downloads.empty()) return "";
  std::string html = "<span class=\"get\">";
  for (const FileLink& one : downloads)
    html += fmt::format("<a href=\"{}\" download=\"{}\">{}</a>", XmlText(one.address), XmlText(one.file),
                        XmlText(one.kind));
  return html + "</span>";
}

std::string HeadingHtml(const std::string& id, const std::string& title, const std::vector<FileLink>& downloads,
                        std::string_view more) {
  return fmt::format("<div class=\"heading\"><h2{}>{}</h2>{}{}</div>\n",
                     id.empty() ? "" : fmt::format(" id=\"{}\"", id), XmlText(title), more, DownloadLinks(downloads));
}

std::string Share(const std::optional<double>& value) { return value ? MetricText(*value) : ""; }

}  // namespace rivulet
