// Applies an algorithm's aggregation rule to given updates.
#pragma once

#include <utility>
#include <vector>

#include "federated/algorithms/algorithm.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet::testing {

// Returns the spec that the algorithm composes for a model with that many weights.
inline AggregationSpec ComposedSpec(Scenario scenario, int64_t elements, int64_t updates) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{elements}}}};
  scenario.server.clients_per_round = updates;
  const StatusOr<Composition> composition = Compose(scenario, *ModelLayout::Create(variables));
  EXPECT_OK(composition);
  return composition->aggregation;
}

inline AggregationSpec UniformSpec(int64_t elements, int64_t updates = 20) {
  Scenario scenario;
  scenario.server.weights = "uniform";
  return ComposedSpec(scenario, elements, updates);
}

inline std::vector<float> MeanOf(const AggregationSpec& spec, std::vector<TestUpdate>& updates) {
  auto aggregation = Make(spec);
  for (TestUpdate& update : updates) {
    update.weight = 1;
    EXPECT_OK(aggregation->Take(update.view(), update.weights()));
  }
  const auto input = std::move(*aggregation).Finish();
  EXPECT_OK(input);
  return input->parts[0].mean;
}

}  // namespace rivulet::testing
