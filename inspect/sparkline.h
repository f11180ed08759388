// Sparklines: small charts of numbers in a line of text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rivulet {

// "▁▃▅▆▇█": at most `width` marks, each the mean of its values, scaled from the lowest to the highest mark.
std::string Sparkline(std::span<const double> values, size_t width);

}  // namespace rivulet
