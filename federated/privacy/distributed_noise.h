// Noise that each client adds under secure aggregation when the clients generate a round's noise (Kairouz, Liu, Steinke
// 2021). It is sized so that the smallest honest sum that can be revealed has all of the noise. The words have room for
// the tails of the largest.
#pragma once

#include <cstdint>

#include "federated/privacy/integer_noise.h"
#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

struct DistributedNoiseRequest {
  double multiplier = 1;   // of the sum, over the sensitivity to one member added or removed
  double sensitivity = 1;  // in units: the L2 norm bound after rounding
  int64_t dimension = 1;
  int64_t least_honest = 1;    // contributors in the smallest sum that can be revealed
  int64_t most_clients = 1;    // contributors in the largest
  double overflow_log2 = -40;  // the probability that any coordinate of a sum leaves the room is at most 2 to this
};

struct DistributedNoise {
  NoiseScale each;      // of one client's discrete Gaussian: multiplier * sensitivity / sqrt(least_honest), rounded up
  double tau = 0;       // discrete.h: how far a sum of them is from one discrete Gaussian
  int64_t room = 0;     // the noise of most_clients in a coordinate stays within -room to room
  NoisedRounds rounds;  // what accountants are told of one round: the actual noise of the smallest sum
};

// INVALID_ARGUMENT: a number out of its range. FAILED_PRECONDITION: each client's noise would be below half a unit,
// where nothing is known of their sum; the sentence says what to change.
StatusOr<DistributedNoise> SizeDistributedNoise(const DistributedNoiseRequest& request);

// The largest deviation that `contributors` independent discrete Gaussians of the parameter `each` add up to in any of
// `dimension` coordinates, save with probability 2^log2_probability: each is sub-Gaussian with its parameter (Canonne,
// Kamath, Steinke 2020), so a sum exceeds x with probability at most 2 e^(-x^2 / (2 contributors each^2)).
double NoiseReach(double each, int64_t contributors, int64_t dimension, double log2_probability);

}  // namespace rivulet::privacy
