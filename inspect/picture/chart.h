// Line charts, as a picture or as characters in a terminal.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "inspect/picture/picture.h"

namespace rivulet {

struct ChartSeries {
  std::string label;
  std::vector<std::pair<double, double>> points;  // by x; values that are not finite are left out
  std::vector<std::array<double, 3>> band = {};   // by x: the lowest and the highest value there
};

struct Chart {
  std::string title, x_label;
  std::vector<ChartSeries> series;
  // Half as wide and without title and legend, which a page has as text beside it.
  bool in_page = false;
};

// The area of the curves, in points of the picture.
struct ChartFrame {
  double left = 0, top = 0, right = 0, bottom = 0;
};
ChartFrame FrameOf(const Chart& chart);

// Series differ by colour and by dashes; long ones are thinned, keeping all their peaks. Marks that depend on the
// vertical axis have the part "y" (picture.h).
Picture ChartPicture(const Chart& chart);

// The look of the series at place `i`.
const char* SeriesColour(size_t i);
const std::vector<double>& SeriesDash(size_t i);

// The first, lowest, highest and last point of each of `buckets` stretches.
std::vector<std::pair<double, double>> Thinned(const std::vector<std::pair<double, double>>& points, size_t buckets);

// Lines of at most `columns` characters, each series in a panel of `rows` lines, all on the same scale.
std::string ChartText(const Chart& chart, size_t columns, size_t rows);

}  // namespace rivulet
