// Central noise of a run: an exact discrete Gaussian on the integer sums of each version, under the run's noise key.
// Nothing is rounded or divided before the noise is in, so the released mean is a function of noised integers alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "federated/privacy/integer_noise.h"
#include "federated/privacy/noise_key.h"
#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

// What one update adds to the sums of a version: values of an L2 norm up to `clip`, each rounded to a multiple of
// 2^-fraction_bits.
struct SumBound {
  double clip = 0;
  int64_t elements = 0;
  int fraction_bits = 0;
};

// Largest L2 norm of one update after rounding, in units of 2^-fraction_bits: a whole number. Clients clip in float32,
// and servers tolerate 2^-20 of the norm for that; rounding moves each value by half a unit at most.
double NormInUnits(const SumBound& bound);

// The most fraction bits with which noise of this multiplier, of as many bands, is within NoiseScale::kMost.
int MostFractionBits(double multiplier, double clip, int64_t bands = 1);

// Thread-safe.
class SumNoise {
 public:
  // Noise of `multiplier` times the norm in units; never less. OUT_OF_RANGE: that is outside of what NoiseScale takes;
  // the sentence names the resolution and what to change. With more than one band the versions' noise is correlated
  // (correlated_noise.h), and `multiplier` is that of the fresh noise of each. With a `count_deviation` above
  // `multiplier`, versions have a noised count of +-1 too, with noise of at least that deviation; `multiplier` is then
  // that of sums and count together, and the sums have more (CombinedMultiplier in adaptive_clip.h). INVALID_ARGUMENT:
  // a count_deviation that spends more than `multiplier` allows, or one with bands.
  static StatusOr<SumNoise> Create(std::shared_ptr<const NoiseKey> key, double multiplier, const SumBound& bound,
                                   int64_t bands = 1, double count_deviation = 0);

  // Adds the noise of `version` to its sums, one call a version. The same key and version give the same noise, on any
  // number of threads. INVALID_ARGUMENT: another number of sums than the bound's. INTERNAL: no cipher.
  Status Add(uint64_t version, std::span<int64_t> sums, int threads = 1) const;

  // The noised count of `version`, of a count from -2^20 to 2^20, as the count's word: `count_units` times the count,
  // in the units of the sums, with noise of the same law. One call a version, as Add. INVALID_ARGUMENT: no whole number
  // within these.
  StatusOr<double> AddToCount(uint64_t version, double count) const;

  bool counts() const { return count_units_ > 0; }
  int64_t dimension() const { return elements_ + (counts() ? 1 : 0); }  // of sums and count
  // L2, in units, of one update and its count's word: a whole number.
  double sensitivity() const { return sensitivity_; }
  double deviation() const { return law_.scale().value(); }  // the parameter of the fresh noise, in its units
  double multiplier() const { return deviation() / sensitivity_ / unit_; }
  int64_t elements() const { return elements_; }
  bool correlated() const { return correlated_ != nullptr; }
  // All of the first `versions` versions, in which members take part at least `separation` apart, as one noised round:
  // for accountants of correlated noise.
  StatusOr<NoisedRounds> AsOneRound(int64_t versions, int64_t separation) const;

 private:
  struct Correlated;
  SumNoise(std::shared_ptr<const NoiseKey> key, const DiscreteGaussian& law, double sensitivity, int64_t elements)
      : key_(std::move(key)), law_(law), sensitivity_(sensitivity), elements_(elements) {}

  std::shared_ptr<const NoiseKey> key_;
  DiscreteGaussian law_;
  double sensitivity_;
  int64_t elements_;
  int64_t count_units_ = 0;                 // of the count's word, for each 1 that is counted; 0: none is
  double unit_ = 1;                         // units of the fresh noise in one of the sums
  std::shared_ptr<Correlated> correlated_;  // null: each version's noise is fresh
};

// The key of a simulation whose noise follows from its seed. Knowledge of the seed removes the noise.
NoiseKey SeededKey(uint64_t seed);

}  // namespace rivulet::privacy
