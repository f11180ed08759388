// A pair of distributions whose privacy losses are moved to multiples of a step. Moved upwards, the new pair is worse
// at every epsilon ("connect the dots", Doroshenko et al. 2022); moved downwards, it is better. Both keep the mean of
// e^-loss, so that the error is of second order in the step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "federated/privacy/loss_pair.h"

namespace rivulet::privacy {

struct LossGrid {
  double step = 0;
  int64_t first = 0;         // mass[i] is at the loss (first + i) * step
  std::vector<double> mass;  // under P
  double infinite = 0;       // mass at the loss infinity (upper grids)

  double Loss(size_t i) const { return static_cast<double>(first + static_cast<int64_t>(i)) * step; }
};

struct LossGrids {
  // Every interval's mass is shared between its ends so that the masses of P and of Q stay.
  LossGrid upper;
  // Outcomes around each multiple are merged until their loss is exactly that multiple. Merging is a processing of the
  // outcomes, so nobody learns more from the merged ones.
  LossGrid lower;
};

// Losses that occur; what lies outside is cut off: from the upper grid to its lowest loss and to infinity, from the
// lower grid for good.
struct LossRange {
  double low = 0, high = 0;
};
// The range that leaves out a mass of at most `negligible` at either end, from LossNodes of a pair.
LossRange RangeOf(std::span<const LossAtom> nodes, double negligible);

// Takes time and memory in proportion to the range over the step, plus that of the integration's panels.
LossGrids DiscretiseLoss(const LossPair& pair, const LossRange& range, double step);

}  // namespace rivulet::privacy
