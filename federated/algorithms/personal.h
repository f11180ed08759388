// What algorithms share whose clients keep layers of their own.
#pragma once

#include "federated/algorithms/algorithm.h"

namespace rivulet {

// INVALID_ARGUMENT: the model has none.
inline Status CheckPersonalLayers(const AlgorithmContext& context) {
  if (context.layout.elements(Segment::kLocal) > 0) return absl::OkStatus();
  return InvalidArgument(
      "[algorithm] name = \"{}\" averages a model of which clients keep some layers, and this one has none such; say "
      "which in model.personal, such as [\"dense3/*\"]",
      context.scenario.algorithm.name);
}

}  // namespace rivulet
