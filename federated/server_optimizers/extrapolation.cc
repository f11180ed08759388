// FedExP's server (Jhunjhunwala et al. 2023, arXiv:2301.09604, equation 2): the less the clients' changes Δ_k agree,
// the shorter is their mean d relative to them, and the longer is the server's step:
//
//   w ← w + server.learning_rate · max(1, Σ_k p_k ‖Δ_k‖² / (2 (‖d‖² + epsilon))) · d
//
// The aggregating process measures the squares of norms (federated/aggregation/measured_scalar.h).
#include <algorithm>

#include "federated/server_optimizers/sgd.h"

namespace rivulet {
namespace {

class ServerExtrapolation final : public ServerSgd {
 public:
  explicit ServerExtrapolation(double epsilon) : epsilon_(epsilon) {}

  double Factor(VersionMean& mean, const VersionSums& sums) const override {
    double square = 0;
    for (const float value : mean.Whole()) square += static_cast<double>(value) * value;
    return std::max(1.0, sums.scalars.at("squared_norm") / sums.denominator / (2 * (square + epsilon_)));
  }

 private:
  const double epsilon_;
};

RIVULET_SERVER_OPTIMIZER(server_extrapolation_registration, "extrapolation",
                         {Float("epsilon", 1e-3, "Added to the square of the mean's norm.").Above(0)},
                         [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerExtrapolation>(settings.number("epsilon"));
                         });

}  // namespace
}  // namespace rivulet
