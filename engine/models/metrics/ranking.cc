// Area under the ROC curve and average precision, from histograms of log-odds. Scores of a class or label become
// log-odds, which keep their order, and those of positive and of negative examples are counted above thresholds that
// are finest near 0. Histograms add up over batches and clients. Of two classes that of class 1 is measured; of more,
// and of labels, each against the rest, and the mean is reported (scikit-learn's "ovr" with average="macro"). One
// without both positive and negative examples counts for nothing.
//
// In one bin all positives count as equal to all negatives. So the area is off by at most half of the share of pairs
// that fall into one bin together, and average precision by no more than the difference between the best and the worst
// order within bins: "auc_bound" and "average_precision_bound".
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

// Thresholds of a histogram: -inf, 0, and ±sinh(b · i) / 10 up to 16. These are even steps near 0 and a constant factor
// far from it. With many rankings there are fewer. The sizes are such that the number of counts determines the number
// of rankings.
std::vector<float> Thresholds(int64_t rankings) {
  constexpr double kStep = 0.1, kFarthest = 16;
  const int64_t half = rankings == 1 ? 62 : rankings <= 10 ? 24 : 15;
  std::vector<float> thresholds = {-std::numeric_limits<float>::infinity(), 0};
  for (int64_t i = 1; i <= half; ++i) {
    const double at = std::asinh(kFarthest / kStep) * static_cast<double>(i) / static_cast<double>(half);
    const auto threshold = static_cast<float>(kStep * std::sinh(at));
    thresholds.push_back(threshold);
    thresholds.push_back(-threshold);
  }
  std::ranges::sort(thresholds);
  return thresholds;
}

// For each ranking, positives above each threshold, then negatives: [rankings × 2 × thresholds], as a vector.
// `log_odds` and `positive`, of ones and zeros, are [rows, rankings].
Output Histograms(const Scope& scope, Output log_odds, Output positive, int64_t rankings,
                  const MetricRequest& request) {
  const std::vector<float> thresholds = Thresholds(rankings);
  const auto width = static_cast<int64_t>(thresholds.size());
  if (2 * rankings * width > kMostCounts) {
    scope.Fail(InvalidArgument("there are {} classes or labels, and at most {} are ranked one by one", rankings,
                               kMostCounts / 2 / width));
    return {};
  }
  const Output last = scope.Const(Tensor::Scalar<int32_t>(2));
  const auto widened = [&](Output of) { return scope.Op("ExpandDims", {of, last}); };
  const Output at = scope.Const(Tensor::Of<float>(Shape{width}, std::span<const float>(thresholds)), "thresholds");
  const Output above =
      scope.Op("Cast", {scope.Op("GreaterEqual", {widened(log_odds), at})}, {{"DstT", DType::kFloat32}}, "above");
  const Output one = scope.Const(1.0f);
  const Output negative = scope.Op("Sub", {one, positive});
  const Output positives = SumOfRows(scope, scope.Op("Mul", {above, widened(positive)}));
  const Output negatives = SumOfRows(scope, scope.Op("Mul", {above, widened(negative)}));
  const Output both = scope.Op("ConcatV2", {positives, negatives, scope.Const(Tensor::Scalar<int32_t>(1))});
  return scope.Op("Reshape",
                  {both, scope.Const(Tensor::Of<int32_t>({1}, {static_cast<int32_t>(2 * rankings * width)}))}, {},
                  request.name);
}

Output Column(const Scope& scope, Output of, int64_t column) {
  const auto ints = [&](int32_t row, int64_t at) {
    return scope.Const(Tensor::Of<int32_t>({2}, {row, static_cast<int32_t>(at)}));
  };
  return scope.Op("StridedSlice", {of, ints(0, column), ints(0, column + 1), ints(1, 1)},
                  {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}});
}

Output RankingOfClass(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Scope s = scope.SubScope(request.name + "_of");
  const Output is = OneHotOf(s, targets);
  if (targets.classes == 2) {
    const Output odds = s.Op("Sub", {Column(s, targets.scores, 1), Column(s, targets.scores, 0)}, {}, "log_odds");
    return Histograms(s, odds, Column(s, is, 1), 1, request);
  }
  // log p − log(1 − p), of p = e^logp near 1 too.
  const Output log_p = s.Op("LogSoftmax", {targets.scores});
  const Output log_rest = s.Op("Log", {s.Op("Neg", {s.Op("Expm1", {log_p})})});
  const Output odds = s.Op("Sub", {log_p, log_rest}, {}, "log_odds");
  // Bins are finest where a model begins, that takes all classes for equally likely: at the odds of 1 to the others.
  const Output others = s.Const(static_cast<float>(std::log(static_cast<double>(targets.classes - 1))), "others");
  return Histograms(s, s.Op("AddV2", {odds, others}), is, targets.classes, request);
}

