// Renyi accounting: divergences per order, which add up over rounds, and their conversion to (epsilon, delta). The
// conversion is proposition 12 of Canonne, Kamath and Steinke 2020, or the Kullback-Leibler divergence if that is
// better.
#pragma once

#include <span>
#include <vector>

#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

// 1.1 to 10.9 by 0.1, 11 to 63, 128, 256, 512 and 1024: those of Google's dp-accounting.
std::vector<double> DefaultOrders();

// The total divergence of the composition, per order (each above 1). INVALID_ARGUMENT as Check.
StatusOr<std::vector<double>> RenyiCurve(const Composition& composition, std::span<const double> orders);

struct RenyiBound {
  double value = 0;  // epsilon or delta
  double order = 0;  // which order gave it
};
// The least over the orders. `curve` has one divergence for each order.
RenyiBound RenyiEpsilon(std::span<const double> orders, std::span<const double> curve, double delta);
RenyiBound RenyiDelta(std::span<const double> orders, std::span<const double> curve, double epsilon);

}  // namespace rivulet::privacy
