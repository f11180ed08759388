#include "inspect/picture/histogram.h"

#include <algorithm>
#include <cmath>

namespace rivulet {
namespace {

constexpr double kHistogramWidth = 480, kHistogramLeft = 20, kHistogramTop = 34, kHistogramBottom = 150;
constexpr int64_t kMostBars = 40;
constexpr double kOutliers = 0.001;  // on either side

}  // namespace

Picture HistogramPicture(const std::string& title, std::span<const double> values) {
  Picture picture{.width = kHistogramWidth, .height = kHistogramBottom + 30, .label = title, .marks = {}};
  std::vector<double> sorted;
  for (const double value : values)
    if (std::isfinite(value)) sorted.push_back(value);
  std::ranges::sort(sorted);
  picture.Text(kHistogramLeft, 20, title, Anchor::kStart, 14).bold = true;
  if (sorted.empty()) {
    picture.Text(kHistogramLeft, 60, "nothing yet");
    return picture;
  }
  const auto cut = static_cast<size_t>(kOutliers * static_cast<double>(sorted.size()));
  const double low = sorted[cut], high = sorted[sorted.size() - 1 - cut];
  const bool whole = high - low < static_cast<double>(kMostBars) &&
                     std::ranges::all_of(sorted, [](double value) { return value == std::floor(value); });
  const int64_t bars = whole ? static_cast<int64_t>(high - low) + 1 : high > low ? kMostBars : 1;
  std::vector<int64_t> counts(static_cast<size_t>(bars), 0);
  int64_t outside = 0;
  for (const double value : sorted) {
    if (value < low || value > high) {
      ++outside;
      continue;
    }
    const double share = high > low ? (value - low) / (whole ? high - low + 1 : high - low) : 0;
    ++counts[static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(share * static_cast<double>(bars)), bars - 1))];
  }
  const int64_t most = *std::ranges::max_element(counts);
  const double step = (kHistogramWidth - 2 * kHistogramLeft) / static_cast<double>(bars);
  for (int64_t bar = 0; bar < bars; ++bar) {
    const int64_t count = counts[static_cast<size_t>(bar)];
    const double height = (kHistogramBottom - kHistogramTop) * static_cast<double>(count) / static_cast<double>(most);
    const double from = whole ? low + static_cast<double>(bar)
                              : low + (high - low) * static_cast<double>(bar) / static_cast<double>(bars);
    const double to = low + (high - low) * static_cast<double>(bar + 1) / static_cast<double>(bars);
    // An empty bar has a tooltip too.
    Mark& ground = picture.Rectangle(kHistogramLeft + step * static_cast<double>(bar), kHistogramTop, step,
                                     kHistogramBottom - kHistogramTop, kColours[0]);
    ground.opacity = 0.001;
    ground.title = whole ? fmt::format("{:g}: {}", from, count) : fmt::format("{:.4g} to {:.4g}: {}", from, to, count);
    if (count == 0) continue;
    Mark& drawn = picture.Rectangle(kHistogramLeft + step * static_cast<double>(bar), kHistogramBottom - height,
                                    std::max(step - 1, 0.5), height, kColours[0]);
    drawn.title = picture.marks[picture.marks.size() - 2].title;
  }
  picture.Line({{kHistogramLeft, kHistogramBottom}, {kHistogramWidth - kHistogramLeft, kHistogramBottom}}).opacity =
      0.6;
  picture.Text(kHistogramLeft, kHistogramBottom + 18, fmt::format("{:.4g}", low));
  picture.Text(kHistogramWidth - kHistogramLeft, kHistogramBottom + 18, fmt::format("{:.4g}", high), Anchor::kEnd);
  picture.Text(kHistogramWidth / 2, kHistogramBottom + 18,
               fmt::format("{} values, median {:.4g}{}", sorted.size(), sorted[sorted.size() / 2],
                           outside > 0 ? fmt::format(", {} further out", outside) : ""),
               Anchor::kMiddle);
  return picture;
}

}  // namespace rivulet