Output RankingOfLabels(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Shape& shape = targets.scores.shape();
  if (shape.rank() != 2) {
    scope.Fail(InvalidArgument("labels of shape {} are not ranked one by one; it takes [?,labels]", shape.ToString()));
    return {};
  }
  const Scope s = scope.SubScope(request.name + "_of");
  const Output positive = s.Op("Cast", {targets.target}, {{"DstT", DType::kFloat32}});
  return Histograms(s, targets.scores, positive, shape.dim(1), request);
}

// One ranking's bins, from the highest scores down.
struct Bins {
  std::vector<double> positives, negatives;
  double all_positives = 0, all_negatives = 0;
};

std::vector<Bins> BinsOf(std::span<const double> sums) {
  std::vector<Bins> all;
  // How many thresholds there are follows from how many counts, as Thresholds decides by the number of rankings.
  for (int64_t rankings = 1; rankings <= std::ssize(sums); ++rankings) {
    const auto width = static_cast<int64_t>(Thresholds(rankings).size());
    if (2 * rankings * width != std::ssize(sums)) continue;
    for (int64_t r = 0; r < rankings; ++r) {
      Bins& bins = all.emplace_back();
      const auto of = sums.subspan(static_cast<size_t>(2 * r * width), static_cast<size_t>(2 * width));
      double positives = 0, negatives = 0;
      for (auto t = static_cast<size_t>(width); t-- > 0;) {
        bins.positives.push_back(of[t] - std::exchange(positives, of[t]));
        const double above = of[static_cast<size_t>(width) + t];
        bins.negatives.push_back(above - std::exchange(negatives, above));
      }
      bins.all_positives = positives;
      bins.all_negatives = negatives;
    }
    break;
  }
  return all;
}

struct Measured {
  double value = 0, bound = 0;
};

Measured Area(const Bins& bins) {
  double area = 0, tied = 0, above = 0;  // positives above
  for (size_t b = 0; b < bins.positives.size(); ++b) {
    area += bins.negatives[b] * (above + bins.positives[b] / 2);
    tied += bins.negatives[b] * bins.positives[b] / 2;
    above += bins.positives[b];
  }
  const double pairs = bins.all_positives * bins.all_negatives;
  return {area / pairs, tied / pairs};
}

// Σ_bins (recall's rise) · (precision at the bin's end), as scikit-learn has it of scores that are equal. Within a bin
// the positives come first at best and last at worst.
Measured AveragePrecision(const Bins& bins) {
  double value = 0, best = 0, worst = 0, right = 0, taken = 0;
  for (size_t b = 0; b < bins.positives.size(); ++b) {
    const double p = bins.positives[b], n = bins.negatives[b];
    if (p > 0) {
      value += p * (right + p) / (taken + p + n);
      // Of positives first Σ_{i=1..p} (right + i) / (taken + i), by its largest addend; of positives last by its least.
      best += p * (right + p) / (taken + p);
      worst += p * (right + 1) / (taken + n + 1);
    }
    right += p;
    taken += p + n;
  }
  if (right == 0) return {};
  const double all = bins.all_positives;
  return {value / all, std::max(best - value, value - worst) / all};
}

template <Measured (*measure)(const Bins&)>
FinishedCounts MeanOverRankings(std::span<const double> sums) {
  Measured sum;
  int64_t counted = 0;
  for (const Bins& bins : BinsOf(sums)) {
    if (!(bins.all_positives > 0) || !(bins.all_negatives > 0)) continue;
    const Measured one = measure(bins);
    sum.value += one.value;
    sum.bound += one.bound;
    ++counted;
  }
  if (counted == 0) return {};
  const auto of = static_cast<double>(counted);
  return {{"", sum.value / of}, {"_bound", sum.bound / of}};
}

RIVULET_METRIC(auc_registration, {.name = "auc",
                                  .doc = "area under the ROC curve, its mean over classes; `auc_bound`: how far it may "
                                         "be off by its histogram",
                                  .of_class = RankingOfClass,
                                  .of_labels = RankingOfLabels,
                                  .finish = MeanOverRankings<Area>});
RIVULET_METRIC(average_precision_registration,
               {.name = "average_precision",
                .doc = "area under the curve of precision over recall, its mean over classes, with "
                       "`average_precision_bound`",
                .of_class = RankingOfClass,
                .of_labels = RankingOfLabels,
                .finish = MeanOverRankings<AveragePrecision>});

}  // namespace
}  // namespace rivulet
