// Correlated integer noise of DP-FTRL (banded_noise.h). With whole coefficients k_j the mechanism is
// sum over j of k_j g_(t-j) + z_t, z_t a discrete Gaussian: whole numbers throughout. Solved for the sums g it is g_t +
// e_t with e_t = (z_t - sum over j >= 1 of k_j e_(t-j)) / k_0. Since g_t is whole, g_t + round(e_t) is a processing of
// it.
//
// e_t is kept with 24 fraction bits, rounded down. That error is a function of earlier outcomes and sums alone; it
// moves a noised value by less than k_0 2^-24, which the sensitivity includes.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "federated/privacy/integer_noise.h"
#include "federated/privacy/noise_key.h"

namespace rivulet::privacy {

inline constexpr int kBandBits = 8;  // k_0 = 2^8

// The coefficients of SquareRootBands times 2^8, rounded; not rising.
std::vector<int64_t> WholeBands(int64_t bands);

// The L2 norm of one member's influence on all noised values of `versions` versions that are at least `separation`
// apart for it, where it changes the sums of one version by at most `norm` units in `elements` coordinates. In units of
// the fresh noise z.
StatusOr<double> CorrelatedSensitivity(std::span<const int64_t> bands, int64_t versions, int64_t separation,
                                       double norm, int64_t elements);

// The noise of one version after the other. Not thread-safe.
class CorrelatedNoise {
 public:
  CorrelatedNoise(const DiscreteGaussian& law, std::vector<int64_t> bands, int64_t elements)
      : law_(law), bands_(std::move(bands)), elements_(elements) {}

  // What is added to the sums of `version` >= 1. The first call draws all versions before it, as a restart must; later
  // ones in turn draw one. The same key and version give the same noise.
  StatusOr<std::vector<int64_t>> Of(const NoiseKey& key, int64_t version, int threads);

 private:
  Status Next(const NoiseKey& key, int threads);

  const DiscreteGaussian law_;
  const std::vector<int64_t> bands_;
  const int64_t elements_;
  int64_t version_ = 0;                       // the newest that is drawn
  std::deque<std::vector<int64_t>> earlier_;  // e of that and of those before it, times 2^24
};

}  // namespace rivulet::privacy
