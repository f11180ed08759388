#include "federated/plan/rates.h"

namespace rivulet {

std::optional<Output> OnesOfRate(const Graph& graph, const std::string& tensor) {
  const StatusOr<Output> mean = graph.FindOutput(tensor);
  if (!mean.ok() || mean->node->type() != "Mean" || mean->shape() != Shape{}) return std::nullopt;
  const Output ones = mean->node->input(0);
  const bool truths = ones.node->type() == "Cast" && ones.node->input(0).dtype() == DType::kBool;
  if (!truths || ones.dtype() != DType::kFloat32) return std::nullopt;
  return ones;
}

}  // namespace rivulet
