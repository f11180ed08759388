#include "federated/privacy/correlated_noise.h"

#include <cmath>
#include <utility>

#include "federated/privacy/banded_noise.h"

namespace rivulet::privacy {
namespace {

__extension__ using Int128 = __int128;

constexpr int kFractionBits = 24;

}  // namespace

std::vector<int64_t> WholeBands(int64_t bands) {
  std::vector<int64_t> whole;
  for (const double coefficient : SquareRootBands(bands))
    whole.push_back(std::llround(std::ldexp(coefficient, kBandBits)));
  return whole;
}

StatusOr<double> CorrelatedSensitivity(std::span<const int64_t> bands, int64_t versions, int64_t separation,
                                       double norm, int64_t elements) {
  const std::vector<double> coefficients(bands.begin(), bands.end());
  RIVULET_ASSIGN_OR_RETURN(const double of_sums, BandedSensitivity(coefficients, versions, separation,
                                                                   MostParticipations(versions, separation)));
  const double rounding = std::ldexp(1.0, kBandBits - kFractionBits) *
                          std::sqrt(static_cast<double>(elements) * static_cast<double>(versions));
  return norm * of_sums + rounding;
}

StatusOr<std::vector<int64_t>> CorrelatedNoise::Of(const NoiseKey& key, int64_t version, int threads) {
  if (version < version_) {
    version_ = 0;
    earlier_.clear();
  }
  while (version_ < version) RIVULET_RETURN_IF_ERROR(Next(key, threads));
  std::vector<int64_t> noise = earlier_.front();
  constexpr int64_t kHalf = int64_t{1} << (kFractionBits - 1);
  for (int64_t& value : noise) value = (value + kHalf) >> kFractionBits;
  return noise;
}

Status CorrelatedNoise::Next(const NoiseKey& key, int threads) {
  RIVULET_ASSIGN_OR_RETURN(const NoiseKey derived, key.Derive(static_cast<uint64_t>(version_ + 1), NoisePurpose::kSum));
  std::vector<int64_t> next(static_cast<size_t>(elements_));
  RIVULET_RETURN_IF_ERROR(DrawNoise(derived, law_, 0, next, threads));
  for (size_t i = 0; i < next.size(); ++i) {
    Int128 sum = static_cast<Int128>(next[i]) << kFractionBits;
    for (size_t j = 1; j < bands_.size() && j <= earlier_.size(); ++j) {
      sum -= static_cast<Int128>(bands_[j]) * earlier_[j - 1][i];
    }
    next[i] = static_cast<int64_t>(sum >> kBandBits);  // rounds down
  }
  earlier_.push_front(std::move(next));
  if (earlier_.size() >= bands_.size()) earlier_.resize(std::max<size_t>(bands_.size() - 1, 1));
  ++version_;
  return absl::OkStatus();
}

}  // namespace rivulet::privacy
