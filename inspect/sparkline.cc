#include "inspect/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace rivulet {

std::string Sparkline(std::span<const double> values, size_t width) {
  constexpr std::array<const char*, 8> kMarks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t marks = std::min(width, values.size());
  std::vector<double> means;
  for (size_t mark = 0; mark < marks; ++mark) {
    const size_t begin = mark * values.size() / marks, end = (mark + 1) * values.size() / marks;
    double sum = 0;
    for (const double value : values.subspan(begin, end - begin)) sum += value;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  double least = INFINITY, greatest = -INFINITY;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    least = std::min(least, mean);
    greatest = std::max(greatest, mean);
  }
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += " ";
    } else if (greatest <= least) {
      line += kMarks[3];
    } else {
      const auto place = static_cast<size_t>(std::lround((mean - least) / (greatest - least) * 7));
      line += kMarks[std::min<size_t>(place, 7)];
    }
  }
  return line;
}

}  // namespace rivulet
