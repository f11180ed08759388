// Checks shared by the algorithms with personal layers, which stay on each client.
#pragma once

#include <string_view>

#include "federated/algorithms/algorithm.h"

namespace rivulet {

// INVALID_ARGUMENT: the model has no personal layers. `example`: a layer pattern that suits this algorithm.
inline Status CheckPersonalLayers(const AlgorithmContext& context, std::string_view example = "dense3/*") {
  if (context.layout.elements(Segment::kLocal) > 0) return absl::OkStatus();
  return InvalidArgument(
      "[algorithm] name = \"{}\" averages a model of which clients keep some layers, and this one has none such; say "
      "which in model.personal, such as [\"{}\"]",
      context.scenario.algorithm.name, example);
}

}  // namespace rivulet
