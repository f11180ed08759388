#include "federated/settings/whole_ratios.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace rivulet {
namespace {

constexpr int kMostDigits = 9;

// Each number times `scale`, if all products are integers apart from rounding.
std::optional<std::vector<int64_t>> ScaledRatios(std::span<const double> numbers, double scale) {
  std::vector<int64_t> whole;
  for (const double number : numbers) {
    const double scaled = number * scale, rounded = std::round(scaled);
    if (rounded > kMostRatio || std::abs(scaled - rounded) > 1e-12 * scaled) return std::nullopt;
    whole.push_back(static_cast<int64_t>(rounded));
  }
  return whole;
}

}  // namespace

std::string RatioTrait(std::string_view setting) { return fmt::format("{} are ratios", setting); }

StatusOr<std::vector<int64_t>> WholeRatios(std::span<const double> numbers) {
  double largest = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number)) return InvalidArgument("must hold finite numbers, not {}", number);
    if (number < 0) return InvalidArgument("must hold numbers of at least 0, not {}", number);
    largest = std::max(largest, number);
  }
  double scale = 1;
  for (int digits = 0; digits <= kMostDigits; ++digits, scale *= 10)
    if (std::optional<std::vector<int64_t>> whole = ScaledRatios(numbers, scale)) return *std::move(whole);
  std::vector<int64_t> whole;
  for (const double number : numbers) {
    whole.push_back(std::llround(number / largest * kMostRatio));
    if (number > 0 && whole.back() == 0)
      return InvalidArgument("must hold 0 or at least a billionth of the largest number {}, not {}", largest, number);
  }
  return whole;
}

}  // namespace rivulet
