#include "cli/runs/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace rivulet {
namespace {

struct Scale {
  double low = 0, high = 1;
  double Share(double value) const { return (value - low) / (high - low); }
};

// From the least to the greatest value, with some room where there is but one.
Scale ScaleOf(const Chart& chart, bool of_x) {
  double low = INFINITY, high = -INFINITY;
  for (const ChartSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      const double value = of_x ? x : y;
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) return {};
  if (low == high) return {low - 0.5, high + 0.5};
  return {low, high};
}

// About `count` round values between low and high: steps of 1, 2 or 5 times a power of ten.
std::vector<double> Ticks(const Scale& scale, int count) {
  const double rough = (scale.high - scale.low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> ticks;
  for (auto k = static_cast<int64_t>(std::ceil(scale.low / step - 1e-9));
       static_cast<double>(k) * step <= scale.high + step * 1e-9; ++k)
    ticks.push_back(static_cast<double>(k) * step);
  return ticks;
}

// Of each of `buckets` stretches the first, lowest, highest and last point.
std::vector<std::pair<double, double>> Thinned(const std::vector<std::pair<double, double>>& points, size_t buckets) {
  if (points.size() <= buckets * 4) return points;
  std::vector<std::pair<double, double>> kept;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(bucket * points.size() / buckets);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((bucket + 1) * points.size() / buckets);
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::array<std::ptrdiff_t, 4> places = {0, std::min_element(begin, end, by_value) - begin,
                                            std::max_element(begin, end, by_value) - begin, end - begin - 1};
    std::ranges::sort(places);
    for (size_t i = 0; i < places.size(); ++i)
      if (i == 0 || places[i] != places[i - 1]) kept.push_back(begin[places[i]]);
  }
  return kept;
}

// Of Okabe and Ito (2008), "Color Universal Design": told apart by the colour-blind too.
constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#7A7A7A"};
constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};
// What is no UTF-8 as question marks: names and reasons come from clients, and a page with such bytes is none.
std::string MendedUtf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[at]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    bool whole = length > 0 && at + length <= bytes.size();
    for (size_t i = 1; whole && i < length; ++i) whole = (static_cast<unsigned char>(bytes[at + i]) & 0xC0) == 0x80;
    text += whole ? bytes.substr(at, length) : std::string_view("?");
    at += whole ? length : 1;
  }
  return text;
}

constexpr double kWidth = 720, kPlotLeft = 62, kPlotRight = 704, kPlotTop = 34, kPlotBottom = 300;

}  // namespace

std::string XmlText(std::string_view bytes) {
  std::string out;
  for (const char c : MendedUtf8(bytes)) {
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
      default:  // what XML has no character for
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string ChartSvg(const Chart& chart, bool alone) {
  const Scale x = ScaleOf(chart, true), y = ScaleOf(chart, false);
  const auto at_x = [&](double value) { return kPlotLeft + x.Share(value) * (kPlotRight - kPlotLeft); };
  const auto at_y = [&](double value) { return kPlotBottom - y.Share(value) * (kPlotBottom - kPlotTop); };
  const double height = kPlotBottom + 46 + 18 * static_cast<double>(chart.series.size());
  const char* ink = alone ? "#222222" : "currentColor";
  std::string svg = fmt::format(
      "<svg{} viewBox=\"0 0 {:.0f} {:.0f}\"{} role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", kWidth, height,
      alone ? fmt::format(" width=\"{:.0f}\" height=\"{:.0f}\"", kWidth, height) : "", XmlText(chart.title));
  if (alone) svg += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", kWidth, height);
  svg += fmt::format("<text x=\"{}\" y=\"20\" font-size=\"14\" font-weight=\"bold\" fill=\"{}\">{}</text>\n", kPlotLeft,
                     ink, XmlText(chart.title));
  for (const double tick : Ticks(y, 5)) {
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-opacity=\"0.15\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"{}\">{:.6g}</text>\n",
        kPlotLeft, kPlotRight, at_y(tick), at_y(tick), ink, kPlotLeft - 8, at_y(tick) + 4, ink,
        std::abs(tick) < 1e-12 ? 0 : tick);
  }
  for (const double tick : Ticks(x, 8)) {
    if (tick != std::floor(tick)) continue;  // there is no half a round
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">{:.6g}</text>\n", at_x(tick),
                       kPlotBottom + 18, ink, tick);
  }
  svg += fmt::format(
      "<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"{4}\" stroke-opacity=\"0.6\"/>"
      "<text x=\"{3}\" y=\"{5}\" text-anchor=\"end\" fill=\"{4}\">{6}</text>\n",
      kPlotLeft, kPlotTop, kPlotBottom, kPlotRight, ink, kPlotBottom + 34, XmlText(chart.x_label));
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    const std::string look = fmt::format(
        "stroke=\"{}\" stroke-width=\"2\"{}", kColours[i % kColours.size()],
        i % kDashes.size() == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", kDashes[i % kDashes.size()]));
    std::string path;
    for (const auto& [px, py] : Thinned(series.points, 300))
      if (std::isfinite(py)) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(px), at_y(py));
    if (!path.empty()) svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", path, look);
    if (series.points.size() == 1)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at_x(series.points[0].first),
                         at_y(series.points[0].second), kColours[i % kColours.size()]);
    const double row = kPlotBottom + 44 + 18 * static_cast<double>(i);
    svg += fmt::format("<path d=\"M{} {}h28\" {}/><text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kPlotLeft, row,
                       look, kPlotLeft + 36, row + 4, ink, XmlText(series.label));
  }
  return svg + "</svg>\n";
}

