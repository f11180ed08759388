// Arrays of numbers of which ratios alone count, such as weights of classes. People write them in decimals (PyTorch's
// `weight=`), plans hold whole numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr double kMostRatio = 1e9;

// The trait of a table (setting_tables.h) whose setting of that name, an array of integers, holds ratios.
std::string RatioTrait(std::string_view setting);

// Whole numbers from 0 to kMostRatio of the same ratios as `numbers`. They are exact for decimals of few digits: 0.5
// and 1.7 are 5 and 17. Others are rounded to the billionth of the largest, which is finer than a 32-bit float.
// INVALID_ARGUMENT says what the array must hold: a number is negative, not finite or below a billionth of the largest.
StatusOr<std::vector<int64_t>> WholeRatios(std::span<const double> numbers);

}  // namespace rivulet
