#include "engine/base/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rivulet {

std::string BytesText(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (seconds < 0.00005) return "0 s";
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1000);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string PercentText(double share) {
  return fmt::format("{:.{}f} %", share * 100, share > 0 && share < 0.0995 ? 1 : 0);
}

std::string CountText(int64_t count) {
  std::string text = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string MetricText(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 && std::isfinite(size)) return fmt::format("{:.4g}", value);
  if (size >= 999.99995) return fmt::format("{:.1f}", value);
  if (size > 0 && size < 0.00005) return fmt::format("{:.2g}", value);
  return fmt::format("{:.4f}", value);
}

}  // namespace rivulet
