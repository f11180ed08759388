// Exact noise on integers: the discrete Gaussian and the discrete Laplace law by the algorithms of Canonne, Kamath and
// Steinke 2020, with decisions that no floating point takes (exponential_bound.h). Both are values; drawing is const
// and thread-safe with a stream for each thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "federated/privacy/exponential_bound.h"
#include "federated/privacy/noise_stream.h"

struct bignum_st;

namespace rivulet::privacy {

struct NoiseTables;
struct QuotientTable;

// The parameter s of a discrete Gaussian, exactly mantissa * 2^exponent, mantissa < 2^32.
struct NoiseScale {
  uint32_t mantissa = 1;
  int exponent = 0;

  static constexpr double kLeast = 0x1p-6, kMost = 0x1p40;
  // The least scale of 32 bits that is not below `parameter`. OUT_OF_RANGE: outside of kLeast to kMost.
  static StatusOr<NoiseScale> AtLeast(double parameter);
  double value() const;
};

// Mass proportional to e^(-k^2 / 2 s^2) at every integer k.
class DiscreteGaussian {
 public:
  // `scale` within kLeast to kMost, as AtLeast gives it.
  explicit DiscreteGaussian(const NoiseScale& scale);
  int64_t Draw(NoiseStream& stream) const;
  const NoiseScale& scale() const { return scale_; }

 private:
  // 2^64 * (difference^2 / denominator), from below, as BoundExponential wants it.
  Wide ScaledSquare(Wide difference) const;
  bool IsKept(NoiseStream& stream, uint64_t magnitude) const;
  bool IsKeptSlowly(NoiseStream& stream, uint64_t magnitude) const;
  bool IsKeptExactly(NoiseStream& stream, uint64_t first, Wide difference) const;

  const NoiseTables* tables_;
  NoiseScale scale_;
  uint64_t laplace_ = 1;  // t = floor(s) + 1: the scale of the discrete Laplace that is drawn from and thinned out
  Wide laplace_inverse_ = 0;
  std::shared_ptr<const QuotientTable> quotients_;  // of laplace_
  // A candidate y is kept with probability e^(-(|y| - s^2 / t)^2 / 2 s^2) = e^-((|y| unit_ - square_)^2 / denominator),
  // unit_ = t D, square_ = N and denominator = 2 N D t^2 for s^2 = N / D.
  Wide unit_ = 1, square_ = 1;
  uint64_t reciprocal_ = 0;  // 2^reciprocal_exponent_ / denominator, with its highest bit set
  int reciprocal_exponent_ = 0;
  // The root of that exponent to 28 fraction bits: | |y| 2^root_shift_ root_slope_ / 2^64 - root_offset_ |.
  int root_shift_ = 0;
  uint64_t root_slope_ = 0;  // 0: scales below 1, of which each decision is made exactly
  int64_t root_offset_ = 0;
};

// Mass proportional to e^(-|k| denominator / numerator) at every integer k: the scale is numerator / denominator.
class DiscreteLaplace {
 public:
  // OUT_OF_RANGE: numerator or denominator is 0 or above 2^40.
  static StatusOr<DiscreteLaplace> Create(uint64_t numerator, uint64_t denominator);
  int64_t Draw(NoiseStream& stream) const;

 private:
  DiscreteLaplace() = default;
  const NoiseTables* tables_ = nullptr;
  uint64_t numerator_ = 1, denominator_ = 1;
  Wide inverse_ = 0;
  std::shared_ptr<const QuotientTable> quotients_;  // of numerator_
};

// Elements of a version that share a stream.
inline constexpr int64_t kElementsPerBlock = 4096;

// Noise for elements kElementsPerBlock * first_block and on: out[i] is what that element gets in every call, whatever
// `threads` (at least 1) and however the elements are divided into calls at multiples of kElementsPerBlock. `derived`
// is NoiseKey::Derive(version, purpose).
Status DrawNoise(const NoiseKey& derived, const DiscreteGaussian& law, uint64_t first_block, std::span<int64_t> out,
                 int threads = 1);
Status DrawNoise(const NoiseKey& derived, const DiscreteLaplace& law, uint64_t first_block, std::span<int64_t> out,
                 int threads = 1);

}  // namespace rivulet::privacy
