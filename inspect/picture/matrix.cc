#include "inspect/picture/matrix.h"

#include <algorithm>
#include <cmath>

#include "engine/base/numbered_names.h"

namespace rivulet {

Picture MatrixPicture(const std::string& title, int64_t classes, std::span<const int64_t> counts,
                      std::span<const std::string> names) {
  const bool with_numbers = classes <= 20;
  const double cell = with_numbers ? 36 : std::max(1.0, 560.0 / static_cast<double>(classes));
  const double side = cell * static_cast<double>(classes), top = 62;
  const double left = 14 + std::min(7.0 * static_cast<double>(WidthOfNames(names, 3) + 3), 240.0);
  Picture picture{.width = left + std::max(side, 300.0) + 20, .height = top + side + 20, .label = title, .marks = {}};
  picture.Text(left, 20, title, Anchor::kStart, 14).bold = true;
  picture.Text(left, 38, "down: the label; across: the prediction");
  // A mark per several classes, so that their names do not touch.
  const int64_t step = with_numbers ? 1 : static_cast<int64_t>(std::ceil(24 / cell));
  for (int64_t row = 0; row < classes; ++row) {
    const double y = top + cell * static_cast<double>(row);
    int64_t of_row = 0;
    for (int64_t column = 0; column < classes; ++column) of_row += counts[static_cast<size_t>(row * classes + column)];
    if (row % step == 0) {
      picture.Text(left - 8, y + cell / 2 + 4,
                   names.empty() ? fmt::format("{}", row) : fmt::format("{} {}", NameOrNumber(names, row), row),
                   Anchor::kEnd);
      // Names are wider than cells, so columns have numbers.
      picture.Text(left + cell * (static_cast<double>(row) + 0.5), top - 6, fmt::format("{}", row), Anchor::kMiddle);
    }
    for (int64_t column = 0; column < classes; ++column) {
      const int64_t count = counts[static_cast<size_t>(row * classes + column)];
      if (count == 0) continue;
      const double share = static_cast<double>(count) / static_cast<double>(of_row);
      const double x = left + cell * static_cast<double>(column);
      // With the square root, one error in a hundred is still visible.
      Mark& square = picture.Rectangle(x, y, cell, cell, row == column ? kColours[0] : kColours[1]);
      square.opacity = 0.1 + 0.9 * std::sqrt(share);
      square.title = fmt::format("{} taken for {}: {} of {}", NameOrNumber(names, row), NameOrNumber(names, column),
                                 count, of_row);
      if (with_numbers) {
        Mark& number = picture.Text(x + cell / 2, y + cell / 2 + 4, fmt::format("{}", count), Anchor::kMiddle, 11);
        if (share > 0.25) number.colour = "#ffffff";
      }
    }
  }
  picture.Line({{left, top}, {left + side, top}, {left + side, top + side}, {left, top + side}, {left, top}}).opacity =
      0.6;
  return picture;
}

}  // namespace rivulet
