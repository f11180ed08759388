// Curves drawn by ourselves: as SVG, for a file or a page, and in the characters of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rivulet {

struct ChartSeries {
  std::string label;
  std::vector<std::pair<double, double>> points;  // by x; what is not finite is left out
};

struct Chart {
  std::string title, x_label;
  std::vector<ChartSeries> series;
};

// An <svg> element without styles or scripts. Series differ by colour and by dashes; long ones are thinned so that none
// of their peaks is lost. `alone`: a file of its own, with a white ground; else it takes its ink from the page.
std::string ChartSvg(const Chart& chart, bool alone);

// Lines of at most `columns` characters, each series in a panel of `rows` lines, all on the same scale.
std::string ChartText(const Chart& chart, size_t columns, size_t rows);

// `text` as it stands in HTML and XML, between tags and in quotes.
std::string XmlText(std::string_view text);

}  // namespace rivulet
