// Letters as strokes of a pen, in a grid of whole numbers: ASCII from space to tilde.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace rivulet {

// A height of capitals of 1; the baseline is y = 0 and y grows downwards. A stroke of one point is a dot.
struct StrokedText {
  double width = 0;
  std::vector<std::vector<std::pair<double, double>>> strokes;
};
// Characters without strokes, such as all beyond ASCII, are drawn as question marks.
StrokedText StrokesOf(std::string_view text);

}  // namespace rivulet
