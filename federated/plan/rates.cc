#include "federated/plan/rates.h"

#include "engine/models/metrics/metric.h"

namespace rivulet {

std::optional<Output> OnesOfRate(const Graph& graph, const std::string& tensor) {
  const StatusOr<Output> mean = graph.FindOutput(tensor);
  if (!mean.ok() || mean->node->type() != "Mean" || mean->shape() != Shape{}) return std::nullopt;
  const Output ones = mean->node->input(0);
  const bool truths = ones.node->type() == "Cast" && ones.node->input(0).dtype() == DType::kBool;
  if (!truths || ones.dtype() != DType::kFloat32) return std::nullopt;
  return ones;
}

std::optional<int64_t> CountsOf(const Graph& graph, std::string_view metric, const std::string& tensor) {
  if (FinishOf(metric) == nullptr) return std::nullopt;
  const StatusOr<Output> counts = graph.FindOutput(tensor);
  if (!counts.ok() || counts->dtype() != DType::kFloat32) return std::nullopt;
  const Shape& shape = counts->shape();
  if (!shape.known_rank() || shape.rank() != 1 || shape.dim(0) < 1 || shape.dim(0) > kMostCounts) return std::nullopt;
  return shape.dim(0);
}

}  // namespace rivulet
