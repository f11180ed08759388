#include "pages/figures.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/quantities.h"

namespace rivulet {
namespace {

constexpr double kBroad = 800;     // points, of full-width pictures
constexpr size_t kStretches = 60;  // of a curve's points in data-plot, as many as are drawn

// Few digits, since numbers are most of a page's size.
std::string JsonNumber(double number) { return std::isfinite(number) ? fmt::format("{:.5g}", number) : "null"; }

// The data from which the script draws a chart, as JSON.
std::string PlotData(const Chart& chart) {
  const ChartFrame frame = FrameOf(chart);
  std::string series_text;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    std::string points, band;
    std::set<double> places;
    for (const auto& [x, y] : Thinned(series.points, kStretches)) {
      points += fmt::format("{}[{},{}]", points.empty() ? "" : ",", JsonNumber(x), JsonNumber(y));
      places.insert(x);
    }
    for (const auto& [x, least, greatest] : series.band) {
      if (places.contains(x))
        band += fmt::format("{}[{},{},{}]", band.empty() ? "" : ",", JsonNumber(x), JsonNumber(least),
                            JsonNumber(greatest));
    }
    series_text += fmt::format("{}{{\"label\":{},\"colour\":\"{}\",\"dash\":\"{}\",\"points\":[{}],\"band\":[{}]}}",
                               i == 0 ? "" : ",", Json(series.label).Dump(), SeriesColour(i), Join(SeriesDash(i), " "),
                               points, band);
  }
  return fmt::format("{{\"x\":{},\"box\":[{},{},{},{}],\"series\":[{}]}}", Json(chart.x_label).Dump(), frame.left,
                     frame.top, frame.right, frame.bottom, series_text);
}

std::string Legend(const Chart& chart) {
  if (chart.series.size() < 2) return "";
  std::string html = "<p class=\"series\">";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].points.empty()) continue;
    Picture key{.width = 22, .height = 8, .label = "", .marks = {}};
    Mark& line = key.Line({{0, 4}, {22, 4}}, 2);
    line.colour = SeriesColour(i);
    line.dash = SeriesDash(i);
    html += fmt::format("<span>{}{}</span>", PictureSvg(key, false), XmlText(chart.series[i].label));
  }
  return html + "</p>";
}

std::string Figure(const std::string& title, const std::string& says, const std::string& svg,
                   const std::vector<FileLink>& downloads, const std::string& attributes, const std::string& below) {
  return fmt::format(
      "<figure{}><figcaption><b>{}</b><span class=\"faint\">{}</span>{}</figcaption><div class=\"plot\">{}</div>{}"
      "</figure>\n",
      attributes, XmlText(title), says, DownloadLinks(downloads), svg, below);
}

}  // namespace

std::string FigureHtml(const std::string& title, const std::string& says, const Picture& picture,
                       const std::vector<FileLink>& downloads, bool wide) {
  return Figure(title, says, PictureSvg(picture, false), downloads,
                !wide                    ? ""
                : picture.width > kBroad ? " class=\"broad\""
                                         : " class=\"wide\"",
                "");
}

std::string ChartFigure(const Chart& chart, const std::string& says, const std::vector<FileLink>& downloads) {
  Chart in_page = chart;
  in_page.in_page = true;
  return Figure(chart.title, says, PictureSvg(ChartPicture(in_page), false), downloads,
                fmt::format(" data-plot=\"{}\"", XmlText(PlotData(in_page))), Legend(in_page));
}

Chart ChartOf(const Curve& curve, const std::string& label) {
  Chart chart{.title = curve.name, .x_label = "round", .series = {}};
  ChartSeries& series = chart.series.emplace_back();
  series.label = label;
  for (const auto& [round, value] : curve.points) series.points.emplace_back(static_cast<double>(round), value);
  return chart;
}

std::string CurveFigures(const std::vector<Curve>& curves, const std::string& place, const std::string& run_id) {
  std::string html;
  for (const Curve& curve : curves) {
    if (curve.points.size() < 2) continue;
    const std::string query = fmt::format("of=curve&run={}&metric={}", UrlText(place), UrlText(curve.name));
    std::string file = run_id + "-" + curve.name;
    std::ranges::replace(file, '/', '-');
    std::vector<FileLink> downloads = PictureDownloads(query, file);
    downloads.push_back(TableDownload(query, file));
    html += ChartFigure(
        ChartOf(curve, run_id),
        fmt::format("last {}, best {}", MetricText(curve.points.back().second), MetricText(curve.best().second)),
        downloads);
  }
  return html;
}

std::string ChartKnobs() {
  return "<span class=\"knobs\" hidden><label>smoothing <input type=\"range\" name=\"smooth\" min=\"0\" max=\"0.95\" "
         "step=\"0.05\" value=\"0\"></label><label><input type=\"checkbox\" name=\"log\"> log axis</label></span>";
}

std::string SparklineSvg(const Curve& curve, double width) {
  constexpr double kHeight = 30, kRoom = 3;
  constexpr size_t kStretchesOfSparkline = 15;
  if (curve.points.size() < 2) return "";
  std::vector<std::pair<double, double>> points;
  for (const auto& [round, value] : curve.points) points.emplace_back(static_cast<double>(round), value);
  points = Thinned(points, kStretchesOfSparkline);
  const auto [low, high] = std::ranges::minmax(points, {}, &std::pair<double, double>::second);
  const double height = high.second - low.second, length = points.back().first - points.front().first;
  Picture picture{.width = width,
                  .height = kHeight,
                  .label = fmt::format("{} from {} to {}", curve.name, MetricText(points.front().second),
                                       MetricText(points.back().second)),
                  .marks = {}};
  for (auto& [x, y] : points) {
    const double at = length > 0 ? (x - curve.points.front().first) / length : 0;
    y = height > 0 ? kHeight - kRoom - (y - low.second) / height * (kHeight - 2 * kRoom) : kHeight / 2;
    x = kRoom + at * (width - 2 * kRoom);
  }
  Mark& line = picture.Line(std::move(points), 1.5);
  line.colour = SeriesColour(0);
  line.part = "spark";
  return PictureSvg(picture, false);
}

std::vector<FileLink> PictureDownloads(const std::string& query, const std::string& file) {
  return {{"SVG", "/picture.svg?" + query, file + ".svg"}, {"PNG", "/picture.png?" + query, file + ".png"}};
}

FileLink TableDownload(const std::string& query, const std::string& file) {
  return {"CSV", "/table.csv?" + query, file + ".csv"};
}

}  // namespace rivulet
