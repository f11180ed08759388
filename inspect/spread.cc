#include "inspect/spread.h"

#include <algorithm>
#include <cmath>

namespace rivulet {

// One run has no deviation, and a zero would read as one.
std::string Spread::Text() const {
  return runs == 1 ? fmt::format("{:.4f}", mean) : fmt::format("{:.4f} ± {:.4f}", mean, deviation);
}

Spread SpreadOf(const std::vector<double>& values) {
  Spread result{.runs = values.size()};
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

std::string FirstMetric(const std::vector<std::string>& known) {
  for (const char* first : {"test/accuracy", "evaluate/accuracy", "personal/accuracy", "test/loss", "train/loss"}) {
    if (std::ranges::find(known, first) != known.end()) return first;
  }
  return known.empty() ? "" : known.front();
}

const Curve* FindCurve(const std::vector<Curve>& curves, const std::string& name) {
  const auto found = std::ranges::find(curves, name, &Curve::name);
  return found == curves.end() ? nullptr : &*found;
}

}  // namespace rivulet
