// Applies an algorithm's server step to given means, with a model of a few weights.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline std::shared_ptr<const ModelLayout> LayoutOfWeights(size_t elements) {
  const VariableSpec variables[] = {{"w", {DType::kFloat32, Shape{static_cast<int64_t>(elements)}}}};
  return std::make_shared<const ModelLayout>(*ModelLayout::Create(variables));
}

inline std::shared_ptr<const Model> ModelWith(std::span<const float> values) {
  auto model = std::make_shared<Model>(LayoutOfWeights(values.size()));
  std::ranges::copy(values, model->tensor(model->layout().slices()[0]).flat<float>().begin());
  return model;
}

inline std::span<const float> WeightsIn(const ServerState& state) {
  return state.model->tensor(state.model->layout().slices()[0]).flat<float>();
}

// Returns the server optimiser that the algorithm composes with these options.
inline StatusOr<std::unique_ptr<const ServerOptimizer>> ServerOf(const std::string& algorithm,
                                                                 const SettingValues& options) {
  Scenario scenario;
  scenario.algorithm.name = algorithm;
  scenario.algorithm.settings = options;
  RIVULET_ASSIGN_OR_RETURN(const Composition composition, Compose(scenario, *LayoutOfWeights(1)));
  return ServerOptimizer::Create(composition.server_optimizer);
}

}  // namespace rivulet::testing
