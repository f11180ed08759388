// A small plan and its model for the tests of this folder: softmax regression on 28×28 bytes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/presets/presets.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/model.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

inline Scenario LocalScenario() {
  Scenario scenario;
  scenario.run.name = "local";
  scenario.model.preset = "logistic_regression";
  scenario.data.partition.clients = 4;
  scenario.server.clients_per_round = 2;
  scenario.client.epochs = 2;
  scenario.client.batch_size = 10;
  scenario.client.optimizer.learning_rate = 0.2;
  return scenario;
}

inline std::string PlanBytes(const Scenario& scenario) {
  StatusOr<ModelDef> model = Preset(scenario.model.preset);
  EXPECT_OK(model);
  StatusOr<std::string> bytes = BuildPlan(scenario, *model);
  EXPECT_OK(bytes);
  return *bytes;
}

inline std::shared_ptr<const Plan> LocalPlan(const Scenario& scenario = LocalScenario()) {
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(PlanBytes(scenario));
  EXPECT_OK(plan);
  return *plan;
}

// Weights that are not zero: a fixed little pattern.
inline std::shared_ptr<const Model> PatternModel(const Plan& plan) {
  auto model = std::make_shared<Model>(plan.layout());
  int n = 0;
  for (const Slice& slice : plan.layout()->slices()) {
    for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>((n++ * 37 % 101) - 50) * 0.001f;
  }
  return model;
}

}  // namespace rivulet::testing
