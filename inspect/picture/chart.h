// Curves, as a picture and in the characters of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "inspect/picture/picture.h"

namespace rivulet {

struct ChartSeries {
  std::string label;
  std::vector<std::pair<double, double>> points;  // by x; what is not finite is left out
};

struct Chart {
  std::string title, x_label;
  std::vector<ChartSeries> series;
};

// Series differ by colour and by dashes; long ones are thinned so that none of their peaks is lost.
Picture ChartPicture(const Chart& chart);

// Lines of at most `columns` characters, each series in a panel of `rows` lines, all on the same scale.
std::string ChartText(const Chart& chart, size_t columns, size_t rows);

}  // namespace rivulet
