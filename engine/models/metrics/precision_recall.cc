// Precision, recall and their harmonic mean F1, averaged over classes or labels (scikit-learn's average="macro"). Let
// tp_c be the correct predictions of class c, fp_c the wrong ones, and fn_c the missed examples of c:
//
//   precision_c = tp_c / (tp_c + fp_c),   recall_c = tp_c / (tp_c + fn_c),   F1_c = 2 tp_c / (2 tp_c + fp_c + fn_c)
//
// and 0 if the denominator is 0. A class that neither occurs nor is predicted is ignored.
#include "engine/models/metrics/metric.h"

namespace rivulet {
namespace {

// [tp_c, …, taken for c, …, examples of c, …].
Output Counts(const Scope& scope, Output is, Output said, const MetricRequest& request) {
  const Output right = SumOfRows(scope, scope.Op("Mul", {is, said}));
  return scope.Op("ConcatV2",
                  {right, SumOfRows(scope, said), SumOfRows(scope, is), scope.Const(Tensor::Scalar<int32_t>(0))}, {},
                  request.name);
}

bool TooMany(const Scope& scope, int64_t classes) {
  if (3 * classes <= kMostCounts) return false;
  scope.Fail(InvalidArgument("there are {} classes, and at most {} are counted one by one", classes, kMostCounts / 3));
  return true;
}

Output CountedByClassOfClass(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  if (TooMany(scope, targets.classes)) return {};
  const Output prediction = PredictionOf(scope, targets);
  const Scope s = scope.SubScope(request.name + "_of");
  return Counts(s, OneHotOf(s, targets), OneHotOf(s, {targets.scores, prediction, targets.classes}), request);
}

Output CountedByClassOfLabels(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request) {
  const Shape& shape = targets.scores.shape();
  if (shape.rank() != 2) {
    scope.Fail(InvalidArgument("labels of shape {} are not separate; give [?,labels]", shape.ToString()));
    return {};
  }
  if (TooMany(scope, shape.dim(1))) return {};
  const Output decision = DecisionOf(scope, targets);
  const Scope s = scope.SubScope(request.name + "_of");
  const auto as_floats = [&](Output of) { return s.Op("Cast", {of}, {{"DstT", DType::kFloat32}}); };
  return Counts(s, as_floats(targets.target), as_floats(decision), request);
}

struct OfOne {
  double right, taken, examples;
};

template <double (*measure)(const OfOne&)>
FinishedCounts MeanOverClasses(std::span<const double> sums) {
  const size_t classes = sums.size() / 3;
  double sum = 0;
  int64_t counted = 0;
  for (size_t c = 0; c < classes; ++c) {
    const OfOne one = {sums[c], sums[classes + c], sums[2 * classes + c]};
    if (one.taken + one.examples == 0) continue;
    sum += one.right == 0 ? 0 : measure(one);
    ++counted;
  }
  if (counted == 0) return {};
  return {{"", sum / static_cast<double>(counted)}};
}

double Precision(const OfOne& one) { return one.right / one.taken; }
double Recall(const OfOne& one) { return one.right / one.examples; }
double F1(const OfOne& one) { return 2 * one.right / (one.taken + one.examples); }

RIVULET_METRIC(precision_registration,
               {.name = "precision",
                .doc = "share of right ones among those taken for a class, its mean over classes",
                .of_class = CountedByClassOfClass,
                .of_labels = CountedByClassOfLabels,
                .finish = MeanOverClasses<Precision>});
RIVULET_METRIC(recall_registration, {.name = "recall",
                                     .doc = "share of a class that is taken for it, its mean over classes",
                                     .of_class = CountedByClassOfClass,
                                     .of_labels = CountedByClassOfLabels,
                                     .finish = MeanOverClasses<Recall>});
RIVULET_METRIC(f1_registration, {.name = "f1",
                                 .doc = "harmonic mean of precision and recall, its mean over classes",
                                 .of_class = CountedByClassOfClass,
                                 .of_labels = CountedByClassOfLabels,
                                 .finish = MeanOverClasses<F1>});

}  // namespace
}  // namespace rivulet
