#include "pages/page_parts.h"

#include <algorithm>
#include <set>

#include "inspect/picture/chart.h"
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

std::string PageOf(std::string_view title, std::string_view body, Renewal renewal) {
  const char* head = renewal == Renewal::kEveryFiveSeconds ? "\n<meta http-equiv=\"refresh\" content=\"5\">" : "";
  const std::string script =
      renewal == Renewal::kByFeed ? fmt::format("<script>{}</script>\n", Script()) : std::string();
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{1}\n"
      "<link rel=\"icon\" href=\"{4}\"><style>{2}</style></head>\n"
      "<body><header><a href=\"/\">Rivulet</a></header><main>\n<h1>{0}</h1>\n{3}</main>\n{5}</body></html>\n",
      XmlText(title), head, StyleSheet(), body, kIconPath, script);
}

std::string TextOfCell(const Cell& cell) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool v) const { return v ? "yes" : "no"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{:.4f}", v); }
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
    rows.push_back({XmlText(event.at), XmlText(event.level), event.round ? fmt::format("{}", *event.round) : "",
                    XmlText(event.message)});
  return HtmlTable({"at (UTC)", "level", "round#", "message"}, rows);
}

std::string HtmlTable(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  const auto number = [&](size_t column) { return titles[column].ends_with('#'); };
  for (size_t column = 0; column < titles.size(); ++column) {
    const std::string title = titles[column].substr(0, titles[column].size() - (number(column) ? 1 : 0));
    html += fmt::format("<th scope=\"col\"{}>{}</th>", number(column) ? " class=\"n\"" : "", XmlText(title));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t column = 0; column < row.size(); ++column)
      html += fmt::format("<td{}>{}</td>", number(column) ? " class=\"n\"" : "", row[column]);
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
  const char* sign = status == "finished" ? "✓" : status == "running" ? "▶" : status == "failed" ? "✗" : "◼";
  return fmt::format("<span class=\"status {0}\">{1} {0}</span>", XmlText(status), sign);
}

std::string Share(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; }

std::string CurveSvg(const std::string& name, const std::vector<std::pair<std::string, const Curve*>>& runs) {
  Chart chart{.title = name, .x_label = "round", .series = {}};
  for (const auto& [run_id, curve] : runs) {
    if (curve == nullptr) continue;
    ChartSeries& series = chart.series.emplace_back();
    series.label = run_id;
    for (const auto& [round, value] : curve->points) series.points.emplace_back(static_cast<double>(round), value);
  }
  return fmt::format("<figure>{}</figure>\n", PictureSvg(ChartPicture(chart), false));
}

}  // namespace rivulet
