// The page of differences between runs, and of their results.
#include <algorithm>

#include "federated/evaluation/evaluator.h"
#include "pages/comparison.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/pages.h"

namespace rivulet {
namespace {

// "0.9712 ± 0.0031", with the best below.
std::string Result(const Spread& last, const Spread& best) {
  if (last.runs == 0) return "";
  return fmt::format("{}<span class=\"id\">best {}</span>", last.Text(), best.Text());
}

std::string ResultsTable(const Comparison& comparison) {
  std::string html = "<div class=\"scroll\"><table class=\"rows\"><thead><tr><th scope=\"col\">setting</th>";
  for (const std::string& metric : comparison.metrics)
    html += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", XmlText(metric));
  html += "<th scope=\"col\">runs</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < comparison.settings.size(); ++i) {
    const ComparedSetting& setting = comparison.settings[i];
    Picture key{.width = 22, .height = 8, .label = "", .marks = {}};
    Mark& line = key.Line({{0, 4}, {22, 4}}, 2);
    line.colour = SeriesColour(i);
    line.dash = SeriesDash(i);
    html += fmt::format("<tr><td class=\"key\">{}<b>{}</b></td>", PictureSvg(key, false), XmlText(setting.label));
    for (const std::string& metric : comparison.metrics) {
      const Spread last = LastOf(comparison, setting, metric);
      const double sign = LowerIsBetter(metric) ? -1 : 1;
      const bool is_best = last.runs > 0 && std::ranges::none_of(comparison.settings, [&](const auto& other) {
                             const Spread rival = LastOf(comparison, other, metric);
                             return rival.runs > 0 && sign * rival.mean > sign * last.mean;
                           });
      html += fmt::format("<td class=\"n{}\" data-is=\"{}\">{}</td>", is_best ? " best" : "", XmlText(metric),
                          Result(last, BestOf(comparison, setting, metric)));
    }
    html += "<td data-is=\"runs\">";
    for (const size_t place : setting.runs) {
      const ComparedRun& run = comparison.runs[place];
      html += fmt::format("<a href=\"/run?id={}\" title=\"{}\">seed {}</a> ", UrlText(run.place),
                          XmlText(run.run.row.run_id), run.run.row.seed);
      if (run.run.row.status != "finished") html += StatusHtml(run.run.row.status) + " ";
    }
    html += "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string DifferencesTable(const Comparison& comparison) {
  if (comparison.differing.empty()) return "<p>Nothing but the seed.</p>\n";
  std::vector<std::string> titles = {"key"};
  for (const ComparedSetting& setting : comparison.settings) titles.push_back(setting.label);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& key : comparison.differing) {
    std::vector<std::string> row = {fmt::format("<code>{}</code>", XmlText(key))};
    for (const ComparedSetting& setting : comparison.settings) {
      const std::string value = KeyText(comparison.runs[setting.runs.front()].run, key);
      row.push_back(value.empty() ? "<span class=\"faint\">–</span>" : XmlText(value));
    }
    rows.push_back(std::move(row));
  }
  return "<div class=\"wraps\">" + HtmlTable(titles, rows) + "</div>\n";
}

}  // namespace

StatusOr<std::string> ComparePage(std::span<const PlacedRun> names) {
  RIVULET_ASSIGN_OR_RETURN(const Comparison comparison, LoadComparison(names));
  std::string query;
  for (const ComparedRun& run : comparison.runs) query += "&run=" + UrlText(run.place);
  std::string charts;
  for (const std::string& metric : comparison.metrics) {
    const Chart chart = ComparisonChart(comparison, metric);
    if (std::ranges::all_of(chart.series, [](const ChartSeries& series) { return series.points.size() < 2; })) continue;
    std::string file = "compare-" + metric;
    std::ranges::replace(file, '/', '-');
    std::vector<FileLink> downloads =
        PictureDownloads(fmt::format("of=curve&metric={}{}", UrlText(metric), query), file);
    downloads.push_back(TableDownload(fmt::format("of=curve&metric={}{}", UrlText(metric), query), file));
    charts += ChartFigure(chart, "", downloads);
  }
  std::string body =
      "<p class=\"under\">A line is the mean over runs that are equal but for the seed; its band is one standard "
      "deviation to either side.</p>\n" +
      HeadingHtml("results", "Results in the last round", {TableDownload("of=results" + query, "compare")}) +
      ResultsTable(comparison);
  if (!charts.empty())
    body += HeadingHtml("curves", "Curves", {}, ChartKnobs()) + "<div class=\"curves\">\n" + charts + "</div>\n";
  body += HeadingHtml("differences", "What differs", {TableDownload("of=differences" + query, "differences")}) +
          DifferencesTable(comparison);
  const size_t settings = comparison.settings.size(), runs = comparison.runs.size();
  return PageOf({.title = settings == runs
                              ? fmt::format("{} runs compared", runs)
                              : fmt::format("{} {}, {} runs", settings, settings == 1 ? "setting" : "settings", runs),
                 .path = "<span>/ compare</span>",
                 .heading = ""},
                body);
}

}  // namespace rivulet
