// The page of a run's stored models.
#include <algorithm>

#include "engine/base/join.h"
#include "engine/base/quantities.h"
#include "pages/figures.h"
#include "pages/layer_report.h"
#include "pages/page_parts.h"
#include "pages/pages.h"

namespace rivulet {

StatusOr<std::string> ModelPage(const PlacedRun& placed) {
  RIVULET_ASSIGN_OR_RETURN(const LayerReport report, LoadLayerReport(placed.history, placed.run));
  const std::string place = placed.prefix + report.run_id, query = "run=" + UrlText(place);
  const bool several = report.rounds.size() > 1;
  std::string body = fmt::format(
      "<p class=\"under\">{} parameters, {} a version. Kept and read: {} {}.</p>\n", CountText(report.parameters),
      BytesText(report.bytes), several ? "the versions of rounds" : "the version of round", Join(report.rounds, ", "));
  std::string charts;
  for (const auto& [name, chart] : {std::pair("norms", &report.norms), {"changes", &report.changes}}) {
    if (std::ranges::all_of(chart->series, [](const ChartSeries& one) { return one.points.size() < 2; })) continue;
    charts +=
        ChartFigure(*chart, "", PictureDownloads(fmt::format("of={}&{}", name, query), report.run_id + "-" + name));
  }
  if (!charts.empty())
    body += HeadingHtml("curves", "Curves", {}, ChartKnobs()) + "<div class=\"curves\">\n" + charts + "</div>\n";
  std::vector<std::vector<std::string>> rows;
  for (const LayerRow& layer : report.layers)
    rows.push_back({XmlText(layer.tensor), XmlText(layer.shape), fmt::format("{:.4g}", layer.norm),
                    several ? fmt::format("{:.4g}", layer.change) : "", PercentText(layer.zeros)});
  body += HeadingHtml("layers", fmt::format("Layers of round {}", report.rounds.back()),
                      {TableDownload("of=layers&" + query, report.run_id + "-layers")}) +
          HtmlTable({"tensor", "type and shape", "norm#", "change#", "zeros#"}, rows);
  return PageOf({.title = "The model of " + report.run_id, .path = RunPath(place, report.run_id), .heading = ""}, body);
}

}  // namespace rivulet
