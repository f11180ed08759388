#include "inspect/picture/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace rivulet {
namespace {

struct Scale {
  double low = 0, high = 1;
  double Share(double value) const { return (value - low) / (high - low); }
};

// From the lowest to the highest value, bands included, with some margin if there is only one.
Scale ScaleOf(const Chart& chart, bool of_x) {
  double low = INFINITY, high = -INFINITY;
  const auto take = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const ChartSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) take(of_x ? x : y);
    if (of_x) continue;
    for (const auto& [x, least, greatest] : series.band) {
      take(least);
      take(greatest);
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

// Short enough for the room beside the axis: "34.65M" for 34,650,000.
std::string TickText(double tick) {
  if (std::abs(tick) < 1e-12) return "0";
  constexpr std::pair<double, const char*> kMultiples[] = {{1e9, "G"}, {1e6, "M"}};
  for (const auto& [multiple, letter] : kMultiples)
    if (std::abs(tick) >= multiple && std::abs(tick) < 1e4 * multiple)
      return fmt::format("{:.5g}{}", tick / multiple, letter);
  return fmt::format("{:.6g}", tick);
}

// Distinguish series for the colour-blind, in addition to colours.
const std::vector<double> kDashes[] = {{}, {6, 3}, {2, 3}, {8, 3, 2, 3}};
constexpr ChartFrame kFrame{62, 34, 704, 300}, kFrameInPage{50, 10, 430, 200};
constexpr double kWidth = 720, kWidthInPage = 440, kHeightInPage = 226;
constexpr size_t kStretches = 300, kStretchesInPage = 60;

}  // namespace

ChartFrame FrameOf(const Chart& chart) { return chart.in_page ? kFrameInPage : kFrame; }

const char* SeriesColour(size_t i) { return kColours[i % kColours.size()]; }
const std::vector<double>& SeriesDash(size_t i) { return kDashes[i % std::size(kDashes)]; }

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

Picture ChartPicture(const Chart& chart) {
  const ChartFrame frame = FrameOf(chart);
  const Scale x = ScaleOf(chart, true), y = ScaleOf(chart, false);
  const auto at_x = [&](double value) { return frame.left + x.Share(value) * (frame.right - frame.left); };
  const auto at_y = [&](double value) { return frame.bottom - y.Share(value) * (frame.bottom - frame.top); };
  Picture picture{
      .width = chart.in_page ? kWidthInPage : kWidth,
      .height = chart.in_page ? kHeightInPage : frame.bottom + 46 + 18 * static_cast<double>(chart.series.size()),
      .label = chart.title,
      .marks = {}};
  if (!chart.in_page) picture.Text(frame.left, 20, chart.title, Anchor::kStart, 14).bold = true;
  for (const double tick : Ticks(y, 5)) {
    Mark& line = picture.Line({{frame.left, at_y(tick)}, {frame.right, at_y(tick)}});
    line.opacity = 0.15;
    line.part = "y";
    picture.Text(frame.left - 8, at_y(tick) + 4, TickText(tick), Anchor::kEnd).part = "y";
  }
  for (const double tick : Ticks(x, chart.in_page ? 6 : 8)) {
    if (tick != std::floor(tick)) continue;  // rounds are integers
    picture.Text(at_x(tick), frame.bottom + 18, fmt::format("{:.6g}", tick), Anchor::kMiddle);
  }
  picture.Line({{frame.left, frame.top}, {frame.left, frame.bottom}, {frame.right, frame.bottom}}).opacity = 0.6;
  if (!chart.in_page) picture.Text(frame.right, frame.bottom + 34, chart.x_label, Anchor::kEnd);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    const char* colour = SeriesColour(i);
    const auto line = [&](std::vector<std::pair<double, double>> points) -> Mark& {
      Mark& mark = picture.Line(std::move(points), 2);
      mark.colour = colour;
      mark.dash = SeriesDash(i);
      return mark;
    };
    std::vector<std::pair<double, double>> corners;
    for (const auto& [px, least, greatest] : series.band)
      if (std::isfinite(greatest)) corners.emplace_back(at_x(px), at_y(greatest));
    for (auto point = series.band.rbegin(); point != series.band.rend(); ++point)
      if (std::isfinite((*point)[1])) corners.emplace_back(at_x((*point)[0]), at_y((*point)[1]));
    if (corners.size() > 2) {
      Mark& band = picture.Area(std::move(corners), colour);
      band.opacity = 0.16;
      band.part = "y";
    }
    std::vector<std::pair<double, double>> points;
    for (const auto& [px, py] : Thinned(series.points, chart.in_page ? kStretchesInPage : kStretches))
      if (std::isfinite(py)) points.emplace_back(at_x(px), at_y(py));
    if (points.size() == 1) picture.Dot(points[0].first, points[0].second, 3, colour).part = "y";
    if (points.size() > 1) line(std::move(points)).part = "y";
    if (chart.in_page) continue;
    const double row = frame.bottom + 44 + 18 * static_cast<double>(i);
    line({{frame.left, row}, {frame.left + 28, row}});
    picture.Text(frame.left + 36, row + 4, series.label);
  }
  return picture;
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
