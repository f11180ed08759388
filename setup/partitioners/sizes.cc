#include "setup/partitioners/sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/base/math.h"
#include "setup/partitioners/proportions.h"

namespace rivulet {
namespace {

// The logarithm of client i's weight; null: even.
StatusOr<std::function<double(int64_t, Draws&)>> LogWeightOf(const PartitionConfig& config) {
  const std::string& sizes = config.sizes;
  const double skew = config.skew, alpha = config.size_alpha;
  const auto log_rank = [](int64_t client) { return math::Log(static_cast<double>(client + 1)); };
  if (!(skew > 0) || !std::isfinite(skew))
    return InvalidArgument("data.partition.skew is {}; give a number above 0", skew);
  if (!(alpha > 0) || !std::isfinite(alpha))
    return InvalidArgument("data.partition.size_alpha is {}; give a number above 0", alpha);
  using LogWeight = std::function<double(int64_t, Draws&)>;
  if (sizes == "even") return LogWeight();
  if (sizes == "linear") return LogWeight([=](int64_t client, Draws&) { return log_rank(client); });
  if (sizes == "square") return LogWeight([=](int64_t client, Draws&) { return 2 * log_rank(client); });
  if (sizes == "power_law") return LogWeight([=](int64_t client, Draws&) { return -skew * log_rank(client); });
  if (sizes == "exponential")
    return LogWeight([=](int64_t client, Draws&) { return skew * static_cast<double>(client); });
  if (sizes == "lognormal") return LogWeight([=](int64_t, Draws& draws) { return skew * draws.Normal(); });
  if (sizes == "dirichlet") return LogWeight([=](int64_t, Draws& draws) { return LogGamma(alpha, draws); });
  return InvalidArgument(
      "data.partition.sizes is '{}'; it must be even, linear, square, exponential, power_law, lognormal or dirichlet",
      sizes);
}

}  // namespace

StatusOr<std::vector<uint64_t>> SizeEnds(const PartitionRequest& request) {
  const int64_t examples = request.data.size(), clients = request.config.clients;
  std::vector<uint64_t> ends(static_cast<size_t>(clients));
  RIVULET_ASSIGN_OR_RETURN(const auto log_weight, LogWeightOf(request.config));
  if (log_weight == nullptr) {
    for (int64_t i = 0; i < clients; ++i)
      ends[static_cast<size_t>(i)] = static_cast<uint64_t>(EvenCut(examples, i + 1, clients));
    return ends;
  }
  const Proportions proportions(clients, PartitionDraws(request.seed, PartitionOp::kSizes), log_weight);
  proportions.Cut(static_cast<uint64_t>(examples - clients), [&](int64_t client, uint64_t, uint64_t end) {
    ends[static_cast<size_t>(client)] = end + static_cast<uint64_t>(client) + 1;
  });
  return ends;
}

}  // namespace rivulet
