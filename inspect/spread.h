// Mean and spread of a number over several runs, and the choice of their primary metric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inspect/overview.h"

namespace rivulet {

struct Spread {
  double mean = 0;
  double deviation = 0;  // of the sample, with n - 1; 0 for one run
  size_t runs = 0;
  std::string Text() const;  // "0.9712 ± 0.0031", "0.9712" for one run
};
Spread SpreadOf(const std::vector<double>& values);

// The most important of these names: an accuracy on test data, or else one of clients, or a loss; "" if there is
// none.
std::string FirstMetric(const std::vector<std::string>& known);

// The indices of `runs` that are equal except for their seeds and names, in groups, each in the order of its first.
// `runs`: the keys of each (ListedRun::keys).
std::vector<std::vector<size_t>> EqualButForSeed(const std::vector<std::map<std::string, std::string>>& runs);

// The mean by round, over the rounds that all of `curves` have.
std::vector<std::pair<int64_t, Spread>> MeanCurve(const std::vector<const Curve*>& curves);

// Null: there is no such curve.
const Curve* FindCurve(const std::vector<Curve>& curves, const std::string& name);

}  // namespace rivulet
