// Losses: the negative log-likelihood of class numbers, from log-probabilities or from scores. Classes stand along axis
// 1, weights may be given for each, and targets equal to ignore_index do not count.
#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// Scores or log-probabilities as rows [examples, classes], with the target of each row.
struct LossRows {
  Output scores, targets, counted;  // `counted`: 1 or 0 of the scores' type; empty when every row counts
};

StatusOr<LossRows> RowsOf(NodeContext& n) {
  const Builder& b = n.b();
  const Output scores = n.input(0), targets = n.input(1);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t classes = DimOf(scores, 1);
  if (rank < 2 || classes < 1)
    return InvalidArgument("the scores {} have no known classes along axis 1", ShapeOf(scores).ToString());
  std::vector<int64_t> perm;
  for (int i = 0; i < rank; ++i)
    if (i != 1) perm.push_back(i);
  perm.push_back(1);
  LossRows rows{b.Reshape(b.Transpose(scores, perm), {-1, classes}), b.Reshape(targets, {-1}), {}};
  if (n.has_attr("ignore_index")) {
    const Output ignored =
        b.Equal(rows.targets, b.ScalarLike(rows.targets, static_cast<double>(n.Int("ignore_index", 0))));
    rows.counted = b.Cast(b.Op("LogicalNot", {ignored}), TypeOf(scores));
    rows.targets = b.Select(ignored, b.ScalarLike(rows.targets, 0), rows.targets);
  }
  return rows;
}

// `losses` of rows, weighted and reduced; the mean is over the sum of weights.
Status ReducedLoss(NodeContext& n, const LossRows& rows, Output losses) {
  const Builder& b = n.b();
  Output weights = rows.counted;
  if (const Output classes = n.optional_input(2)) {
    const Output own = b.Op("GatherV2", {classes, rows.targets, b.Int32(0)});
    weights = weights ? b.Mul(weights, own) : own;
  }
  // A row that does not count may hold anything.
  if (rows.counted)
    losses = b.Select(b.Op("Greater", {rows.counted, b.ScalarLike(rows.counted, 0)}), losses, b.ScalarLike(losses, 0));
  if (weights) losses = b.Mul(losses, weights);
  const std::string reduction = n.String("reduction", "mean");
  if (reduction == "none") {
    n.set_output(0, b.ReshapeLike(losses, n.input(1)));
  } else if (reduction == "sum") {
    n.set_output(0, b.Reduce("Sum", losses, {0}, false));
  } else if (reduction == "mean") {
    n.set_output(0, weights ? b.Div(b.Reduce("Sum", losses, {0}, false), b.Reduce("Sum", weights, {0}, false))
                            : b.Reduce("Mean", losses, {0}, false));
  } else {
    return InvalidArgument("reduction '{}' is not one of none, sum and mean", reduction);
  }
  return n.status();
}

Status NegativeLogLikelihood(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const LossRows rows, RowsOf(n));
  const Output own = b.Op("TakeAlongAxis", {rows.scores, b.ExpandDims(rows.targets, 1)}, {{"axis", int64_t{1}}});
  return ReducedLoss(n, rows, b.Neg(b.Squeeze(own, 1)));
}
RIVULET_ONNX("NegativeLogLikelihoodLoss", NegativeLogLikelihood);

Status SoftmaxCrossEntropy(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const LossRows rows, RowsOf(n));
  if (n.wants_output(1)) {
    const Output scores = n.input(0);
    n.set_output(1, b.FromLast(b.Op("LogSoftmax", {b.ToLast(scores, 1)}), 1));
  }
  return ReducedLoss(n, rows, b.Op("SparseSoftmaxCrossEntropyWithLogits", {rows.scores, rows.targets}));
}
RIVULET_ONNX("SoftmaxCrossEntropyLoss", SoftmaxCrossEntropy);

}  // namespace
}  // namespace rivulet::onnx
