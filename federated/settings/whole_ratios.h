// Arrays of numbers of which only the ratios matter, such as class weights. Users write decimals (as in PyTorch's
// `weight=`); plans contain integers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr double kMostRatio = 1e9;

// The trait of a table (setting_tables.h) with a setting of that name, an array of integers, that holds ratios.
std::string RatioTrait(std::string_view setting);

// Converts `numbers` to integers from 0 to kMostRatio with the same ratios. Decimals of few digits are exact: 0.5 and
// 1.7 become 5 and 17. Others are rounded to the billionth of the largest, which is finer than a 32-bit float.
// INVALID_ARGUMENT: a number is negative, not finite or below a billionth of the largest; the message gives the rule.
StatusOr<std::vector<int64_t>> WholeRatios(std::span<const double> numbers);

}  // namespace rivulet
