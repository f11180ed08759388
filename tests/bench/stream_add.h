// The minimum cost of aggregating an update: sums[i] += weight × values[i] in double, without any checks.
#pragma once

#include <span>

namespace rivulet::bench {

void StreamAdd(std::span<const float> values, double weight, std::span<double> sums);

}  // namespace rivulet::bench
