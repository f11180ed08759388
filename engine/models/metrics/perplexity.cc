// exp of the mean cross-entropy over tokens of a language model that count: without padding and ignored labels.
//
// Losses are summed in whole units of 2^-16, so the sum is the same for any batches and any division into clients. A
// batch's sum is reported in two halves, as a float32 holds whole numbers below 2^24 exactly.
#include <cmath>

#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

constexpr double kUnitsOfLoss = 65536, kLowHalf = 1 << 20;
constexpr float kMostLoss = 16384;  // of one row, in the place of infinity and NaN; its perplexity is infinite

Output PerplexityCounts(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Scope s = scope.SubScope(request.name + "_of");
  const auto whole = [&](Output x) { return s.Op("Cast", {x}, {{"DstT", DType::kInt64}}); };
  const Output given = s.Op("SparseSoftmaxCrossEntropyWithLogits", {targets.scores, targets.target});
  const Output most = s.Const(kMostLoss, "most");
  const Output loss = s.Op("SelectV2", {s.Op("Less", {given, most}), given, most});
  const Output counted = whole(targets.counted ? targets.counted : s.Op("OnesLike", {loss}));
  const Output units = whole(s.Op("Round", {s.Op("Mul", {loss, s.Const(static_cast<float>(kUnitsOfLoss), "units")})}));
  const Output sum = SumOfRows(s, s.Op("Mul", {units, counted}));
  const Output half = s.Const(Tensor::Scalar(static_cast<int64_t>(kLowHalf)), "half");
  const Output high = s.Op("FloorDiv", {sum, half});
  const Output low = s.Op("Sub", {sum, s.Op("Mul", {high, half})});
  const Output counts = s.Op("Pack", {high, low, SumOfRows(s, counted)});
  return scope.Op("Cast", {counts}, {{"DstT", DType::kFloat32}}, request.name);
}

FinishedCounts PerplexityOf(std::span<const double> sums) {
  if (sums.size() != 3 || !(sums[2] > 0)) return {};
  const double loss = (sums[0] * kLowHalf + sums[1]) / kUnitsOfLoss / sums[2];
  return {{"", std::exp(loss)}, {"_loss", loss}};
}

RIVULET_METRIC(
    perplexity_registration,
    {.name = "perplexity",
     .doc = "exp of the mean cross-entropy of all tokens, with that mean as `perplexity_loss`; a token counts the same "
            "in any batch and on any client",
     .weighted = true,
     .of_class = PerplexityCounts,
     .finish = PerplexityOf});

}  // namespace
}  // namespace rivulet
