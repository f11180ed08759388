#include "federated/aggregation/whole_updates_rule.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rivulet {
namespace {

// Eight parallel sums, so that the loop vectorises and still adds in a fixed order.
double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  std::array<double, 8> sums = {};
  const auto add = [&](size_t i, size_t lane) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sums[lane] += difference * difference;
  };
  size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) add(i + lane, lane);
  }
  for (size_t lane = 0; i < a.size(); ++i, ++lane) add(i, lane);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void SquaredDistances::Add(std::span<const std::span<const float>> updates) {
  const std::vector<float> zero(updates[0].size());
  std::vector<std::span<const float>> points(updates.begin(), updates.end());
  points.emplace_back(zero);
  for (size_t a = 0; a < updates_; ++a) {
    for (size_t b = a + 1; b <= updates_; ++b) {
      const double more = SquaredDistance(points[a], points[b]);
      squares_[a * (updates_ + 1) + b] += more;
      squares_[b * (updates_ + 1) + a] += more;
    }
  }
}

std::vector<double> SquaredDistances::To(std::span<const double> weights) const {
  std::vector<double> all(weights.begin(), weights.end());
  double rest = 1;
  for (const double weight : weights) rest -= weight;
  all.push_back(rest);
  std::vector<double> to(updates_ + 1);  // Σ_v w_v ‖x_u − x_v‖²
  double among = 0;
  for (size_t u = 0; u <= updates_; ++u) {
    for (size_t v = 0; v <= updates_; ++v) to[u] += all[v] * at(u, v);
    among += all[u] * to[u];
  }
  to.pop_back();
  for (double& distance : to) distance = std::sqrt(std::max(0.0, distance - among / 2));
  return to;
}

void WholeUpdatesRule::Reduce(const Columns& columns, std::span<float> out) const {
  const double divisor = columns.counts.divisor * columns.unit;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t sum = 0;
    for (size_t u = 0; u < columns.updates.size(); ++u) {
      const double counted = columns.counts.of[u] * static_cast<double>(columns.updates[u][i]);
      sum += static_cast<int64_t>(std::nearbyint(counted * columns.unit));
    }
    out[i] = static_cast<float>(static_cast<double>(sum) / divisor);
  }
}

}  // namespace rivulet
