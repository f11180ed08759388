// Adaptive clipping (Andrew, Thakkar, McMahan, Ramaswamy 2021). The clip follows a quantile of the updates' norms,
// estimated by a noised count of unclipped updates. Pure arithmetic.
//
// Each client sends one more number: +1 if its update's norm was at most the clip and -1 otherwise, twice the paper's b
// - 1/2. Adding or removing a client changes the sum of these by 1.
#pragma once

#include <cstdint>

#include "engine/base/status.h"

namespace rivulet::privacy {

struct AdaptiveClip {
  double quantile = 0.5;       // the share of updates that should not be clipped
  double learning_rate = 0.2;  // of the logarithm of the clip
  double least = 1e-6, most = 1e6;
};

// The next clip: clip * e^(-learning_rate * (share - quantile)), share = (noised_sum / planned + 1) / 2 the noised
// share of unclipped updates, with the number of clients that was planned and not that of those who came. The clip
// stays within least and most.
double NextClip(const AdaptiveClip& rule, double clip, double noised_sum, double planned);

// What a round spends where updates have noise of `update_multiplier` over the clip and the sum of +-1 has noise of the
// deviation `count_deviation`: both are one Gaussian of this multiplier, (update_multiplier^-2 +
// count_deviation^-2)^-1/2 (the paper's theorem 1 with count_deviation = 2 sigma_b).
double CombinedMultiplier(double update_multiplier, double count_deviation);
// The update_multiplier for which CombinedMultiplier is `combined`: the paper's z_delta. Infinite where count_deviation
// alone spends all of it (count_deviation <= combined).
double UpdateMultiplierFor(double combined, double count_deviation);

// A count in units of the updates' noise, as clients add it: each 1 that is counted is `units`, a power of two, so that
// their noised counts are exact in binary. `deviation` is that of the noise over a 1: at least the wanted one, at most
// twice as much.
struct CountUnits {
  int64_t units = 1;
  double deviation = 0;
};
// `sensitivity`: the updates' norm in units. OUT_OF_RANGE: not even one unit has that deviation; finer units are
// needed.
StatusOr<CountUnits> CountUnitsFor(double combined, double count_deviation, double sensitivity);

}  // namespace rivulet::privacy
