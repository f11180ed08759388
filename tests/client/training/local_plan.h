// A small plan and its model for the tests of this folder: softmax regression on 28×28 bytes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/training/trainer.h"
#include "engine/presets/presets.h"
#include "federated/aggregation/fixed_point.h"
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

// A fixed small pattern of nonzero weights.
inline std::shared_ptr<const Model> PatternModel(const Plan& plan) {
  auto model = std::make_shared<Model>(plan.layout());
  int n = 0;
  for (const Slice& slice : plan.layout()->slices()) {
    for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>((n++ * 37 % 101) - 50) * 0.001f;
  }
  return model;
}

// A result that outlives its trainer: the values of its only part.
struct Trained : LocalResult {
  std::vector<float> delta;
};

// Trains one task; returns the lane's error.
inline StatusOr<Trained> TrainOne(Trainer& trainer, const Task& task, std::string_view client_id, const Model& base,
                                  const ExampleSource& examples, const CancellationToken& cancel = {},
                                  TrainingCheckpoint* checkpoint = nullptr) {
  const LaneTask lane{
      .task = &task, .client_id = client_id, .base = &base, .examples = &examples, .checkpoint = checkpoint};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer.Train({&lane, 1}, cancel));
  EXPECT_EQ(results.size(), 1u);
  RIVULET_RETURN_IF_ERROR(results[0].status);
  Trained trained{std::move(results[0]), {}};
  EXPECT_EQ(trained.parts.size(), 1u);
  EXPECT_EQ(trained.parts[0].name, "delta");
  for (const FloatRun& run : trained.parts[0].runs)
    for (int64_t i = 0; i < run.count; ++i) trained.delta.push_back(ValueOf(run, i));
  trained.parts.clear();
  return trained;
}

}  // namespace rivulet::testing
