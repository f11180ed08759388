// Sparklines: small charts of numbers in a line of text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rivulet {

// "▁▃▅▆▇█": at most `width` marks, each the mean of the values that fall on it, from the least to the greatest of them.
std::string Sparkline(std::span<const double> values, size_t width);

}  // namespace rivulet
