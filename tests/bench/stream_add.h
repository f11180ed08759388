// The least that folding an update can cost: sums[i] += weight × values[i] in double, nothing else asked.
#pragma once

#include <span>

namespace rivulet::bench {

void StreamAdd(std::span<const float> values, double weight, std::span<double> sums);

}  // namespace rivulet::bench
