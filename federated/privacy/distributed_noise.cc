#include "federated/privacy/distributed_noise.h"

#include <cmath>
#include <numbers>

#include "federated/privacy/discrete.h"

namespace rivulet::privacy {

double NoiseReach(double each, int64_t contributors, int64_t dimension, double log2_probability) {
  const double log = std::log(2.0 * static_cast<double>(dimension)) - log2_probability * std::numbers::ln2;
  return each * std::sqrt(2 * static_cast<double>(contributors) * log);
}

StatusOr<DistributedNoise> SizeDistributedNoise(const DistributedNoiseRequest& request) {
  if (!(request.multiplier > 0) || std::isinf(request.multiplier)) {
    return InvalidArgument("the noise multiplier is {}; noise of clients needs a finite one above 0",
                           request.multiplier);
  }
  if (!(request.sensitivity > 0) || std::isinf(request.sensitivity) || request.dimension < 1) {
    return InvalidArgument("a sensitivity of {} units in {} coordinates; both must be above 0", request.sensitivity,
                           request.dimension);
  }
  if (request.least_honest < 1 || request.most_clients < request.least_honest) {
    return InvalidArgument(
        "noise comes from {} to {} clients; there must be at least 1, and at most as many as take part",
        request.least_honest, request.most_clients);
  }
  if (!(request.overflow_log2 < 0)) {
    return InvalidArgument("an overflow of probability 2^{}; the exponent must be below 0", request.overflow_log2);
  }
  const double wanted = request.multiplier * request.sensitivity / std::sqrt(static_cast<double>(request.least_honest));
  if (wanted < 0.5) {
    return FailedPrecondition(
        "each of {} clients would add noise of {:.3g} units, and below 0.5 nothing bounds their sum; count in units at "
        "least {:.3g} times finer",
        request.least_honest, wanted, 0.5 / wanted);
  }
  DistributedNoise noise;
  RIVULET_ASSIGN_OR_RETURN(noise.each, NoiseScale::AtLeast(wanted));
  const double each = noise.each.value();
  noise.tau = SumOfDiscreteGaussiansTau(each, request.least_honest);
  noise.room =
      static_cast<int64_t>(std::ceil(NoiseReach(each, request.most_clients, request.dimension, request.overflow_log2)));
  noise.rounds = {.noise = NoiseLaw::kDiscreteGaussian,
                  .multiplier = each * std::sqrt(static_cast<double>(request.least_honest)) / request.sensitivity,
                  .sensitivity = request.sensitivity,
                  .dimension = request.dimension,
                  .contributors = request.least_honest};
  return noise;
}

}  // namespace rivulet::privacy
