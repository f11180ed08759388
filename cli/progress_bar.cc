#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rivulet {

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string Bar(int64_t filled, int64_t total, int width) {
  const int marks = total > 0 ? static_cast<int>(std::clamp<int64_t>(filled * width / total, 0, width)) : 0;
  return std::string(static_cast<size_t>(marks), '#') + std::string(static_cast<size_t>(width - marks), '-');
}

}  // namespace rivulet
