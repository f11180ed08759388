#include "federated/privacy/sum_noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "federated/privacy/adaptive_clip.h"
#include "federated/privacy/correlated_noise.h"

namespace rivulet::privacy {
namespace {

// Of a client's norm in float32: what the coordinator tolerates (kNormRounding in federated/aggregation/gathering.h).
constexpr double kClipTolerance = 0x1p-20;
// Noise that is drawn at a time: 8 MB, and a multiple of kElementsPerBlock.
constexpr int64_t kStretch = int64_t{1} << 20;
// Deviations up to it leave a factor of 2 to kMost for the norm's rounding.
constexpr int kMostDeviationBits = 38;
// A count's word has room in 64 bits: up to 2^40 units for each of 2^20, and the noise.
constexpr double kMostCount = 0x1p20, kLeastCountDeviation = 0.25;

}  // namespace

double NormInUnits(const SumBound& bound) {
  const double clip = std::ldexp(bound.clip * (1 + kClipTolerance), bound.fraction_bits);
  return std::floor(clip + std::sqrt(static_cast<double>(bound.elements)) / 2) + 1;
}

// The noise of earlier versions, under a lock.
struct SumNoise::Correlated {
  Correlated(const DiscreteGaussian& law, std::vector<int64_t> whole, int64_t elements)
      : bands(std::move(whole)), noise(law, bands, elements) {}
  const std::vector<int64_t> bands;
  Mutex mutex;
  CorrelatedNoise noise GUARDED_BY(mutex);
};

int MostFractionBits(double multiplier, double clip, int64_t bands) {
  return kMostDeviationBits - (bands > 1 ? kBandBits : 0) -
         static_cast<int>(std::ceil(std::log2(std::max(multiplier, 1.0) * clip)));
}

StatusOr<SumNoise> SumNoise::Create(std::shared_ptr<const NoiseKey> key, double multiplier, const SumBound& bound,
                                    int64_t bands, double count_deviation) {
  if (count_deviation > 0 && (bands > 1 || !(count_deviation > multiplier) || count_deviation < kLeastCountDeviation)) {
    return InvalidArgument(
        "a count with noise of the deviation {} beside sums of {} bands; it needs fresh noise, at least {}, and more "
        "than the multiplier {} of both together",
        count_deviation, bands, kLeastCountDeviation, multiplier);
  }
  double sensitivity = NormInUnits(bound);
  const double unit = bands > 1 ? std::ldexp(1.0, kBandBits) : 1;
  const double of_sums = count_deviation > 0 ? UpdateMultiplierFor(multiplier, count_deviation) : multiplier;
  const auto scale = NoiseScale::AtLeast(of_sums * sensitivity * unit);
  if (!scale.ok()) {
    return OutOfRange(
        "noise of {} times a clip of {} has a deviation of {} units of 2^-{}, and exact noise takes {} to {}; change "
        "privacy.clip, the noise multiplier or server.value_bits",
        multiplier, bound.clip, multiplier * sensitivity, bound.fraction_bits, NoiseScale::kLeast, NoiseScale::kMost);
  }
  const auto count_units = static_cast<int64_t>(count_deviation > 0 ? scale->value() / count_deviation : 0);
  if (count_deviation > 0 && count_units < 1) {
    return OutOfRange("a count with noise of the deviation {} takes units finer than 2^-{}; lower server.value_bits",
                      count_deviation, bound.fraction_bits);
  }
  if (count_units > 0) sensitivity = std::ceil(std::hypot(sensitivity, static_cast<double>(count_units)));
  SumNoise noise(std::move(key), DiscreteGaussian(*scale), sensitivity, bound.elements);
  noise.count_units_ = count_units;
  noise.unit_ = unit;
  if (bands > 1) noise.correlated_ = std::make_shared<Correlated>(noise.law_, WholeBands(bands), bound.elements);
  return noise;
}

Status SumNoise::Add(uint64_t version, std::span<int64_t> sums, int threads) const {
  if (std::ssize(sums) != elements_) {
    return InvalidArgument("a version has {} sums, and its noise is of {}", sums.size(), elements_);
  }
  if (correlated_ != nullptr) {
    MutexLock lock(correlated_->mutex);
    RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> noise,
                             correlated_->noise.Of(*key_, static_cast<int64_t>(version), threads));
    std::ranges::transform(sums, noise, sums.begin(), std::plus<>());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const NoiseKey derived, key_->Derive(version, NoisePurpose::kSum));
  std::vector<int64_t> noise(static_cast<size_t>(std::min(elements_, kStretch)));
  for (int64_t first = 0; first < elements_; first += kStretch) {
    const auto count = static_cast<size_t>(std::min(kStretch, elements_ - first));
    const std::span<int64_t> stretch = std::span(noise).first(count);
    RIVULET_RETURN_IF_ERROR(
        DrawNoise(derived, law_, static_cast<uint64_t>(first / kElementsPerBlock), stretch, threads));
    const std::span<int64_t> into = sums.subspan(static_cast<size_t>(first), count);
    // Sums stay below 2^62 and noise below 2^50, so nothing overflows.
    std::ranges::transform(into, stretch, into.begin(), std::plus<>());
    std::ranges::fill(stretch, 0);
  }
  return absl::OkStatus();
}

StatusOr<double> SumNoise::AddToCount(uint64_t version, double count) const {
  if (!(std::abs(count) <= kMostCount) || count != std::trunc(count)) {
    return InvalidArgument(
        "version {} counts {} unclipped updates more than clipped ones; that is no whole number up "
        "to {}",
        version, count, kMostCount);
  }
  RIVULET_ASSIGN_OR_RETURN(const NoiseKey derived, key_->Derive(version, NoisePurpose::kClip));
  int64_t noise = 0;
  RIVULET_RETURN_IF_ERROR(DrawNoise(derived, law_, 0, {&noise, 1}));
  const int64_t word = static_cast<int64_t>(count) * count_units_ + noise;
  return static_cast<double>(word) / static_cast<double>(count_units_);
}

StatusOr<NoisedRounds> SumNoise::AsOneRound(int64_t versions, int64_t separation) const {
  RIVULET_ASSIGN_OR_RETURN(const double influence,
                           CorrelatedSensitivity(correlated_->bands, versions, separation, sensitivity_, elements_));
  return NoisedRounds{.noise = NoiseLaw::kDiscreteGaussian,
                      .multiplier = deviation() / influence,
                      .sensitivity = std::ceil(influence),
                      .dimension = elements_ * versions};
}

NoiseKey SeededKey(uint64_t seed) {
  Sha256 hash;
  hash.Update("rivulet seeded noise 1").UpdateU64(seed);
  const Digest digest = std::move(hash).Finish();
  return NoiseKey::FromBytes(std::span<const uint8_t, NoiseKey::kBytes>(digest.bytes));
}

}  // namespace rivulet::privacy