// Braille characters have two dots a line across and four down (U+2800 and the bits of its dots).
std::string ChartText(const Chart& chart, size_t columns, size_t rows) {
  constexpr int kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  constexpr size_t kLabels = 10;
  const Scale x = ScaleOf(chart, true), y = ScaleOf(chart, false);
  const size_t width = std::max<size_t>(columns, kLabels + 10) - kLabels;
  std::string text = chart.title + "\n";
  for (const ChartSeries& series : chart.series) {
    std::vector<std::vector<int>> cells(rows, std::vector<int>(width, 0));
    const auto place = [&](const std::pair<double, double>& point) {
      return std::pair(
          static_cast<int64_t>(std::lround(x.Share(point.first) * static_cast<double>(width * 2 - 1))),
          static_cast<int64_t>(std::lround((1 - y.Share(point.second)) * static_cast<double>(rows * 4 - 1))));
    };
    std::pair<int64_t, int64_t> before = {-1, -1};
    for (const auto& point : series.points) {
      if (!std::isfinite(point.second)) continue;
      const auto here = place(point);
      const auto from = before.first < 0 ? here : before;
      const int64_t steps = std::max<int64_t>({here.first - from.first, std::abs(here.second - from.second), 1});
      for (int64_t step = 0; step <= steps; ++step) {
        const auto dot_x = static_cast<size_t>(from.first + (here.first - from.first) * step / steps);
        const auto dot_y = static_cast<size_t>(from.second + (here.second - from.second) * step / steps);
        cells[dot_y / 4][dot_x / 2] |= kDots[dot_y % 4][dot_x % 2];
      }
      before = here;
    }
    text += series.label + "\n";
    for (size_t row = 0; row < rows; ++row) {
      std::string label;
      if (row == 0) label = fmt::format("{:.4g}", y.high);
      if (row + 1 == rows) label = fmt::format("{:.4g}", y.low);
      std::string line;
      for (const int cell : cells[row]) {
        const int code = 0x2800 + cell;
        line += {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
                 static_cast<char>(0x80 | (code & 0x3F))};
      }
      text += fmt::format("{:>{}} {}\n", label, kLabels - 1, line);
    }
  }
  const std::string first = fmt::format("{:.6g}", x.low), last = fmt::format("{} {:.6g}", chart.x_label, x.high);
  const size_t gap = width > first.size() + last.size() ? width - first.size() - last.size() : 1;
  return text + fmt::format("{}{}{}{}\n", std::string(kLabels, ' '), first, std::string(gap, ' '), last);
}

}  // namespace rivulet
